// SPDX-License-Identifier: Apache-2.0
/*
 * The host that fuzzers work on; world.h says what must hold.
 */
#include "../core/arith.h"
#include "world.h"

/* Ticks of clocks that one step of time lets be. */
#define TICKS_MOST 8

/* Bytes that an account may be short by: what roundings of rates and depths add up to. */
#define SLACK_BYTES 64

/* Full packets that may wait at any rate, and the bytes of one at least, as bucket.h has them. */
#define WAIT_FRAMES 11U
#define FRAME_BYTES 1514U

/*
 * The most bytes of a small packet and of any that may go ahead, and the part of the rate, as
 * ahead.c has them.
 */
#define AHEAD_SMALL_BYTES 378U
#define AHEAD_BYTES 16384U
#define AHEAD_PART 8

/* The longest that the engine remembers a debt, ns. */
#define DEBT_NS 0x20000000000000ULL

/* A setting and the range that the netlink family allows. */
struct fuzz_setting {
	const char *name;		/* as shim_lab_set() has it */
	u64 least;			/* value */
	u64 most;			/* value */
};

/* What an operator may set. */
static const struct fuzz_setting settings[] = {
	{ "limiter", 0, 1 },
	{ "horizon_ns", 1000, 10000000000ULL },
	{ "inactive_ns", 1000000, 3600000000000ULL },
	{ "peer_idle_ns", 1000000, 3600000000000ULL },
	{ "peers_max", 1, 1 << 20 },
	{ "waiting_max", 16, 1 << 20 },
	{ "burst_bytes", 1514, 1 << 30 },
	{ "burst_us", 0, SHIM_BURST_US_MAX },
	{ "protocol", 143, 254 },
	{ "codepoint", SHIM_ECT_ONE, SHIM_ECT_ZERO },
	{ "accept_v0", 0, 1 },
	{ "conversations", 0, 1 },
	{ "ecn", 0, 1 },
	{ "waiting_max", 0, 0 },
	{ "ahead", 0, 1 },
};

void fuzz_address(struct fuzz_input *input, u32 vm, struct shim_address *address)
{
	u8 which = fuzz_u8(input);

	memset(address, 0, sizeof(*address));
	if (which & 0x80) {
		fuzz_bytes(input, address, sizeof(*address));
		return;
	}
	if (which & 0x40) {
		address->bytes[0] = 0xfd;
	} else {
		address->bytes[10] = 0xff;
		address->bytes[11] = 0xff;
		address->bytes[12] = 10;
	}
	address->bytes[14] = which & 0x20 ? 1 : 0;
	/* Own addresses first, then those of others. */
	address->bytes[15] = (u8)(1 + (which & 0x1f) + vm);
}

/* Returns the engine, NULL if nothing leads to it. */
static struct shim_engine *world_engine(const struct fuzz_world *world)
{
	u32 i;

	for (i = 0; i < FUZZ_UPLINKS; i++)
		if (world->uplinks[i])
			return world->uplinks[i]->engine;
	for (i = 0; i < FUZZ_VMS; i++)
		if (world->vms[i])
			return world->vms[i]->engine;
	return NULL;
}

/* Returns what shim_lab_add_uplink() does, and begins its accounts anew. */
static void world_add_uplink(struct fuzz_world *world, u32 i, u64 capacity)
{
	u32 vm;

	world->uplinks[i] = shim_lab_add_uplink(world->lab, capacity);
	for (vm = 0; vm < FUZZ_VMS; vm++)
		world->meters[vm][i] = (struct fuzz_meter){ 0 };
}

/* Adds a VM, and begins its accounts anew. */
static void world_add_vm(struct fuzz_world *world, u32 i)
{
	world->vms[i] = shim_lab_add_vm(world->lab);
	memset(world->meters[i], 0, sizeof(world->meters[i]));
	fuzz_paths_begin(i);
}

bool fuzz_world_begin(struct fuzz_world *world, struct fuzz_input *input)
{
	u8 fail = fuzz_u8(input), law = fuzz_u8(input);
	const struct shim_law *first = shim_law_at(law % 9);
	u32 i;

	memset(world, 0, sizeof(*world));
	world->fits = true;
	shim_host_clock_ns = 1000000000;
	shim_host_allocations = 0;
	shim_host_fail_at = fail;
	shim_host_fail_count = 1;
	world->lab = shim_lab_create(7, 1000);
	if (!world->lab)
		return false;
	shim_lab_set_law(world->lab, first ? first->name : NULL);
	for (i = 0; i < FUZZ_UPLINKS; i++)
		world_add_uplink(world, i, 125000000);
	for (i = 0; i < FUZZ_VMS; i++)
		world_add_vm(world, i);
	return true;
}

