/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Everything the engine counts of a VM; one counter for each way a packet or a message ends.
 */
#ifndef SHIM_CORE_ENGINE_COUNTERS_H
#define SHIM_CORE_ENGINE_COUNTERS_H

#include "../types.h"

/*
 * Counters of a VM, packets unless said otherwise: name, and the word of traces, NULL if these do
 * not speak of it.
 */
#define SHIM_COUNTERS(X) \
	X(RX_PACKETS, NULL) /* from uplinks */ \
	X(RX_BYTES, NULL) /* bytes */ \
	X(RX_CE, NULL) /* arrived with CE */ \
	X(RX_CE_LOST, NULL) /* of these, hidden: a flow with ECN was lost for want of room */ \
	X(RX_RESTORED, NULL) /* ECN field given back as the sender's VM meant it */ \
	X(RX_WINDOWS, NULL) /* ACKs whose receive window was made smaller */ \
	X(TX_CE_CLEARED, NULL) /* sent with CE by the VM, left as ECT(0) */ \
	X(DROP_SEGMENT, "segment") /* GSO packet could not be cut */ \
	X(DROP_MEMORY, "memory") /* no memory for a writable header or a limiter */ \
	X(DROP_FORGED, "forged") /* control message sent by the VM */ \
	X(DROP_SOURCE, "source") /* source address that no host can have */ \
	X(DROP_SPOOFED, "spoofed") /* source address of another port, or not of this one's */ \
	X(DROP_PEER, "peer") /* over the rate to its peer */ \
	X(DROP_SHARED, "shared") /* over the rate shared by packets without a peer */ \
	X(DROP_UNANSWERED, "unanswered") /* over the rate shared by packets nobody answers */ \
	X(DROP_SIZE, "size") /* GSO packet whose parts exceed the uplink's MTU */ \
	X(DROP_PATH, "path") /* over the rate of its path */ \
	X(DROP_POLICE, "police") /* over the VM's rate; counted by the limiter */ \
	X(DROP_HORIZON, "horizon") /* would wait too long; counted by the limiter */ \
	X(DROP_WAITING, "waiting") /* too many wait already; counted by the limiter */ \
	X(MESSAGES, "obeyed") /* control messages obeyed */ \
	X(MESSAGES_OTHER_KEY, NULL) /* of these and of reports, signed with the other key */ \
	X(MARKS, NULL) /* marks they carried */ \
	X(REFUSED_SHORT, "short") /* truncated */ \
	X(REFUSED_FORM, "form") /* malformed, or v0 while not accepted */ \
	X(REFUSED_TAG, "tag") /* bad tag, or no key set */ \
	X(REFUSED_REPLAY, "replay") /* seen before, or too old to tell */ \
	X(REFUSED_ADDRESS, "address") /* its VM is neither the packet's destination nor this */ \
	X(REFUSED_PEER, "peer") /* report of an address the VM does not talk to */ \
	X(REFUSED_LAW, "law") /* not for the VM's law */ \
	X(REFUSED_PORT, "port") /* for an address that this VM does not own */ \
	X(REFUSED_ORIGIN, "origin") /* came by a port that may carry none */ \
	X(REPORTS, "obeyed") /* reports of peers' shims obeyed */ \
	X(REPORT_BYTES, NULL) /* bytes of them */ \
	X(REPORTS_SENT, NULL) /* reports sent to peers' shims */ \
	X(REPORT_BYTES_SENT, NULL) /* bytes of them */ \
	X(REPORTS_UNSENT, NULL) /* not sent: uplink gone, no way known, or no memory */ \
	X(REPORTS_NO_KEY, NULL) /* not sent: no key is set */ \
	X(REPORTS_DEFERRED, NULL) /* periods in which a report waited for its rate */ \
	X(REPORTS_OVERDUE, NULL) /* seconds in which a peer left packets unanswered */ \
	X(PEERS_FULL, NULL) /* packets without a peer of their own: the VM has its most */ \
	X(PEERS_NO_MEMORY, NULL) /* the same: no memory for one */ \
	X(PEERS_COLLECTED, NULL) /* peers forgotten because nothing came or went */ \
	X(PEERS_EVICTED, NULL) /* peers forgotten to make room for others */ \
	X(PATHS_FULL, NULL) /* entries of messages that bound the rest: no room */ \
	X(PATHS_NO_MEMORY, NULL) /* the same: no memory */ \
	X(FLOWS_FULL, NULL) /* segments without a connection: the VM has its most */ \
	X(FLOWS_NO_MEMORY, NULL) /* the same: no memory for one */ \
	X(FLOWS_COLLECTED, NULL) /* connections forgotten because nothing came or went */ \
	X(FLOWS_EVICTED, NULL) /* connections forgotten to make room for others */

/* One of each, by name. */
enum shim_counter {
	SHIM_COUNTER_NONE,		/* counts nothing */
#define SHIM_COUNTER(name, word) SHIM_##name,
	SHIM_COUNTERS(SHIM_COUNTER)
#undef SHIM_COUNTER

	SHIM_N_COUNTERS
};

/* Tells whether limiters count such drops themselves. */
static inline bool shim_counter_limiter(enum shim_counter drop)
{
	return drop >= SHIM_DROP_POLICE && drop <= SHIM_DROP_WAITING;
}

/* Returns what a trace calls a counter of drops or refusals. */
const char *shim_counter_name(enum shim_counter counter);

#endif
