// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The laws there are, and their knobs, by name.
 */
#include "laboratory.h"
#include "law.h"

/* What a law keeps behind a common part begins at a multiple of 8 bytes, or this divides by 0. */
enum {
	OWN_IS_ALIGNED = 1 / (sizeof(struct shim_limiter_state) % 8 == 0 &&
			      sizeof(struct shim_peer_state) % 8 == 0 &&
			      sizeof(struct shim_flow) % 8 == 0)
};

/* Every law, in the order in which they are listed to users. */
static const struct shim_law *const laws[] = {
	&shim_law_static,
	&shim_law_sdngcc,
	&shim_law_maxmin,
	&shim_law_scc,
	&shim_law_vcc,
	&shim_law_seawall,
	&shim_law_hygenicc,
	&shim_law_eyeq,
#ifdef SHIM_LABORATORY
	&shim_law_elasticswitch,
#endif
};

/* What the laboratory build alone has: a law, or a law's knob. */
static const struct {
	const char *law;	/* its name */
	const char *knob;	/* its name; NULL: the whole law */
} laboratory[] = {
	{ "elasticswitch", NULL },
	{ "scc", "literal" },
	{ "hygenicc", "literal" },
	{ "eyeq", "literal" },
	{ "seawall", "class" },
	{ "seawall", "literal" },
};

/* Tells whether two strings are equal. */
static bool law_names_equal(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

const struct shim_law *shim_law_at(u32 i)
{
	return i < SHIM_COUNT(laws) ? laws[i] : NULL;
}

#ifndef __KERNEL__
const struct shim_law *shim_law_find(const char *name)
{
	const struct shim_law *law;
	u32 i;

	for (i = 0; (law = shim_law_at(i)); i++)
		if (law_names_equal(law->name, name))
			break;
	return law;
}
#endif

int shim_knob_find(const struct shim_law *law, const char *name)
{
	u32 i;

	for (i = 0; i < law->n_knobs; i++)
		if (law_names_equal(law->knobs[i].name, name))
			return (int)i;
	return -1;
}

bool shim_laboratory_only(const char *law, const char *knob)
{
	u32 i;

	for (i = 0; i < SHIM_COUNT(laboratory); i++)
		if (law_names_equal(laboratory[i].law, law) &&
		    (knob ? laboratory[i].knob && law_names_equal(laboratory[i].knob, knob) :
			    !laboratory[i].knob))
			return true;
	return false;
}

u32 shim_law_wants(const struct shim_law *law, const u64 *values)
{
	if (law->flows_knob && !values[law->flows_knob - law->knobs])
		return law->wants & ~(u32)(SHIM_LAW_FLOWS | SHIM_LAW_ECN);
	return law->wants;
}

u32 shim_law_limiter_size(void)
{
	u32 i, size = 0;

	for (i = 0; i < SHIM_COUNT(laws); i++)
		if (laws[i]->limiter_size > size)
			size = laws[i]->limiter_size;
	return size;
}

u32 shim_law_peer_size(void)
{
	u32 i, size = 0;

	for (i = 0; i < SHIM_COUNT(laws); i++)
		if (laws[i]->peer_size > size)
			size = laws[i]->peer_size;
	return size;
}

u32 shim_law_flow_size(void)
{
	u32 i, size = 0;

	for (i = 0; i < SHIM_COUNT(laws); i++)
		if (laws[i]->flow_size > size)
			size = laws[i]->flow_size;
	return size;
}