void fuzz_world_end(struct fuzz_world *world)
{
	shim_host_fail_at = 0;
	if (world->lab)
		shim_lab_remove(world->lab);
	shim_host_quiesce();
	fuzz_expect(!shim_host_allocated, "%llu objects are left", shim_host_allocated);
	fuzz_expect(!shim_host_warnings, "a warning came");
}

/* Returns the depth of a limiter's bucket that is in force, bytes, rounded up. */
static u64 limiter_depth(const struct shim_limiter *limiter)
{
	u64 lease = shim_mul_div(limiter->lease_ticks, limiter->rate.bytes_per_s,
				 SHIM_NSEC_PER_SEC * SHIM_TICKS_PER_NS);

	return limiter->rate.burst_bytes + lease + !!limiter->lease_ticks;
}

/* Lets what went ahead be paid by its part of a rate. */
static void world_pay_ahead(struct fuzz_meter *meter, u64 bytes_per_s, u64 ns)
{
	fuzz_wide most = (fuzz_wide)bytes_per_s * (fuzz_wide)DEBT_NS;

	meter->ahead -= (fuzz_wide)bytes_per_s * (fuzz_wide)ns;
	if (meter->ahead < 0)
		meter->ahead = 0;
	if (meter->ahead > most)
		meter->ahead = most;
}

/* Lets accounts have what the rates in force paid in some time. */
static void world_pay(struct fuzz_world *world, u64 ns)
{
	u32 v, u;

	for (v = 0; v < FUZZ_VMS; v++) {
		fuzz_paths_pay(v, ns);
		for (u = 0; u < FUZZ_UPLINKS; u++) {
			struct fuzz_meter *meter = &world->meters[v][u];
			const struct shim_limiter *limiter = NULL;
			fuzz_wide most;

			if (world->vms[v] && world->uplinks[u])
				limiter = shim_limiter_find(world->vms[v], world->uplinks[u]);
			if (!limiter)
				continue;
			most = (fuzz_wide)limiter_depth(limiter) * (s64)SHIM_NSEC_PER_SEC;
			if (!meter->begun)
				meter->credit = most;
			meter->begun = true;
			meter->credit += (fuzz_wide)limiter->rate.bytes_per_s * (fuzz_wide)ns;
			if (meter->credit > most)
				meter->credit = most;
			world_pay_ahead(meter, limiter->rate.bytes_per_s, ns);
		}
	}
}

void fuzz_world_pass(struct fuzz_world *world, u64 ns)
{
	u64 end_ns = shim_host_clock_ns + ns, due_ns;
	u32 i;

	for (i = 0; i < TICKS_MOST; i++) {
		due_ns = shim_lab_due(world->lab);
		if (!due_ns || due_ns > end_ns)
			break;
		if (due_ns > shim_host_clock_ns) {
			world_pay(world, due_ns - shim_host_clock_ns);
			shim_host_clock_ns = due_ns;
		}
		shim_lab_tick(world->lab);
		fuzz_world_check(world);
	}
	world_pay(world, end_ns - shim_host_clock_ns);
	shim_host_clock_ns = end_ns;
	shim_lab_tick(world->lab);
	shim_host_quiesce();
}

