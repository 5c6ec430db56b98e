// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Reports that leave: what a shim tells that of another host of a peer.
 *
 * All reports of a host count in one sequence, so that a receiver that has forgotten a peer still
 * knows new ones from those that it heard before.
 *
 * Who floods a VM makes its shim report.  So reports have a part of the link: with E the share of
 * the VM that received and C the capacity of the uplink by which they leave
 *
 *   bytes of a VM's reports within t  <=  E / 64 * t, and what is saved up: as much as that is in
 *                                         CREDIT_NS, and CREDIT_REPORTS at least
 *   of all VMs of an uplink           <=  C / 64 * t, the same
 *
 * and a report is charged to the limiter of the VM, if that is active: others keep theirs.  What is
 * due and must wait is not lost: the law is asked again in its next period, with what came
 * meanwhile, and tells the newest state.  Peers take turns; those that the VM never sent to leave
 * half of what is saved up to the others.
 */
#include "../arith.h"
#include "engine.h"

/* Reports of a VM may take this part of its share, and all on an uplink of its capacity. */
#define REPORTS_DENOMINATOR 64

/* A report as it is charged in advance, bytes: Ethernet, IPv6, message, rounded up. */
#define REPORT_BYTES 160

/* What reports may save up, ns, and no less than so many of them. */
#define CREDIT_NS 10000000ULL
#define CREDIT_REPORTS 8

/* A peer that is sent packets is to answer within so long, in 2^20 ns: a second. */
#define ANSWER_WITHIN 954

/* An epoch of reports lasts so long at most, ns: an hour. */
#define EPOCH_NS (3600 * SHIM_NSEC_PER_SEC)

/* Numbers a report: one count for all peers, anew in a later epoch from time to time. */
static void peer_number(struct shim_engine *engine, struct shim_message *report, u64 now_ns)
{
	u64 elapsed_ns;

	spin_lock(&engine->numbers_lock);
	elapsed_ns = shim_sub_sat(now_ns, engine->epoch_ns);
	if (engine->sequence == ~0U || elapsed_ns >= EPOCH_NS) {
		/* No epoch is ahead of the time by more than sequences were used up. */
		engine->epoch += max_t(u32, shim_div(elapsed_ns, SHIM_NSEC_PER_SEC), 1);
		engine->epoch_ns = now_ns;
		engine->sequence = 0;
	}
	report->epoch = engine->epoch;
	report->sequence = ++engine->sequence;
	spin_unlock(&engine->numbers_lock);
}

/* Completes a report with addresses and the sender's next sequence.  peer->lock, vm->lock. */
static void peer_address_report(struct shim_peer *peer, struct shim_message *report)
{
	struct shim_engine *engine = peer->key.vm->engine;

	report->type = SHIM_MESSAGE_REPORT;
	memcpy(report->vm, peer->key.address.bytes, sizeof(report->vm));
	memcpy(report->peer, peer->local.bytes, sizeof(report->peer));
	report->sender = engine->sender;
	report->flags = 0;
	peer_number(engine, report, shim_now_ns());
}

/* Returns how long the part of a rate that reports have takes to earn bytes, ns. */
static u64 report_ns(u64 rate, u32 bytes)
{
	return shim_mul_div(bytes, SHIM_NSEC_PER_SEC * REPORTS_DENOMINATOR, rate);
}

/* Returns the most credit that reports which take one_ns each may save up, ns. */
static u64 report_credit_max(u64 one_ns)
{
	return max(CREDIT_NS, shim_mul_div(one_ns, CREDIT_REPORTS, 1));
}

/* Returns the credit of reports that take one_ns each and are paid for up to paid_ns, ns. */
static u64 report_credit(u64 paid_ns, u64 now_ns, u64 one_ns)
{
	return min(shim_sub_sat(now_ns, paid_ns), report_credit_max(one_ns));
}

bool shim_peer_may_report(const struct shim_peer *peer, const struct shim_uplink *uplink,
			  const struct shim_law_input *input)
{
	u64 one_ns = report_ns(input->capacity, REPORT_BYTES), now_ns = input->now_ns;
	bool heard = peer->rank == SHIM_PEER_HEARD;
	const struct shim_vm *vm = peer->key.vm;
	u64 credit, half, age_ns;

	if (report_credit(READ_ONCE(uplink->reports_ns), now_ns, one_ns) < one_ns)
		return false;
	one_ns = report_ns(input->share, REPORT_BYTES);
	credit = report_credit(vm->reports_ns, now_ns, one_ns);
	half = report_credit_max(one_ns) / 2;
	if (credit < one_ns || (heard && credit < half))
		return false;
	/* Its turn: sooner the more is saved up. */
	age_ns = shim_sub_sat(now_ns, peer->reported_ns);
	return !peer->reported_ns || shim_mul_div(age_ns, credit, half) >=
				     shim_mul_div(one_ns, vm->reports_due[!heard], 1);
}

/* Charges a report that leaves: the uplink's part, the VM's, and what the VM itself may send. */
static void report_charge(struct shim_peer *peer, struct shim_uplink *uplink,
			  struct shim_limiter *limiter, const struct shim_law_input *input,
			  u32 bytes)
{
	u64 one_ns = report_ns(input->capacity, bytes), now_ns = input->now_ns;
	struct shim_vm *vm = peer->key.vm;

	spin_lock(&uplink->lock);
	WRITE_ONCE(uplink->reports_ns, now_ns + one_ns -
		   report_credit(uplink->reports_ns, now_ns, one_ns));
	spin_unlock(&uplink->lock);
	one_ns = report_ns(input->share, bytes);
	vm->reports_ns = now_ns + one_ns - report_credit(vm->reports_ns, now_ns, one_ns);
	peer->reported_ns = shim_stamp(now_ns);
	if (limiter)
		shim_limiter_charge(limiter, bytes, now_ns);
}

void shim_peer_send_report(struct shim_peer *peer, struct shim_limiter *limiter,
			   const struct shim_law_input *input, struct shim_message *report,
			   struct shim_reports *reports)
{
	struct shim_vm *vm = peer->key.vm;
	const struct shim_settings *settings = shim_engine_settings(vm->engine);
	struct shim_uplink *uplink;
	u32 bytes = 0;

	if (!settings->key_set) {
		shim_vm_count(vm, SHIM_REPORTS_NO_KEY, 1);
		return;
	}
	peer_address_report(peer, report);
	/* A tunnel's other end is known of the uplink that it was learned on only. */
	uplink = shim_uplink_find(vm->engine,
				  peer->way_sent && shim_host_peer_tunnel(&peer->host) ?
				  peer->out : peer->in);
	if (uplink)
		bytes = shim_host_report(peer, uplink, report, settings, reports);
	if (!bytes) {
		shim_vm_count(vm, SHIM_REPORTS_UNSENT, 1);
		return;
	}
	peer->told_mac = peer->way_mac;
	shim_vm_count(vm, SHIM_REPORTS_SENT, 1);
	shim_vm_count(vm, SHIM_REPORT_BYTES_SENT, bytes);
	report_charge(peer, uplink, limiter, input, bytes);
}

void shim_peer_await(struct shim_peer *peer, u64 now_ns)
{
	if (!peer->asked || (int)(shim_peer_time(now_ns) - peer->asked) < ANSWER_WITHIN)
		return;
	peer->asked = 0;
	if (peer->state.rate)
		shim_vm_count(peer->key.vm, SHIM_REPORTS_OVERDUE, 1);
}
