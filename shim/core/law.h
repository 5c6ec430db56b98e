/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What a control law is: a table of functions that turns feedback into the rate of one limiter.
 *
 * A law allocates nothing, and has no lock and no clock.  The caller serialises calls on one
 * struct shim_limiter_state and applies state->rate to the bucket afterwards; the same goes for a
 * struct shim_peer_state and the bucket of packets to that peer, for laws that want peers.  A
 * packet to a peer passes both buckets.
 *
 * What only the law knows of a limiter, a peer or a flow is a struct of the law's own, of
 * limiter_size, peer_size or flow_size bytes, right behind the common one.  The caller provides the
 * room for both, sets all of it to 0 and then calls init, peer_init or shim_flow_init(), at the
 * start and whenever the law is to begin anew.
 *
 * A law that takes no heed of peers costs packets nothing: on_tx and on_rx are called only for
 * laws with SHIM_LAW_PEERS.
 */
#ifndef SHIM_CORE_LAW_H
#define SHIM_CORE_LAW_H

#include "flow.h"
#include "message.h"
#include "types.h"

#define SHIM_KNOBS_MAX 18

/* The most that a law may say in shim_limiter_state.burst, bytes. */
#define SHIM_BURST_MAX 16777216

/* Tellers that a law can heed at a time, of one VM or path. */
#define SHIM_TELLERS_MAX 8

/* What a law wants the caller to keep or measure: bits of shim_law.wants. */
#define SHIM_LAW_PEERS 1	/* a state for each address a VM talks to */
#define SHIM_LAW_FLOWS 2	/* a state for each TCP connection of a VM */
#define SHIM_LAW_RECEIVER 4	/* rx_rate and rx_share; a limiter for VMs that only receive, too */
#define SHIM_LAW_ECN 8		/* with FLOWS: Not-ECT to stay, but for segments without payload */

/*
 * Packets that leave id and echo as they are, and of which on_tx, or on_rx, may be told later, of
 * some at once: bits of shim_law.lends.  Sent ones wait_ns is 0 of; received ones have no mark and
 * no echo.
 */
#define SHIM_LENDS_SENT 1
#define SHIM_LENDS_RECEIVED 2

/* What a guest that uses ECN is told of congestion by a packet it receives. */
enum shim_told {
	SHIM_TOLD_FABRIC,	/* what the fabric's marks say */
	SHIM_TOLD_NOTHING,	/* that there is none: no CE */
	SHIM_TOLD_CE,		/* CE */
};

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
	u64 share;		/* E(i): the upper bound of the rate; by demand where laws say it */
	u64 min;		/* the VM's guarantee; the lower bound */
	u64 sent_rate;		/* measured over the last period */
	u64 max;		/* the VM's ceiling; 0: none */
	u64 rx_rate;		/* of the VM, measured over the last period */
	u64 horizon_ns;		/* longest that a packet waits for its rate; 0: it does not */
	u64 rx_share;		/* of the VM among those that receive, by weight and guarantee */
	u64 rx_least;		/* of rx_share the VM's own, whatever it demands; 0: unknown */
	u32 frame;		/* on the wire, of the VM's full packets, bytes: for a mark */
	u32 rx_frame;		/* the same of what it receives */
	u32 peers;		/* peers of the VM that sent or received in the last period */
	bool peers_left;	/* some have had no step since the last call of on_period */
	u32 peer_weight;	/* set by the operator for this peer; 0: none */
	u32 weight;		/* of the VM */
	const u64 *knobs;	/* values, in the order of law->knobs */
};

/* State of one limiter under any law; the law's own is behind it. */
struct shim_limiter_state {
	u64 rate;		/* R(i,j), bytes/s: the result */
	u64 demand;		/* what the VM could send, bytes/s: a result; 0: whatever it may */
	u64 rx_demand;		/* the same of what it could receive */
	u64 message_ns;		/* time of the last message that carried marks; 0: never */
	u32 weight_total;	/* of the last message; 0: unknown */
	u32 burst;		/* K: the bucket is deeper by so many bytes than set: a result */
	bool congested;		/* a message came less than T_c ago */
};

