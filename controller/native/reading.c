// SPDX-License-Identifier: Apache-2.0
/*
 * What bridges told, as readings of the entries of ports (rates/paths/readings.py says what it is
 * for).
 *
 * A machine that sends s is bound when s >= binding * R, with R its rate in force, or when its
 * bucket held packets back.  Part i of it has paths that counted c_i, the lowest of their rates in
 * force is x_i where one of them is bound alike, else x_i is infinite.  A path that is new has
 * counted nothing yet.  So with P the parts that had a path in the reading before, too, and w_i
 * the parts of the machine's bytes as counters of flows have them:
 *
 *	i in P		s_i = c_i
 *	else		s_i = max(0, s - sum over P of c) * w_i / (sum of w over all not in P)
 *
 * The guarantee l of a machine is divided among its parts by water that rises to the level y:
 *
 *	l_i = min(u_i, y)	u_i = l if x_i is finite or the machine bound, else margin * s_i
 *	sum over i of l_i = l	where the u_i do not all fit
 *
 * An entry of part i is held by the path's rate if x_i is finite, but for machines that are bound
 * while s_i < held * x_i: those are held by their own bucket.  A rate is that of the entry's port
 * if it is no lower, by a part of same, than the one that the port told last, or for patience_ns
 * the one before.
 *
 * All numbers are finite but x_i.  Counts are of entries in memory, so no sum of them overflows.
 */
#include <math.h>

#include "filling.h"
#include "native.h"

#define STATE_SHARING 16	/* bytes of VM_STATE: which machine it is and how it shares */
#define STATE_MESSAGES 80		/* where counters of messages are ... */
#define STATE_REFUSED 84		/* ... and of refused ones, the next bytes */
#define STATE_RATE 16		/* where fields of VM_STATE are, from the entry's first byte */
#define STATE_SHARE 24
#define STATE_LOW 32
#define STATE_HIGH 40
#define STATE_SENT 48
#define STATE_DROPS 72
#define PATH_FLAGS 4		/* where fields of HOST_PATHS are */
#define PATH_PREFIX 8
#define PATH_PREFIX_BYTES 18	/* of the prefix, its bits and scope */
#define PATH_RATE 32
#define PATH_SENT 40
#define PATH_LIMITED 1		/* of the flags */

/* Returns the number of 32 bits at p. */
static u32 get32(const u8 *p)
{
	return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3];
}

/* Returns the number of 64 bits at p. */
static u64 get64(const u8 *p)
{
	return (u64)get32(p) << 32 | get32(p + 4);
}

/* Tells whether some bytes differ. */
static bool differ(const u8 *first, const u8 *second, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i++)
		if (first[i] != second[i])
			return true;
	return false;
}

size_t native_compare_states(const u8 *first, const u8 *second, const u64 *counts, size_t count,
			     u8 *changed, struct native_heard *heard)
{
	size_t bridge, found = 0;

	for (bridge = 0; bridge < count; bridge++) {
		size_t before = found;
		u64 row;

		changed[bridge] = 0;
		for (row = 0; row < counts[bridge]; row++) {
			const u8 *p = first + row * NATIVE_STATE_BYTES;
			const u8 *q = second + row * NATIVE_STATE_BYTES;

			if (differ(p, q, STATE_SHARING))
				changed[bridge] = 1;
			if (!differ(p + STATE_MESSAGES, q + STATE_MESSAGES, 8))
				continue;
			heard[found++] = (struct native_heard){
				.bridge = bridge,
				.port = get32(p),
				.messages = get32(p + STATE_MESSAGES),
				.refused = get32(p + STATE_REFUSED),
			};
		}
		if (changed[bridge])
			found = before;
		first += counts[bridge] * NATIVE_STATE_BYTES;
		second += counts[bridge] * NATIVE_STATE_BYTES;
	}
	return found;
}

/* Takes what an entry of VM_STATE tells of machine i. */
static void read_state(const u8 *p, const struct native_machines *machines,
		       const struct native_terms *terms, size_t i)
{
	u64 drops = get64(p + STATE_DROPS);

	machines->sent[i] = (double)get64(p + STATE_SENT);
	machines->rate[i] = (double)get64(p + STATE_RATE);
	machines->share[i] = (double)get64(p + STATE_SHARE);
	machines->low[i] = (double)get64(p + STATE_LOW);
	machines->high[i] = (double)get64(p + STATE_HIGH);
	machines->bound[i] = drops > machines->drops[i] ||
			     machines->sent[i] >= terms->binding * machines->rate[i];
	machines->drops[i] = drops;
}

