/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * TCP connections of VMs, under a law that wants flows; ../flow.h is what is followed of each.
 */
#ifndef SHIM_CORE_ENGINE_CONNECTION_H
#define SHIM_CORE_ENGINE_CONNECTION_H

#include "../flow.h"
#include "../host.h"
#include "../law.h"
#include "packet.h"

struct shim_clock;
struct shim_engine;
struct shim_limiter;
struct shim_peer;
struct shim_settings;
struct shim_uplink;
struct shim_vm;

/*
 * How long a connection may be silent, by what is known of it; who stands lower makes room first.
 */
enum shim_connection_rank {
	SHIM_CONNECTION_OPENING,	/* its handshake is not over */
	SHIM_CONNECTION_CLOSED,		/* a FIN or RST was seen */
	SHIM_CONNECTION_OPEN,		/* neither */

	SHIM_CONNECTION_RANKS
};

/* Which TCP connection of which VM. */
struct shim_connection_key {
	struct shim_vm *vm;		/* the VM */
	struct shim_address local;	/* its address */
	struct shim_address remote;	/* the other end's */
	u16 port_vm;			/* its TCP port */
	u16 port_peer;			/* the other end's */
	u32 zero;			/* fills the hole that would be hashed */
};

/* Found under RCU, changed under its lock. */
struct shim_connection {
	struct shim_table_node node;	/* in engine->connections */
	struct shim_connection_key key;	/* by which it is found */
	spinlock_t lock;	/* of what follows, unless said otherwise; inside vm->lock */
	bool touched;			/* in vm->touched_connections, or about to be */
	bool gone;			/* no longer in the table */
	enum shim_connection_rank rank;	/* list that rank_node is in; vm->lock */
	const struct shim_clock *clock;	/* of its law; never changes */
	u64 seen_ns;			/* time of the last segment */
	const struct shim_uplink *out;	/* uplink of the last one sent; compared, never followed */
	struct llist_node touch;	/* in vm->touched_connections while touched */
	struct list_head rank_node;	/* in vm->connections[rank]; vm->lock */
	union {
		struct list_head node_busy;	/* in vm->busy_connections; vm->lock */
		shim_rcu_t rcu;		/* deferred free */
	};
	struct shim_flow state;		/* what is followed; the law's own part follows */
};

/* Makes an engine's table of connections; 0 or a negative error number. */
int shim_connections_init(struct shim_engine *engine);

/* Ends an engine's table, which is empty by now. */
void shim_connections_exit(struct shim_engine *engine);

/*
 * Lets the law follow a segment that a VM sends through a limiter, to a peer if it has one; the law
 * writes to *action.  Softirqs off, RCU read lock.
 */
void shim_connection_sent(struct shim_limiter *limiter, struct shim_peer *peer,
			  const struct shim_settings *settings, const struct shim_packet *packet,
			  struct shim_action *action);

/*
 * The same for a segment that arrives for a VM; returns who answers for ECN on the VM's side.
 * Softirqs off, RCU read lock.
 */
enum shim_flow_ecn shim_connection_received(struct shim_vm *vm,
					    const struct shim_settings *settings,
					    const struct shim_packet *packet,
					    struct shim_action *action);

/* Forgets all connections of a VM.  vm->lock. */
void shim_connections_remove(struct shim_vm *vm);

/* Takes the list of the connections that segments touched, to be drained.  vm->lock. */
void shim_connections_take(struct shim_vm *vm);

/* Takes over at most `most` of the connections taken; returns how many it was.  vm->lock. */
u32 shim_connections_drain(struct shim_vm *vm, u32 most);

/* Begins a pass over the VM's live connections, if it is time for that.  vm->lock. */
void shim_connections_begin(struct shim_vm *vm, u64 now_ns);

/*
 * Lets the law take the step of at most `most` connections of a pass; returns how many it was.  The
 * pass is over when vm->pending_connections is empty.  vm->lock, RCU read lock.
 */
u32 shim_connections_visit(struct shim_vm *vm, u64 now_ns, u32 most);

/*
 * Looks at no more than `most` connections, if it is time for that, and forgets the silent ones;
 * returns how many were looked at.  Some are left to be looked at while vm->collect_left is not 0.
 * vm->lock.
 */
u32 shim_connections_collect(struct shim_vm *vm, u64 now_ns, u32 most);

/* Returns the bytes of a connection with the state of any law. */
size_t shim_connection_bytes(void);

#endif
