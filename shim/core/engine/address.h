/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Which VM may send from which address; address.c has the rules.
 */
#ifndef SHIM_CORE_ENGINE_ADDRESS_H
#define SHIM_CORE_ENGINE_ADDRESS_H

#include "../host.h"
#include "packet.h"

struct shim_engine;
struct shim_uplink;
struct shim_vm;

/* Addresses that are remembered of a VM. */
#define SHIM_OWNED_MAX 16

/* Prefixes that can be set for a VM. */
#define SHIM_PREFIXES_MAX 256

/* An address in a tenant network. */
struct shim_owner_key {
	struct shim_address address;	/* the address */
	struct shim_network network;	/* the network it is in */
};

/* Who owns an address. */
struct shim_owner {
	struct shim_table_node node;	/* in owners->table */
	struct shim_owner_key key;	/* by which it is found */
	struct shim_vm *vm;		/* the VM; never changes */
	u64 seen_ns;			/* when it last sent from there; written by its packets */
	const struct shim_vm *claimant;	/* announced it while the owner is silent; NULL: none */
	const struct shim_vm *former;	/* had it before, and may take it back; compared only */
	u64 former_ns;			/* until then */
	u64 claimed_ns;			/* when it was first announced; owners->lock */
	u64 asked_ns;			/* when the owner was last asked for it; owners->lock */
	u8 asker[6];			/* link-layer address of the claimant; owners->lock */
	u8 version;			/* of IP: 4 or 6; never changes */
	u16 bit;			/* 1 << its place among its VM's; never changes */
	u8 mac[6];			/* link-layer source of the first packet from there */
	bool gone;			/* no longer in the table; written under owners->lock */
	struct list_head vm_node;	/* in vm->sources.owned; owners->lock */
	shim_rcu_t rcu;			/* deferred free */
};

/* An address that is set for one VM or more. */
struct shim_reserved {
	struct shim_table_node node;	/* in owners->reserved */
	struct shim_address address;	/* by which it is found */
	u32 n;				/* for how many; configuration's lock */
	shim_rcu_t rcu;			/* deferred free */
};

/* All addresses that VMs of an engine are known to own. */
struct shim_owners {
	spinlock_t lock;		/* of lists and of changes of the table */
	struct shim_table table;	/* struct shim_owner */
	struct shim_table reserved;	/* struct shim_reserved; configuration's lock, RCU */
};

/* A range of addresses. */
struct shim_prefix {
	struct shim_address address;	/* its first address */
	u8 length;			/* bits that count, of 128 */
};

/* The addresses set for a VM: never changed in place. */
struct shim_prefixes {
	shim_rcu_t rcu;			/* deferred free */
	u32 n;				/* how many */
	struct shim_prefix prefixes[];	/* these */
};

/* What is known of a VM's own addresses. */
struct shim_sources {
	struct shim_owner __rcu *last;	/* of the last packet that had one */
	struct shim_prefixes __rcu *set;	/* NULL: none; configuration's lock, RCU */
	struct list_head owned;		/* struct shim_owner; owners->lock */
	u32 n_owned;			/* length of owned; written under owners->lock */
	u16 places;			/* bits of owned; owners->lock */
	u64 tidied_ns;			/* when those not in use were forgotten; the same */
};

/* Prepares an engine's addresses; 0 or a negative error number.  May sleep. */
int shim_owners_init(struct shim_engine *engine);

/* Ends them, when there is no VM any more.  May sleep. */
void shim_owners_exit(struct shim_engine *engine);

/* Prepares a VM's addresses. */
void shim_sources_init(struct shim_sources *sources);

/* Forgets which addresses a VM owns, and which were set. */
void shim_sources_exit(struct shim_vm *vm);

/*
 * Tells whether a VM may send a packet from the address it has: SHIM_COUNTER_NONE, or why it is to
 * be dropped.  Remembers the address as its own.  Softirqs off, RCU read lock.
 */
enum shim_counter shim_sources_check(struct shim_vm *vm, const struct shim_packet *packet);

/*
 * Notes that a VM says that it has an address, by ARP or a neighbour advertisement that it sends;
 * uplink: the packet leaves by one, in the address's network.  If the address is another VM's, the
 * host asks that one, and if it is silent from then on it loses the address.  Softirqs off, RCU
 * read lock.
 */
void shim_sources_announce(struct shim_vm *vm, const struct shim_address *address,
			   const struct shim_packet *packet, bool uplink);

/*
 * Tells whether a message for an address that came to a VM by a packet concerns it: the address is
 * the VM's own in the packet's network, or the link-local one that a MAC address which it sent from
 * stands for.  Softirqs off, RCU read lock.
 */
bool shim_sources_told(struct shim_vm *vm, const struct shim_address *address,
		       const struct shim_packet *packet);

/*
 * Tells whether a VM was seen to send from an address in a network, or the address was set for it.
 * Softirqs off, RCU read lock.
 */
bool shim_sources_used(const struct shim_vm *vm, const struct shim_address *address,
		       const struct shim_network *network);

/*
 * Returns the bit of the address that a packet of a VM is from, 0 if that is not remembered.  After
 * shim_sources_check() of the packet.  Softirqs off, RCU read lock.
 */
u16 shim_sources_bit(const struct shim_vm *vm, const struct shim_packet *packet);

/*
 * Returns the bits of an address of a VM in a network, NULL: in all of them; 0 if it is not
 * remembered there.  Softirqs off, RCU read lock.
 */
u16 shim_sources_bits(const struct shim_vm *vm, const struct shim_address *address,
		      const struct shim_network *network);

/*
 * Sets the addresses that a VM may send from, and takes the object over; NULL: those it is seen to
 * send from and that are no other VM's.  False without memory, and nothing changed.  May sleep;
 * configuration's lock.
 */
bool shim_sources_set(struct shim_vm *vm, struct shim_prefixes *prefixes);

#endif
