// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzzes each law by itself: what it is told of its limiter, messages, reports, marks, echoes,
 * segments of connections, knobs, and clocks that step far, in any order.
 *
 *   limiter     guarantee <= R <= share after init and each step; maxmin: up to the ceiling, too
 *   peer        R <= share; eyeq: R = 0 or at least rate-min of the knobs when it was told
 *   report      no more marks than packets, or no shim would believe it
 *   packet      id and the reserved bit change only where they may
 *   segment     a window never grows, and never takes back what is in flight; of the flags only
 *               those of ECN change
 */
#include "../core/arith.h"
#include "input.h"

/* Peers and connections of the VM. */
#define PEERS 2
#define FLOWS 3

/* Laws there are. */
#define LAWS 9

/* A VM under a law. */
struct fixture {
	const struct shim_law *law;	/* the law */
	u64 knobs[SHIM_KNOBS_MAX];	/* values in force */
	struct shim_law_input input;	/* what the law is told */
	struct shim_limiter_state *limiter;	/* with the law's own behind it */
	struct shim_peer_state *peers[PEERS];	/* the same */
	struct shim_flow *flows[FLOWS];	/* the same */
	u64 least;			/* floor of eyeq's rates when they were told */
	bool fresh;			/* the limiter had its step since the input changed */
};

/* Returns memory, all 0. */
static void *allocate(size_t bytes)
{
	void *object = calloc(1, bytes);

	fuzz_expect(object, "no memory");
	return object;
}

/* Changes what the law is told. */
static void change_input(struct fixture *fixture, struct fuzz_input *input)
{
	struct shim_law_input *told = &fixture->input;

	told->period_ns = fuzz_within(input, 50000, 10 * SHIM_NSEC_PER_SEC);
	told->capacity = fuzz_within(input, SHIM_RATE_MIN, SHIM_RATE_MAX);
	told->share = fuzz_within(input, 0, told->capacity);
	told->min = fuzz_within(input, 0, told->share);
	told->sent_rate = fuzz_u64(input);
	told->max = fuzz_within(input, 0, SHIM_RATE_MAX);
	if (told->max && told->max < told->min)
		told->max = told->min;
	if (told->max && told->share > told->max)
		told->share = told->max;
	told->rx_rate = fuzz_u64(input);
	told->horizon_ns = fuzz_within(input, 0, 10 * SHIM_NSEC_PER_SEC);
	told->rx_share = fuzz_within(input, 1, told->capacity);
	told->rx_least = fuzz_within(input, 0, told->rx_share);
	told->peers = (u32)fuzz_u64(input);
	told->peer_weight = (u32)fuzz_within(input, 0, 65535);
	told->weight = (u32)fuzz_within(input, 1, 65535);
	told->frame = (u32)fuzz_within(input, 1, SHIM_FRAME_MAX);
	told->rx_frame = (u32)fuzz_within(input, 1, SHIM_FRAME_MAX);
	fixture->fresh = false;
}

/* Changes a knob within its range. */
static void change_knob(struct fixture *fixture, struct fuzz_input *input)
{
	u32 k = fuzz_u8(input);
	const struct shim_knob *knob;

	if (!fixture->law->n_knobs)
		return;
	k %= fixture->law->n_knobs;
	knob = &fixture->law->knobs[k];
	fixture->knobs[k] = fuzz_within(input, knob->min, knob->max);
	fixture->fresh = false;
}

/* Checks the limiter after a step. */
static void check_limiter(const struct fixture *fixture)
{
	const struct shim_law_input *told = &fixture->input;
	u64 most = told->share, rate = fixture->limiter->rate;

	if (fixture->law->obeys_rates) {
		most = told->capacity;
		if (told->max && told->max < most)
			most = told->max;
	}
	fuzz_expect(rate >= told->min, "law %s: R %llu below the guarantee %llu",
		    fixture->law->name, rate, told->min);
	fuzz_expect(rate <= most, "law %s: R %llu above %llu", fixture->law->name, rate, most);
}

