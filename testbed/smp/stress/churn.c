// SPDX-License-Identifier: Apache-2.0
/*
 * Everything changes while all CPUs carry traffic both ways: rates, laws, knobs, settings, roles,
 * ports, links, peers, whole namespaces and the module itself.
 *
 * Two threads change their hypervisor each, one makes and removes namespaces, one reads; the main
 * thread takes the module out and in again. What is refused is counted, not judged: a port may be
 * gone when its rate is to change. What counts is that the kernel says nothing, that each kind of
 * change was taken, and that packets pass in the end.
 */
#define _GNU_SOURCE
#include "stress.h"

#include <linux/netlink.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ovs_shim.h"

/*
 * Hammers a CPU: from the guests of both sides, and the fabric, which sends into a hypervisor what
 * no shim saw.
 */
#define HAMMERS_PER_CPU 3

/* Niceness of hammers, so that changes come often. */
#define HAMMER_NICE 10

/* Time between two reloads of the module at most; short runs divide their time in four. */
#define RELOAD_NS (15 * NSEC_PER_SEC)

/* Packets sent in a namespace that is about to go. */
#define PASSING_PACKETS 20

/* Packets that must pass in the end, and how long they may take. */
#define FINAL_PACKETS 50
#define FINAL_NS (20 * NSEC_PER_SEC)

/* Ceiling of VMs in the end, bytes/s. */
#define FINAL_RATE 1000000

/* Kinds of changes. */
enum change {
	CHANGE_RATE,
	CHANGE_LAW,
	CHANGE_VM_LAW,
	CHANGE_KNOB,
	CHANGE_LIMITER,
	CHANGE_TIMES,
	CHANGE_KEY,
	CHANGE_PEER,
	CHANGE_CAPACITY,
	CHANGE_VM_ROLE,
	CHANGE_UPLINK_ROLE,
	CHANGE_SWAP_ROLES,
	CHANGE_PORT,
	CHANGE_LINK,
	CHANGE_DUMP,
	CHANGE_NAMESPACE,
	CHANGE_RELOAD,

	CHANGES
};

/* Names of changes, and how often each is drawn by a thread that changes a hypervisor. */
static const struct {
	const char *name;	/* for the report */
	int weight;		/* parts of all */
} kinds[CHANGES] = {
	[CHANGE_RATE] = { "rate", 20 },
	[CHANGE_LAW] = { "law", 4 },
	[CHANGE_VM_LAW] = { "vm-law", 4 },
	[CHANGE_KNOB] = { "knob", 12 },
	[CHANGE_LIMITER] = { "limiter", 8 },
	[CHANGE_TIMES] = { "times", 8 },
	[CHANGE_KEY] = { "key", 4 },
	[CHANGE_PEER] = { "peer", 8 },
	[CHANGE_CAPACITY] = { "capacity", 6 },
	[CHANGE_VM_ROLE] = { "vm-role", 3 },
	[CHANGE_UPLINK_ROLE] = { "uplink-role", 3 },
	[CHANGE_SWAP_ROLES] = { "swap-roles", 1 },
	[CHANGE_PORT] = { "port", 2 },
	[CHANGE_LINK] = { "link", 1 },
	[CHANGE_DUMP] = { "dump", 0 },
	[CHANGE_NAMESPACE] = { "namespace", 0 },
	[CHANGE_RELOAD] = { "reload", 0 },
};

/* What the kernel took and refused, by kind. */
static atomic_ulong taken[CHANGES], refused[CHANGES];

/*
 * Held for writing while the module is away: a port that is asked for then would hold the module
 * for ever. Who reloads goes first, or the others would never let it.
 */
static pthread_rwlock_t module_lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

/* A thread of this part. */
struct actor {
	pthread_t thread;	/* itself */
	struct side *sides;	/* both */
	int side;		/* which one is its own */
	uint64_t random;	/* state of its numbers */
	struct laws laws;	/* as the kernel told them last */
	int drawn;		/* changes it drew so far */
	atomic_bool stop;	/* ends it */
};

/* Returns a law by chance. */
static const char *some_law(struct actor *actor)
{
	return actor->laws.names[draw(&actor->random, (uint32_t)actor->laws.n)];
}

