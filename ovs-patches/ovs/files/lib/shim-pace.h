/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_PACE_H
#define SHIM_PACE_H 1

#include <stdbool.h>
#include <stdint.h>
#include "openvswitch/types.h"

/* Pacers: where packets of VMs wait for the time at which they may leave. */

struct dp_packet;
struct shim_dp;
struct shim_pacer;

struct shim_pacer *shim_pacer_create(void);
void shim_pacer_destroy(struct shim_pacer *);
uint64_t shim_pacer_run(struct shim_pacer *, void *thread);

bool shim_pace_holds(const struct shim_pacer *, const void *key);
void shim_pace(struct shim_pacer *, struct shim_dp *, odp_port_t,
               const void *key, struct dp_packet *, uint64_t departure_ns);
uint64_t shim_pace_run_shared(void);
void shim_pace_forget(const struct shim_dp *);

#endif /* shim-pace.h */