/* Checks a peer's rate after its step. */
static void check_peer(const struct fixture *fixture, const struct shim_peer_state *peer)
{
	if (fixture->law == &shim_law_eyeq)
		fuzz_expect(!peer->rate || peer->rate >= fixture->least ||
			    peer->rate >= SHIM_RATE_MIN, "R %llu", peer->rate);
	else
		fuzz_expect(peer->rate <= fixture->input.share, "law %s: R %llu above E %llu",
			    fixture->law->name, peer->rate, fixture->input.share);
}

/* Lets a peer, or all it knows, begin. */
static void begin_peer(struct fixture *fixture, u32 p)
{
	struct shim_peer_state *peer = fixture->peers[p];

	if (!(fixture->law->wants & SHIM_LAW_PEERS))
		return;
	memset(peer, 0, sizeof(*peer) + fixture->law->peer_size);
	if (fixture->law->peer_init)
		fixture->law->peer_init(peer, &fixture->input);
}

/* Lets the limiter take its step, and then its peers. */
static void step(struct fixture *fixture)
{
	struct shim_message report;
	u32 p;

	fixture->law->on_period(fixture->limiter, &fixture->input);
	fixture->fresh = true;
	check_limiter(fixture);
	for (p = 0; p < PEERS && fixture->law->on_peer_period; p++) {
		memset(&report, 0, sizeof(report));
		if (fixture->law->on_peer_period(fixture->peers[p], fixture->limiter,
						 &fixture->input, &report))
			fuzz_expect(report.marks <= report.packets, "%u marks of %u packets",
				    report.marks, report.packets);
		check_peer(fixture, fixture->peers[p]);
	}
}

/* Gives the law a controller's message. */
static void tell(struct fixture *fixture, struct fuzz_input *input)
{
	struct shim_message message = {
		.type = SHIM_MESSAGE_MARKS, .marks = (u32)fuzz_u64(input),
		.interval_ns = fuzz_u64(input), .weight_total = (u32)fuzz_u64(input),
		.sender = fuzz_u8(input), .epoch = 1, .sequence = (u32)fuzz_u64(input),
	};

	if (fixture->law->obeys_rates && fuzz_u8(input) & 1) {
		message.type = SHIM_MESSAGE_RATE;
		message.rate = fuzz_within(input, SHIM_RATE_MIN, SHIM_RATE_MAX);
	} else if (fixture->law->obeys_levels && fuzz_u8(input) & 1) {
		message.type = SHIM_MESSAGE_LEVEL;
		message.rate = fuzz_within(input, SHIM_RATE_MIN, SHIM_RATE_MAX);
	}
	if (!fixture->law->on_message)
		return;
	fixture->law->on_message(fixture->limiter, &fixture->input, &message);
	if (fixture->fresh)
		check_limiter(fixture);
}

/* Gives the law a peer's report. */
static void report_to(struct fixture *fixture, struct fuzz_input *input, u32 p)
{
	u8 how = fuzz_u8(input);
	struct shim_message message = {
		.type = SHIM_MESSAGE_REPORT, .bytes = fuzz_u64(input),
		.interval_ns = fuzz_u64(input), .lost = (u32)fuzz_u64(input),
		.packets = (u32)fuzz_u64(input), .rate = fuzz_u64(input),
	};

	message.marks = (u32)fuzz_within(input, 0, message.packets);
	if (!fixture->law->on_report)
		return;
	if (message.rate && message.rate < fixture->least)
		fixture->least = message.rate;
	fixture->law->on_report(fixture->peers[p], how & 1 ? NULL : fixture->limiter,
				&fixture->input, &message);
	/* What it is told may be more than the share: what the receiver grants. */
	if (fixture->law == &shim_law_scc && message.marks)
		check_peer(fixture, fixture->peers[p]);
}