size_t native_read_states(const struct native_answers *answers,
			  const struct native_machines *machines, const struct native_terms *terms,
			  s64 *fresh)
{
	const s64 *number = answers->numbers;
	const u8 *p = answers->text;
	size_t bridge, count = 0;

	for (bridge = 0; bridge < answers->count; bridge++) {
		u64 row;

		for (row = 0; row < answers->counts[bridge]; row++, p += NATIVE_STATE_BYTES) {
			s64 i = *number++;

			if (i < 0)
				continue;
			machines->limited[i] = 0;
			if (machines->read_ns[i] == answers->times_ns[bridge])
				continue;
			machines->read_ns[i] = answers->times_ns[bridge];
			read_state(p, machines, terms, (size_t)i);
			machines->fresh[i] = 1;
			fresh[count++] = i;
		}
	}
	return count;
}

/* Tells whether two entries of HOST_PATHS are of the same path. */
static bool is_same_path(const u8 *first, const u8 *second, size_t who)
{
	return !differ(first + PATH_PREFIX, second + PATH_PREFIX, PATH_PREFIX_BYTES) &&
	       !differ(first + who, second + who, 4);
}

void native_same_paths(const u8 *first, const u8 *second, const u64 *counts, size_t count,
		       size_t who, u8 *same)
{
	size_t bridge;

	for (bridge = 0; bridge < count; bridge++) {
		u64 row;

		same[bridge] = 1;
		for (row = 0; row < counts[bridge] && same[bridge]; row++) {
			size_t at = row * NATIVE_PATH_BYTES;

			same[bridge] = is_same_path(first + at, second + at, who);
		}
		first += counts[bridge] * NATIVE_PATH_BYTES;
		second += counts[bridge] * NATIVE_PATH_BYTES;
	}
}

/* Takes what an entry of HOST_PATHS tells of part i. */
static void read_path(const u8 *p, const struct native_machines *machines,
		      const struct native_parts *parts, const struct native_terms *terms, size_t i)
{
	double rate = (double)get64(p + PATH_RATE), sent = (double)get64(p + PATH_SENT);
	bool limited = get32(p + PATH_FLAGS) & PATH_LIMITED;

	parts->counted[i] += sent;
	if (limited || sent >= terms->binding * rate)
		parts->rates[i] = fmin(parts->rates[i], rate);
	if (limited)
		machines->limited[parts->members[i]] = 1;
}

void native_read_paths(const struct native_answers *answers, const struct native_machines *machines,
		       const struct native_parts *parts, const struct native_terms *terms)
{
	const s64 *number = answers->numbers;
	const u8 *p = answers->text;
	size_t bridge;

	for (bridge = 0; bridge < answers->count; bridge++) {
		u64 row, rows = answers->counts[bridge];

		for (row = 0; row < rows; row++) {
			s64 i = number[row];

			if (i < 0)
				continue;
			parts->there[i] = 1;
			parts->counted[i] = 0;
			parts->rates[i] = INFINITY;
		}
		for (row = 0; row < rows; row++)
			if (number[row] >= 0)
				read_path(p + row * NATIVE_PATH_BYTES, machines, parts, terms,
					  (size_t)number[row]);
		number += rows;
		p += rows * NATIVE_PATH_BYTES;
	}
}

void native_count_parts(const struct native_machines *machines, const struct native_parts *parts,
			const s64 *numbers, size_t count)
{
	size_t n;

	for (n = 0; n < count; n++) {
		s64 part, machine = numbers[n], uncounted = 0;
		double counted = 0;

		machines->bounded[machine] = 0;
		for (part = machines->firsts[machine]; part >= 0; part = parts->nexts[part]) {
			if (parts->there[part] && parts->seen[part])
				counted += parts->counted[part];
			else
				uncounted++;
			if (isfinite(parts->rates[part]))
				machines->bounded[machine] = 1;
		}
		machines->uncounted[machine] = uncounted;
		machines->left[machine] = fmax(0, machines->sent[machine] - counted);
	}
}

/* Divides what no path of a machine counted among the parts that have none, and notes who has. */
static void divide_left(const struct native_machines *machines, const struct native_parts *parts,
			s64 machine)
{
	s64 part, count = machines->uncounted[machine];
	double total = 0;

	for (part = machines->firsts[machine]; part >= 0; part = parts->nexts[part])
		if (!(parts->there[part] && parts->seen[part]))
			total += parts->shares[part];
	for (part = machines->firsts[machine]; part >= 0; part = parts->nexts[part]) {
		double left = machines->left[machine];

		if (parts->there[part] && parts->seen[part])
			parts->sent[part] = parts->counted[part];
		else if (count == 1)
			parts->sent[part] = left;
		else if (total > 0)
			parts->sent[part] = left * parts->shares[part] / total;
		else
			parts->sent[part] = left / (double)count;
		parts->seen[part] = parts->there[part];
		parts->lows[part] = 0;
	}
}

