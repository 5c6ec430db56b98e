/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The words by which a test steers the host and sees what it gave; to be read and written while
 * nobody is in the engine.
 */
#ifndef SHIM_USER_ACCOUNT_H
#define SHIM_USER_ACCOUNT_H

#include "../core/types.h"

extern u64 shim_host_clock_ns;		/* the time, without threads */
extern u64 shim_host_clock_runs_ns;	/* CLOCK_MONOTONIC from which on it goes by; 0: it stands */
extern u64 shim_host_lock_ns;		/* without threads: how long it takes to take a lock */
extern u64 shim_host_seed;		/* what keys of hashes come of; changes with each */
extern u64 shim_host_allocated;		/* objects that are allocated */
extern u64 shim_host_allocations;	/* objects that were ever asked for */
extern u64 shim_host_fail_at;		/* shim_host_allocations of the one that fails; 0: none */
extern u64 shim_host_fail_count;	/* how many fail from there on; 0: one */
extern u64 shim_host_asked;		/* how often VMs were asked for an address */
extern bool shim_host_mute;		/* the host cannot ask any */
extern u64 shim_host_warnings;		/* conditions of WARN_ON_ONCE() that held */

/* Frees what waits for a grace period: no packet and no tick is under way; returns how many. */
u32 shim_host_quiesce(void);

#endif
