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
	const double *lows;	/* floors */
	const u8 *states;	/* what holds it, as last read */
	const u8 *quiet;	/* readings in a row that were idle, up to terms.window */
	const double *sent;	/* by its machine to its destination, as last read */
	const double *before;	/* what it sent in the reading before */
	const double *peaks;	/* the most that it sent, fading */
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
	s64 refresh_ns;		/* after which all is told again, at most */
	s64 patience_ns;	/* in which what was told shows in what is sent */
	s64 window;		/* readings */
	s64 here;		/* a state */
	s64 elsewhere;		/* another one */
};

/*
 * Shares what engaged ports may carry, bytes/s above 0, among their rows, and takes it as told to
 * those who are due.  Writes the rows of these, in their order, and returns how many there are.
 */
size_t native_share(const struct native_rows *rows, const struct native_sharing *sharing,
		    const struct native_terms *terms, const double *allowed, const u8 *engaged,
		    s64 now_ns, u64 *due);

#endif