/* Divides the guarantee of a machine among its parts; there is room for three numbers of each. */
static void divide_guarantee(const struct native_machines *machines,
			     const struct native_parts *parts, const struct native_terms *terms,
			     s64 machine, double guarantee, double *room)
{
	struct basin b = { .count = 0, .capacity = guarantee };
	double *highs, *lows, *slopes, level;
	s64 part, i = 0;

	for (part = machines->firsts[machine]; part >= 0; part = parts->nexts[part])
		b.count++;
	if (!b.count)
		return;
	highs = room;
	lows = highs + b.count;
	slopes = lows + b.count;
	for (part = machines->firsts[machine]; part >= 0; part = parts->nexts[part], i++) {
		bool more = machines->bound[machine] || isfinite(parts->rates[part]);
		double wants = more ? guarantee : terms->margin * parts->sent[part];

		highs[i] = fmin(wants, guarantee);
		lows[i] = 0;
		slopes[i] = 1;
	}
	b.highs = highs;
	b.lows = lows;
	b.slopes = slopes;
	level = basin_level(&b);
	i = 0;
	for (part = machines->firsts[machine]; part >= 0; part = parts->nexts[part], i++)
		parts->lows[part] = fmin(highs[i], level);
}

void native_divide_parts(const struct native_machines *machines, const struct native_parts *parts,
			 const struct native_terms *terms, const double *guarantees,
			 const s64 *numbers, size_t count, double *room)
{
	size_t n;

	for (n = 0; n < count; n++) {
		double guarantee = guarantees[numbers[n]];

		divide_left(machines, parts, numbers[n]);
		if (guarantee > 0)
			divide_guarantee(machines, parts, terms, numbers[n], guarantee, room);
	}
}

/* Gives row i a reading. */
static void read_row(const struct native_rows *rows, const struct native_terms *terms, size_t i,
		     double sent, u8 state, double low)
{
	rows->before[i] = rows->sent[i];
	rows->peaks[i] = fmax(sent, terms->fading * rows->peaks[i]);
	rows->sent[i] = sent;
	rows->lows[i] = low;
	rows->states[i] = state;
	if (state != terms->idle)
		rows->quiet[i] = 0;
	else if (rows->quiet[i] < terms->window)
		rows->quiet[i]++;
}

/* Returns what holds row i whose rate in force is limit, bytes/s. */
static u8 judge_row(const struct native_rows *rows, const struct native_terms *terms, size_t i,
		    double limit, s64 decided_ns)
{
	double least = rows->told[i];

	if (rows->former[i] > 0 && decided_ns - rows->told_ns[i] < terms->patience_ns)
		least = fmin(least, rows->former[i]);
	return (u8)(limit >= (1 - terms->same) * least ? terms->here : terms->elsewhere);
}

/* Returns what holds row i, of a part of a machine that sends so much. */
static u8 state_of_part(const struct native_rows *rows, const struct native_terms *terms, size_t i,
			double sent, double limit, bool bound, s64 decided_ns)
{
	if (isfinite(limit) && !(bound && sent < terms->held * limit))
		return judge_row(rows, terms, i, limit, decided_ns);
	return (u8)(bound && sent > 0 ? terms->elsewhere : terms->idle);
}

void native_read_rows(const struct native_rows *rows, const struct native_owners *owners,
		      const struct native_machines *machines, const struct native_parts *parts,
		      const struct native_terms *terms, const double *guarantees, s64 decided_ns)
{
	size_t i;

	for (i = 0; i < owners->count; i++) {
		s64 machine = owners->members[i], part = owners->parts[i];
		bool bound = machines->bound[machine];
		double sent, low;
		u8 state;

		if (!machines->fresh[machine])
			continue;
		if (part >= 0) {
			sent = parts->sent[part];
			low = parts->lows[part];
			state = state_of_part(rows, terms, i, sent, parts->rates[part], bound,
					      decided_ns);
		} else {
			sent = machines->sent[machine];
			low = bound ? guarantees[machine] :
				      fmin(guarantees[machine], terms->margin * sent);
			state = owners->states[i];
		}
		read_row(rows, terms, i, sent, state, low);
	}
}

void native_read(const struct native_rows *rows, const struct native_terms *terms,
		 const struct native_readings *readings)
{
	size_t n;

	for (n = 0; n < readings->count; n++)
		read_row(rows, terms, (size_t)readings->places[n], readings->sent[n],
			 readings->states[n], readings->lows[n]);
}

void native_judge(const struct native_rows *rows, const struct native_terms *terms,
		  const s64 *places, const double *limits, const u8 *limited, size_t count,
		  s64 decided_ns, u8 *states)
{
	size_t n;

	for (n = 0; n < count; n++)
		states[n] = limited[n] ? judge_row(rows, terms, (size_t)places[n], limits[n],
						   decided_ns) :
					 (u8)terms->idle;
}
