// SPDX-License-Identifier: Apache-2.0
/*
 * What must hold for paths; paths.h has the accounts' algebra.
 */
#include "../core/arith.h"
#include "world.h"

/* Paths of a VM, with its rest. */
#define PATHS_MOST (SHIM_PATHS_MAX + 1)

/* Bytes that an account may be short by: what roundings of rates and depths add up to. */
#define SLACK_BYTES 64

/* Full packets that may wait at any rate, and the bytes of one at least, as bucket.h has them. */
#define WAIT_FRAMES 11U
#define FRAME_BYTES 1514U

/* What a teller told of a path. */
struct told {
	u64 teller;			/* who */
	u64 rate;			/* bytes/s */
	u64 ns;				/* when it came */
	u32 sender;			/* of the message */
	u32 epoch;			/* its start */
	u32 sequence;			/* its number */
	u8 bits;			/* of the prefix that it was told of */
};

/* The account of a path. */
struct account {
	const struct shim_path *path;	/* whose */
	u8 first[16];			/* the first address of its prefix */
	u64 ns;				/* of the credit: the time, or what is ahead of it */
	fuzz_wide credit;		/* c * 10^9 */
	u64 rate;			/* R that it grows by, bytes/s */
	u64 depth;			/* B, bytes */
	u64 order_ns;			/* D, before which nothing leaves; behind ns: none */
	fuzz_wide spent;		/* s * 10^9: what passed to leave at D or later */
	u64 bytes;			/* that passed */
	bool fresh;			/* the message that made it was not noted yet */
	bool unknown;			/* what was told is not all known any more */
	bool heard;			/* the last message told a rate that counts */
	u32 n_told;			/* tellers known */
	struct told told[SHIM_TELLERS_MAX];	/* theirs, in no order */
};

/* The accounts of each VM, in the order of its paths, and how many. */
static struct account accounts[FUZZ_VMS][PATHS_MOST];
static u32 n_accounts[FUZZ_VMS];

/* What of a message each VM had no memory for when it was last told something. */
static u64 n_lost[FUZZ_VMS];

/* The same, while they are put in order. */
static struct account before[PATHS_MOST];

void fuzz_paths_begin(u32 vm)
{
	n_accounts[vm] = 0;
	n_lost[vm] = 0;
}

/* Forgets what was told of all paths of a VM. */
static void accounts_unlearn(u32 v)
{
	u32 i;

	for (i = 0; i < n_accounts[v]; i++)
		accounts[v][i].unknown = true;
}

void fuzz_paths_unlearn(void)
{
	u32 v;

	for (v = 0; v < FUZZ_VMS; v++)
		accounts_unlearn(v);
}

/* Returns the depth of a path's bucket, bytes * 10^9. */
static fuzz_wide depth_of(const struct account *account)
{
	return (fuzz_wide)account->depth * (s64)SHIM_NSEC_PER_SEC;
}

/* Returns how much of a credit a bucket holds, bytes * 10^9. */
static fuzz_wide held_by(const struct account *account, fuzz_wide credit)
{
	return credit < depth_of(account) ? credit : depth_of(account);
}

/* Returns what the credit will be at a time that is not behind it, bytes * 10^9. */
static fuzz_wide credit_at(const struct account *account, u64 ns)
{
	return account->credit + (fuzz_wide)account->rate * (fuzz_wide)(ns - account->ns);
}

/* Moves an account on to a time, if that is ahead of it. */
static void account_advance(struct account *account, u64 ns)
{
	if (ns > account->ns && account->order_ns > account->ns && account->order_ns <= ns) {
		account->credit = credit_at(account, account->order_ns);
		account->credit = held_by(account, account->credit) - account->spent;
		account->ns = account->order_ns;
		account->spent = 0;
	}
	if (ns <= account->ns)
		return;
	account->credit = credit_at(account, ns);
	account->credit = held_by(account, account->credit - account->spent) + account->spent;
	account->ns = ns;
}

