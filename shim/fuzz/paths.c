// SPDX-License-Identifier: Apache-2.0
/*
 * Messages that make paths, and what must hold for paths; paths.h has the accounts' algebra.
 */
#include "../core/arith.h"
#include "world.h"

/* Paths of a VM, with its rest. */
#define PATHS_MOST (SHIM_PATHS_MAX + 1)

/* Bytes that an account may be short by: what roundings of rates and depths add up to. */
#define SLACK_BYTES 64

/* Bytes that may wait at any rate, as bucket.c has them. */
#define WAIT_BYTES_LEAST (11 * 1514U)

/* Bytes of a message before its entries, and of its tag. */
#define HEAD_BYTES 48
#define TAG_BYTES 8

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
	fuzz_wide credit;		/* c * 10^9, at the time or at late_ns if that is ahead */
	u64 late_ns;			/* departure of the last packet that others held */
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
	return (fuzz_wide)account->path->gate.rate.burst_bytes * (s64)SHIM_NSEC_PER_SEC;
}

/* Begins the account of a path that is new. */
static void account_begin(struct account *account, const struct shim_path *path)
{
	*account = (struct account){ .path = path, .fresh = true };
	shim_number_address(path->first, account->first);
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
	u64 end_ns = shim_host_clock_ns + ns, start_ns;
	u32 i;

	for (i = 0; i < n_accounts[vm]; i++) {
		struct account *account = &accounts[vm][i];

		start_ns = max(shim_host_clock_ns, account->late_ns);
		if (end_ns > start_ns)
			account->credit += (fuzz_wide)account->path->gate.rate.bytes_per_s *
					   (fuzz_wide)(end_ns - start_ns);
		if (account->credit > depth_of(account))
			account->credit = depth_of(account);
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

/* Lets an account go on from the departure of a packet, if something else had that wait. */
static void account_hold(struct account *account, u64 base_ns, u32 bytes, u64 departure_ns)
{
	fuzz_wide rate = account->path->gate.rate.bytes_per_s, wait, most;
	fuzz_wide slack = (fuzz_wide)SLACK_BYTES * (s64)SHIM_NSEC_PER_SEC;

	if (departure_ns <= base_ns)
		return;
	/* The path's own wait, at the most that roundings can make of it. */
	wait = (slack - account->credit) / rate + 1;
	if ((fuzz_wide)(departure_ns - base_ns) <= wait &&
	    account->path->gate.late_ns != departure_ns)
		return;
	account->credit += rate * (fuzz_wide)(departure_ns - base_ns);
	most = depth_of(account) - (fuzz_wide)bytes * (s64)SHIM_NSEC_PER_SEC;
	if (most < 0)
		most = 0;
	if (account->credit > most)
		account->credit = most;
	account->late_ns = departure_ns;
}

void fuzz_paths_passed(const struct fuzz_world *world, u32 vm, const struct shim_path *path,
		       u32 bytes, u64 departure_ns)
{
	fuzz_wide slack = (fuzz_wide)SLACK_BYTES * (s64)SHIM_NSEC_PER_SEC, debt, most, rate;
	u64 horizon_ns = world->vms[vm]->mode.horizon_ns, base_ns;
	struct account *account;
	u32 i;

	for (i = 0; i < n_accounts[vm] && accounts[vm][i].path != path; i++)
		;
	if (i == n_accounts[vm])
		return;
	account = &accounts[vm][i];
	fuzz_paths_pay(vm, 0);
	departure_ns = max(departure_ns, shim_host_clock_ns);
	base_ns = max(account->late_ns, shim_host_clock_ns);
	rate = path->gate.rate.bytes_per_s;
	account->bytes += bytes;
	account->credit -= (fuzz_wide)bytes * (s64)SHIM_NSEC_PER_SEC;
	debt = -account->credit - slack;
	fuzz_expect(departure_ns >= base_ns, "%u bytes overtake a packet of their path by %lld ns",
		    bytes, (s64)(base_ns - departure_ns));
	if (debt > 0) {
		fuzz_expect(horizon_ns, "%u bytes passed a path that has no credit", bytes);
		most = (fuzz_wide)max_t(u32, bytes, WAIT_BYTES_LEAST) * (s64)SHIM_NSEC_PER_SEC;
		if (most < rate * (fuzz_wide)horizon_ns)
			most = rate * (fuzz_wide)horizon_ns;
		fuzz_expect(debt <= most, "%u bytes passed a path beyond the horizon of %llu ns",
			    bytes, horizon_ns);
		fuzz_expect((fuzz_wide)departure_ns * rate >= (fuzz_wide)base_ns * rate + debt,
			    "%u bytes are to depart %lld ns from %llu, before their path paid them",
			    bytes, (s64)(departure_ns - base_ns), base_ns);
	}
	account_hold(account, base_ns, bytes, departure_ns);
}

/* Writes the lowest bytes of value at p in network order. */
static void put(u8 *p, u64 value, int bytes)
{
	for (; bytes--; value >>= 8)
		p[bytes] = (u8)value;
}

/* Reads an entry from an input, of a message of a type. */
static void entry_fill(struct fuzz_input *input, u32 vm, u8 type, struct shim_message_entry *entry)
{
	struct shim_address address;
	u8 kind = fuzz_u8(input), bits;
	u32 i;

	*entry = (struct shim_message_entry){ .teller = 1 + (kind & 7) };
	if (type == SHIM_MESSAGE_RATE) {
		entry->rate = fuzz_within(input, SHIM_RATE_MIN, SHIM_RATE_MAX);
	} else {
		entry->marks = (u32)fuzz_u64(input);
		entry->interval_ns = (u32)fuzz_u64(input);
	}
	entry->weight_total = fuzz_u8(input);
	if (!(kind & 0x10)) {
		fuzz_address(input, vm + 1, &address);
		bits = kind & 0x20 ? 128 : fuzz_u8(input);
		entry->bits = bits & 0x80 ? (u8)(bits % 129) : (u8)(96 + bits % 33);
		entry->scope = kind & 8 && entry->bits ? SHIM_SCOPE_TUNNEL : SHIM_SCOPE_DESTINATION;
		for (i = 0; i < entry->bits; i++)
			entry->prefix[i / 8] |= address.bytes[i / 8] & 0x80 >> i % 8;
	}
	/* One of the rules is broken, or a field is anything. */
	if (kind & 0x40 && kind & 0x80) {
		bits = fuzz_u8(input);
		entry->teller = fuzz_u64(input);
		entry->scope = bits & 3;
		entry->bits ^= bits >> 2;
		entry->rate ^= type == SHIM_MESSAGE_RATE ? fuzz_u64(input) : 0;
	}
}

/* Tells whether two entries say the same. */
static bool entry_same(const struct shim_message_entry *one, const struct shim_message_entry *other)
{
	return one->teller == other->teller && one->rate == other->rate &&
	       !memcmp(one->prefix, other->prefix, 16) &&
	       one->weight_total == other->weight_total && one->marks == other->marks &&
	       one->interval_ns == other->interval_ns && one->bits == other->bits &&
	       one->scope == other->scope;
}

/* Writes an entry at p. */
static void entry_write(u8 *p, u8 type, const struct shim_message_entry *entry)
{
	put(p, entry->teller, 8);
	memcpy(p + 8, entry->prefix, 16);
	put(p + 24, entry->bits, 1);
	put(p + 25, entry->scope, 1);
	put(p + 26, 0, 2);
	put(p + 28, entry->weight_total, 4);
	if (type == SHIM_MESSAGE_RATE) {
		put(p + 32, entry->rate, 8);
	} else {
		put(p + 32, entry->marks, 4);
		put(p + 36, entry->interval_ns, 4);
	}
}

u32 fuzz_paths_build(struct fuzz_input *input, u32 vm, const struct shim_message *head,
		     const u8 *key, u8 data[FUZZ_PATHS_BYTES])
{
	struct shim_message_entry entries[SHIM_MESSAGE_ENTRIES], read;
	u32 n = 1 + fuzz_u8(input) % SHIM_MESSAGE_ENTRIES, i, len;
	enum shim_message_error error;
	struct shim_message message;

	len = SHIM_MESSAGE_V2_BYTES + n * SHIM_MESSAGE_ENTRY_BYTES;
	memset(data, 0, len);
	put(data, SHIM_MESSAGE_MAGIC, 2);
	put(data + 2, 2, 1);
	put(data + 3, head->type, 1);
	put(data + 4, head->flags, 2);
	put(data + 6, len, 2);
	put(data + 8, head->epoch, 4);
	put(data + 12, head->sequence, 4);
	memcpy(data + SHIM_MESSAGE_VM_AT, head->vm, 16);
	put(data + 32, head->sender, 4);
	put(data + 36, n, 1);
	put(data + 40, head->rate, 8);
	for (i = 0; i < n; i++) {
		entry_fill(input, vm, head->type, &entries[i]);
		entry_write(data + HEAD_BYTES + i * SHIM_MESSAGE_ENTRY_BYTES, head->type,
			    &entries[i]);
	}
	put(data + len - TAG_BYTES, shim_siphash(key, data, len - TAG_BYTES), TAG_BYTES);
	error = shim_message_decode(&message, data, len, key);
	fuzz_expect(error == SHIM_MESSAGE_OK || error == SHIM_MESSAGE_FORM, "error %d", error);
	for (i = 0; i < n && !error; i++) {
		shim_message_entry(&read, data, i);
		fuzz_expect(entry_same(&read, &entries[i]), "entry %u is read otherwise", i);
	}
	fuzz_expect(error || (message.version == 2 && message.entries == n &&
			      message.rate == head->rate && message.sender == head->sender),
		    "read otherwise");
	return len;
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