/*
 * State of what one VM exchanges with one address, under a law that wants peers; the law's own is
 * behind it.
 */
struct shim_peer_state {
	u64 rate;		/* bytes/s to this peer; 0: only the VM's own rate bounds it */
};

/* Returns what the law itself keeps of a limiter. */
static inline void *shim_limiter_own(struct shim_limiter_state *state)
{
	return state + 1;
}

/* Returns what the law itself keeps of a limiter, to be read. */
static inline const void *shim_limiter_own_const(const struct shim_limiter_state *state)
{
	return state + 1;
}

/* Returns what the law itself keeps of a peer. */
static inline void *shim_peer_own(struct shim_peer_state *peer)
{
	return peer + 1;
}

/* Returns what the law itself keeps of a peer, to be read. */
static inline const void *shim_peer_own_const(const struct shim_peer_state *peer)
{
	return peer + 1;
}

/* Returns what the law itself keeps of a flow. */
static inline void *shim_flow_own(struct shim_flow *flow)
{
	return flow + 1;
}

/* Returns what the law itself keeps of a flow, to be read. */
static inline const void *shim_flow_own_const(const struct shim_flow *flow)
{
	return flow + 1;
}

/* A packet as a law sees it; a GSO or GRO packet counts as the packets it stands for. */
struct shim_law_packet {
	u64 now_ns;		/* monotonic */
	const u64 *knobs;	/* values, in the order of law->knobs */
	u64 wait_ns;		/* sent: time it stays in the buckets */
	u64 room_ns;		/* sent: longest such time, what would wait longer is dropped */
	enum shim_told told;	/* received: a result */
	u32 bytes;		/* on the wire */
	u32 packets;		/* 1 but for GSO and GRO */
	u32 marks;		/* received: packets that carry CE */
	u16 id;			/* IPv4 identification of the first packet, the others count up */
	bool id_free;		/* id may be read and written: IPv4, no fragment, DF set */
	bool echo_free;		/* echo may be read and written: IPv4, no fragment */
	bool echo;		/* the reserved bit of the IPv4 header */
};

/* A law. */
struct shim_law {
	const char *name;
	const struct shim_knob *knobs;
	u32 n_knobs;
	u32 wants;		/* SHIM_LAW_* */
	const struct shim_knob *flows_knob;	/* 0 means that no flows are wanted; NULL: none */
	u32 lends;		/* SHIM_LENDS_* */
	bool obeys_rates;	/* messages of SHIM_MESSAGE_RATE mean something to it */
	bool obeys_levels;	/* messages of SHIM_MESSAGE_LEVEL do */
	u64 period_ns;		/* default T */
	u32 limiter_size;	/* bytes of its own behind a struct shim_limiter_state; 0: none */
	u32 peer_size;		/* the same behind a struct shim_peer_state */
	u32 flow_size;		/* the same behind a struct shim_flow */
	/* Starts a limiter, all 0 so far: called when a VM becomes active on an uplink. */
	void (*init)(struct shim_limiter_state *state, const struct shim_law_input *input);
	/* Called for each accepted message of a controller; NULL: they mean nothing to it. */
	void (*on_message)(struct shim_limiter_state *state, const struct shim_law_input *input,
			   const struct shim_message *message);
	/*
	 * Called every T, and at once when share, min or capacity changed; peers_left: before all
	 * peers have had their step.
	 */
	void (*on_period)(struct shim_limiter_state *state, const struct shim_law_input *input);

	/*
	 * Of laws that steer paths, parts of what a VM sends: such a part has a limiter's state,
	 * and on_message and on_period are called for it as well.  Starts it, all 0 so far.  NULL:
	 * the law steers no paths.
	 */
	void (*path_init)(struct shim_limiter_state *state, const struct shim_law_input *input);
	/* Tells whether a path may have all of the VM's share and nothing be known of it. */
	bool (*path_rests)(const struct shim_limiter_state *state,
			   const struct shim_law_input *input);
	/* Called for a VM's own limiter when rates of paths were told; NULL: nothing to do. */
	void (*on_paths)(struct shim_limiter_state *state, const struct shim_law_input *input);

