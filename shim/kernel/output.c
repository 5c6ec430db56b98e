// SPDX-License-Identifier: GPL-2.0-only
/*
 * A packet's way between the datapath's decision where it goes and the device: parse, decide, act.
 *
 *   from a VM, anywhere:    control messages are dropped, VMs may not send them
 *   from a VM to an uplink: GSO packets whose parts exceed the uplink's MTU are dropped; the engine
 *                           decides; of GSO packets that are cut, about each part
 *   from elsewhere to a VM: control messages are obeyed or refused, and never delivered
 *   from an uplink to a VM: the engine decides what the guest sees
 *   everything else:        untouched, as are other packets of and for VMs without a law
 *
 * A message that an uplink brought concerns the VM's limiter on that uplink; one that the
 * controller handed to this very switch leaves user space with the datapath's local port as the one
 * it came by, and concerns all limiters: only the hook can tell.  Any other port may carry none.
 *
 * A bridge that mirrors to an uplink sends a clone of the packet there, with the VM's port as the
 * one it came by: the copy is charged like any packet that the VM sends, for it takes as much of
 * the uplink.
 *
 * A packet's frame, passage and action are filled where that is needed.  Zeroing them first, as a
 * kernel may be built to do with what stands on the stack, would cost as much as the judgement.
 *
 * Departure times are CLOCK_MONOTONIC and obeyed by sch_fq on the uplink.  ovs_vport_send() clears
 * skb->tstamp, with softirqs off, before the hook calls us.
 */
#include <linux/err.h>
#include <linux/sizes.h>
#include <linux/skbuff.h>

#include "../core/engine/decide.h"
#include "compat.h"
#include "frame.h"
#include "hook.h"
#include "outer.h"
#include "output.h"
#include "ovs_shim.h"
#include "pass.h"
#include "port.h"
#include "segment.h"
#include "trace.h"
#include "vlan.h"

DEFINE_STATIC_KEY_FALSE(ovs_shim_key);

/* Drops what the engine refused, traced and counted; limiters count their own refusals. */
static noinline void output_refuse(struct shim_vm *vm, struct sk_buff *skb,
				   const struct shim_packet *packet, enum shim_counter drop)
{
	if (!shim_counter_limiter(drop))
		shim_vm_count(vm, drop, packet->packets);
	trace_ovs_shim_drop(vm, skb, shim_counter_name(drop));
	ovs_shim_free_dropped(skb, drop);
}

/* Fills *frame from a packet of a VM, in a tunnel unless outer is NULL. */
static inline void output_parse(struct sk_buff *skb, u8 wants, const struct ovs_shim_outer *outer,
				struct ovs_shim_frame *frame)
{
	ovs_shim_frame_parse(skb, wants, frame);
	if (outer)
		ovs_shim_outer_complete(outer, frame);
}

/* Makes the headers of a packet what an action says; false, and nothing sure, without memory. */
static inline bool output_write(struct ovs_shim_frame *frame, const struct ovs_shim_outer *outer,
				const struct shim_action *action)
{
	return ovs_shim_frame_act(frame, action) &&
	       (!outer || ovs_shim_outer_act(outer, frame, action));
}

/*
 * Does with a packet of or for a VM what the engine decided, but for cutting it; true: it goes on.
 */
static inline bool output_act(struct shim_vm *vm, struct sk_buff *skb,
			      struct ovs_shim_frame *frame, const struct ovs_shim_outer *outer,
			      const struct shim_action *action)
{
	if (unlikely(action->drop)) {
		output_refuse(vm, skb, &frame->packet, action->drop);
		return false;
	}
	if (unlikely(!output_write(frame, outer, action))) {
		output_refuse(vm, skb, &frame->packet, SHIM_DROP_MEMORY);
		return false;
	}
	if (action->departure_ns)
		skb_set_delivery_time(skb, action->departure_ns, true);
	return true;
}

/*
 * Asks the engine for a packet that was cut out of a larger one, and does what it says; true: it
 * goes on.
 */
static bool output_part(struct shim_vm *vm, struct sk_buff *skb, const struct ovs_shim_outer *outer,
			const struct shim_passage *passage, const struct shim_packet *whole)
{
	struct ovs_shim_frame frame __uninitialized;
	struct shim_action action __uninitialized;

	output_parse(skb, 0, outer, &frame);
	frame.packet.now_ns = whole->now_ns;
	frame.packet.timed = whole->timed;
	shim_action_init(&action, &frame.packet);
	shim_admit(passage, &frame.packet, &action);
	return output_act(vm, skb, &frame, outer, &action);
}

/* Returns how many segments of a GSO packet a part of at most so many bytes has; 0: unknown. */
static u32 output_segments(const struct ovs_shim_frame *frame, const struct ovs_shim_outer *outer,
			   u32 bytes)
{
	return frame->part ? bytes / (frame->part + (outer ? outer->bytes : 0)) : 0;
}

