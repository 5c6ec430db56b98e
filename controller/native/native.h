/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the controller computes in C, as Python calls it (native/__init__.py has the same
 * layouts).
 *
 * Nothing here keeps state, allocates memory or calls the system.  Numbers in control messages
 * are in network order; everything else is the machine's own.
 */
#ifndef SDNGCC_CONTROLLER_NATIVE_H
#define SDNGCC_CONTROLLER_NATIVE_H

#include "types.h"

/* Bytes of an entry of a v2 message, and how many entries a message has at most. */
#define NATIVE_ENTRY_BYTES 40
#define NATIVE_ENTRIES_MAX 32

/*
 * What one machine is told, in one message, or in several of version 2 where there are more
 * entries than fit.
 */
struct native_notice {
	u64 rate;		/* of all that the machine sends, bytes/s; 0: not told */
	u64 interval_ns;	/* time over which marks were counted; 0: unknown */
	u64 datapath;		/* of the congestion point ... */
	u32 port;		/* ... and its port */
	u32 weight_total;	/* weights of all who share the point; 0: unknown */
	u32 marks;		/* that the machine is told of */
	u32 epoch;		/* of the sender, s since 1970 */
	u32 first;		/* of the machine's entries, by number ... */
	u32 end;		/* ... and the one after its last */
	u32 front;		/* where the bytes begin that go in front of each message ... */
	u32 front_bytes;	/* ... and how many: 0, or a packet-out of an empty payload */
	u8 version;		/* 0, 1 or 2 */
	u8 type;		/* 1: marks, 2: a rate */
	u8 unused[6];
	u8 vm[16];		/* address of the machine */
	u8 peer[16];		/* address of one of its destinations */
};

/*
 * Writes SipHash-2-4 of count texts, which stand one behind the other and end at ends, under a
 * key of 16 bytes.
 */
void native_tags(const u8 *key, const u8 *texts, const u64 *ends, size_t count, u64 *tags);

/*
 * Writes the messages of count notices to out, each behind its front and sealed under a key of 16
 * bytes, numbered from sequence on, and to ends where each message ends.  Returns how many
 * messages there are.
 */
size_t native_compose(const struct native_notice *notices, size_t count, const u8 *fronts,
		      const u8 *entries, const u8 *key, u32 sender, u32 sequence, u8 *out,
		      u64 *ends);

/* Basins whose members stand one behind the other; none is empty. */
struct native_basins {
	const double *slopes;		/* by member, above 0 */
	const double *lows;		/* by member, bytes/s */
	const double *highs;		/* by member, bytes/s, finite and no less than its low */
	const u64 *starts;		/* by basin, its first member */
	const double *capacities;	/* by basin, bytes/s */
	size_t members;			/* of all basins */
	size_t count;			/* of basins */
};

/* Writes the level of each basin. */
void native_levels(const struct native_basins *all, double *levels);

/* Writes what the basin of each member would let it take if it alone wanted more, bytes/s. */
void native_grants(const struct native_basins *all, double *grants);

/* Entries of ports, in columns: a row for each (rates/paths/table.py); rates in bytes/s. */
struct native_rows {
	const s64 *numbers;	/* of entries, 0 and above */
	const double *parts;	/* of its bytes that leave by the port, above 0 */
	double *lows;		/* floors */
	u8 *states;		/* what holds it, as last read */
	u8 *quiet;		/* readings in a row that were idle, up to terms.window */
	double *sent;		/* by its machine to its destination, as last read */
	double *before;		/* what it sent in the reading before */
	double *peaks;		/* the most that it sent, fading */
	double *granted;	/* 0: nothing yet */
	double *moved;		/* logarithm of the factor by which the grant moved last */
	double *damping;	/* part of each step of the grant that is not taken */
	double *offers;		/* what it may have now */
	double *told;		/* 0: nothing */
	double *former;		/* what was told before that */
	s64 *told_ns;		/* when it was told last, by the controller's clock */
};

/* How rows stand: those of a port together, in them those of a tenant, then of a machine. */
struct native_sharing {
	const u64 *machine_starts;	/* by machine at a port, its first entry */
	const u64 *group_starts;	/* by tenant at a port, its first machine */
	const u64 *port_groups;		/* by port, its first tenant */
	const double *weights;		/* of machines, above 0 */
	const double *group_weights;	/* of tenants, above 0 */
	double *scratch;		/* room for three numbers of each of the next three */
	size_t entries;
	size_t machines;
	size_t groups;			/* tenants */
	size_t ports;
	u64 alone;			/* each tenant is one machine */
};

/* The law's numbers (rates/paths/ports.py says what each is). */
struct native_terms {
	double margin;		/* of what idle entries sent, what they want */
	double standby;		/* of a grant, what idle entries are told at least */
	double damping;		/* of what is left of a step, each time that it turns back */
	double easing;		/* of the damping, each time that it does not */
	double rise;		/* of what was told: changes worth a message ... */
	double fall;
	double loose_rise;	/* ... and of what does not hold its entry */
	double loose_fall;
	double holds;		/* of what is told: who sends more is held by it */
	double off;		/* of what was told: by so much other rates did not hear it */
	double rounding;	/* logarithm of a step that is none */
	double rate_min;	/* bytes/s, above 0 */
	double rate_max;	/* bytes/s */
	double binding;		/* of a rate in force: who sends more is bound by it */
	double held;		/* of a path's rate: who sends less is held by another one */
	double same;		/* of a rate: one that differs by less is the same */
	double fading;		/* of what was sent, each reading */
	s64 refresh_ns;		/* after which all is told again, at most */
	s64 patience_ns;	/* in which what was told shows in what is sent */
	s64 window;		/* readings */
	s64 idle;		/* a state ... */
	s64 here;		/* ... another one ... */
	s64 elsewhere;		/* ... and the third */
};

