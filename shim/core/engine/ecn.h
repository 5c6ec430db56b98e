/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Gives the ECN field of a packet back as the sender's VM meant it; ecn.c has the rules.
 */
#ifndef SHIM_CORE_ENGINE_ECN_H
#define SHIM_CORE_ENGINE_ECN_H

#include "../host.h"
#include "../law.h"
#include "packet.h"

struct shim_vm;

/* Forgets what flows to a VM showed.  vm->lock. */
void shim_ecn_exit(struct shim_vm *vm);

/*
 * Returns the field to deliver to a VM for a packet from an uplink that carries ecn, and remembers
 * what it says of its flow.  Softirqs off, RCU read lock, no lock of the engine.
 */
u8 shim_ecn_restore(struct shim_vm *vm, const struct shim_packet *packet, u8 ecn,
		    enum shim_told told);

#endif