/*
 * Makes a GSO packet what the engine decided, and cuts it; true: it goes on, for it turned out to
 * be a single one.
 */
static noinline bool output_cut(struct shim_vm *vm, struct sk_buff *skb,
				struct ovs_shim_frame *frame, const struct ovs_shim_outer *outer,
				const struct shim_passage *passage,
				const struct shim_action *action)
{
	const struct shim_packet *whole = &frame->packet;
	struct sk_buff *parts, *part, *next;

	if (whole->packets > SHIM_PARTS_MAX) {
		output_refuse(vm, skb, whole, SHIM_DROP_SEGMENT);
		return false;
	}
	if (!output_write(frame, outer, action)) {
		output_refuse(vm, skb, &frame->packet, SHIM_DROP_MEMORY);
		return false;
	}
	if (outer)
		ovs_shim_outer_leave(skb, outer);
	parts = ovs_shim_segment(skb, output_segments(frame, outer, action->cut_bytes));
	if (IS_ERR(parts)) {
		output_refuse(vm, skb, &frame->packet, SHIM_DROP_SEGMENT);
		return false;
	}
	/* A guest said that it was one. */
	if (!parts) {
		if (outer)
			ovs_shim_outer_enter(skb, outer);
		return output_part(vm, skb, outer, passage, whole);
	}
	consume_skb(skb);
	skb_list_walk_safe(parts, part, next) {
		skb_mark_not_on_list(part);
		if (outer)
			ovs_shim_outer_enter(part, outer);
		if (!output_part(vm, part, outer, passage, whole))
			continue;
		if (outer)
			ovs_shim_outer_leave(part, outer);
		ovs_shim_hook_send(part);
	}
	return false;
}

/*
 * Fills the time of a packet.  Peers, connections and paths are timed exactly; the rest is seconds,
 * for which the last timer interrupt's time will do, and the limiter's, which looks when it must.
 */
static inline void output_time(const struct shim_vm *vm, struct shim_packet *packet)
{
	packet->timed = READ_ONCE(vm->mode.wants) & SHIM_VM_TIMED;
	packet->now_ns = unlikely(packet->timed) ? ktime_get_ns() : ktime_get_coarse_ns();
}

/* Tells whether a packet is a control message, by a VM's settings. */
static inline bool output_is_message(const struct shim_vm *vm, const struct shim_packet *packet)
{
	return unlikely(packet->version && packet->protocol == READ_ONCE(vm->mode.protocol));
}

/* Tells the engine which address a VM that has a law says is its own, to a port with a role. */
static noinline void output_announce(struct shim_vm *vm, const struct ovs_shim_port *to,
				     struct sk_buff *skb, struct ovs_shim_frame *frame)
{
	struct shim_address address;

	if (!ovs_shim_frame_announces(skb, frame, &address))
		return;
	frame->packet.now_ns = ktime_get_ns();
	shim_sources_announce(vm, &address, &frame->packet,
			      to && to->role == OVS_SHIM_ROLE_UPLINK);
}

/* Tells whether a packet may say something of addresses: it is no IP, or ICMPv6. */
static inline bool output_may_announce(const struct shim_packet *packet)
{
	return unlikely(!packet->version || packet->protocol == IPPROTO_ICMPV6);
}

/*
 * Judges a packet from a VM; to is the port it leaves by, NULL if that has no role; outer: what is
 * in front of it if it is in a tunnel, and has been entered.
 */
static __always_inline bool output_from_vm(struct shim_vm *vm, const struct ovs_shim_port *to,
					   const struct ovs_shim_outer *outer,
					   const struct ovs_shim_way *way, struct sk_buff *skb)
{
	struct ovs_shim_pass *pass = NULL;
	struct ovs_shim_frame frame __uninitialized;
	struct shim_action action __uninitialized;
	struct shim_passage passage __uninitialized;

	output_parse(skb, READ_ONCE(vm->mode.wants), outer, &frame);
	if (output_is_message(vm, &frame.packet)) {
		output_refuse(vm, skb, &frame.packet, SHIM_DROP_FORGED);
		return false;
	}
	if (!READ_ONCE(vm->mode.ruled))
		return true;
	if (output_may_announce(&frame.packet))
		output_announce(vm, to, skb, &frame);
	if (!to || to->role != OVS_SHIM_ROLE_UPLINK)
		return true;
	if (unlikely(frame.packet.gso &&
		     ovs_shim_frame_exceeds(&frame, READ_ONCE(to->dev->mtu)))) {
		output_refuse(vm, skb, &frame.packet, SHIM_DROP_SIZE);
		return false;
	}
	if (unlikely(to->outer))
		ovs_shim_port_see_outer(to, skb);
	output_time(vm, &frame.packet);
	if (way)
		pass = ovs_shim_pass_find(way, skb, &frame, vm, true);
	shim_decide_sent(vm, to->uplink, &frame.packet, pass ? &pass->lease : NULL, &passage,
			 &action);
	if (pass)
		ovs_shim_pass_note(pass, vm, true);
	if (unlikely(action.cut_bytes) && !action.drop)
		return output_cut(vm, skb, &frame, outer, &passage, &action);
	return output_act(vm, skb, &frame, outer, &action);
}

