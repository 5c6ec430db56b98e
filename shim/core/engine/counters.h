/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Everything the engine counts of a VM; one counter for each way a packet or a message ends.
 */
#ifndef SHIM_CORE_ENGINE_COUNTERS_H
#define SHIM_CORE_ENGINE_COUNTERS_H

#include "../types.h"

/* Counters of a VM, packets unless said otherwise. */
enum shim_counter {
	SHIM_COUNTER_NONE,		/* counts nothing */
	SHIM_RX_PACKETS,		/* from uplinks */
	SHIM_RX_BYTES,			/* bytes */
	SHIM_RX_CE,			/* arrived with CE */
	SHIM_RX_CE_LOST,	/* of these, hidden: a flow with ECN was lost for want of room */
	SHIM_RX_RESTORED,		/* ECN field given back as the sender's VM meant it */
	SHIM_RX_WINDOWS,		/* ACKs whose receive window was made smaller */
	SHIM_TX_CE_CLEARED,		/* sent with CE by the VM, left as ECT(0) */
	SHIM_DROP_SEGMENT,		/* GSO packet could not be cut */
	SHIM_DROP_MEMORY,		/* no memory for a writable header or a limiter */
	SHIM_DROP_FORGED,		/* control message sent by the VM */
	SHIM_DROP_SOURCE,		/* source address that no host can have */
	SHIM_DROP_SPOOFED,		/* source address of another port, or not of this one's */
	SHIM_DROP_PEER,			/* over the rate to its peer */
	SHIM_DROP_SHARED,		/* over the rate shared by packets without a peer */
	SHIM_DROP_UNANSWERED,		/* over the rate shared by packets nobody answers */
	SHIM_DROP_SIZE,			/* GSO packet whose parts exceed the uplink's MTU */
	SHIM_DROP_PATH,			/* over the rate of its path */
	SHIM_DROP_POLICE,		/* over the VM's rate; counted by the limiter */
	SHIM_DROP_HORIZON,		/* would wait too long; counted by the limiter */
	SHIM_DROP_WAITING,		/* too many wait already; counted by the limiter */
	SHIM_MESSAGES,			/* control messages obeyed */
	SHIM_MESSAGES_OTHER_KEY,	/* of these and of reports, signed with the other key */
	SHIM_MARKS,			/* marks they carried */
	SHIM_REFUSED_SHORT,		/* truncated */
	SHIM_REFUSED_FORM,		/* malformed, or v0 while not accepted */
	SHIM_REFUSED_TAG,		/* bad tag, or no key set */
	SHIM_REFUSED_REPLAY,		/* seen before, or too old to tell */
	SHIM_REFUSED_ADDRESS,		/* its VM is neither the packet's destination nor this */
	SHIM_REFUSED_PEER,		/* report of an address the VM does not talk to */
	SHIM_REFUSED_LAW,		/* not for the VM's law */
	SHIM_REFUSED_PORT,		/* for an address that this VM does not own */
	SHIM_REFUSED_ORIGIN,		/* came by a port that may carry none */
	SHIM_REPORTS,			/* reports of peers' shims obeyed */
	SHIM_REPORT_BYTES,		/* bytes of them */
	SHIM_REPORTS_SENT,		/* reports sent to peers' shims */
	SHIM_REPORT_BYTES_SENT,		/* bytes of them */
	SHIM_REPORTS_UNSENT,		/* not sent: uplink gone, no way known, or no memory */
	SHIM_REPORTS_NO_KEY,		/* not sent: no key is set */
	SHIM_REPORTS_DEFERRED,		/* periods in which a report waited for its rate */
	SHIM_REPORTS_OVERDUE,		/* seconds in which a peer left packets unanswered */
	SHIM_PEERS_FULL,	/* packets without a peer of their own: the VM has its most */
	SHIM_PEERS_NO_MEMORY,		/* the same: no memory for one */
	SHIM_PEERS_COLLECTED,		/* peers forgotten because nothing came or went */
	SHIM_PEERS_EVICTED,		/* peers forgotten to make room for others */
	SHIM_PATHS_FULL,		/* entries of messages that bound the rest: no room */
	SHIM_PATHS_NO_MEMORY,		/* the same: no memory */
	SHIM_FLOWS_FULL,		/* segments without a connection: the VM has its most */
	SHIM_FLOWS_NO_MEMORY,		/* the same: no memory for one */
	SHIM_FLOWS_COLLECTED,		/* connections forgotten because nothing came or went */
	SHIM_FLOWS_EVICTED,		/* connections forgotten to make room for others */

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