/* Takes a role away and gives it again with what belongs to it. */
static int change_role(struct actor *actor, struct netlink *nl, const char *device)
{
	int error = shim_role(nl, device, OVS_SHIM_ROLE_NONE);

	return error ? error : scene_roles(nl, 100000 + draw(&actor->random, 1000000));
}

/* Makes the VM's port an uplink for a moment, and the uplink a VM. */
static int change_swap(struct netlink *nl)
{
	int error = shim_role(nl, VM_DEVICE, OVS_SHIM_ROLE_UPLINK);

	if (!error)
		error = shim_role(nl, UPLINK_DEVICE, OVS_SHIM_ROLE_VM);
	shim_role(nl, VM_DEVICE, OVS_SHIM_ROLE_NONE);
	shim_role(nl, UPLINK_DEVICE, OVS_SHIM_ROLE_NONE);
	return error ? error : scene_roles(nl, FINAL_RATE);
}

/* Takes a port out of the datapath and puts it back under its number. */
static int change_port(struct actor *actor, struct netlink *nl)
{
	bool vm = draw(&actor->random, 2);
	uint32_t number = vm ? VM_PORT : UPLINK_PORT;
	int error = datapath_port_delete(nl, number);

	if (!error)
		error = datapath_port_new(nl, vm ? VM_DEVICE : UPLINK_DEVICE, number);
	return error ? error : scene_roles(nl, FINAL_RATE);
}

/* Sets a knob of some law to its least, default or greatest value. */
static int change_knob(struct actor *actor, struct netlink *nl)
{
	static _Thread_local struct laws laws;
	const char *law = some_law(actor);
	struct message message;
	struct knob *knob;
	uint32_t all, one;
	int error = shim_laws(nl, law, &laws);

	if (error || !laws.knobs_n)
		return error;
	knob = &laws.knobs[draw(&actor->random, (uint32_t)laws.knobs_n)];
	shim_settings_begin(nl, &message);
	if (message.bytes) {
		message_put_string(&message, OVS_SHIM_SETTINGS_OF, law);
		all = message_nest(&message, OVS_SHIM_SETTINGS_KNOBS);
		one = message_nest(&message, OVS_SHIM_KNOBS_KNOB);
		message_put_string(&message, OVS_SHIM_KNOB_NAME, knob->name);
		/* The greatest now and then only: a law that waits for hours does nothing more. */
		message_put_u64(&message, OVS_SHIM_KNOB_VALUE,
				knob->value[draw(&actor->random, 12) * 3 / 12 % 3]);
		message_end(&message, one);
		message_end(&message, all);
	}
	return shim_settings(nl, &message);
}

/* Changes one or several settings of the namespace. */
static int change_settings(struct actor *actor, struct netlink *nl, enum change change)
{
	uint8_t key[16] = { 1, [15] = (uint8_t)draw(&actor->random, 2) };
	struct message message;

	shim_settings_begin(nl, &message);
	if (!message.bytes)
		return shim_settings(nl, &message);
	switch (change) {
	case CHANGE_LAW:
		message_put_string(&message, OVS_SHIM_SETTINGS_LAW,
				   draw(&actor->random, 12) ? some_law(actor) : "none");
		break;
	case CHANGE_LIMITER:
		message_put_u32(&message, OVS_SHIM_SETTINGS_LIMITER, draw(&actor->random, 2));
		message_put_u32(&message, OVS_SHIM_SETTINGS_BURST,
				draw(&actor->random, 2) ? 20000 : 2000000);
		message_put_u32(&message, OVS_SHIM_SETTINGS_BURST_US,
				(uint32_t)draw(&actor->random, 3) * 5000);
		message_put_u8(&message, OVS_SHIM_SETTINGS_ECN, (uint8_t)draw(&actor->random, 2));
		break;
	case CHANGE_TIMES:
		message_put_u64(&message, OVS_SHIM_SETTINGS_INACTIVE,
				draw(&actor->random, 2) ? 10000000 : 1000000000);
		message_put_u64(&message, OVS_SHIM_SETTINGS_PEER_IDLE,
				draw(&actor->random, 2) ? 100000000 : 10000000000);
		message_put_u64(&message, OVS_SHIM_SETTINGS_HORIZON,
				draw(&actor->random, 2) ? 2000000 : 50000000);
		message_put_u32(&message, OVS_SHIM_SETTINGS_PEERS_MAX,
				draw(&actor->random, 3) ? 4096 : 3);
		break;
	default:
		message_put(&message, OVS_SHIM_SETTINGS_KEY, key, sizeof(key));
		message_put_u8(&message, OVS_SHIM_SETTINGS_ACCEPT_V0,
			       (uint8_t)draw(&actor->random, 2));
	}
	return shim_settings(nl, &message);
}