/* Takes note of the rate and the depth that its path has now. */
static void account_note(struct account *account)
{
	const struct shim_gate *gate = &account->path->gate;

	account_advance(account, shim_host_clock_ns);
	if (account->rate == gate->rate.bytes_per_s && account->depth == gate->rate.burst_bytes)
		return;
	account->rate = gate->rate.bytes_per_s;
	account->depth = gate->rate.burst_bytes;
	account->order_ns = gate->order.until_ns;
	account->credit = held_by(account, account->credit - account->spent);
	account->spent = 0;
}

/* Begins the account of a path that is new. */
static void account_begin(struct account *account, const struct shim_path *path)
{
	*account = (struct account){ .path = path, .fresh = true, .ns = shim_host_clock_ns };
	shim_number_address(path->first, account->first);
	account->rate = path->gate.rate.bytes_per_s;
	account->depth = path->gate.rate.burst_bytes;
	account->credit = depth_of(account);
}

/* Tells whether the paths that are there, and no others, have an account. */
static bool accounts_fit(const struct fuzz_world *world, u32 v)
{
	const struct shim_path *path;
	u32 n = 0;

	list_for_each_entry(path, &world->vms[v]->paths, node) {
		if (n == n_accounts[v] || accounts[v][n].path != path)
			return false;
		n++;
	}
	return n == n_accounts[v];
}

/* Sees to it that they have. */
static void accounts_sync(const struct fuzz_world *world, u32 v)
{
	u32 n_before = n_accounts[v], n = 0, next = 0, i;
	const struct shim_path *path;

	if (accounts_fit(world, v))
		return;
	memcpy(before, accounts[v], n_before * sizeof(before[0]));
	list_for_each_entry(path, &world->vms[v]->paths, node) {
		fuzz_expect(n < PATHS_MOST, "more than %d paths", PATHS_MOST);
		for (i = next; i < n_before && before[i].path != path; i++)
			;
		if (i < n_before) {
			accounts[v][n++] = before[i];
			next = i + 1;
		} else {
			account_begin(&accounts[v][n++], path);
		}
	}
	n_accounts[v] = n;
}

void fuzz_paths_pay(u32 vm, u64 ns)
{
	u32 i;

	for (i = 0; i < n_accounts[vm]; i++) {
		account_note(&accounts[vm][i]);
		account_advance(&accounts[vm][i], shim_host_clock_ns + ns);
	}
}

/* Returns a number below, of or above 0 as a path is before, at or behind another in order. */
static int path_compare(const struct account *one, const struct account *other)
{
	int first = memcmp(one->first, other->first, sizeof(one->first));

	if (one->path->scope != other->path->scope)
		return (int)one->path->scope - (int)other->path->scope;
	return first ? first : (int)one->path->bits - (int)other->path->bits;
}

/* Checks the paths of a VM; returns how many have a prefix. */
static u32 check_vm(const struct fuzz_world *world, u32 v)
{
	const struct shim_vm *vm = world->vms[v];
	u32 i, n = 0;

	accounts_sync(world, v);
	fuzz_expect(n_accounts[v] == vm->n_paths, "%u paths of %u are listed", n_accounts[v],
		    vm->n_paths);
	fuzz_expect(!vm->n_paths == !vm->path_index, "%u paths, and an index of others",
		    vm->n_paths);
	fuzz_expect(!vm->n_paths || (vm->clock && vm->clock->law->path_init),
		    "paths under a law that steers none");
	for (i = 0; i < n_accounts[v]; i++) {
		const struct shim_path *path = accounts[v][i].path;

		n += !!path->bits;
		fuzz_expect(path->gate.bytes == accounts[v][i].bytes,
			    "%llu bytes counted, %llu passed", path->gate.bytes,
			    accounts[v][i].bytes);
		fuzz_expect(!i || path_compare(&accounts[v][i - 1], &accounts[v][i]) < 0,
			    "paths are out of order, or one is there twice");
	}
	fuzz_expect(n <= SHIM_PATHS_MAX, "%u paths of one VM", n);
	return n;
}

