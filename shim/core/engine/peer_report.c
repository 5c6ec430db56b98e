// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Reports: what the shims of two hosts tell each other of a peer.
 *
 * All reports of a host count in one sequence, so that a receiver that has forgotten a peer still
 * knows new ones from those that it heard before.
 */
#include "../arith.h"
#include "engine.h"

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

void shim_peer_send_report(struct shim_peer *peer, struct shim_message *report,
			   struct shim_reports *reports)
{
	struct shim_vm *vm = peer->key.vm;
	const struct shim_settings *settings = shim_engine_settings(vm->engine);
	const struct shim_uplink *uplink;
	u32 bytes = 0;

	if (!settings->key_set) {
		shim_vm_count(vm, SHIM_REPORTS_NO_KEY, 1);
		return;
	}
	peer_address_report(peer, report);
	/* A tunnel's other end is known of the uplink that it was learned on only. */
	uplink = shim_peer_uplink(vm->engine,
				  peer->way_sent && shim_host_peer_tunnel(&peer->host) ?
				  peer->out : peer->in);
	if (uplink)
		bytes = shim_host_report(peer, uplink, report, settings, reports);
	if (!bytes) {
		shim_vm_count(vm, SHIM_REPORTS_UNSENT, 1);
		return;
	}
	shim_vm_count(vm, SHIM_REPORTS_SENT, 1);
	shim_vm_count(vm, SHIM_REPORT_BYTES_SENT, bytes);
}

void shim_peer_await(struct shim_peer *peer, u64 now_ns)
{
	if (!peer->asked || (int)(shim_peer_time(now_ns) - peer->asked) < ANSWER_WITHIN)
		return;
	peer->asked = 0;
	if (peer->state.rate)
		shim_vm_count(peer->key.vm, SHIM_REPORTS_OVERDUE, 1);
}

enum shim_counter shim_peer_report(struct shim_vm *vm, const struct shim_message *report,
				   u64 now_ns)
{
	struct shim_peer_key key = { .vm = vm };
	const struct shim_uplink *found;
	enum shim_message_error error;
	struct shim_limiter *limiter;
	struct shim_law_input input;
	struct shim_uplink *uplink;
	struct shim_peer *peer;
	bool wake;

	if (!vm->clock || !(vm->clock->law->wants & SHIM_LAW_PEERS) || !vm->clock->law->on_report)
		return SHIM_REFUSED_LAW;
	memcpy(key.address.bytes, report->peer, sizeof(key.address.bytes));
	peer = shim_peer_find(vm->engine, &key);
	if (!peer || peer->clock != vm->clock)
		return SHIM_REFUSED_PEER;
	found = READ_ONCE(peer->out);
	uplink = shim_peer_uplink(vm->engine, found ? found : READ_ONCE(peer->in));
	if (!uplink)
		return SHIM_REFUSED_PEER;
	limiter = shim_limiter_active(vm, uplink);
	input = shim_peer_input(peer, limiter, uplink, now_ns);
	spin_lock(&peer->lock);
	spin_lock(&vm->engine->numbers_lock);
	error = shim_replay_check_report(vm->engine->reporters, &peer->replay, report);
	spin_unlock(&vm->engine->numbers_lock);
	if (!error) {
		vm->clock->law->on_report(&peer->state, limiter ? &limiter->state : NULL, &input,
					  report);
		shim_peer_apply(peer, now_ns);
		peer->asked = 0;
		peer->proven = true;
	}
	wake = !error && shim_peer_touch(peer);
	spin_unlock(&peer->lock);
	if (error)
		return SHIM_REFUSED_REPLAY;
	if (limiter)
		shim_limiter_apply(limiter, now_ns);
	if (wake && !vm->ticking)
		shim_clock_add(vm, false);
	return SHIM_REPORTS;
}
