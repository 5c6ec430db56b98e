// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Gives the ECN field of a packet back as the sender's VM meant it.
 *
 * The sender's shim makes Not-ECT packets ECT(1), or ECT(0) where the setting codepoint says so;
 * all shims of a fabric are set alike.
 *
 * ECT(1).  Guests use ECT(0).  So ECT(1) arriving from an uplink was Not-ECT.  A CE mark hides
 * which of the two it was.  The flow knows: a guest that negotiated ECN sends its data as ECT(0),
 * though its SYNs, pure ACKs and retransmissions are Not-ECT.  A CE mark is therefore kept if the
 * flow showed ECT(0) within MEMORY of time, and becomes Not-ECT otherwise.  A kept mark renews the
 * memory, so a queue that marks everything does not erase it.
 *
 * ECT(0).  ECT(1) is a guest's own and stays, whatever it is on.  For ECT(0) and CE, which guest
 * and shim share:
 *
 *   TCP, a SYN or no payload     Not-ECT: a classic TCP sends these so (RFC 3168, section 6.1), and
 *                                Linux refuses ECN to a SYN that is ECT
 *   TCP, payload                 Not-ECT if the peer's SYN did not ask for ECN or its SYN-ACK
 *                                refused it, as long as that is remembered; else it stays: a TCP
 *                                without ECN does not look at the field
 *   anything else                ECT(0), CE too: a QUIC that sends ECT(0) must find it at the other
 *                                end or gives ECN up (RFC 9000, section 13.4.2), and the end of a
 *                                guest's tunnel drops what is Not-ECT inside and CE outside
 *                                (RFC 6040, section 4.2); so the shim keeps the marks to itself
 *
 * A refusal is remembered for MEMORY of time, and no longer than until a segment shows ECN's
 * flags. Data does not renew it: a forged SYN would hide a connection's marks as long as it lives.
 * What comes later shows ECT(0) to a guest that does not look.
 *
 * A law whose marks steer a tunnel may want the guest to be told something else than the fabric's
 * marks: told turns CE to ECT(0) or back, for flows with ECN only.
 *
 * What is remembered is one 32-bit word a flow in a table without chains: 24 bits of the flow's
 * hash, inverted in a word that says a refusal, and the time in units of 2^30 ns, modulo 256.  It
 * is read and written without a lock, and written once a unit a flow.  The table cannot grow; two
 * flows that meet in a slot take turns.  The loser's CE marks become Not-ECT with ECT(1), which a
 * guest cannot tell from a quiet network, and its ECT(0) stays with ECT(0).
 */
#include "engine.h"

/* Slots of the table are 1 << TABLE_BITS: 64 KiB. */
#define TABLE_BITS 14

/* Units of time for which ECT(0), or a refusal, is remembered: 8.6 s. */
#define MEMORY 8

/* Shift from ns to units of time. */
#define UNIT_SHIFT 30

/* Spreads neighbouring hashes: 2^32 over the golden ratio. */
#define SPREAD 0x9e3779b9U

/* Flags of TCP that speak of ECN. */
#define ECN_FLAGS (SHIM_TCP_ECE | SHIM_TCP_CWR | SHIM_TCP_AE)

bool shim_ecn_start(struct shim_engine *engine)
{
	u32 *flows;

	if (engine->ecn_flows)
		return true;
	flows = shim_alloc_wait(sizeof(*flows) << TABLE_BITS);
	/* Before any VM is found that needs it. */
	WRITE_ONCE(engine->ecn_flows, flows);
	return flows;
}

void shim_ecn_exit(struct shim_engine *engine)
{
	shim_free(engine->ecn_flows);
}

/* Returns where a flow of that hash is remembered. */
static u32 *ecn_slot(struct shim_engine *engine, u32 hash)
{
	return &engine->ecn_flows[hash * SPREAD >> (32 - TABLE_BITS)];
}

/* Returns the word that remembers a flow of that hash now. */
static u32 ecn_word(u32 hash, u64 now_ns)
{
	return (hash & ~0xffU) | (u8)(now_ns >> UNIT_SHIFT);
}

/* Tells whether a slot's word is of the same flow as a word of now, and not too old. */
static bool ecn_remembered(u32 old, u32 word)
{
	return !((old ^ word) & ~0xffU) && (u8)(word - old) <= MEMORY;
}

/* Returns what a flow with ECN is told in place of a field that is ECT(0) or CE. */
static u8 ecn_tell(u8 ecn, enum shim_told told)
{
	if (told == SHIM_TOLD_CE)
		return SHIM_CE;
	return told == SHIM_TOLD_NOTHING ? SHIM_ECT_ZERO : ecn;
}

/* Tells whether a SYN does not ask for ECN, or a SYN-ACK refuses it. */
static bool ecn_refuses(u16 flags)
{
	u16 asks = SHIM_TCP_ECE | SHIM_TCP_CWR;

	if (!(flags & SHIM_TCP_ACK))
		return (flags & asks) != asks;
	return !(flags & ECN_FLAGS) || (flags & ECN_FLAGS) == ECN_FLAGS;
}

/*
 * Tells whether the flow of a TCP segment refused ECN lately, and remembers what the segment says
 * of that.
 */
static bool ecn_refused(struct shim_engine *engine, const struct shim_packet *packet)
{
	u32 hash = ~shim_host_flow_hash(packet), word = ecn_word(hash, packet->now_ns);
	u32 *slot = ecn_slot(engine, hash), old = READ_ONCE(*slot);
	u16 flags = packet->segment.flags;

	if (flags & SHIM_TCP_SYN && ecn_refuses(flags)) {
		if (old != word)
			WRITE_ONCE(*slot, word);
		return true;
	}
	if (!ecn_remembered(old, word))
		return false;
	if (!(flags & ECN_FLAGS))
		return true;
	WRITE_ONCE(*slot, 0);
	return false;
}

/* As shim_ecn_restore(), where shims make packets ECT(0). */
static u8 ecn_restore_zero(struct shim_engine *engine, const struct shim_packet *packet, u8 ecn,
			   enum shim_told told)
{
	bool syn = packet->is_tcp && packet->segment.flags & SHIM_TCP_SYN;
	bool refused;

	if (!syn && (ecn == SHIM_NOT_ECT || ecn == SHIM_ECT_ONE))
		return ecn;
	if (!packet->is_tcp)
		return SHIM_ECT_ZERO;
	if (!syn && !packet->segment.payload)
		return SHIM_NOT_ECT;
	refused = ecn_refused(engine, packet);
	if (ecn == SHIM_ECT_ONE)
		return ecn;
	return syn || refused ? SHIM_NOT_ECT : ecn_tell(ecn, told);
}

u8 shim_ecn_restore(struct shim_engine *engine, const struct shim_packet *packet, u8 ecn,
		    enum shim_told told)
{
	u32 hash, word, old;
	u32 *slot;

	if (unlikely(shim_engine_settings(engine)->codepoint == SHIM_ECT_ZERO))
		return ecn_restore_zero(engine, packet, ecn, told);
	if (ecn == SHIM_NOT_ECT || ecn == SHIM_ECT_ONE)
		return SHIM_NOT_ECT;
	hash = shim_host_flow_hash(packet);
	slot = ecn_slot(engine, hash);
	word = ecn_word(hash, packet->now_ns);
	old = READ_ONCE(*slot);
	if (ecn == SHIM_CE && !ecn_remembered(old, word))
		return SHIM_NOT_ECT;
	if (old != word)
		WRITE_ONCE(*slot, word);
	return ecn_tell(ecn, told);
}