/* Refuses a control message that the engine need not see. */
static void output_refuse_message(struct shim_vm *vm, enum shim_counter refusal)
{
	const struct shim_message unknown = {};

	shim_vm_count(vm, refusal, 1);
	shim_host_message(vm, &unknown, shim_counter_name(refusal));
}

/*
 * Obeys or refuses a control message for a VM; from is the port it came by, NULL if that has no
 * role; local and vlan as in ovs_shim_judge().
 */
static noinline void output_obey(struct shim_vm *vm, const struct ovs_shim_port *from, bool local,
				 u32 vlan, struct ovs_shim_frame *frame)
{
	const struct shim_uplink *uplink = NULL;
	struct shim_message message = {};
	size_t len;
	u8 *data;

	if (from && from->role == OVS_SHIM_ROLE_UPLINK) {
		uplink = from->uplink;
	} else if (!local) {
		output_refuse_message(vm, SHIM_REFUSED_ORIGIN);
		return;
	}
	if (!READ_ONCE(vm->mode.ruled)) {
		output_refuse_message(vm, SHIM_REFUSED_LAW);
		return;
	}
	frame->packet.now_ns = ktime_get_ns();
	frame->packet.timed = true;
	if (uplink && vlan != OVS_SHIM_VLAN_UNKNOWN) {
		frame->packet.network.vlan = vlan;
		frame->packet.network_known = true;
	}
	/* One byte more than a message has, so that what is too long is seen to be. */
	data = shim_alloc_now(SHIM_MESSAGE_MOST_BYTES + 1);
	if (!data) {
		output_refuse_message(vm, SHIM_DROP_MEMORY);
		return;
	}
	len = ovs_shim_frame_payload(frame, data, SHIM_MESSAGE_MOST_BYTES + 1);
	shim_engine_message(vm, uplink, &frame->packet, data, len, &message);
	shim_free(data);
}

/*
 * Returns SHIM_LAW_* of what is to be read of a packet for a VM: TCP's flags, too, where these tell
 * whether an ECT(0) may be the guest's.
 */
static u8 output_wants_of_received(const struct shim_vm *vm)
{
	u8 wants = READ_ONCE(vm->mode.wants);

	if (unlikely(READ_ONCE(vm->mode.codepoint) == SHIM_ECT_ZERO))
		wants |= SHIM_LAW_FLOWS;
	return wants;
}

/* Judges a packet for a VM that no other VM sent; from, local and vlan as in output_obey(). */
static bool output_to_vm(struct shim_vm *vm, const struct ovs_shim_port *from, bool local,
			 u32 vlan, const struct ovs_shim_way *way, struct sk_buff *skb)
{
	struct ovs_shim_pass *pass = NULL;
	struct ovs_shim_frame frame __uninitialized;
	struct shim_action action __uninitialized;

	ovs_shim_frame_parse(skb, output_wants_of_received(vm), &frame);
	if (output_is_message(vm, &frame.packet)) {
		output_obey(vm, from, local, vlan, &frame);
		consume_skb(skb);
		return false;
	}
	if (!from || from->role != OVS_SHIM_ROLE_UPLINK || !READ_ONCE(vm->mode.ruled))
		return true;
	output_time(vm, &frame.packet);
	if (way && (frame.packet.ecn == SHIM_NOT_ECT || frame.packet.ecn == SHIM_ECT_ONE))
		pass = ovs_shim_pass_find(way, skb, &frame, vm, false);
	shim_decide_received(vm, from->uplink, &frame.packet, pass ? &pass->lease : NULL, &action);
	if (pass)
		ovs_shim_pass_note(pass, vm, false);
	return output_act(vm, skb, &frame, NULL, &action);
}

bool ovs_shim_judge(const struct ovs_shim_port *from, const struct ovs_shim_port *to, bool local,
		    u32 vlan, const struct ovs_shim_way *way, struct sk_buff *skb)
{
	if (from && from->role == OVS_SHIM_ROLE_VM)
		return output_from_vm(from->vm, to, NULL, way, skb);
	if (to && to->role == OVS_SHIM_ROLE_VM)
		return output_to_vm(to->vm, from, local, vlan, way, skb);
	return true;
}

#ifdef OVS_SHIM_BESIDE
bool ovs_shim_judge_tunnelled(const struct ovs_shim_port *from, const struct ovs_shim_port *to,
			      const struct ovs_shim_outer *outer, struct sk_buff *skb)
{
	bool on;

	ovs_shim_outer_enter(skb, outer);
	on = output_from_vm(from->vm, to, outer, NULL, skb);
	if (on)
		ovs_shim_outer_leave(skb, outer);
	return on;
}
#endif