/* Changes one or several values of a port. */
static int change_values(struct actor *actor, struct netlink *nl, enum change change)
{
	struct message message;

	shim_port_begin(nl, &message, change == CHANGE_CAPACITY ? UPLINK_DEVICE : VM_DEVICE);
	if (!message.bytes)
		return shim_settings(nl, &message);
	switch (change) {
	case CHANGE_RATE:
		message_put_u64(&message, OVS_SHIM_PORT_MAX_RATE,
				20000 + draw(&actor->random, 2000000));
		message_put_u32(&message, OVS_SHIM_PORT_WEIGHT, 1 + draw(&actor->random, 9));
		message_put_u64(&message, OVS_SHIM_PORT_MIN_RATE, draw(&actor->random, 2) * 10000);
		break;
	case CHANGE_VM_LAW:
		message_put_string(&message, OVS_SHIM_PORT_LAW,
				   draw(&actor->random, 3) ? some_law(actor) : "default");
		break;
	default:
		message_put_u64(&message, OVS_SHIM_PORT_CAPACITY,
				1000000 + draw(&actor->random, 20000000));
	}
	return shim_settings(nl, &message);
}

/* Makes one change; returns 0 or a negative errno value. */
static int change_make(struct actor *actor, struct netlink *nl, enum change change)
{
	switch (change) {
	case CHANGE_RATE:
	case CHANGE_VM_LAW:
	case CHANGE_CAPACITY:
		return change_values(actor, nl, change);
	case CHANGE_LAW:
	case CHANGE_LIMITER:
	case CHANGE_TIMES:
	case CHANGE_KEY:
		return change_settings(actor, nl, change);
	case CHANGE_KNOB:
		return change_knob(actor, nl);
	case CHANGE_PEER:
		return shim_peer(nl, VM_DEVICE, (int)draw(&actor->random, ADDRESSES),
				 draw(&actor->random, 3));
	case CHANGE_VM_ROLE:
		return change_role(actor, nl, VM_DEVICE);
	case CHANGE_UPLINK_ROLE:
		return change_role(actor, nl, UPLINK_DEVICE);
	case CHANGE_SWAP_ROLES:
		return change_swap(nl);
	case CHANGE_PORT:
		return change_port(actor, nl);
	default:
		link_up(actor->sides[actor->side].host_ns, UPLINK_DEVICE, false);
		link_up(actor->sides[actor->side].host_ns, UPLINK_DEVICE, true);
		return 0;
	}
}

/* Counts a change. */
static void count(enum change change, int error)
{
	atomic_fetch_add(error ? &refused[change] : &taken[change], 1);
}

/* Draws a kind of change: each once in order, then by the weights. */
static enum change draw_change(struct actor *actor)
{
	int all = 0, at;

	if (actor->drawn < CHANGE_DUMP)
		return (enum change)actor->drawn++;
	for (int i = 0; i < CHANGES; i++)
		all += kinds[i].weight;
	at = (int)draw(&actor->random, (uint32_t)all);
	for (int i = 0; i < CHANGES; i++) {
		at -= kinds[i].weight;
		if (at < 0)
			return (enum change)i;
	}
	return CHANGE_RATE;
}

/* Changes one hypervisor; a thread's main function. */
static void *hypervisor_run(void *data)
{
	struct actor *actor = data;
	struct netlink nl;

	netlink_open(&nl, NETLINK_GENERIC, actor->sides[actor->side].host_ns);
	while (!actor->stop) {
		enum change change = draw_change(actor);

		pthread_rwlock_rdlock(&module_lock);
		count(change, change_make(actor, &nl, change));
		pthread_rwlock_unlock(&module_lock);
		nap_ns(NSEC_PER_MSEC / 2);
	}
	netlink_close(&nl);
	return NULL;
}

