// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * What is in force before anybody sets anything.
 */
#include "settings.h"

void shim_settings_default(struct shim_settings *settings)
{
	const struct shim_law *law;
	u32 i, k;

	*settings = (struct shim_settings){
		.law = SHIM_LAW_NONE,
		/* Well below T of the laws: what waits already leaves at the rate of yesterday. */
		.horizon_ns = 2000000,
		.inactive_ns = SHIM_NSEC_PER_SEC,
		.peer_idle_ns = 10 * SHIM_NSEC_PER_SEC,
		.peers_max = 4096,
		.waiting_max = 1024,
		.burst_bytes = 2097152,
		.burst_us = 100,
		.limiter = SHIM_LIMITER_PACE,
		.protocol = SHIM_MESSAGE_PROTOCOL,
		.codepoint = SHIM_ECT_ONE,
		.ecn = true,
	};
	for (i = 0; i < SHIM_LAW_SLOTS && (law = shim_law_at(i)); i++) {
		settings->laws[i].period_ns = law->period_ns;
		for (k = 0; k < law->n_knobs; k++)
			settings->laws[i].knobs[k] = law->knobs[k].value;
	}
}