void fuzz_paths_check(const struct fuzz_world *world)
{
	const struct shim_engine *engine = NULL;
	u32 v, n = 0;

	for (v = 0; v < FUZZ_VMS; v++) {
		if (!world->vms[v])
			continue;
		n += check_vm(world, v);
		engine = world->vms[v]->engine;
	}
	fuzz_expect(!engine || (u64)atomic64_read(&engine->n_paths) == n,
		    "%llu paths of %u are counted", (u64)atomic64_read(&engine->n_paths), n);
}

/* Tells whether the first bits of two addresses are the same. */
static bool same_bits(const u8 *one, const u8 *other, u32 bits)
{
	u32 whole = bits / 8;

	return !memcmp(one, other, whole) &&
	       !(bits % 8 && (one[whole] ^ other[whole]) & (0xff00 >> bits % 8 & 0xff));
}

/* Returns the account of a VM's longest prefix, shorter than `below` bits, around an address. */
static struct account *account_around(u32 v, u8 scope, const u8 *address, u32 below)
{
	struct account *found = NULL;
	u32 i;

	for (i = 0; i < n_accounts[v]; i++) {
		const struct shim_path *path = accounts[v][i].path;

		if (!path->bits || path->scope != scope || path->bits >= below)
			continue;
		if (same_bits(accounts[v][i].first, address, path->bits) &&
		    (!found || found->path->bits < path->bits))
			found = &accounts[v][i];
	}
	return found;
}

/* Returns the account of the rest of a VM, NULL: there is none. */
static struct account *account_of_rest(u32 v)
{
	return n_accounts[v] && !accounts[v][0].path->bits ? &accounts[v][0] : NULL;
}

const struct shim_path *fuzz_paths_find(const struct fuzz_world *world, u32 vm, u8 version,
					const struct shim_address *destination,
					const struct shim_address *end)
{
	struct shim_packet packet = {
		.version = version, .destination = *destination, .frame = (void *)end,
	};
	const struct account *found = NULL;
	const struct shim_path *path;

	accounts_sync(world, vm);
	if (version)
		found = account_around(vm, SHIM_SCOPE_DESTINATION, destination->bytes, 129);
	if (!found && end)
		found = account_around(vm, SHIM_SCOPE_TUNNEL, end->bytes, 129);
	if (!found)
		found = account_of_rest(vm);
	path = found ? found->path : NULL;
	fuzz_expect(shim_path_find(world->vms[vm], &packet) == path,
		    "a packet does not find the path of its longest prefix");
	return path;
}

/*
 * Charges an account with a packet of `bytes` that has base_ns for the path's own time and is to
 * leave at departure_ns; left: what it leaves of the credit at base_ns.
 */
static void account_charge(struct account *account, u64 base_ns, fuzz_wide left, u32 bytes,
			   u64 departure_ns)
{
	fuzz_wide slack = (fuzz_wide)SLACK_BYTES * (s64)SHIM_NSEC_PER_SEC, wait, most;

	/* The path's own wait, at the most that roundings can make of it. */
	wait = (slack - left) / (s64)account->rate + 1;
	if (departure_ns <= base_ns || ((fuzz_wide)(departure_ns - base_ns) <= wait &&
					account->path->gate.late_ns != departure_ns)) {
		if (base_ns > account->ns)
			account->spent += (fuzz_wide)bytes * (s64)SHIM_NSEC_PER_SEC;
		else
			account->credit = left;
		return;
	}
	/* Something else has it wait longer: the account goes on from there. */
	account->credit = left + (fuzz_wide)account->rate * (fuzz_wide)(departure_ns - base_ns);
	most = depth_of(account) - (fuzz_wide)bytes * (s64)SHIM_NSEC_PER_SEC;
	if (most < 0)
		most = 0;
	if (account->credit > most)
		account->credit = most;
	account->ns = departure_ns;
	account->spent = 0;
}

