// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Law maxmin: the controller knows sources, ports and capacities, computes weighted max-min rates
 * and sends them (controller/rates/maxmin.py); the shim obeys, and is on its own when it hears
 * nothing.
 *
 * G is the lowest of the rates that tellers told last, each no longer than H ago, E the VM's share,
 * a its guarantee, b its maximum (none: C, the uplink's capacity).  T is the period, H the knob
 * rate-timeout.
 *
 *   start:               G = start * E, for H or until a rate is told
 *   rate message:        its teller's rate
 *   while there is G:    R = max(a, min(b, G))          at once, and again each T
 *   else:                law sdngcc, whose last message counts as come with the last rate
 *
 * A path, a part of what the VM sends, has a G and an R of its own.  Each port on the way is a
 * teller: the lowest of their rates holds.  Of nested prefixes a teller is heard by the longest
 * that it told of.  A path starts at E, and the message that makes it tells it a rate.  A VM that
 * is told rates of paths and none of its own has R = E.
 *
 * SHIM_TELLERS_MAX tellers are remembered: of more, the lowest rates.
 *
 * A VM that uses less than it may earns credit for a burst at line rate.  W is the sum of weights
 * that came with G, w the VM's weight, B the depth of buckets as set, D the knob burst-bytes:
 *
 *   while there is G:    K = min(1, w/W) * D, or 0 where W is not known;   else K = 0
 *   the bucket's depth:  B + K
 *
 * So in any time t the VM passes B + K + R*t at most, however it goes on and off (bucket.c), and
 * what it sends at line rate it has sent less before: a deeper bucket is not filled, it fills with
 * R.  VMs that share a port are told its W, so their K add up to D at most.  Where their R add up
 * to what the port carries, its queue is at most D and one B for each VM.
 *
 * An explicit rate may exceed E: the controller sees the uplink as one more port, and knows who
 * leaves his part of it unused, which E does not.  When messages stop, R returns to at most E
 * with the next period, so nobody is left unlimited; who is below E climbs there by sdngcc's
 * steps, so nobody is left low.
 *
 * Marks are the controller's matter while a rate is in force: a message of marks changes nothing
 * then, or the same congestion would count twice.  After that it cuts as under sdngcc.
 *
 * A VM that begins has been in nobody's sum.  At its share, often line rate, it would overrun a
 * full link until the controller has seen it, in a period or two, and the loss would hit those who
 * keep to their rates.  Hence the start below the share.
 *
 * Messages may overtake each other: of one sender's rates the one sent last stays in force.
 *
 * Rates outside [SHIM_RATE_MIN, SHIM_RATE_MAX] never get here: the message is malformed.
 *
 * Source: ours; the fallback is SDN-GCC's Algorithm 3.
 */
#include "../arith.h"
#include "../climb.h"
#include "../law.h"
#include "sdngcc.h"

/* Indices into the knobs, behind those of law sdngcc. */
enum {
	RATE_TIMEOUT = SDNGCC_KNOBS,
	START,
	BURST,
};

/* What a teller told. */
struct maxmin_told {
	u64 rate;		/* bytes/s */
	u64 ns;			/* the time it came */
	u64 teller;		/* who told it; 0: of all that the VM sends, or the start */
	u32 sender;		/* of the message; 0, with the epoch 0: the start */
	u32 epoch;		/* the sender's */
	u32 sequence;		/* of the message */
	u32 weight_total;	/* W that came with it; 0: unknown */
	u8 bits;		/* of the prefix that it was told of */
	bool lowest;		/* of several that the teller told of, the lowest */
	bool set;		/* there is one */
};

/* What the law keeps of a limiter. */
struct maxmin_limiter {
	struct sdngcc_limiter sdngcc;	/* of the law it falls back to */
	struct maxmin_told told[SHIM_TELLERS_MAX];	/* rates, in no order */
	u64 paths_ns;		/* when rates of paths were last told; 0: never */
};

static const struct shim_knob maxmin_knobs[] = {
#include "sdngcc_knobs.h"
	[RATE_TIMEOUT] = {
		.name = "rate-timeout",
		.unit = "ns",
		.help = "H: an explicit rate holds so long, then law sdngcc goes on; 0 is refused",
		.source = "ours; five of the controller's refreshes",
		.value = 200000000,
		.min = 1000000,
		.max = 10000000000ULL,
	},
	[START] = {
		.name = "start-ppm",
		.unit = "ppm of share",
		.help = "a VM begins with so much until it is told a rate; 0: with its guarantee",
		.source = "ours",
		.value = 100000,
		.min = 0,
		.max = 1000000,
	},
	[BURST] = {
		.name = "burst-bytes",
		.unit = "bytes",
		.help = "D: what VMs that share a port may burst together after silence; 0: none",
		.source = "ours, after Silo and PicNIC",
		.value = 60000,
		.min = 0,
		.max = SHIM_BURST_MAX,
	},
};

/* Tells whether what came at a time is in force. */
static bool maxmin_recent(u64 ns, const struct shim_law_input *input)
{
	return shim_sub_sat(input->now_ns, ns) < input->knobs[RATE_TIMEOUT];
}

/* Tells whether a rate is in force. */
static bool maxmin_holds(const struct maxmin_told *told, const struct shim_law_input *input)
{
	return told->set && maxmin_recent(told->ns, input);
}

/* Returns what G was told by; NULL: nothing. */
static const struct maxmin_told *maxmin_lowest(const struct maxmin_limiter *own,
					       const struct shim_law_input *input)
{
	const struct maxmin_told *lowest = NULL;
	u32 i;

	for (i = 0; i < SHIM_TELLERS_MAX; i++) {
		const struct maxmin_told *told = &own->told[i];

		if (maxmin_holds(told, input) && (!lowest || told->rate < lowest->rate))
			lowest = told;
	}
	return lowest;
}

/* Finds G, bytes/s; false if there is none. */
static bool maxmin_rate(const struct maxmin_limiter *own, const struct shim_law_input *input,
			u64 *rate)
{
	const struct maxmin_told *lowest = maxmin_lowest(own, input);

	if (!lowest && !(own->paths_ns && maxmin_recent(own->paths_ns, input)))
		return false;
	*rate = lowest ? lowest->rate : input->share;
	return true;
}

/* Returns K, bytes. */
static u32 maxmin_burst(const struct maxmin_limiter *own, const struct shim_law_input *input)
{
	const struct maxmin_told *lowest = maxmin_lowest(own, input);

	if (!lowest || !lowest->weight_total)
		return 0;
	if (input->weight >= lowest->weight_total)
		return (u32)input->knobs[BURST];
	return (u32)shim_mul_div(input->knobs[BURST], input->weight, lowest->weight_total);
}

/* Puts the rates told in force, within guarantee and maximum; false if there is none. */
static bool maxmin_obey(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct maxmin_limiter *own = shim_limiter_own(state);
	u64 most = input->max && input->max < input->capacity ? input->max : input->capacity;
	u64 rate;

	state->burst = maxmin_burst(own, input);
	if (!maxmin_rate(own, input, &rate))
		return false;
	if (rate > most)
		rate = most;
	if (rate < input->min)
		rate = input->min;
	state->rate = rate;
	state->congested = rate < input->share;
	shim_climb_note(&own->sdngcc.climb, input);
	return true;
}

/* Starts a limiter below its share. */
static void maxmin_init(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct maxmin_limiter *own = shim_limiter_own(state);

	own->told[0] = (struct maxmin_told){
		.rate = shim_mul_div(input->share, input->knobs[START], SHIM_PPM),
		.ns = input->now_ns,
		.set = true,
	};
	maxmin_obey(state, input);
}

/* Starts a path at the VM's share. */
static void maxmin_path_init(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct maxmin_limiter *own = shim_limiter_own(state);

	shim_climb_start(state, &own->sdngcc.climb, input);
}

/*
 * Returns where a message's rate is to be remembered: the place of its teller's last one, or one
 * that is not in force, or that of the highest one; NULL if all that are there are lower.
 */
static struct maxmin_told *maxmin_place(struct maxmin_limiter *own,
					const struct shim_law_input *input,
					const struct shim_message *message)
{
	struct maxmin_told *best = NULL;
	u32 i;

	for (i = 0; i < SHIM_TELLERS_MAX; i++) {
		struct maxmin_told *told = &own->told[i];

		if (told->set && told->teller == message->teller &&
		    told->lowest == message->lowest)
			return told;
		if (!maxmin_holds(told, input)) {
			if (!best || maxmin_holds(best, input))
				best = told;
		} else if (!best || (maxmin_holds(best, input) && told->rate > best->rate)) {
			best = told;
		}
	}
	return maxmin_holds(best, input) && best->rate <= message->rate ? NULL : best;
}

/*
 * Tells whether a message says less of its teller than what is remembered: because that is of a
 * longer prefix, or the lower of several, or because the message was overtaken.  Replays and older
 * epochs never get here.
 */
static bool maxmin_outdone(const struct maxmin_told *told, const struct shim_law_input *input,
			   const struct shim_message *message)
{
	if (!told->set || told->teller != message->teller)
		return false;
	if (told->sender == message->sender && told->epoch == message->epoch &&
	    told->sequence > message->sequence)
		return true;
	if (!maxmin_holds(told, input))
		return false;
	return told->bits > message->bits || (message->lowest && told->rate < message->rate);
}

/* Remembers what a message says of its teller; false if that changes nothing. */
static bool maxmin_hear(struct maxmin_limiter *own, const struct shim_law_input *input,
			const struct shim_message *message)
{
	struct maxmin_told *told = maxmin_place(own, input, message);

	if (!told || maxmin_outdone(told, input, message))
		return false;
	*told = (struct maxmin_told){
		.rate = message->rate,
		.ns = input->now_ns,
		.teller = message->teller,
		.sender = message->sender,
		.epoch = message->epoch,
		.sequence = message->sequence,
		.weight_total = message->weight_total,
		.bits = message->bits,
		.lowest = message->lowest,
		.set = true,
	};
	return true;
}

/* Obeys a rate; leaves marks to law sdngcc when no rate is in force. */
static void maxmin_message(struct shim_limiter_state *state, const struct shim_law_input *input,
			   const struct shim_message *message)
{
	struct maxmin_limiter *own = shim_limiter_own(state);
	u64 rate;

	if (message->type == SHIM_MESSAGE_RATE) {
		if (!maxmin_hear(own, input, message))
			return;
		maxmin_obey(state, input);
		state->message_ns = shim_stamp(input->now_ns);
		state->weight_total = message->weight_total;
	} else if (!maxmin_rate(own, input, &rate)) {
		shim_sdngcc_message(state, &own->sdngcc, input, message);
	}
}

/* Keeps to the rates told, or goes on as law sdngcc. */
static void maxmin_period(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct maxmin_limiter *own = shim_limiter_own(state);

	if (!maxmin_obey(state, input))
		shim_sdngcc_period(state, &own->sdngcc, input);
}

/* Tells whether nobody says anything of a path any more. */
static bool maxmin_path_rests(const struct shim_limiter_state *state,
			      const struct shim_law_input *input)
{
	u64 rate;

	return !maxmin_rate(shim_limiter_own_const(state), input, &rate) &&
	       shim_sdngcc_path_rests(state, input);
}

/* Ends the start of a VM, of whose paths somebody knows. */
static void maxmin_paths(struct shim_limiter_state *state, const struct shim_law_input *input)
{
	struct maxmin_limiter *own = shim_limiter_own(state);
	u32 i;

	for (i = 0; i < SHIM_TELLERS_MAX; i++)
		if (own->told[i].set && !own->told[i].epoch)
			own->told[i].set = false;
	own->paths_ns = shim_stamp(input->now_ns);
	maxmin_obey(state, input);
}

const struct shim_law shim_law_maxmin = {
	.name = "maxmin",
	.knobs = maxmin_knobs,
	.n_knobs = SHIM_COUNT(maxmin_knobs),
	.obeys_rates = true,
	.obeys_levels = true,
	.period_ns = 5000000,
	.limiter_size = sizeof(struct maxmin_limiter),
	.init = maxmin_init,
	.on_message = maxmin_message,
	.on_period = maxmin_period,
	.path_init = maxmin_path_init,
	.path_rests = maxmin_path_rests,
	.on_paths = maxmin_paths,
};
