/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the stress program share.
 *
 * It is the first and only process of a machine with several CPUs.  Two hypervisors are network
 * namespaces with a datapath each; VM a is a port of the first, VM b of the second, and their
 * uplinks are the two ends of one link:
 *
 *     guest a --- vm (port 1) | hypervisor a | uplink (port 2)
 *                                                     |
 *     guest b --- vm (port 1) | hypervisor b | uplink (port 2)
 *
 * It knows of the shim what its netlink family says, and nothing else.
 */
#ifndef STRESS_H
#define STRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NSEC_PER_SEC 1000000000LL
#define NSEC_PER_MSEC 1000000LL

/* Names of the devices; each namespace has its own. */
#define VM_DEVICE "vm"
#define UPLINK_DEVICE "uplink"
#define GUEST_DEVICE "guest"
#define DATAPATH_DEVICE "dp"

/* Numbers of the datapath's ports. */
#define VM_PORT 1
#define UPLINK_PORT 2

/* Most addresses behind a VM, which are peers of the other one. */
#define ADDRESSES 16

/* Most CPUs of a machine. */
#define CPUS_MAX 4

/* Bytes of a netlink request or of one read. */
#define MESSAGE_BYTES 32768

/* One side: a guest and the hypervisor it runs on. */
struct side {
	char letter;		/* 'a' or 'b' */
	int guest_ns;		/* file of the guest's network namespace */
	int host_ns;		/* file of the hypervisor's network namespace */
};

/* A request under construction. */
struct message {
	uint32_t bytes;		/* length so far */
	char data[MESSAGE_BYTES] __attribute__((aligned(8)));
};

/* A netlink socket; each thread has its own. */
struct netlink {
	int fd;			/* the socket */
	uint32_t sequence;	/* of the last request */
};

/* Called with each answer's payload behind its generic header; false ends the reading early. */
typedef void (*answer_fn)(const char *attributes, int bytes, void *data);

/* main.c */

/* Number of CPUs that are online. */
extern int cpus;

/* Ends the machine after "failed: ..." with the reason in errno when errno_too. */
void die(bool errno_too, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* Tells the runner a line; lines begin with a word that says what they are. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns CLOCK_MONOTONIC in nanoseconds. */
int64_t now_ns(void);

/* Sleeps for some nanoseconds. */
void nap_ns(int64_t ns);

/* Writes a text to a file; returns whether it took it. */
bool put_file(const char *path, const char *text);

/* Returns a pseudo-random number below bound; state is the caller's. */
uint32_t draw(uint64_t *state, uint32_t bound);

/* Binds the calling thread to a CPU. */
void pin(int cpu);

/* Loads a kernel module with its parameters; returns 0 or a negative errno value. */
int module_load(const char *path, const char *parameters);

/* Unloads a kernel module, waiting while it is in use; returns 0 or a negative errno value. */
int module_unload(const char *name);

/* Loads the module that the shim is part of. */
void shim_load(void);

/* Unloads it. */
void shim_unload(void);

/* netlink.c */

void netlink_open(struct netlink *nl, int protocol, int ns);
void netlink_close(struct netlink *nl);
void message_begin(struct message *message, uint16_t type, uint16_t flags);
void message_begin_generic(struct message *message, uint16_t family, uint8_t command,
			   uint16_t flags);
void message_append(struct message *message, const void *data, uint32_t bytes);
void message_put(struct message *message, uint16_t attribute, const void *data, uint32_t bytes);
void message_put_u8(struct message *message, uint16_t attribute, uint8_t value);
void message_put_u16(struct message *message, uint16_t attribute, uint16_t value);
void message_put_u32(struct message *message, uint16_t attribute, uint32_t value);
void message_put_u64(struct message *message, uint16_t attribute, uint64_t value);
void message_put_string(struct message *message, uint16_t attribute, const char *value);
uint32_t message_nest(struct message *message, uint16_t attribute);
void message_end(struct message *message, uint32_t nest);
int netlink_call(struct netlink *nl, struct message *message, answer_fn answer, void *data);
int netlink_family(struct netlink *nl, const char *name);

/* network.c */

int namespace_new(void);
void namespace_enter(int ns);
void link_pair(int ns, const char *name, int peer_ns, const char *peer, const uint8_t *mac,
	       const uint8_t *peer_mac);
int link_delete(int ns, const char *name);
void link_up(int ns, const char *name, bool up);
void link_fq(int ns, const char *name);
void link_no_queue(int ns, const char *name);
uint32_t link_index(int ns, const char *name);

/* datapath.c */

int datapath_new(struct netlink *nl);
int datapath_delete(struct netlink *nl);
int datapath_port_new(struct netlink *nl, const char *device, uint32_t number);
int datapath_port_delete(struct netlink *nl, uint32_t number);
int datapath_flows(struct netlink *nl);

/* shim.c: functions that change something return 0 or a negative errno value. */

/* The knob of a law as the kernel tells it. */
struct knob {
	char name[40];		/* as the kernel calls it */
	uint64_t value[3];	/* least, default, greatest */
};

/* The laws there are, with the knobs of one of them. */
struct laws {
	char names[32][32];	/* the laws */
	int n;			/* number of laws */
	struct knob knobs[64];	/* of the law asked for */
	int knobs_n;		/* number of knobs */
};

int shim_settings(struct netlink *nl, struct message *message);
void shim_settings_begin(struct netlink *nl, struct message *message);
int shim_laws(struct netlink *nl, const char *of, struct laws *laws);
void shim_port_begin(struct netlink *nl, struct message *message, const char *device);
int shim_role(struct netlink *nl, const char *device, uint32_t role);
int shim_dump(struct netlink *nl, uint8_t command);
int shim_peer(struct netlink *nl, const char *device, int address, uint32_t weight);
uint64_t shim_stat(struct netlink *nl, const char *device, uint16_t stat);

/* hammer.c */

/* What one CPU sends, until told to stop. */
struct hammer {
	int cpu;		/* CPU it runs on */
	int ns;			/* namespace it sends in */
	const char *device;	/* device it sends by */
	bool back;		/* from b to a instead of from a to b */
	bool mixed;		/* all kinds of packets instead of one */
	int addresses;		/* destinations */
	uint32_t bytes;		/* of a packet, link-layer header included */
	uint32_t round;		/* packets of a round; 0: no pause */
	int64_t round_ns;	/* rounds begin at whole multiples of this */
	atomic_bool stop;	/* ends it */
	atomic_ulong sent;	/* packets */
};

void *hammer_run(void *data);

/* conserve.c */

/* Returns whether what a limiter let pass stayed within its rate; each run tells its numbers. */
bool conserve_all(struct side *sides, int seconds);

/* churn.c */

/*
 * Changes all that can be changed under traffic for some seconds; returns whether enough of it was
 * done.
 */
bool churn_all(struct side *sides, int seconds);

/* scene.c */

/* Makes the namespaces and links of both sides. */
void scene_links(struct side *sides);

/* Makes the datapaths of both sides and gives their ports roles. */
void scene_datapaths(struct side *sides);

/* Removes the datapaths. */
void scene_clear(struct side *sides);

/* Makes one hypervisor's datapath with ports and flows; returns 0 or a negative errno value. */
int scene_datapath(struct netlink *nl);

/*
 * Gives a hypervisor's ports their roles, the VM a ceiling in bytes/s; returns 0 or a negative
 * errno value.
 */
int scene_roles(struct netlink *nl, uint64_t max_rate);

#endif