/*
 * Shares what engaged ports may carry, bytes/s above 0, among their rows, and takes it as told to
 * those who are due.  Writes the rows of these, in their order, and returns how many there are.
 */
size_t native_share(const struct native_rows *rows, const struct native_sharing *sharing,
		    const struct native_terms *terms, const double *allowed, const u8 *engaged,
		    s64 now_ns, u64 *due);

/* Bytes of an entry of VM_STATE and of HOST_PATHS. */
#define NATIVE_STATE_BYTES 96
#define NATIVE_PATH_BYTES 72

/* Entries of bridges' answers, and what they stand for. */
struct native_answers {
	const u8 *text;		/* all entries, those of a bridge together */
	const u64 *counts;	/* by bridge, how many there are */
	const s64 *numbers;	/* by entry, of all bridges: its machine or part; -1: none */
	const s64 *times_ns;	/* by bridge, when the answer came, by the controller's clock */
	size_t count;		/* of bridges */
};

/* Machines, in columns by number (rates/paths/readings.py); rates in bytes/s. */
struct native_machines {
	double *sent;
	double *rate;		/* in force, of all that it sends */
	double *share;
	double *low;		/* guarantee */
	double *high;		/* ceiling; 0: none */
	double *left;		/* of what it sent, what no path counted */
	u64 *drops;		/* packets that its own bucket held back */
	s64 *read_ns;		/* when what it told last came */
	s64 *uncounted;		/* parts that no path counted */
	u8 *bound;		/* could send more than its own bucket lets through */
	u8 *limited;		/* one of its paths holds packets back */
	u8 *bounded;		/* one of its paths bounds what it sends */
	u8 *fresh;		/* told something since it was read last */
	const s64 *firsts;	/* its first part; -1: none */
};

/* Parts of what machines send, in columns by number; rates in bytes/s. */
struct native_parts {
	const s64 *members;	/* its machine; -1: there is no such part */
	const s64 *nexts;	/* the next part of its machine; -1: none */
	double *counted;	/* what its paths counted */
	double *rates;		/* in force, if it is bound by it; infinite: it is not */
	double *sent;
	double *lows;		/* floors */
	const double *shares;	/* of its machine's bytes, as counters of flows say */
	u8 *there;		/* its shim has a path for it */
	u8 *seen;		/* it had one in the reading before */
};

/* How a machine takes what it is told, as its bridge counts. */
struct native_heard {
	u64 bridge;		/* which one of those that answered */
	u32 port;
	u32 messages;		/* accepted */
	u32 refused;
	u32 unused;
};

/*
 * Tells of two answers to VM_STATE of each of count bridges, with as many entries, whether
 * machines are others or share otherwise in the first one, and writes of all others how those
 * hear whose counters moved.  Answers stand one behind the other.  Returns how many these are.
 */
size_t native_compare_states(const u8 *first, const u8 *second, const u64 *counts, size_t count,
			     u8 *changed, struct native_heard *heard);

/* Which machine and which part rows are of. */
struct native_owners {
	const s64 *members;
	const s64 *parts;	/* -1: of all that the machine sends ... */
	const u8 *states;	/* ... which this is what holds it then */
	size_t count;		/* of rows */
};

/*
 * Takes what bridges told of their machines, and writes the numbers of those that told something
 * since they were read last.  Returns how many there are.
 */
size_t native_read_states(const struct native_answers *answers,
			  const struct native_machines *machines, const struct native_terms *terms,
			  s64 *fresh);

/*
 * Tells of two answers of each of count bridges, with as many entries, whether they are of the
 * same paths; machines are known by the number of 32 bits at byte who of an entry.  Answers stand
 * one behind the other.
 */
void native_same_paths(const u8 *first, const u8 *second, const u64 *counts, size_t count,
		       size_t who, u8 *same);

/* Takes what bridges told of the paths of their machines. */
void native_read_paths(const struct native_answers *answers, const struct native_machines *machines,
		       const struct native_parts *parts, const struct native_terms *terms);

/* Finds of count machines how many parts no path counted, and what these sent. */
void native_count_parts(const struct native_machines *machines, const struct native_parts *parts,
			const s64 *numbers, size_t count);

/*
 * Finds what all parts of count machines sent and, of the machines' guarantees, their floors.
 * There is room for three numbers of each part of the machine that has most.
 */
void native_divide_parts(const struct native_machines *machines, const struct native_parts *parts,
			 const struct native_terms *terms, const double *guarantees,
			 const s64 *numbers, size_t count, double *room);

/* Gives rows the readings of their machines, where these are fresh. */
void native_read_rows(const struct native_rows *rows, const struct native_owners *owners,
		      const struct native_machines *machines, const struct native_parts *parts,
		      const struct native_terms *terms, const double *guarantees, s64 decided_ns);

/* Readings of some rows, in columns. */
struct native_readings {
	const s64 *places;	/* of the rows */
	const double *sent;
	const u8 *states;
	const double *lows;
	size_t count;
};

/* Gives rows readings. */
void native_read(const struct native_rows *rows, const struct native_terms *terms,
		 const struct native_readings *readings);

/*
 * Writes what holds rows with these rates in force, bytes/s: HERE, ELSEWHERE, or IDLE where they
 * are not limited.
 */
void native_judge(const struct native_rows *rows, const struct native_terms *terms,
		  const s64 *places, const double *limits, const u8 *limited, size_t count,
		  s64 decided_ns, u8 *states);

#endif
