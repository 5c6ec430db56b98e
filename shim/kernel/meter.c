// SPDX-License-Identifier: GPL-2.0-only
/*
 * What each VM receives, and its part of what its uplink can bring, for laws with
 * SHIM_LAW_RECEIVER.
 *
 * A VM under such a law takes part from a packet until T_o after the last.  So does a VM under
 * another law, for it takes its part of the uplink all the same; it is looked at every period of
 * the first law.
 */
#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/minmax.h>

#include "../core/arith.h"
#include "internal.h"

/* Tells whether a VM's own clock does not measure what it receives. */
static bool unmetered(const struct ovs_shim_port *vm)
{
	return !vm->clock || !(vm->clock->law->wants & SHIM_LAW_RECEIVER);
}

/* Measures what a VM received since it was last measured.  shim->lock. */
static void measure(struct ovs_shim_port *vm, u64 now_ns)
{
	u64 bytes = atomic64_read(&vm->counters[OVS_SHIM_RX_BYTES]);
	u64 elapsed_ns = now_ns - vm->rx_ns;
	u64 more = bytes - vm->rx_bytes;
	bool receiving = true;

	if (!elapsed_ns)
		return;
	vm->rx_ns = now_ns;
	vm->rx_bytes = bytes;
	vm->rx_rate = shim_mul_div(more, NSEC_PER_SEC, elapsed_ns);
	if (more) {
		vm->rx_idle_ns = 0;
	} else {
		vm->rx_idle_ns = shim_add_sat(vm->rx_idle_ns, elapsed_ns);
		receiving = vm->receiving && vm->rx_idle_ns < vm->shim->settings.inactive_ns;
	}
	if (receiving != vm->receiving)
		vm->shim->divide_rx = true;
	if (!receiving)
		vm->rx_share = 0;
	WRITE_ONCE(vm->receiving, receiving);
}

/* Tells whether a VM takes part in what an uplink brings. */
static bool takes_part(const struct ovs_shim_port *vm, const struct ovs_shim_port *uplink)
{
	return vm->role == OVS_SHIM_ROLE_VM && vm->receiving &&
	       (!vm->rx_in || vm->rx_in == uplink->vport);
}

/* Computes rx_share of the VMs that receive by an uplink.  shim->lock. */
static void divide(struct ovs_shim_net *shim, const struct ovs_shim_port *uplink)
{
	const struct ovs_shim_pair *pair;
	struct ovs_shim_port *vm;
	u32 n = 0, i = 0;

	list_for_each_entry(vm, &shim->ports, list) {
		if (!takes_part(vm, uplink))
			continue;
		if (WARN_ON_ONCE(n == shim->n_claims))
			return;
		pair = ovs_shim_limiter_find(vm, uplink->vport);
		shim->claims[n++] = (struct shim_claim){
			.min = vm->min,
			.max = vm->max,
			.demand = pair ? pair->state.rx_demand : 0,
			.weight = vm->weight,
		};
	}
	shim_share_by_demand(shim->claims, n, ovs_shim_capacity(uplink));
	list_for_each_entry(vm, &shim->ports, list)
		if (takes_part(vm, uplink))
			vm->rx_share = shim->claims[i++].share;
}

/* Measures the VMs under a law that wants it, and those beside them.  shim->lock. */
void ovs_shim_meter(struct ovs_shim_clock *clock, u64 now_ns)
{
	struct ovs_shim_net *shim = clock->shim;
	struct ovs_shim_port *port;

	list_for_each_entry(port, &shim->ports, list)
		if (port->role == OVS_SHIM_ROLE_VM && (port->clock == clock || unmetered(port)))
			measure(port, now_ns);
	if (!shim->divide_rx)
		return;
	shim->divide_rx = false;
	list_for_each_entry(port, &shim->uplinks, uplink_list)
		divide(shim, port);
}
