// SPDX-License-Identifier: Apache-2.0
/*
 * Steps of the fluid model; fluid.h has its algebra.
 */
#include <string.h>

#include "account.h"
#include "fluid.h"

/* Bytes of a packet that a rate is made of. */
#define PACKET_BYTES 1514
/* Address of the controller, ::ffff:127.0.0.1. */
static const u8 controller[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 };

/* Returns the number of the VM with an address. */
static u64 fluid_number(const u8 address[16])
{
	u32 word = (u32)address[12] << 24 | (u32)address[13] << 16 | (u32)address[14] << 8 |
		   address[15];

	return word - 0x0a000001u;
}

void fluid_set_clock(u64 now_ns)
{
	shim_host_clock_ns = now_ns;
}

u32 fluid_tell(struct fluid *fluid, u64 vm, const u8 *data)
{
	struct fluid_vm *to = &fluid->vms[vm];

	return shim_lab_message(to->vm, NULL, controller, to->address, data, 96);
}

/* Lets the clocks tick that are due, and delivers reports. */
static void fluid_tick(struct fluid *fluid)
{
	struct shim_lab_report report;
	u64 i, due_ns, to;

	for (i = 0; i < fluid->n_labs; i++) {
		due_ns = shim_lab_due(fluid->labs[i]);
		if (due_ns && due_ns <= shim_host_clock_ns)
			shim_lab_tick(fluid->labs[i]);
	}
	for (i = 0; i < fluid->n_labs; i++)
		while (shim_lab_report(fluid->labs[i], &report)) {
			to = fluid_number(report.destination);
			if (to >= fluid->n_vms)
				continue;
			shim_lab_message(fluid->vms[to].vm, fluid->vms[to].uplink, report.source,
					 report.destination, report.data, 96);
			fluid->messages++;
		}
	shim_host_quiesce();
}

/* Reads the rates of all limiters. */
static void fluid_read_rates(struct fluid *fluid)
{
	struct shim_lab_limiter limiter;
	struct fluid_vm *vm;
	u64 i;

	for (i = 0; i < fluid->n_vms; i++) {
		vm = &fluid->vms[i];
		vm->rate = 0;
		if (shim_lab_read_limiter(vm->vm, vm->uplink, &limiter) && limiter.active)
			vm->rate = (double)limiter.rate;
	}
}

/* Fills what the engine is told of a flow's packets. */
static void fluid_describe(const struct fluid *fluid, const struct fluid_flow *flow, u32 packets,
			   u8 ecn, struct shim_lab_packet *packet)
{
	*packet = (struct shim_lab_packet){
		.bytes = packets * PACKET_BYTES,
		.packets = packets,
		.whole = true,
		.version = 4,
		.protocol = 17,
		.ecn = ecn,
		.scale = 0xff,
	};
	memcpy(packet->source, fluid->vms[flow->from].address, 16);
	memcpy(packet->destination, fluid->vms[flow->to].address, 16);
}

/* Returns what a flow sends in this step, bytes/s. */
static double fluid_wish(struct fluid *fluid, struct fluid_flow *flow)
{
	struct fluid_vm *vm = &fluid->vms[flow->from];
	double rate = vm->rate * flow->part;
	struct shim_lab_peer peer;

	if (rate > flow->want)
		rate = flow->want;
	if (flow->peers && shim_lab_read_peer(vm->vm, fluid->vms[flow->to].address, &peer) &&
	    peer.rate && rate > (double)peer.rate)
		rate = (double)peer.rate;
	return rate;
}

/* Sends what a flow may. */
static void fluid_send(struct fluid *fluid, struct fluid_flow *flow)
{
	struct fluid_vm *vm = &fluid->vms[flow->from];
	double bytes = flow->carried;
	struct shim_lab_packet packet;
	struct shim_lab_result result;
	u32 packets;

	flow->sent = 0;
	if (shim_host_clock_ns < flow->start_ns || shim_host_clock_ns >= flow->stop_ns)
		return;
	bytes += fluid_wish(fluid, flow) * (double)fluid->step_ns / 1e9;
	packets = bytes > 0 ? (u32)(bytes / PACKET_BYTES) : 0;
	/* Who has no limiter yet gets one by its first packet. */
	if (!packets && !vm->rate)
		packets = 1;
	if (packets) {
		fluid_describe(fluid, flow, packets, 2, &packet);
		if (shim_lab_send(vm->vm, vm->uplink, &packet, &result))
			flow->sent = packet.bytes * 1e9 / (double)fluid->step_ns;
	}
	flow->carried = bytes - (double)packets * PACKET_BYTES;
}

