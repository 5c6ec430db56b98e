/* SPDX-License-Identifier: Apache-2.0 */
/* What is wanted of <net/ipv6.h> is in <linux/skbuff.h>, but for the header of a fragment. */
#ifndef FUZZ_NET_IPV6_H
#define FUZZ_NET_IPV6_H

#include <linux/skbuff.h>

/* Stands between IPv6's header and a fragment. */
struct frag_hdr {
	u8 nexthdr;			/* type of what follows */
	u8 reserved;			/* 0 */
	__be16 frag_off;		/* offset, 8 bytes a unit, and whether more follow */
	__be32 identification;		/* of the packet that was cut */
};

#endif
