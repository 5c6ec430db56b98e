// SPDX-License-Identifier: Apache-2.0
/*
 * Weighted max-min at one moment; shares.h has its algebra.
 */
#include "shares.h"

/* Rate of a tunnel that still rises. */
#define RISES (-1.0)

/* Tells whether a tunnel crosses a port. */
static int share_crosses(const struct share_tunnel *tunnel, u64 port)
{
	u64 i;

	for (i = 0; i < FLUID_LAYERS && tunnel->ports[i] != FLUID_NONE; i++)
		if (tunnel->ports[i] == port)
			return 1;
	return 0;
}

/* Adds the weights of those who still rise to the ports that they cross. */
static void share_weigh(const struct share_tunnel *tunnels, u64 count, double *weights, u64 n_ports)
{
	u64 i, j;

	for (i = 0; i < n_ports; i++)
		weights[i] = 0;
	for (i = 0; i < count; i++) {
		if (tunnels[i].rate != RISES)
			continue;
		for (j = 0; j < FLUID_LAYERS && tunnels[i].ports[j] != FLUID_NONE; j++)
			weights[tunnels[i].ports[j]] += tunnels[i].weight;
	}
}

/* Returns the port that is full first, and at which level; FLUID_NONE: nobody rises. */
static u64 share_first_full(const double *left, const double *weights, u64 n_ports, double *level)
{
	u64 i, first = FLUID_NONE;

	for (i = 0; i < n_ports; i++) {
		if (!(weights[i] > 0))
			continue;
		if (first == FLUID_NONE || left[i] / weights[i] < *level) {
			first = i;
			*level = left[i] / weights[i];
		}
	}
	return first;
}

void share_rates(struct share_tunnel *tunnels, u64 count, const double *capacities, double *room,
		 u64 n_ports)
{
	double *left = room, *weights = room + n_ports, level = 0;
	u64 i, j, full;

	for (i = 0; i < n_ports; i++)
		left[i] = capacities[i];
	for (i = 0; i < count; i++)
		tunnels[i].rate = RISES;
	for (;;) {
		share_weigh(tunnels, count, weights, n_ports);
		full = share_first_full(left, weights, n_ports, &level);
		if (full == FLUID_NONE)
			return;
		for (i = 0; i < count; i++) {
			if (tunnels[i].rate != RISES || !share_crosses(&tunnels[i], full))
				continue;
			tunnels[i].rate = tunnels[i].weight * level;
			for (j = 0; j < FLUID_LAYERS && tunnels[i].ports[j] != FLUID_NONE; j++) {
				left[tunnels[i].ports[j]] -= tunnels[i].rate;
				if (left[tunnels[i].ports[j]] < 0)
					left[tunnels[i].ports[j]] = 0;
			}
		}
	}
}