/* Moves a port's queue; says what leaves, and what part of the step it was above its threshold. */
static void fluid_queue(struct fluid_port *port, double seconds)
{
	double before = port->queue, comes = port->offered * seconds;
	double leaves = port->capacity * seconds, after, low, high;

	if (leaves > before + comes)
		leaves = before + comes;
	after = before + comes - leaves;
	if (after > port->limit) {
		port->lost += after - port->limit;
		after = port->limit;
	}
	low = before < after ? before : after;
	high = before < after ? after : before;
	if (!port->mark || high <= port->mark)
		port->marked = 0;
	else
		port->marked = low >= port->mark ? 1 : (high - port->mark) / (high - low);
	port->queue = after;
	port->passes = comes > 0 ? leaves / comes : 0;
	port->bytes += leaves;
	port->marks += port->marked * comes / PACKET_BYTES;
}

/* Passes what was sent through the ports, one layer after the other. */
static void fluid_pass(struct fluid *fluid, double seconds)
{
	struct fluid_flow *flow;
	u64 i, layer, port;

	for (i = 0; i < fluid->n_ports; i++)
		fluid->ports[i].offered = 0;
	for (i = 0; i < fluid->n_flows; i++)
		fluid->flows[i].left = fluid->flows[i].sent;
	for (layer = 0; layer < fluid->n_layers; layer++) {
		for (i = 0; i < fluid->n_flows; i++) {
			flow = &fluid->flows[i];
			port = flow->ports[layer];
			if (port != FLUID_NONE && flow->left > 0)
				fluid->ports[port].offered += flow->left;
		}
		for (i = 0; i < fluid->n_ports; i++)
			if (fluid->ports[i].layer == layer)
				fluid_queue(&fluid->ports[i], seconds);
		for (i = 0; i < fluid->n_flows; i++) {
			flow = &fluid->flows[i];
			if (flow->ports[layer] != FLUID_NONE)
				flow->left *= fluid->ports[flow->ports[layer]].passes;
		}
	}
}

/* Delivers what came of a flow. */
static void fluid_deliver(struct fluid *fluid, struct fluid_flow *flow)
{
	double bytes = flow->left * (double)fluid->step_ns / 1e9, marked = 0;
	struct fluid_vm *to = &fluid->vms[flow->to];
	struct shim_lab_packet packet;
	struct shim_lab_result result;
	u32 packets, marks;
	u64 layer, port;

	flow->received += bytes;
	flow->carried_received += bytes;
	packets = (u32)(flow->carried_received / PACKET_BYTES);
	if (!to->receives || !packets)
		return;
	flow->carried_received -= (double)packets * PACKET_BYTES;
	for (layer = 0; layer < fluid->n_layers; layer++) {
		port = flow->ports[layer];
		if (port != FLUID_NONE && fluid->ports[port].marked > marked)
			marked = fluid->ports[port].marked;
	}
	flow->carried_marks += marked * packets;
	marks = (u32)flow->carried_marks;
	if (marks > packets)
		marks = packets;
	flow->carried_marks -= marks;
	if (marks) {
		fluid_describe(fluid, flow, marks, 3, &packet);
		shim_lab_receive(to->vm, to->uplink, &packet, &result);
	}
	if (packets > marks) {
		fluid_describe(fluid, flow, packets - marks, 2, &packet);
		shim_lab_receive(to->vm, to->uplink, &packet, &result);
	}
}

/* Takes one step. */
static void fluid_step(struct fluid *fluid)
{
	double seconds = (double)fluid->step_ns / 1e9;
	u64 i;

	shim_host_clock_ns += fluid->step_ns;
	fluid_tick(fluid);
	fluid_read_rates(fluid);
	for (i = 0; i < fluid->n_flows; i++)
		fluid_send(fluid, &fluid->flows[i]);
	fluid_pass(fluid, seconds);
	for (i = 0; i < fluid->n_flows; i++)
		if (fluid->flows[i].sent)
			fluid_deliver(fluid, &fluid->flows[i]);
}

void fluid_run(struct fluid *fluid, u64 until_ns)
{
	while (shim_host_clock_ns + fluid->step_ns <= until_ns)
		fluid_step(fluid);
}
