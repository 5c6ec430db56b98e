/* SPDX-License-Identifier: Apache-2.0 */
/* Internet checksums, RFC 1071 and RFC 1624. */
#ifndef FUZZ_CSUM_H
#define FUZZ_CSUM_H

#include "util.h"

/* Returns a checksum after a word that it covers has changed: RFC 1624, equation 3. */
static inline ovs_be16 recalc_csum16(ovs_be16 sum, ovs_be16 old, ovs_be16 new)
{
	u32 total = (u32)(u16)~sum + (u16)~old + new;

	total = (total & 0xffff) + (total >> 16);
	total = (total & 0xffff) + (total >> 16);
	return (ovs_be16)~total;
}

#endif