/* Reads all there is to read, while the module goes, too; a thread's main function. */
static void *reader_run(void *data)
{
	static const uint8_t commands[] = {
		OVS_SHIM_CMD_LIMITER_GET, OVS_SHIM_CMD_PEER_GET, OVS_SHIM_CMD_PORT_GET,
	};
	struct actor *actor = data;
	struct netlink nl;

	netlink_open(&nl, NETLINK_GENERIC, actor->sides[actor->side].host_ns);
	while (!actor->stop) {
		count(CHANGE_DUMP, shim_dump(&nl, commands[draw(&actor->random, 3)]));
		nap_ns(5 * NSEC_PER_MSEC);
	}
	netlink_close(&nl);
	return NULL;
}

/*
 * Makes a namespace with all that belongs to a hypervisor, sends some packets there and leaves it
 * to its end.
 */
static int namespace_life(struct actor *actor)
{
	uint8_t mac[6] = { 2, 0, 0, 0, 0, 0x0a }, other[6] = { 2, 0, 0, 0, 1, 0x0a };
	struct hammer hammer = {
		.device = GUEST_DEVICE, .addresses = ADDRESSES, .bytes = 200, .mixed = true
	};
	struct message message;
	struct netlink nl;
	pthread_t thread;
	int error;

	hammer.ns = namespace_new();
	hammer.cpu = (int)draw(&actor->random, (uint32_t)cpus);
	link_pair(hammer.ns, GUEST_DEVICE, hammer.ns, VM_DEVICE, mac, other);
	mac[4] = 2;
	other[4] = 3;
	link_pair(hammer.ns, UPLINK_DEVICE, hammer.ns, "far", mac, other);
	netlink_open(&nl, NETLINK_GENERIC, hammer.ns);
	shim_settings_begin(&nl, &message);
	if (message.bytes)
		message_put_string(&message, OVS_SHIM_SETTINGS_LAW, some_law(actor));
	error = shim_settings(&nl, &message);
	if (!error)
		error = scene_datapath(&nl);
	if (!error)
		error = scene_roles(&nl, FINAL_RATE);
	netlink_close(&nl);
	pthread_create(&thread, NULL, hammer_run, &hammer);
	for (int i = 0; i < 200 && hammer.sent < PASSING_PACKETS; i++)
		nap_ns(5 * NSEC_PER_MSEC);
	hammer.stop = true;
	pthread_join(thread, NULL);
	namespace_enter(actor->sides[0].guest_ns);
	close(hammer.ns);
	return error;
}

/* Makes and leaves namespaces; a thread's main function. */
static void *namespaces_run(void *data)
{
	struct actor *actor = data;

	while (!actor->stop) {
		pthread_rwlock_rdlock(&module_lock);
		count(CHANGE_NAMESPACE, namespace_life(actor));
		pthread_rwlock_unlock(&module_lock);
		nap_ns(50 * NSEC_PER_MSEC);
	}
	return NULL;
}

/* Takes the module out and in again under traffic. */
static void reload(struct side *sides)
{
	pthread_rwlock_wrlock(&module_lock);
	scene_clear(sides);
	shim_unload();
	shim_load();
	scene_datapaths(sides);
	count(CHANGE_RELOAD, 0);
	pthread_rwlock_unlock(&module_lock);
}

/* Lowers the calling thread's niceness and hammers; a thread's main function. */
static void *nice_hammer_run(void *data)
{
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), HAMMER_NICE);
	return hammer_run(data);
}

/* Returns whether packets still pass from a to b, after all that happened. */
static bool packets_pass(struct side *sides)
{
	struct hammer hammer = {
		.ns = sides[0].guest_ns, .device = GUEST_DEVICE, .addresses = 2, .bytes = 200,
	};
	int64_t end = now_ns() + FINAL_NS;
	struct message message;
	struct netlink nl;
	pthread_t thread;
	uint64_t before, after;
	int error;

	netlink_open(&nl, NETLINK_GENERIC, sides[0].host_ns);
	shim_settings_begin(&nl, &message);
	message_put_string(&message, OVS_SHIM_SETTINGS_LAW, "static");
	message_put_u32(&message, OVS_SHIM_SETTINGS_LIMITER, OVS_SHIM_LIMITER_POLICE);
	error = shim_settings(&nl, &message);
	if (!error)
		error = scene_roles(&nl, FINAL_RATE);
	if (error)
		die(false, "after the changes: %s", strerror(-error));
	before = shim_stat(&nl, VM_DEVICE, OVS_SHIM_STAT_TX_PACKETS);
	pthread_create(&thread, NULL, hammer_run, &hammer);
	do {
		nap_ns(50 * NSEC_PER_MSEC);
		after = shim_stat(&nl, VM_DEVICE, OVS_SHIM_STAT_TX_PACKETS);
	} while (after < before + FINAL_PACKETS && now_ns() < end);
	hammer.stop = true;
	pthread_join(thread, NULL);
	netlink_close(&nl);
	return after >= before + FINAL_PACKETS;
}

