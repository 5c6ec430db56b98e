// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Reports that arrive: what the shim of a peer tells of it.
 */
#include "../arith.h"
#include "engine.h"

enum shim_counter shim_peer_report(struct shim_vm *vm, const struct shim_message *report,
				   const struct shim_packet *packet)
{
	struct shim_peer_key key = { .vm = vm };
	struct shim_address here;
	u64 now_ns = packet->now_ns;
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
	memcpy(here.bytes, report->vm, sizeof(here.bytes));
	peer = shim_peer_find(vm->engine, &key);
	if (!peer || peer->clock != vm->clock)
		return SHIM_REFUSED_PEER;
	found = READ_ONCE(peer->out);
	uplink = shim_uplink_find(vm->engine, found ? found : READ_ONCE(peer->in));
	if (!uplink)
		return SHIM_REFUSED_PEER;
	limiter = shim_limiter_active(vm, uplink);
	input = shim_peer_input(peer, limiter, uplink, now_ns);
	spin_lock(&peer->lock);
	spin_lock(&vm->engine->numbers_lock);
	error = shim_replay_check_report(vm->engine->reporters, &peer->replay, report);
	spin_unlock(&vm->engine->numbers_lock);
	if (!error) {
		shim_peer_look(peer, now_ns);
		vm->clock->law->on_report(&peer->state, limiter ? &limiter->state : NULL, &input,
					  report);
		shim_peer_apply(peer, now_ns);
		peer->asked = 0;
		if (!peer->proven) {
			/* What it was taken to answer while it had no shim. */
			memset(peer->answered, 0, sizeof(peer->answered));
			WRITE_ONCE(peer->proven, true);
		}
		WRITE_ONCE(peer->heard_ns, shim_stamp(now_ns));
		WRITE_ONCE(peer->report_mac, packet->link_source);
		shim_peer_answered(peer, shim_sources_bits(vm, &here, NULL), now_ns);
		shim_vm_answered(vm, peer, packet->link_source, now_ns);
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