void fuzz_world_passed(struct fuzz_world *world, u32 vm, u32 uplink, u32 bytes, u64 departure_ns)
{
	const struct shim_limiter *limiter = shim_limiter_find(world->vms[vm],
							       world->uplinks[uplink]);
	u64 horizon_ns = world->vms[vm]->mode.horizon_ns, now_ns = shim_host_clock_ns;
	struct fuzz_meter *meter = &world->meters[vm][uplink];
	fuzz_wide slack = (fuzz_wide)SLACK_BYTES * (s64)SHIM_NSEC_PER_SEC;
	fuzz_wide debt, most, rate;

	if (!limiter)
		return;
	/* One that is new is full. */
	world_pay(world, 0);
	rate = limiter->rate.bytes_per_s;
	meter->bytes += bytes;
	meter->credit -= (fuzz_wide)bytes * (s64)SHIM_NSEC_PER_SEC;
	debt = -meter->credit - slack;
	if (debt <= 0)
		return;
	fuzz_expect(horizon_ns, "%u bytes passed for which there is no credit", bytes);
	most = (fuzz_wide)(WAIT_FRAMES * max(shim_frame_size_bytes(&limiter->frame), FRAME_BYTES)) *
	       (s64)SHIM_NSEC_PER_SEC;
	if (most < rate * (fuzz_wide)horizon_ns)
		most = rate * (fuzz_wide)horizon_ns;
	if ((fuzz_wide)departure_ns * rate < (fuzz_wide)now_ns * rate + debt) {
		fuzz_expect(world->vms[vm]->mode.ahead && bytes <= AHEAD_BYTES,
			    "%u bytes are to depart %lld ns from now, before %llu paid them", bytes,
			    (s64)(departure_ns - now_ns), limiter->rate.bytes_per_s);
		meter->ahead += AHEAD_PART * (fuzz_wide)bytes * (s64)SHIM_NSEC_PER_SEC;
		fuzz_expect(meter->ahead <= most - (bytes > AHEAD_SMALL_BYTES ? most / 8 : 0) +
			    AHEAD_PART * slack,
			    "%u bytes go ahead, more than a part of %u of what %llu ns bring",
			    bytes, AHEAD_PART, horizon_ns);
		most += most / 8;
	}
	if (most < (fuzz_wide)bytes * (s64)SHIM_NSEC_PER_SEC)
		most = (fuzz_wide)bytes * (s64)SHIM_NSEC_PER_SEC;
	fuzz_expect(debt <= most, "%u bytes passed beyond the horizon of %llu ns", bytes,
		    horizon_ns);
}

void fuzz_world_dropped(struct fuzz_world *world, u32 vm, u32 uplink, enum shim_counter drop,
			u32 packets)
{
	if (shim_counter_limiter(drop))
		world->meters[vm][uplink].drops += packets;
}

/* Checks that the rates of a VM's active limiters together keep to its ceiling. */
static void world_check_ceiling(const struct shim_vm *vm)
{
	const struct shim_limiter *limiter;
	u64 sum = 0, slack = 0;

	for (limiter = vm->limiters; limiter; limiter = limiter->next) {
		if (!limiter->active)
			continue;
		sum += limiter->rate.bytes_per_s;
		slack += SHIM_RATE_MIN;
	}
	fuzz_expect(!vm->config.max || sum <= max(vm->config.max, vm->config.min) + slack,
		    "R of all uplinks %llu above the ceiling %llu", sum, vm->config.max);
}

/*
 * Checks a limiter: guarantee <= R <= its part of the ceiling and capacity, and the account.  Where
 * a ceiling is divided among several, the guarantee holds up to the part.
 */
static void world_check_limiter(const struct fuzz_world *world, u32 v, u32 u,
				const struct shim_limiter *limiter)
{
	const struct fuzz_meter *meter = &world->meters[v][u];
	const struct shim_vm_config *config = &world->vms[v]->config;
	u64 capacity = shim_uplink_capacity(world->uplinks[u]);
	u64 least = max_t(u64, config->min, SHIM_RATE_MIN), most = capacity;
	u64 rate = limiter->rate.bytes_per_s;

	if (config->max && limiter->ceiling.part < most)
		most = limiter->ceiling.part;
	if (world->vms[v]->ceiling_parts > 1 && config->max)
		least = max_t(u64, min(least, limiter->ceiling.part), SHIM_RATE_MIN);
	if (most < least)
		most = least;
	fuzz_expect(limiter->tx.bytes == meter->bytes, "%llu bytes counted, %llu passed",
		    limiter->tx.bytes, meter->bytes);
	fuzz_expect(limiter->tx.drop_police + limiter->tx.drop_horizon +
		    limiter->tx.drop_waiting == meter->drops,
		    "drops are not all counted");
	if (!limiter->active || !world->fits)
		return;
	fuzz_expect(rate >= least, "law %s: R %llu below the guarantee %llu",
		    world->vms[v]->clock->law->name, rate, least);
	fuzz_expect(rate <= most, "law %s: R %llu above the most of %llu",
		    world->vms[v]->clock->law->name, rate, most);
}

/* Checks what an uplink knows of those who are active on it. */
static void world_check_uplink(const struct shim_uplink *uplink)
{
	const struct shim_limiter *limiter;
	u32 n = 0, weight = 0;

	list_for_each_entry(limiter, &uplink->active, active_node) {
		fuzz_expect(limiter->active, "who is not active has a share");
		weight += limiter->vm->config.weight;
		n++;
	}
	fuzz_expect(n == uplink->n_active && weight == uplink->active_weight,
		    "%u are active by %u, not %u by %llu", n, weight, uplink->n_active,
		    (u64)uplink->active_weight);
}