void fuzz_paths_passed(const struct fuzz_world *world, u32 vm, const struct shim_path *path,
		       u32 bytes, u64 departure_ns)
{
	fuzz_wide slack = (fuzz_wide)SLACK_BYTES * (s64)SHIM_NSEC_PER_SEC, left, debt, most;
	u64 horizon_ns = world->vms[vm]->mode.horizon_ns, base_ns;
	struct account *account;
	u32 i;

	for (i = 0; i < n_accounts[vm] && accounts[vm][i].path != path; i++)
		;
	if (i == n_accounts[vm])
		return;
	account = &accounts[vm][i];
	account_note(account);
	departure_ns = max(departure_ns, shim_host_clock_ns);
	account->bytes += bytes;
	base_ns = account->ns;
	left = account->credit;
	if (account->order_ns > base_ns && horizon_ns) {
		left = held_by(account, credit_at(account, account->order_ns)) - account->spent;
		base_ns = account->order_ns;
	}
	left -= (fuzz_wide)bytes * (s64)SHIM_NSEC_PER_SEC;
	debt = -left - slack;
	fuzz_expect(departure_ns >= base_ns, "%u bytes overtake a packet of their path by %lld ns",
		    bytes, (s64)(base_ns - departure_ns));
	if (debt > 0) {
		fuzz_expect(horizon_ns, "%u bytes passed a path that has no credit", bytes);
		most = (fuzz_wide)max(bytes, WAIT_FRAMES * max(path->gate.frame, FRAME_BYTES)) *
		       (s64)SHIM_NSEC_PER_SEC;
		if (most < (fuzz_wide)account->rate * (fuzz_wide)horizon_ns)
			most = (fuzz_wide)account->rate * (fuzz_wide)horizon_ns;
		fuzz_expect(debt <= most, "%u bytes passed a path beyond the horizon of %llu ns",
			    bytes, horizon_ns);
		fuzz_expect((fuzz_wide)(departure_ns - base_ns) * (s64)account->rate >= debt,
			    "%u bytes are to depart %lld ns from %llu, before their path paid them",
			    bytes, (s64)(departure_ns - base_ns), base_ns);
	}
	account_charge(account, base_ns, left, bytes, departure_ns);
}

/* Returns the account of exactly the prefix of an entry, NULL: there is none. */
static struct account *account_of_entry(u32 v, const struct shim_message_entry *entry)
{
	struct account *found;

	if (!entry->bits)
		return account_of_rest(v);
	found = account_around(v, entry->scope, entry->prefix, entry->bits + 1U);
	return found && found->path->bits == entry->bits ? found : NULL;
}

/* Lets the account of a path that is new know what was told of the one around it. */
static void account_inherit(u32 v, struct account *account, const struct shim_message_entry *entry)
{
	const struct account *around = NULL;
	u32 bits = entry->bits;

	account->fresh = false;
	/* Those that this message makes later are not there yet. */
	while (bits) {
		around = account_around(v, entry->scope, entry->prefix, bits);
		if (!around || !around->fresh)
			break;
		bits = around->path->bits;
	}
	if (!bits || !around)
		return;
	account->unknown = around->unknown;
	account->n_told = around->n_told;
	memcpy(account->told, around->told, sizeof(account->told));
}

/* Lets an account hear what an entry says of its path; timeout_ns: how long that holds. */
static void account_hear(struct account *account, const struct shim_message *message,
			 const struct shim_message_entry *entry, u64 timeout_ns)
{
	struct told *told;
	u32 i;

	for (i = 0; i < account->n_told && account->told[i].teller != entry->teller; i++)
		;
	if (i == SHIM_TELLERS_MAX) {
		account->unknown = true;
		return;
	}
	told = &account->told[i];
	if (i == account->n_told) {
		account->n_told++;
	} else if (told->sender == message->sender && told->epoch == message->epoch &&
		   told->sequence > message->sequence) {
		/* What it was overtaken by may be forgotten: then it counts. */
		account->unknown |= shim_host_clock_ns - told->ns >= timeout_ns;
		return;
	} else if (told->bits > entry->bits && shim_host_clock_ns - told->ns < timeout_ns) {
		return;
	}
	account->heard = true;
	*told = (struct told){
		.teller = entry->teller,
		.rate = entry->rate,
		.ns = shim_host_clock_ns,
		.sender = message->sender,
		.epoch = message->epoch,
		.sequence = message->sequence,
		.bits = entry->bits,
	};
}

