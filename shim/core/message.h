/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Control messages v0 (the paper's form), v1 and v2 (ours); docs/protocol.md has the layout.
 */
#ifndef SHIM_CORE_MESSAGE_H
#define SHIM_CORE_MESSAGE_H

#include "siphash.h"
#include "types.h"

#define SHIM_MESSAGE_V0_BYTES 2
#define SHIM_MESSAGE_V1_BYTES 96

/* A v2 message: entries that it may have, bytes of one, and of the message without and with all. */
#define SHIM_MESSAGE_ENTRIES 32
#define SHIM_MESSAGE_ENTRY_BYTES 40
#define SHIM_MESSAGE_V2_BYTES 56
#define SHIM_MESSAGE_MOST_BYTES 1336

/* Where a v1 or v2 message has the address of the VM that it is for. */
#define SHIM_MESSAGE_VM_AT 16
#define SHIM_MESSAGE_MAGIC 0x5347	/* "SG" */
#define SHIM_MESSAGE_PROTOCOL 253	/* default IP protocol, RFC 3692 */

/* Types of a v1 message; v2 knows the first two. */
enum shim_message_type {
	SHIM_MESSAGE_MARKS = 1,	/* marks counted at a congestion point */
	SHIM_MESSAGE_RATE = 2,	/* an explicit rate, of a controller */
	SHIM_MESSAGE_REPORT = 3,	/* what a peer's shim received, or what it grants */
	SHIM_MESSAGE_LEVEL = 4,	/* what the VM has by weight at a congestion point */
};

/* What the prefix of an entry is compared with. */
enum shim_message_scope {
	SHIM_SCOPE_DESTINATION,	/* the destination of packets */
	SHIM_SCOPE_TUNNEL,	/* the far end of the tunnel that they go into */
};

/*
 * What a teller says of a part of what the VM sends: that to addresses whose first bits are those
 * of the prefix.
 */
struct shim_message_entry {
	u64 teller;		/* congestion point, or controller; not 0 */
	u64 rate;		/* explicit rate, bytes/s, SHIM_RATE_MIN to _MAX; 0: none */
	u8 prefix[16];		/* IPv6 or IPv4-mapped; bits that do not count are 0 */
	u32 weight_total;	/* sum of weights sharing the point; 0: unknown */
	u32 marks;		/* this part's of the marks */
	u32 interval_ns;	/* time over which they were counted; 0: unknown */
	u8 bits;		/* of the prefix that count, 0 to 128; 0: the rest */
	u8 scope;		/* enum shim_message_scope */
};

/*
 * A message in host order.  A report knows no congestion point: its numbers stand there.  Of v2,
 * which has no peer, rate is that of all that the VM sends, marks is the sum over its entries.
 */
struct shim_message {
	u8 vm[16];		/* VM told, IPv6 or IPv4-mapped */
	u8 peer[16];		/* its destination behind the point; a report's source */
	union {
		u64 point_datapath;	/* congestion point: OpenFlow datapath id ... */
		u64 bytes;	/* report: received from the VM over the interval */
	};
	u64 interval_ns;	/* time over which marks were counted; 0: unknown */
	u64 rate;		/* explicit, or a level, bytes/s, SHIM_RATE_MIN to _MAX; 0: none */
	union {
		u32 point_port;	/* ... and port number */
		u32 lost;	/* report: packets missing among those from the VM */
	};
	u32 marks;		/* this VM's part of the marks; report: packets with CE */
	union {
		u32 weight_total;	/* sum of weights sharing the point; 0: unknown */
		u32 packets;	/* report: received from the VM over the interval */
	};
	u32 sender;		/* id of the sender, chosen by the operator */
	u32 epoch;		/* start of the sender, seconds since 1970 */
	u32 sequence;		/* of the sender, over all VMs, from 1 */
	u16 flags;		/* none defined: 0 */
	u8 version;		/* 0, 1 or 2 */
	u8 type;		/* enum shim_message_type */
	u8 entries;		/* v2: 1 to SHIM_MESSAGE_ENTRIES; else 0 */
	u8 bits;		/* of one entry, as laws are told: of its prefix */
	bool lowest;		/* the same: raises nothing that its teller told lately */
	u64 teller;		/* the same: who tells; 0: a message of all that a VM sends */
};

/* Why a message was refused; SHIM_MESSAGE_OK is 0. */
enum shim_message_error {
	SHIM_MESSAGE_OK,
	SHIM_MESSAGE_SHORT,	/* fewer bytes than its form needs */
	SHIM_MESSAGE_FORM,	/* magic, version, type, length, flags or a field out of range */
	SHIM_MESSAGE_TAG,	/* SipHash tag wrong */
	SHIM_MESSAGE_REPLAY,	/* sequence seen before, too old, or an older epoch */
};

/* Writes the 96 bytes of a v1 message with its tag. */
void shim_message_encode(u8 out[SHIM_MESSAGE_V1_BYTES], const struct shim_message *message,
			 const u8 key[SHIM_KEY_BYTES]);

/*
 * Reads a v1 or v2 message and checks form and tag, entries included; *message is meaningful only
 * on SHIM_MESSAGE_OK.
 */
enum shim_message_error shim_message_decode(struct shim_message *message, const u8 *data,
					    size_t len, const u8 key[SHIM_KEY_BYTES]);

/* Reads the i-th entry of a v2 message whose form is right. */
void shim_message_entry(struct shim_message_entry *entry, const u8 *data, u32 i);

/* Reads a v0 message, marks from the 2-byte payload: laboratory build. */
enum shim_message_error shim_message_decode_v0(struct shim_message *message, const u8 *data,
					       size_t len);

/* Senders that a host knows at a time. */
#define SHIM_REPLAY_SENDERS 16

/* Words of 64 sequences that a host remembers of each sender. */
#define SHIM_REPLAY_WORDS 16

/* How far a sender came. */
struct shim_replay_mark {
	u32 sender;		/* its id */
	u32 epoch;		/* its start, seconds since 1970; 0: the mark is free */
	u32 top;		/* highest sequence accepted in that epoch */
	u32 used;		/* clock of the table at its last message */
};

/* Replay protection of a host, for all its VMs; zero-initialised. */
struct shim_replay {
	struct shim_replay_mark marks[SHIM_REPLAY_SENDERS];	/* of senders, in no order */
	u64 windows[SHIM_REPLAY_SENDERS][SHIM_REPLAY_WORDS];	/* bit k: top - k was seen */
	u32 floor;		/* an unknown sender must show a later epoch than this */
	u32 clock;		/* messages accepted, to find the sender that is silent longest */
};

/* What a pair of a VM and a peer remembers of the sender that it listens to. */
struct shim_replay_slot {
	struct shim_replay_mark mark;	/* how far it came; used means nothing here */
	u64 window;		/* bit k: sequence top - k was seen */
};

/* Senders of reports that a host knows at a time: 2,048, in sets that are found by the id. */
#define SHIM_REPORTER_SETS 256
#define SHIM_REPORTERS_A_SET 8

/* How far the senders of reports came, for all VMs of a host; zero-initialised. */
struct shim_reporters {
	struct shim_replay_mark marks[SHIM_REPORTER_SETS][SHIM_REPORTERS_A_SET];
	u32 floors[SHIM_REPORTER_SETS];	/* an unknown sender must show a later epoch than this */
	u32 clock;		/* reports accepted, to find the sender that is silent longest */
};

/* Accepts a message once: SHIM_MESSAGE_OK and remembers it, or SHIM_MESSAGE_REPLAY. */
enum shim_message_error shim_replay_check(struct shim_replay *replay,
					  const struct shim_message *message);

/*
 * Tells whether a message was sent after all that SHIM_REPLAY_SENDERS marks tell of its sender;
 * true if they tell nothing.
 */
bool shim_replay_beyond(const struct shim_replay_mark *marks, const struct shim_message *message);

/*
 * As shim_replay_check() for a report to a pair of a VM and a peer, whose slot may be new: it knows
 * the sender's sequences from the first report on that the pair accepts.
 */
enum shim_message_error shim_replay_check_report(struct shim_reporters *reporters,
						 struct shim_replay_slot *slot,
						 const struct shim_message *report);

#endif
