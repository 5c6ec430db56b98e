/* SPDX-License-Identifier: Apache-2.0 */
/* What is wanted of <net/ndisc.h>. */
#ifndef FUZZ_NET_NDISC_H
#define FUZZ_NET_NDISC_H

#include <linux/icmpv6.h>
#include <linux/skbuff.h>

#define NDISC_NEIGHBOUR_ADVERTISEMENT 136

/* A message of neighbour discovery. */
struct nd_msg {
	struct icmp6hdr icmph;		/* its type */
	struct in6_addr target;		/* whom it is about */
};

#endif
