/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What an operator can set for all VMs of an engine.  Settings in force never change: a new object
 * takes the place of the old one, so that whoever reads them sees one whole set.
 */
#ifndef SHIM_CORE_ENGINE_SETTINGS_H
#define SHIM_CORE_ENGINE_SETTINGS_H

#include "../host.h"
#include "../law.h"
#include "../message.h"

/* Laws that an engine has room for. */
#define SHIM_LAW_SLOTS 16

/* In the place of a law's index: no law, and for a VM the engine's. */
#define SHIM_LAW_NONE (-1)
#define SHIM_LAW_DEFAULT (-2)

/*
 * The most of shim_settings.burst_us: 64 KiB, the largest packet of most senders, at 52 Mb/s.  Who
 * wants all packets whole at less bursts longer than a period of any law.
 */
#define SHIM_BURST_US_MAX 10000U

/* What a pacing bucket lets leave in one go at any rate, bytes: two full packets. */
#define SHIM_BURST_BYTES_MIN (2 * 1514U)

/* What happens to a packet over the rate. */
enum shim_limiter_kind {
	SHIM_LIMITER_POLICE,		/* dropped */
	SHIM_LIMITER_PACE,		/* given a departure time */
};

/* What can be set of one law; kept while another law is in force. */
struct shim_law_settings {
	u64 period_ns;			/* T */
	u64 knobs[SHIM_KNOBS_MAX];	/* values, in the order of law->knobs */
};

/* Plain values; found under RCU. */
struct shim_settings {
	shim_rcu_t rcu;			/* deferred free */
	int law;			/* index of VMs' law, SHIM_LAW_NONE: "none" */
	enum shim_limiter_kind limiter;	/* what happens to a packet over the rate */
	u64 horizon_ns;			/* longest wait of a paced packet */
	u64 inactive_ns;		/* T_o */
	u64 peer_idle_ns;		/* silence after which a peer is collected */
	u32 peers_max;			/* peers a VM may have */
	u32 waiting_max;		/* packets of a VM that may wait on an uplink; 0: any */
	u32 burst_bytes;		/* depth of a policing bucket */
	u32 burst_us;	/* what a rate sends in that time may leave in one go; 0: single segments */
	u8 key[SHIM_KEY_BYTES];	/* SipHash key that signs, and that messages are signed by */
	u8 key_other[SHIM_KEY_BYTES];	/* messages may be signed by it, too */
	u8 protocol;			/* IP protocol of control messages */
	u8 codepoint;			/* SHIM_ECT_ONE or SHIM_ECT_ZERO: of what is made ECT */
	bool key_set;			/* key is valid */
	bool key_other_set;		/* key_other is valid */
	bool accept_v0;			/* unauthenticated messages are obeyed: laboratory */
	bool ecn;			/* Not-ECT packets are made ECT, and given back */
	bool ahead;			/* small packets leave ahead of those that wait */
	bool conversations;	/* VMs have peers under all laws, for whoever reads them */
	struct shim_law_settings laws[SHIM_LAW_SLOTS];	/* by the law's index */
};

/* Fills *settings with what is in force before anybody sets anything. */
void shim_settings_default(struct shim_settings *settings);

#endif