	/*
	 * Of laws that want peers.  A peer is made by the first packet either way, and is all 0
	 * before peer_init.  `state` is the limiter of the VM on the uplink that leads to the
	 * peer; NULL if the VM never sent.
	 */
	void (*peer_init)(struct shim_peer_state *peer, const struct shim_law_input *input);
	/*
	 * Called for each packet that passed the buckets, before it leaves; may write id, echo, and
	 * leaves the peer's rate as it is.
	 */
	void (*on_tx)(struct shim_peer_state *peer, struct shim_law_packet *packet);
	/*
	 * Called for each packet received, before the VM gets it; may write id, echo, and leaves
	 * the peer's rate as it is.
	 */
	void (*on_rx)(struct shim_peer_state *peer, struct shim_law_packet *packet);
	/*
	 * Tells whether on_tx would leave echo as it is until the next mark comes.  NULL: with
	 * SHIM_LENDS_SENT it does.
	 */
	bool (*echoes_nothing)(const struct shim_peer_state *peer, const u64 *knobs);
	/* Called for each accepted report of the peer's shim. */
	void (*on_report)(struct shim_peer_state *peer, struct shim_limiter_state *state,
			  const struct shim_law_input *input, const struct shim_message *report);
	/*
	 * Called every T after on_period of the VM, for each peer that does not rest.  True: send
	 * the peer's shim *report, of which the law fills what SHIM_MESSAGE_REPORT carries.  report
	 * NULL: none can leave now; true: one is due, and the law keeps what it is to say for the
	 * next.  A report without packets and rate says nothing, and on_report takes it so.
	 */
	bool (*on_peer_period)(struct shim_peer_state *peer, struct shim_limiter_state *state,
			       const struct shim_law_input *input, struct shim_message *report);
	/*
	 * Tells whether calls of on_peer_period would change nothing until a packet or a report
	 * comes, so that there need be none.  NULL: so it is after T_o of silence.
	 */
	bool (*peer_rests)(const struct shim_peer_state *peer, const struct shim_law_input *input);

	/*
	 * Of laws that want flows.  Called for each TCP segment of the VM before the buckets, and
	 * for each that arrives from an uplink for it; both follow the flow, and may write what
	 * struct shim_segment says.
	 */
	void (*on_segment_out)(struct shim_flow *flow, struct shim_segment *segment);
	void (*on_segment_in)(struct shim_flow *flow, struct shim_segment *segment);
	/*
	 * Called every T, or less often where there are many, after on_peer_period, for each flow
	 * through that limiter.  `peer` is where it leads; NULL if the law wants no peers, or
	 * there is no room for this one.
	 */
	void (*on_flow_period)(struct shim_flow *flow, struct shim_peer_state *peer,
			       struct shim_limiter_state *state,
			       const struct shim_law_input *input);
};

extern const struct shim_law shim_law_static;
extern const struct shim_law shim_law_sdngcc;
extern const struct shim_law shim_law_maxmin;
extern const struct shim_law shim_law_scc;
extern const struct shim_law shim_law_vcc;
extern const struct shim_law shim_law_seawall;
extern const struct shim_law shim_law_hygenicc;
extern const struct shim_law shim_law_eyeq;
extern const struct shim_law shim_law_elasticswitch;

#ifndef __KERNEL__
/* Returns the law of that name, NULL if there is none; the kernel names laws by their place. */
const struct shim_law *shim_law_find(const char *name);
#endif

/* Returns the i-th law, NULL past the last. */
const struct shim_law *shim_law_at(u32 i);

/* Returns SHIM_LAW_* of what a law wants with these values of its knobs. */
u32 shim_law_wants(const struct shim_law *law, const u64 *values);

/* Returns the bytes of the largest state that a law keeps of a limiter by itself. */
u32 shim_law_limiter_size(void);

/* Returns the same of a peer. */
u32 shim_law_peer_size(void);

/* Returns the same of a flow. */
u32 shim_law_flow_size(void);

/* Returns the index of a knob, -1 if the law has none of that name. */
int shim_knob_find(const struct shim_law *law, const char *name);

#endif
