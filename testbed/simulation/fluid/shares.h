/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weighted max-min at one moment (Bertsekas and Gallager, Data Networks, section 6.5.2).
 *
 * A tunnel i of weight w_i crosses some ports p, of capacity c_p.  A level x rises from 0, and all
 * send
 *
 *   r_i = w_i * x			until a port p of its way is full: sum of r_j over p = c_p
 *
 * Those who cross p then stay, and the level rises for the others.  So each tunnel has in the end a
 * full port on its way where nobody has a larger r_j / w_j.
 */
#ifndef SIMULATION_SHARES_H
#define SIMULATION_SHARES_H

#include "fluid.h"

/* A tunnel that has something to send. */
struct share_tunnel {
	u64 ports[FLUID_LAYERS];	/* on its way, then FLUID_NONE; at least one */
	double weight;			/* above 0 */
	double rate;			/* what it has, bytes/s */
};

/*
 * Gives all tunnels their rates.  Capacities of ports are bytes/s, above 0; room has place for two
 * numbers of each port.
 */
void share_rates(struct share_tunnel *tunnels, u64 count, const double *capacities, double *room,
		 u64 n_ports);

#endif