/*
 * Tells what was changed and sent; returns whether each kind of change was taken and each hammer
 * sent.
 */
static bool churn_report(const struct hammer *hammers, int n)
{
	unsigned long all = 0, packets = 0;
	bool good = true;

	for (int i = 0; i < CHANGES; i++) {
		say("count %s %lu refused %lu", kinds[i].name, (unsigned long)taken[i],
		    (unsigned long)refused[i]);
		all += taken[i];
		if (!taken[i]) {
			say("failed: no change of kind %s was taken", kinds[i].name);
			good = false;
		}
	}
	for (int i = 0; i < n; i++) {
		packets += hammers[i].sent;
		if (!hammers[i].sent) {
			say("failed: CPU %d sent nothing", hammers[i].cpu);
			good = false;
		}
	}
	say("churn %lu changes, %lu packets", all, packets);
	return good;
}

/*
 * Changes all that can be changed under traffic for some seconds; returns whether enough of it was
 * done.
 */
bool churn_all(struct side *sides, int seconds)
{
	static void *(*const mains[])(void *) = {
		hypervisor_run, hypervisor_run, reader_run, namespaces_run,
	};
	static struct actor actors[4];
	struct hammer hammers[CPUS_MAX * HAMMERS_PER_CPU] = { 0 };
	pthread_t threads[CPUS_MAX * HAMMERS_PER_CPU];
	int64_t pause_ns = seconds * NSEC_PER_SEC / 4, end;
	int n = cpus * HAMMERS_PER_CPU;
	struct netlink nl;
	bool good;

	if (pause_ns > RELOAD_NS)
		pause_ns = RELOAD_NS;
	for (int i = 0; i < n; i++) {
		bool fabric = i % HAMMERS_PER_CPU == 2, back = i % HAMMERS_PER_CPU == 1;

		/* The fabric sends from a's uplink: b's hypervisor takes it for a switch's. */
		hammers[i] = (struct hammer){
			.cpu = i / HAMMERS_PER_CPU,
			.addresses = ADDRESSES,
			.bytes = 300,
			.mixed = true,
			.back = back,
			.ns = fabric ? sides[0].host_ns : sides[back].guest_ns,
			.device = fabric ? UPLINK_DEVICE : GUEST_DEVICE,
		};
	}
	netlink_open(&nl, NETLINK_GENERIC, sides[0].host_ns);
	for (int i = 0; i < 4; i++) {
		actors[i].sides = sides;
		actors[i].side = i % 2;
		actors[i].random = (uint64_t)i + 1;
		if (shim_laws(&nl, NULL, &actors[i].laws) || !actors[i].laws.n)
			die(false, "the laws are not told");
	}
	netlink_close(&nl);
	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, nice_hammer_run, &hammers[i]);
	for (int i = 0; i < 4; i++)
		pthread_create(&actors[i].thread, NULL, mains[i], &actors[i]);
	for (end = now_ns() + seconds * NSEC_PER_SEC; now_ns() < end;) {
		say("progress changes: %lu rates, %lu laws, %lu reloads",
		    (unsigned long)taken[CHANGE_RATE], (unsigned long)taken[CHANGE_LAW],
		    (unsigned long)taken[CHANGE_RELOAD]);
		nap_ns(pause_ns);
		reload(sides);
	}
	for (int i = 0; i < 4; i++)
		actors[i].stop = true;
	for (int i = 0; i < 4; i++)
		pthread_join(actors[i].thread, NULL);
	for (int i = 0; i < n; i++)
		hammers[i].stop = true;
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	good = churn_report(hammers, n);
	/* Whatever the last changes left: ports and roles anew. */
	reload(sides);
	if (!packets_pass(sides)) {
		say("failed: no packets pass after the changes");
		good = false;
	}
	return good;
}
