/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Gives the ECN field of a packet back as the sender's VM meant it; ecn.c has the rules.
 */
#ifndef SHIM_CORE_ENGINE_ECN_H
#define SHIM_CORE_ENGINE_ECN_H

#include "../host.h"
#include "../law.h"
#include "packet.h"

struct shim_engine;

/* Makes room for what flows showed, before the first VM; false without memory.  May sleep. */
bool shim_ecn_start(struct shim_engine *engine);

/* Frees that.  May sleep. */
void shim_ecn_exit(struct shim_engine *engine);

/*
 * Returns the field to deliver for a packet from an uplink that carries ecn, and remembers what it
 * says of its flow.
 */
u8 shim_ecn_restore(struct shim_engine *engine, const struct shim_packet *packet, u8 ecn,
		    enum shim_told told);

#endif
