// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gives the ECN field of a packet back as the sender's VM meant it.
 *
 * The sender's shim makes Not-ECT packets ECT(1); guests use ECT(0).  So ECT(1) arriving from an
 * uplink was Not-ECT.  A CE mark hides which of the two it was.  The flow knows: a guest
 * that negotiated ECN sends its data as ECT(0), though its SYNs, pure ACKs and retransmissions
 * are Not-ECT.  A CE mark is therefore kept if the flow showed ECT(0) within MEMORY_SECONDS, and
 * becomes Not-ECT otherwise.  A kept mark renews the memory, so a queue that marks everything does
 * not erase it.
 *
 * A law whose marks steer a tunnel may want the guest to be told something else than the fabric's
 * marks: told turns CE to ECT(0) or back, for flows with ECN only.
 *
 * What is remembered is one 32-bit word a flow in a table without chains: 24 bits of the flow's
 * hash and the second it last showed ECT(0), modulo 256.  It is read and written without a lock,
 * and written once a second a flow.  The table cannot grow; two flows that meet in a slot take
 * turns, and the loser's CE marks become Not-ECT, which a guest cannot tell from a quiet network.
 */
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <net/inet_ecn.h>

#include "internal.h"

/* Slots of the table are 1 << TABLE_BITS: 64 KiB. */
#define TABLE_BITS 14

/* Seconds for which ECT(0) is remembered. */
#define MEMORY_SECONDS 8

/* One word a flow, see above; 0 is a free slot. */
static u32 *table;

/* Returns seconds modulo 256 from a cheap clock. */
static u8 now_seconds(void)
{
	return jiffies_to_msecs(jiffies) / MSEC_PER_SEC;
}

/*
 * Returns the field to deliver for a packet from an uplink that carries ecn, and remembers what it
 * says of its flow.
 */
u8 ovs_shim_ecn_restore(struct sk_buff *skb, u8 ecn, enum shim_told told)
{
	u32 hash, word, old;
	u32 *slot;

	if (ecn == INET_ECN_NOT_ECT || ecn == INET_ECN_ECT_1)
		return INET_ECN_NOT_ECT;
	hash = skb_get_hash(skb);
	slot = &table[hash_32(hash, TABLE_BITS)];
	word = (hash & ~0xffU) | now_seconds();
	old = READ_ONCE(*slot);
	if (ecn == INET_ECN_CE && ((old ^ word) & ~0xffU || (u8)(word - old) > MEMORY_SECONDS))
		return INET_ECN_NOT_ECT;
	if (old != word)
		WRITE_ONCE(*slot, word);
	if (told == SHIM_TOLD_CE)
		return INET_ECN_CE;
	return told == SHIM_TOLD_NOTHING ? INET_ECN_ECT_0 : ecn;
}

/* Allocates the table; 0 or -ENOMEM. */
int ovs_shim_ecn_init(void)
{
	table = kvcalloc(1U << TABLE_BITS, sizeof(*table), GFP_KERNEL);
	return table ? 0 : -ENOMEM;
}

/* Frees the table. */
void ovs_shim_ecn_exit(void)
{
	kvfree(table);
}