/* Lets a packet to or from a peer pass. */
static void pass(struct fixture *fixture, struct fuzz_input *input, u32 p, bool sent)
{
	u8 how = fuzz_u8(input);
	struct shim_law_packet packet = {
		.now_ns = fixture->input.now_ns, .knobs = fixture->knobs,
		.wait_ns = fuzz_within(input, 0, 10 * SHIM_NSEC_PER_SEC),
		.room_ns = fixture->input.horizon_ns, .told = SHIM_TOLD_FABRIC,
		.bytes = (u32)fuzz_u64(input), .packets = (u32)fuzz_within(input, 1, 65535),
		.id = fuzz_u16(input), .id_free = how & 1, .echo_free = how & 2, .echo = how & 4,
	}, before;

	packet.marks = how & 8 ? packet.packets : 0;
	before = packet;
	if (sent && fixture->law->on_tx)
		fixture->law->on_tx(fixture->peers[p], &packet);
	if (!sent && fixture->law->on_rx)
		fixture->law->on_rx(fixture->peers[p], &packet);
	fuzz_expect(packet.id == before.id || packet.id_free, "the id is not to be written");
	fuzz_expect(packet.echo == before.echo || packet.echo_free, "the bit is not free");
	fuzz_expect(packet.told <= SHIM_TOLD_CE, "told %u", packet.told);
}

/* Checks what a law made of a segment. */
static void check_segment(const struct shim_flow *flow, const struct shim_segment *before,
			  const struct shim_segment *after, bool sent)
{
	u16 may = SHIM_TCP_ECE | SHIM_TCP_CWR | SHIM_TCP_AE;
	u32 flight = shim_flow_flight(flow), late = flow->una - after->ack;

	fuzz_expect(after->seq == before->seq && after->ack == before->ack &&
		    after->payload == before->payload && !((after->flags ^ before->flags) & ~may),
		    "the segment is another");
	fuzz_expect(after->ecn <= SHIM_CE, "ECN field %u", after->ecn);
	fuzz_expect(after->window <= before->window, "the window grows from %u to %u",
		    before->window, after->window);
	fuzz_expect(flight <= 0x40000000, "%u bytes are in flight", flight);
	fuzz_expect(shim_flow_scale(flow) <= SHIM_SCALE_MAX, "scale %u", shim_flow_scale(flow));
	if (sent || after->window == before->window)
		return;
	fuzz_expect(late <= SHIM_WINDOW_MAX &&
		    (u64)after->window << shim_flow_scale(flow) >= flight,
		    "a window of %u, scale %u, takes back what is in flight: %u", after->window,
		    shim_flow_scale(flow), flight);
}

/* Lets a segment of a connection pass: numbers near those that are expected, or any. */
static void segment(struct fixture *fixture, struct fuzz_input *input, bool sent)
{
	u8 how = fuzz_u8(input);
	struct shim_flow *flow = fixture->flows[how % FLOWS];
	u32 seq = sent ? flow->nxt : flow->heard, ack = sent ? flow->heard : flow->nxt;
	struct shim_segment now = {
		.now_ns = fixture->input.now_ns, .knobs = fixture->knobs,
		.flags = fuzz_u8(input) | (how & 0x80 ? SHIM_TCP_AE : 0),
		.window = fuzz_u16(input), .ecn = how >> 2 & 3, .scale = SHIM_SCALE_NONE,
	}, before;

	if (how & 0x10) {
		seq = (u32)fuzz_u64(input);
		ack = (u32)fuzz_u64(input);
	} else if (!sent) {
		ack = flow->una + fuzz_u16(input);
	}
	if (how & 0x20) {
		now.payload = (u32)fuzz_within(input, 1, 65535);
		now.size = (u16)fuzz_within(input, 1, now.payload);
	}
	if (now.flags & SHIM_TCP_SYN) {
		now.scale = fuzz_u8(input);
		now.mss = fuzz_u16(input);
	}
	now.wait_ns = how & 0x40 ? fuzz_within(input, 0, 10 * SHIM_NSEC_PER_SEC) : 0;
	now.seq = seq;
	now.ack = ack;
	before = now;
	if (sent && fixture->law->on_segment_out)
		fixture->law->on_segment_out(flow, &now);
	if (!sent && fixture->law->on_segment_in)
		fixture->law->on_segment_in(flow, &now);
	check_segment(flow, &before, &now, sent);
}

