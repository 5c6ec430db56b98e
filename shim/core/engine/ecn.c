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
 * What is remembered is one 32-bit word a flow: 24 bits of the flow's hash under the engine's
 * secret, inverted before in a word that says a refusal, and the time in units of 2^30 ns, modulo
 * 256.  A flow has WAYS places, of its set.  A new flow takes the place of one that is to be
 * forgotten, or else of the longest silent, so those that go on stay: they are renewed once a unit.
 * Words are read and written without a lock.
 *
 * Each VM has a table of its own, made when a flow is first to be remembered.  When a flow is lost
 * for want of room the table is made larger, up to 64 KiB: 14,329 flows.  Beyond that, or without
 * memory, the loser's CE marks become Not-ECT with ECT(1), which a guest cannot tell from a quiet
 * network, and its ECT(0) stays with ECT(0).  A set remembers when it last lost a flow, and each
 * CE mark that it cannot explain while the lost one would be remembered is counted.
 */
#include "engine.h"

/* Flows of a set. */
#define WAYS 7

/* Sets of a table of a page, and of the larger ones: with them each just fits 4, 16 or 64 KiB. */
#define SETS_MIN 127
#define SETS_MAX 2047

/* Units of time for which ECT(0), or a refusal, is remembered: 8.6 s. */
#define MEMORY 8

/* Shift from ns to units of time. */
#define UNIT_SHIFT 30

/* Flags of TCP that speak of ECN. */
#define ECN_FLAGS (SHIM_TCP_ECE | SHIM_TCP_CWR | SHIM_TCP_AE)

/* Flows whose hashes begin alike: half a cache line. */
struct ecn_set {
	u32 words[WAYS];		/* of flows; 0: none */
	u32 lost;		/* unit of time when a flow was last lost, | LOST; 0: never */
};

/* In ecn_set.lost: one was. */
#define LOST 0x100U

/* What flows to a VM showed of ECN. */
struct shim_ecn {
	shim_rcu_t rcu;			/* deferred free */
	u32 n_sets;			/* length of sets */
	struct ecn_set sets[];		/* by hash */
};

/* Returns the word that remembers a flow now; the inverse of a hash stands for a refusal. */
static u32 ecn_word(const struct shim_vm *vm, u32 hash, u64 now_ns)
{
	u32 mixed = (u32)(hash * vm->engine->hash_factor >> 32);

	return (mixed & ~0xffU) | (u8)(now_ns >> UNIT_SHIFT);
}

/* Returns the set of a word. */
static struct ecn_set *ecn_set(struct shim_ecn *ecn, u32 word)
{
	return &ecn->sets[(u64)(word & ~0xffU) * ecn->n_sets >> 32];
}

/* Tells whether a word is of the same flow as a word of now, and not too old. */
static bool ecn_remembered(u32 old, u32 word)
{
	return old && !((old ^ word) & ~0xffU) && (u8)(word - old) <= MEMORY;
}

/* Returns where the flow of a word is remembered, NULL if it is not. */
static u32 *ecn_find(struct ecn_set *set, u32 word)
{
	u32 i;

	for (i = 0; i < WAYS; i++)
		if (ecn_remembered(READ_ONCE(set->words[i]), word))
			return &set->words[i];
	return NULL;
}

/* Remembers a flow that is not; false if one that is to be remembered longer was lost for it. */
static bool ecn_insert(struct ecn_set *set, u32 word)
{
	u32 i, age, oldest = 0, old, first = (word >> 8) % WAYS;
	u32 *place = &set->words[first];

	/* Among flows of one age chance decides. */
	for (i = 0; i < WAYS; i++) {
		old = READ_ONCE(set->words[(first + i) % WAYS]);
		age = old ? (u8)(word - old) : 0x100U;
		if (age > oldest) {
			oldest = age;
			place = &set->words[(first + i) % WAYS];
		}
	}
	WRITE_ONCE(*place, word);
	if (oldest > MEMORY)
		return true;
	WRITE_ONCE(set->lost, (word & 0xffU) | LOST);
	return false;
}

/* Returns a table with room for n sets, NULL without memory. */
static struct shim_ecn *ecn_create(u32 n)
{
	struct shim_ecn *ecn = shim_alloc_now(struct_size(ecn, sets, n));

	if (ecn)
		ecn->n_sets = n;
	return ecn;
}

