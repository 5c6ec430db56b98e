// SPDX-License-Identifier: Apache-2.0
/*
 * What ports grant and tell their entries in one period (rates/paths/ports.py says what it is
 * for).
 *
 * An entry of machine i is told by port p of capacity c what p grants it.  With f the part of its
 * bytes that leaves there, s what it sends and b = c / f:
 *
 *	held elsewhere		wants u = s
 *	idle for a while	wants u = margin * the most of its last two readings
 *	else			wants u = b
 *	always			low <= u <= max(low, b)
 *
 * Water rises in c for tenants, in what a tenant is granted for its machines, in what a machine is
 * granted for its entries (rates/paths/sharing.py).  The grant G of the entry follows to where the
 * water is, a, in logarithms, by the part that its damping D leaves of a step:
 *
 *	G = G * (a / G)^(1 - D)		D = D + damping * (1 - D) if the step turned back, else
 *					D = easing * D
 *
 * All numbers are finite; capacities, parts and what is granted are above 0, so no logarithm and
 * no quotient is undefined.
 */
#include <math.h>

#include "filling.h"
#include "native.h"

/* Where the numbers of all entries, machines and tenants of a table stand. */
struct scratch {
	double *low;		/* of entries, bytes/s of the port ... */
	double *high;		/* what they want */
	double *granted;
	double *machine_low;	/* the same of machines ... */
	double *machine_high;
	double *machine_granted;
	double *group_low;	/* ... and of tenants */
	double *group_high;
	double *group_granted;
};

/* Returns which room is what. */
static struct scratch part_scratch(const struct native_sharing *sharing)
{
	size_t entries = sharing->entries, machines = sharing->machines;
	double *room = sharing->scratch;
	struct scratch found;

	found.low = room;
	found.high = found.low + entries;
	found.granted = found.high + entries;
	found.machine_low = found.granted + entries;
	found.machine_high = found.machine_low + machines;
	found.machine_granted = found.machine_high + machines;
	found.group_low = found.machine_granted + machines;
	found.group_high = found.group_low + sharing->groups;
	found.group_granted = found.group_high + sharing->groups;
	return found;
}

/* Returns where run number i begins, or for i = count where the last one ends. */
static size_t start(const u64 *starts, size_t i, size_t count, size_t end)
{
	return i < count ? starts[i] : end;
}

/* Returns which machine is the first of a tenant. */
static size_t machine_at(const struct native_sharing *sharing, size_t group)
{
	return start(sharing->group_starts, group, sharing->groups, sharing->machines);
}

/* Returns which entry is the first of a machine. */
static size_t entry_at(const struct native_sharing *sharing, size_t machine)
{
	return start(sharing->machine_starts, machine, sharing->machines, sharing->entries);
}

/* Returns which tenant is the first of a port. */
static size_t group_at(const struct native_sharing *sharing, size_t port)
{
	return start(sharing->port_groups, port, sharing->ports, sharing->groups);
}

/* Returns what an entry wants of a port that may carry so much, bytes/s of its own rate. */
static double wanted(const struct native_rows *rows, const struct native_terms *terms, size_t i,
		     double allowed)
{
	double bound = allowed / rows->parts[i];
	double wants = bound;

	if (rows->quiet[i] == terms->window)
		wants = terms->margin * fmax(rows->sent[i], rows->before[i]);
	else if (rows->states[i] == terms->elsewhere)
		wants = rows->sent[i];
	return fmax(rows->lows[i], fmin(wants, bound));
}

/* Adds up what the entries of machines have and want, and what these do of tenants. */
static void add_up(const struct native_sharing *sharing, const struct scratch *s, size_t first,
		   size_t end)
{
	size_t g, m;

	for (g = first; g < end; g++) {
		size_t from = machine_at(sharing, g), to = machine_at(sharing, g + 1);

		for (m = from; m < to; m++) {
			size_t at = entry_at(sharing, m), count = entry_at(sharing, m + 1) - at;

			s->machine_low[m] = basin_sum(s->low + at, count);
			s->machine_high[m] = basin_sum(s->high + at, count);
		}
		s->group_low[g] = basin_sum(s->machine_low + from, to - from);
		s->group_high[g] = basin_sum(s->machine_high + from, to - from);
	}
}