void fuzz_world_check(struct fuzz_world *world)
{
	const struct shim_limiter *limiter;
	const struct shim_vm *vm;
	u32 v, u, rank, n;

	for (u = 0; u < FUZZ_UPLINKS; u++)
		if (world->uplinks[u])
			world_check_uplink(world->uplinks[u]);
	for (v = 0; v < FUZZ_VMS; v++) {
		vm = world->vms[v];
		if (!vm)
			continue;
		for (u = 0; u < FUZZ_UPLINKS; u++) {
			limiter = world->uplinks[u] ?
				  shim_limiter_find(vm, world->uplinks[u]) : NULL;
			if (limiter)
				world_check_limiter(world, v, u, limiter);
		}
		world_check_ceiling(vm);
		for (rank = 0, n = 0; rank < SHIM_PEER_RANKS; rank++)
			n += vm->n_ranks[rank];
		fuzz_expect(n == vm->n_peers, "%u peers in ranks, %u in all", n, vm->n_peers);
	}
	fuzz_paths_check(world);
	/* A depth that fell may grow again before time passes: that gives no credit back. */
	world_pay(world, 0);
	fuzz_expect(!shim_host_warnings, "a warning came");
}

/* Configures a VM as the netlink family does: guarantees must fit, and no ceiling is below one. */
static void world_configure_vm(struct fuzz_world *world, u32 v, struct fuzz_input *input)
{
	u32 weight = (u32)fuzz_within(input, 1, SHIM_WEIGHT_MAX), law = fuzz_u8(input) % 10;
	u64 least = fuzz_within(input, SHIM_RATE_MIN - 1, SHIM_RATE_MAX);
	u64 most = fuzz_within(input, SHIM_RATE_MIN - 1, SHIM_RATE_MAX);
	const struct shim_law *own = shim_law_at(law);
	const struct shim_uplink *narrow;
	struct shim_vm *vm = world->vms[v];

	least = least < SHIM_RATE_MIN ? 0 : least;
	most = most < SHIM_RATE_MIN ? 0 : most;
	if (most && most < least)
		most = least;
	if (shim_engine_exceeds(vm->engine, vm->engine->guaranteed - vm->config.min + least,
				SHIM_RATE_MAX, NULL, &narrow))
		least = 0;
	shim_lab_configure_vm(vm, weight, least, most, own ? own->name : NULL);
}

/* Changes a capacity, mostly to one that the guarantees fit. */
static void world_set_capacity(struct fuzz_world *world, u32 u, struct fuzz_input *input)
{
	u64 capacity = fuzz_within(input, SHIM_RATE_MIN, SHIM_RATE_MAX);
	struct shim_engine *engine = world_engine(world);
	bool slow = fuzz_u8(input) == 0xff;

	/* A link can get slower than what was guaranteed: then nothing is. */
	if (capacity < engine->guaranteed && !slow)
		capacity = engine->guaranteed;
	if (capacity < engine->guaranteed)
		world->fits = false;
	if (slow)
		shim_uplink_link_rate(world->uplinks[u], capacity);
	shim_uplink_configure(world->uplinks[u], slow ? 0 : capacity, slow ? capacity : 0);
}

/* Sets prefixes of a VM. */
static void world_set_prefixes(struct fuzz_world *world, u32 v, struct fuzz_input *input)
{
	u8 addresses[4 * 16], lengths[4];
	struct shim_address address;
	u32 n = fuzz_u8(input) % 5, i;

	for (i = 0; i < n; i++) {
		fuzz_address(input, v, &address);
		memcpy(addresses + 16 * i, &address, 16);
		lengths[i] = fuzz_u8(input) % 129;
	}
	shim_lab_set_prefixes(world->vms[v], addresses, lengths, n);
}

/* Sets or takes away a key. */
static void world_set_key(struct fuzz_world *world, struct fuzz_input *input)
{
	u8 which = fuzz_u8(input), other = which & 1, set = which & 2;
	u8 key[SHIM_KEY_BYTES];

	memset(key, which >> 2, sizeof(key));
	if (shim_lab_set_key(world->lab, set ? key : NULL, other))
		return;
	memcpy(world->keys[other], key, sizeof(key));
	world->keys_set[other] = set;
}