/* Makes a VM's table of `old`, or a larger one; what others write to the old one may be lost. */
static void ecn_grow(struct shim_vm *vm, struct shim_ecn *old, u32 word)
{
	struct shim_ecn *ecn;
	u32 i, j, kept;

	spin_lock(&vm->lock);
	if (vm->gone || !vm->clock || rcu_access_pointer(vm->ecn) != old)
		goto out;
	ecn = ecn_create(old ? old->n_sets * 4 + 3 : SETS_MIN);
	if (!ecn) {
		/* Not before another unit of time. */
		WRITE_ONCE(vm->ecn_failed, (word & 0xffU) | LOST);
		goto out;
	}
	for (i = 0; old && i < old->n_sets; i++) {
		for (j = 0; j < WAYS; j++) {
			kept = READ_ONCE(old->sets[i].words[j]);
			if (kept && (u8)(word - kept) <= MEMORY)
				ecn_insert(ecn_set(ecn, kept), kept);
		}
	}
	rcu_assign_pointer(vm->ecn, ecn);
	if (old)
		shim_free_rcu(old, rcu);
out:
	spin_unlock(&vm->lock);
}

/* Tells whether a flow was lost, or memory missing, so lately that it would be remembered else. */
static bool ecn_lately(u32 lost, u32 word)
{
	return lost && (u8)(word - lost) <= MEMORY;
}

/* Remembers a flow that its VM's table does not know. */
static void ecn_remember(struct shim_vm *vm, u32 word)
{
	struct shim_ecn *ecn = rcu_dereference(vm->ecn);
	u32 failed = READ_ONCE(vm->ecn_failed);

	if (ecn && ecn_insert(ecn_set(ecn, word), word))
		return;
	if ((ecn && ecn->n_sets >= SETS_MAX) || failed == ((word & 0xffU) | LOST))
		return;
	ecn_grow(vm, ecn, word);
	if (ecn)
		return;
	ecn = rcu_dereference(vm->ecn);
	if (ecn)
		ecn_insert(ecn_set(ecn, word), word);
}

void shim_ecn_exit(struct shim_vm *vm)
{
	struct shim_ecn *ecn = rcu_dereference_protected(vm->ecn, lockdep_is_held(&vm->lock));

	if (!ecn)
		return;
	RCU_INIT_POINTER(vm->ecn, NULL);
	shim_free_rcu(ecn, rcu);
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
static bool ecn_refused(struct shim_vm *vm, const struct shim_packet *packet)
{
	u32 word = ecn_word(vm, ~shim_host_flow_hash(packet), packet->now_ns);
	struct shim_ecn *ecn = rcu_dereference(vm->ecn);
	u32 *place = ecn ? ecn_find(ecn_set(ecn, word), word) : NULL;
	u16 flags = packet->segment.flags;

	if (flags & SHIM_TCP_SYN && ecn_refuses(flags)) {
		if (!place)
			ecn_remember(vm, word);
		else if (READ_ONCE(*place) != word)
			WRITE_ONCE(*place, word);
		return true;
	}
	if (!place)
		return false;
	if (!(flags & ECN_FLAGS))
		return true;
	WRITE_ONCE(*place, 0);
	return false;
}

/* As shim_ecn_restore(), where shims make packets ECT(0). */
static u8 ecn_restore_zero(struct shim_vm *vm, const struct shim_packet *packet, u8 ecn,
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
	refused = ecn_refused(vm, packet);
	if (ecn == SHIM_ECT_ONE)
		return ecn;
	return syn || refused ? SHIM_NOT_ECT : ecn_tell(ecn, told);
}

/* Returns the field for CE of a flow that is not remembered, and counts it if the flow was lost. */
static u8 ecn_unknown(struct shim_vm *vm, const struct ecn_set *set,
		      const struct shim_packet *packet, u32 word)
{
	if (ecn_lately(set ? READ_ONCE(set->lost) : READ_ONCE(vm->ecn_failed), word))
		shim_vm_count(vm, SHIM_RX_CE_LOST, packet->packets);
	return SHIM_NOT_ECT;
}

u8 shim_ecn_restore(struct shim_vm *vm, const struct shim_packet *packet, u8 ecn,
		    enum shim_told told)
{
	struct ecn_set *set = NULL;
	struct shim_ecn *table;
	u32 word, *place = NULL;

	if (unlikely(shim_engine_settings(vm->engine)->codepoint == SHIM_ECT_ZERO))
		return ecn_restore_zero(vm, packet, ecn, told);
	if (ecn == SHIM_NOT_ECT || ecn == SHIM_ECT_ONE)
		return SHIM_NOT_ECT;
	word = ecn_word(vm, shim_host_flow_hash(packet), packet->now_ns);
	table = rcu_dereference(vm->ecn);
	if (table) {
		set = ecn_set(table, word);
		place = ecn_find(set, word);
	}
	if (ecn == SHIM_CE && !place)
		return ecn_unknown(vm, set, packet, word);
	if (!place)
		ecn_remember(vm, word);
	else if (READ_ONCE(*place) != word)
		WRITE_ONCE(*place, word);
	return ecn_tell(ecn, told);
}