/* Lets a connection take its step, or begin anew. */
static void flow_step(struct fixture *fixture, struct fuzz_input *input)
{
	u8 how = fuzz_u8(input);
	struct shim_flow *flow = fixture->flows[how % FLOWS];
	struct shim_peer_state *peer = NULL;

	if (!(fixture->law->wants & SHIM_LAW_FLOWS))
		return;
	if (how & 0x80) {
		memset(flow, 0, sizeof(*flow) + fixture->law->flow_size);
		shim_flow_init(flow, how, 80);
		return;
	}
	if (fixture->law->wants & SHIM_LAW_PEERS && how & 0x10)
		peer = fixture->peers[how >> 5 & 1];
	fixture->law->on_flow_period(flow, peer, fixture->limiter, &fixture->input);
}

/* Does something. */
static void operate(struct fixture *fixture, struct fuzz_input *input)
{
	u8 operation = fuzz_u8(input);
	u32 p = operation >> 7;

	switch (operation & 15) {
	case 0:
	case 1:
		fixture->input.now_ns += fuzz_within(input, 0, 1ULL << 55);
		break;
	case 2:
		change_input(fixture, input);
		break;
	case 3:
		change_knob(fixture, input);
		break;
	case 4:
		tell(fixture, input);
		break;
	case 5:
		report_to(fixture, input, p);
		break;
	case 6:
		flow_step(fixture, input);
		break;
	case 7:
		begin_peer(fixture, p);
		break;
	case 8:
		if (fixture->law->peer_rests)
			fixture->law->peer_rests(fixture->peers[p], &fixture->input);
		break;
	case 9 ... 10:
		pass(fixture, input, p, operation & 1);
		break;
	case 11 ... 13:
		segment(fixture, input, operation & 1);
		break;
	default:
		/* Time goes by between steps. */
		fixture->input.now_ns += fixture->input.period_ns;
		step(fixture);
	}
}

/* Begins a VM under a law with its default knobs. */
static void begin(struct fixture *fixture, struct fuzz_input *input)
{
	const struct shim_law *law = shim_law_at(fuzz_u8(input) % LAWS);
	u32 i;

	*fixture = (struct fixture){ .law = law, .least = ~0ULL };
	for (i = 0; i < law->n_knobs; i++)
		fixture->knobs[i] = law->knobs[i].value;
	fixture->input.knobs = fixture->knobs;
	fixture->input.now_ns = fuzz_within(input, 0, 1ULL << 62);
	change_input(fixture, input);
	fixture->limiter = allocate(sizeof(*fixture->limiter) + law->limiter_size);
	law->init(fixture->limiter, &fixture->input);
	check_limiter(fixture);
	for (i = 0; i < PEERS; i++) {
		fixture->peers[i] = allocate(sizeof(*fixture->peers[i]) + law->peer_size);
		begin_peer(fixture, i);
	}
	for (i = 0; i < FLOWS; i++) {
		fixture->flows[i] = allocate(sizeof(*fixture->flows[i]) + law->flow_size);
		shim_flow_init(fixture->flows[i], 1000 + i, 80);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input input = { .data = data, .left = size };
	struct fixture fixture;
	u32 i;

	begin(&fixture, &input);
	while (input.left)
		operate(&fixture, &input);
	for (i = 0; i < FLOWS; i++)
		free(fixture.flows[i]);
	for (i = 0; i < PEERS; i++)
		free(fixture.peers[i]);
	free(fixture.limiter);
	return 0;
}