/* Reads what can be read of a VM, and checks that it adds up. */
static void world_look(struct fuzz_world *world, u32 v)
{
	u8 addresses[4 * 16];
	struct shim_tx sum;
	u64 bytes = 0;
	u32 u;

	if (!world->vms[v])
		return;
	shim_vm_sent(world->vms[v], &sum);
	for (u = 0; u < FUZZ_UPLINKS; u++)
		bytes += world->meters[v][u].bytes;
	fuzz_expect(sum.bytes >= bytes, "%llu bytes of %llu are told", sum.bytes, bytes);
	shim_lab_moved(world->vms[v], shim_host_clock_ns >> 1, addresses, 4);
}

/* Takes the reports that were built, which a shim must be able to read. */
static void world_take_reports(struct fuzz_world *world)
{
	struct shim_lab_report report;
	struct shim_message message;
	u32 v;

	for (v = 0; v < FUZZ_VMS; v++)
		world_look(world, v);

	while (shim_lab_report(world->lab, &report)) {
		enum shim_message_error error;

		error = shim_message_decode(&message, report.data, sizeof(report.data),
					    world->keys[0]);
		fuzz_expect(error != SHIM_MESSAGE_FORM && error != SHIM_MESSAGE_SHORT,
			    "a report that no shim believes: %u marks of %u packets",
			    message.marks, message.packets);
	}
}

/* Sets a knob of a law, or its period. */
static void world_set_knob(struct fuzz_world *world, struct fuzz_input *input)
{
	const struct shim_law *law = shim_law_at(fuzz_u8(input) % 8);
	u32 k = fuzz_u8(input) % (law->n_knobs + 1);

	if (k == law->n_knobs)
		shim_lab_set_knob(world->lab, law->name, "period",
				  fuzz_within(input, 50000, 10000000000ULL));
	else
		shim_lab_set_knob(world->lab, law->name, law->knobs[k].name,
				  fuzz_within(input, law->knobs[k].min, law->knobs[k].max));
}

/* Does what needs a VM. */
static void world_operate_vm(struct fuzz_world *world, u32 operation, struct fuzz_input *input)
{
	u32 v = fuzz_u8(input) % FUZZ_VMS;
	struct shim_address address;

	if (!world->vms[v]) {
		world_add_vm(world, v);
		return;
	}
	switch (operation) {
	case 3:
		world_configure_vm(world, v, input);
		break;
	case 4:
		world_set_prefixes(world, v, input);
		break;
	case 5:
		fuzz_address(input, v + 1, &address);
		shim_lab_weigh_peer(world->vms[v], address.bytes,
				    (u32)fuzz_within(input, 0, SHIM_WEIGHT_MAX));
		break;
	default:
		shim_lab_remove_vm(world->vms[v]);
		world_add_vm(world, v);
	}
}

/* Does what needs an uplink. */
static void world_operate_uplink(struct fuzz_world *world, u32 operation,
				 struct fuzz_input *input)
{
	u32 u = fuzz_u8(input) % FUZZ_UPLINKS;

	if (world->uplinks[u] && operation == 7) {
		world_set_capacity(world, u, input);
		return;
	}
	if (world->uplinks[u])
		shim_lab_remove_uplink(world->uplinks[u]);
	world_add_uplink(world, u, world_engine(world) ?
			 max_t(u64, 125000000, world_engine(world)->guaranteed) : 125000000);
}

void fuzz_world_operate(struct fuzz_world *world, u32 operation, struct fuzz_input *input)
{
	const struct fuzz_setting *setting;
	const struct shim_law *law;

	switch (operation) {
	case 0:
		setting = &settings[fuzz_u8(input) % SHIM_COUNT(settings)];
		shim_lab_set(world->lab, setting->name,
			     fuzz_within(input, setting->least, setting->most));
		break;
	case 1:
		law = shim_law_at(fuzz_u8(input) % 9);
		shim_lab_set_law(world->lab, law ? law->name : NULL);
		break;
	case 2:
		world_set_knob(world, input);
		fuzz_paths_unlearn();
		break;
	case 3 ... 6:
		world_operate_vm(world, operation, input);
		break;
	case 7 ... 8:
		world_operate_uplink(world, operation, input);
		break;
	case 9:
		world_set_key(world, input);
		break;
	case 10:
		shim_host_fail_at = shim_host_allocations + fuzz_u8(input);
		shim_host_fail_count = fuzz_u8(input);
		break;
	case 11:
		world_take_reports(world);
		break;
	default:
		/* Up to a year: a clock that is further off is another machine's. */
		fuzz_world_pass(world, fuzz_within(input, 0, 31536000ULL * SHIM_NSEC_PER_SEC));
	}
	fuzz_world_check(world);
}
