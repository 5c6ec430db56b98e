/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Share E(i): an uplink's capacity divided among its active VMs, whatever they send or by what they
 * send; share.c has the algebra.
 */
#ifndef SHIM_CORE_SHARE_H
#define SHIM_CORE_SHARE_H

#include "types.h"

/* One VM's claim on an uplink, and what it gets. */
struct shim_claim {
	u64 min;		/* guarantee, bytes/s; 0: none */
	u64 max;		/* ceiling, bytes/s; 0: none */
	u64 demand;		/* by demand: what the VM can use, bytes/s; 0: anything */
	u64 given_min;		/* scratch of that: min, while it is another */
	u64 given_max;		/* the same of max */
	u64 share;		/* result: E(i) of this VM, bytes/s */
	u32 weight;		/* 1..SHIM_WEIGHT_MAX */
};

#define SHIM_WEIGHT_MAX 65535U

/*
 * Writes every claim's share.  Returns false, with all shares at the guarantees scaled to fit, if
 * guarantees exceed capacity.
 */
bool shim_share(struct shim_claim *claims, u32 n, u64 capacity);

/*
 * The same, but what a VM does not demand goes to others first, its guarantee included; it keeps
 * the right to that, so that shares may add up to more than capacity by guarantees not in use.
 */
bool shim_share_by_demand(struct shim_claim *claims, u32 n, u64 capacity);

/*
 * By demand, but each VM keeps the right to all of its share by shim_share(), which becomes its
 * claim's min.
 */
bool shim_share_lending(struct shim_claim *claims, u32 n, u64 capacity);

#endif