/* Tells whether what is said of an entry's prefix is said of a path. */
static bool concerns(const struct shim_message_entry *entry, const struct account *account)
{
	const struct shim_path *path = account->path;

	if (!entry->bits || !path->bits)
		return entry->bits == path->bits;
	return entry->scope == path->scope && entry->bits <= path->bits &&
	       same_bits(entry->prefix, account->first, entry->bits);
}

/* Checks the rate of a path, of which the lowest that is in force was told. */
static void check_rate(const struct shim_vm *vm, const struct account *account, u64 timeout_ns,
		       u64 most)
{
	u64 rate = account->path->gate.rate.bytes_per_s, lowest = 0;
	u32 i;

	for (i = 0; i < account->n_told; i++)
		if (shim_host_clock_ns - account->told[i].ns < timeout_ns &&
		    (!lowest || account->told[i].rate < lowest))
			lowest = account->told[i].rate;
	if (account->unknown || !lowest)
		return;
	fuzz_expect(rate <= max(lowest, vm->config.min), "R of a path %llu, told %llu", rate,
		    lowest);
	fuzz_expect(!account->heard || rate >= min(lowest, most),
		    "R of a path %llu, told %llu, ceiling %llu",
		    rate, lowest, most);
}

/* Returns the ceiling of a VM that is active, 0: it is not. */
static u64 ceiling_of(const struct shim_vm *vm)
{
	const struct shim_limiter *limiter = vm->limiters;
	u64 most = 0;

	for (; limiter; limiter = limiter->next)
		if (limiter->active)
			most = shim_add_sat(most, shim_uplink_capacity(limiter->uplink));
	return most && vm->config.max ? min(most, vm->config.max) : most;
}

void fuzz_paths_heard(const struct fuzz_world *world, u32 vm, const u8 *data, u32 len)
{
	const struct shim_vm *told = world->vms[vm];
	const struct shim_law *law = told->clock->law;
	bool rates = data[3] == SHIM_MESSAGE_RATE;
	u64 timeout_ns = 0, most = ceiling_of(told);
	struct shim_message_entry entry;
	struct shim_message message;
	struct account *account;
	u32 i, j;

	/* One of the keys is right, or the message were not obeyed. */
	for (i = 0; i < 2; i++)
		if (!shim_message_decode(&message, data, len, world->keys[i]))
			break;
	accounts_sync(world, vm);
	/* A VM that is inactive has no use for it. */
	if (!most)
		return;
	if (rates)
		timeout_ns = shim_engine_settings(told->engine)->laws[told->clock->index].knobs
			[shim_knob_find(law, "rate-timeout")];
	for (i = 0; i < message.entries; i++) {
		shim_message_entry(&entry, data, i);
		account = account_of_entry(vm, &entry);
		if (!account) {
			/* It binds the rest, or the VM; by how much is not looked at. */
			account = account_of_rest(vm);
			if (account)
				account->unknown = true;
			continue;
		}
		if (account->fresh)
			account_inherit(vm, account, &entry);
		for (j = 0; j < n_accounts[vm] && rates; j++)
			if (!accounts[vm][j].fresh && concerns(&entry, &accounts[vm][j]))
				account_hear(&accounts[vm][j], &message, &entry, timeout_ns);
	}
	/* What was said before there was memory was not said of a path that came later. */
	if (n_lost[vm] != (u64)atomic64_read(&told->counters[SHIM_PATHS_NO_MEMORY]))
		accounts_unlearn(vm);
	n_lost[vm] = (u64)atomic64_read(&told->counters[SHIM_PATHS_NO_MEMORY]);
	for (j = 0; j < n_accounts[vm]; j++) {
		accounts[vm][j].fresh = false;
		if (rates)
			check_rate(told, &accounts[vm][j], timeout_ns, most);
		accounts[vm][j].heard = false;
	}
}
