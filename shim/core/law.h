/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What a control law is: a table of functions that turns feedback into the rate of one limiter.
 *
 * A law owns no memory, no lock and no clock.  The caller serialises calls on one
 * struct shim_law_state and applies state->rate to the bucket afterwards.
 */
#ifndef SHIM_CORE_LAW_H
#define SHIM_CORE_LAW_H

#include "message.h"
#include "types.h"

#define SHIM_KNOBS_MAX 16

/* A parameter of a law. */
struct shim_knob {
	const char *name;	/* lower case, words joined by '-' */
	const char *unit;	/* "ns", "ppm of capacity", ... */
	const char *help;	/* what it does and what 0 means */
	const char *source;	/* paper and section, or "ours" */
	u64 value;		/* default */
	u64 min;		/* smallest value accepted */
	u64 max;		/* largest value accepted */
};

/* What the shim knows of the limiter a law steers; rates in bytes/s. */
struct shim_law_input {
	u64 now_ns;		/* monotonic */
	u64 period_ns;		/* T: time between calls of on_period */
	u64 capacity;		/* C of the uplink */
	u64 share;		/* E(i): the upper bound of the rate */
	u64 min;		/* the VM's guarantee; the lower bound */
	u64 sent_rate;		/* measured over the last period */
	u32 weight;		/* of the VM */
	const u64 *knobs;	/* values, in the order of law->knobs */
};

/* State of one limiter under any law. */
struct shim_law_state {
	u64 rate;		/* R(i,j), bytes/s: the result */
	u64 message_ns;		/* time of the last message that carried marks; 0: never */
	u32 weight_total;	/* of the last message; 0: unknown */
	bool congested;		/* a message came less than T_c ago */
	u64 memory[4];		/* whatever else the law keeps */
};

/* A law. */
struct shim_law {
	const char *name;
	const struct shim_knob *knobs;
	u32 n_knobs;
	u64 period_ns;		/* default T */
	/* Starts a limiter: called when a VM becomes active on an uplink. */
	void (*init)(struct shim_law_state *state, const struct shim_law_input *input);
	/* Called for each packet sent, received; NULL when the law does not care. */
	void (*on_tx)(struct shim_law_state *state, const struct shim_law_input *input, u32 len);
	void (*on_rx)(struct shim_law_state *state, const struct shim_law_input *input, u32 len,
		      bool ce);
	/* Called for each accepted message. */
	void (*on_message)(struct shim_law_state *state, const struct shim_law_input *input,
			   const struct shim_message *message);
	/* Called every T, and at once when share, min or capacity changed. */
	void (*on_period)(struct shim_law_state *state, const struct shim_law_input *input);
};

extern const struct shim_law shim_law_static;
extern const struct shim_law shim_law_sdngcc;

/* Returns the law of that name, NULL if there is none. */
const struct shim_law *shim_law_find(const char *name);

/* Returns the i-th law, NULL past the last. */
const struct shim_law *shim_law_at(u32 i);

/* Returns the index of a knob, -1 if the law has none of that name. */
int shim_knob_find(const struct shim_law *law, const char *name);

#endif