/* Lets water rise in a port for its tenants first to end - 1, their machines and entries. */
static void fill(const struct native_rows *rows, const struct native_sharing *sharing,
		 const struct scratch *s, size_t first, size_t end, double allowed)
{
	struct basin b = {
		.slopes = sharing->group_weights + first,
		.lows = s->group_low + first,
		.highs = s->group_high + first,
		.count = end - first,
		.capacity = allowed,
	};
	size_t g, m;

	basin_grants(&b, s->group_granted + first);
	for (g = first; g < end; g++) {
		size_t from = machine_at(sharing, g), to = machine_at(sharing, g + 1);

		b.slopes = sharing->weights + from;
		b.lows = s->machine_low + from;
		b.highs = s->machine_high + from;
		b.count = to - from;
		b.capacity = s->group_granted[g];
		if (sharing->alone)
			s->machine_granted[from] = b.capacity;
		else
			basin_grants(&b, s->machine_granted + from);
		for (m = from; m < to; m++) {
			size_t at = entry_at(sharing, m);

			b.slopes = rows->parts + at;
			b.lows = s->low + at;
			b.highs = s->high + at;
			b.count = entry_at(sharing, m + 1) - at;
			b.capacity = s->machine_granted[m];
			basin_grants(&b, s->granted + at);
		}
	}
}

/* Lets the grant of an entry follow to where it aims, bytes/s. */
static void follow(const struct native_rows *rows, const struct native_terms *terms, size_t i,
		   double aim)
{
	double before = rows->granted[i], step, damping = rows->damping[i];
	bool turned;

	if (!(before > 0)) {
		rows->granted[i] = aim;
		rows->damping[i] = terms->easing * damping;
		return;
	}
	step = log(aim / before);
	if (fabs(step) >= terms->rounding) {
		turned = step * rows->moved[i] < 0;
		rows->moved[i] = step;
	} else {
		turned = false;
	}
	rows->granted[i] = before * exp((1 - damping) * step);
	rows->damping[i] = turned ? damping + terms->damping * (1 - damping) :
				    terms->easing * damping;
}

/* Returns what an entry that wants so much may have now, bytes/s, whole. */
static double offered(const struct native_rows *rows, const struct native_terms *terms, size_t i,
		      double wants)
{
	double offer = rows->granted[i];

	if (rows->quiet[i] == terms->window) {
		double lately = fmax(wants, rows->peaks[i]);

		offer = fmin(fmax(terms->standby * offer, lately), offer);
	}
	return rint(fmin(fmax(offer, terms->rate_min), terms->rate_max));
}

/* Tells whether an entry is to be told now what is offered. */
static bool is_due(const struct native_rows *rows, const struct native_terms *terms, size_t i,
		   s64 now_ns)
{
	double told = rows->told[i], offer = rows->offers[i], sent = rows->sent[i];
	s64 age_ns = now_ns - rows->told_ns[i];
	bool holds = sent > terms->holds * fmin(told, offer);
	bool unheard = sent > (1 + terms->off) * told ||
		       (rows->states[i] == terms->here && sent < (1 - terms->off) * told);

	if (offer >= (holds ? terms->rise : terms->loose_rise) * told ||
	    offer <= (holds ? terms->fall : terms->loose_fall) * told)
		return true;
	/* Ages differ, or all would be told again in the same period. */
	if ((double)age_ns >= (double)terms->refresh_ns *
			      (1 - (double)(rows->numbers[i] % 64) / 256))
		return true;
	return unheard && age_ns >= terms->patience_ns;
}

/* Shares what one port may carry; writes the rows of those who are due, and returns how many. */
static size_t share_port(const struct native_rows *rows, const struct native_sharing *sharing,
			 const struct native_terms *terms, const struct scratch *s, size_t port,
			 double allowed, s64 now_ns, u64 *due)
{
	size_t first = group_at(sharing, port), end = group_at(sharing, port + 1);
	size_t from = entry_at(sharing, machine_at(sharing, first));
	size_t to = entry_at(sharing, machine_at(sharing, end));
	size_t i, count = 0;

	for (i = from; i < to; i++) {
		s->low[i] = rows->parts[i] * rows->lows[i];
		s->high[i] = rows->parts[i] * wanted(rows, terms, i, allowed);
	}
	add_up(sharing, s, first, end);
	fill(rows, sharing, s, first, end, allowed);
	for (i = from; i < to; i++) {
		double wants = wanted(rows, terms, i, allowed);

		follow(rows, terms, i, fmax(s->granted[i] / rows->parts[i], terms->rate_min));
		rows->offers[i] = offered(rows, terms, i, wants);
		if (!is_due(rows, terms, i, now_ns))
			continue;
		rows->former[i] = rows->told[i];
		rows->told[i] = rows->offers[i];
		rows->told_ns[i] = now_ns;
		due[count++] = i;
	}
	return count;
}

size_t native_share(const struct native_rows *rows, const struct native_sharing *sharing,
		    const struct native_terms *terms, const double *allowed, const u8 *engaged,
		    s64 now_ns, u64 *due)
{
	struct scratch s = part_scratch(sharing);
	size_t port, count = 0;

	for (port = 0; port < sharing->ports; port++)
		if (engaged[port])
			count += share_port(rows, sharing, terms, &s, port, allowed[port], now_ns,
					    due + count);
	return count;
}
