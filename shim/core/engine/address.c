// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Which VM may send from which address.
 *
 * Marks, reports and messages name VMs by address, so who sends from another's makes him pay.  A
 * packet from a VM to an uplink is refused if its source is
 *
 *   an address that no host can have: a group's, a loopback one, or, towards one host, none
 *   outside the prefixes set for the VM, if any are
 *   if none are: an address that is set for another VM of this host
 *   another VM's on this host, in the same network: that VM was seen to send from it, by the same
 *   VLAN and tunnel, and not longer ago than peer_idle
 *
 * A virtual address moves within a second.  Who announces another's address by ARP or a neighbour
 * advertisement has it once its owner has neither sent from it nor answered for it for a second,
 * in which the host asks it.  An owner that uses the address, or that is alive and answers, keeps
 * it.  One that was silent has it back at once when it sends from it within peer_idle of its last
 * packet, so nobody loses more by an announcement than he can by silence.
 *
 * Networks are told apart because tenants may use the same addresses.  A network is what packets
 * bear on the uplink: the key of the tunnel and the outermost VLAN tag, whoever put it there.  On
 * an access port only the bridge does; a guest behind a trunk port may own addresses in VLANs of
 * its own choice, which gives it nothing in others.  Who was first keeps an
 * address while he uses it; a VM whose addresses are set takes them from whoever had them.  Single
 * addresses that are set are nobody else's even while their VM is silent, in any network, for what
 * is set names none; wider prefixes protect only what was seen.  At most
 * SHIM_OWNED_MAX are remembered of a VM; more of them pass, and are not protected: a VM that routes
 * sends from many.
 *
 * A message concerns a VM if it names an address of its own, and if no other VM of the host uses
 * that address in the network that the message came by.  Where tunnels are routed on the host, what
 * a VM sends leaves in another network than what it receives comes by: so the VM's own use there is
 * not asked for.  A VM that sends from more addresses than are remembered is told at any that is no
 * other's.  A message may also name the link-local address of the MAC address that a VM sends with.
 *
 * The common packet has the source of the one before it, and costs a comparison.
 */
#include "../arith.h"
#include "engine.h"

/* Bits of an address. */
#define ADDRESS_BITS 128

/* Times of use are written no more often than that, ns: 2^30. */
#define SEEN_NS 0x40000000ULL

/* Who announces an address has it if its owner neither uses it nor answers for so long, ns: 1 s. */
#define HANDOVER_NS SHIM_NSEC_PER_SEC

/* The owner is asked again no sooner, and has so long to answer, ns. */
#define ANSWER_NS (HANDOVER_NS / 4)

/* An announcement holds so long, ns. */
#define CLAIM_NS (10 * SHIM_NSEC_PER_SEC)

/* The table of an engine. */
static const struct shim_table_params owner_table = {
	.head_offset = offsetof(struct shim_owner, node),
	.key_offset = offsetof(struct shim_owner, key),
	.key_len = sizeof(struct shim_owner_key),
	.automatic_shrinking = true,
};

/* The table of the addresses that are set. */
static const struct shim_table_params reserved_table = {
	.head_offset = offsetof(struct shim_reserved, node),
	.key_offset = offsetof(struct shim_reserved, address),
	.key_len = sizeof(struct shim_address),
	.automatic_shrinking = true,
};

int shim_owners_init(struct shim_engine *engine)
{
	int err;

	spin_lock_init(&engine->owners.lock);
	err = shim_table_init(&engine->owners.reserved, &reserved_table);
	if (err)
		return err;
	err = shim_table_init(&engine->owners.table, &owner_table);
	if (err)
		shim_table_exit(&engine->owners.reserved);
	return err;
}

void shim_owners_exit(struct shim_engine *engine)
{
	WARN_ON_ONCE(shim_table_count(&engine->owners.table) ||
		     shim_table_count(&engine->owners.reserved));
	shim_table_exit(&engine->owners.reserved);
	shim_table_exit(&engine->owners.table);
}

void shim_sources_init(struct shim_sources *sources)
{
	INIT_LIST_HEAD(&sources->owned);
}

/* Forgets an owner.  owners->lock. */
static void owner_remove(struct shim_engine *engine, struct shim_owner *owner)
{
	struct shim_sources *sources = &owner->vm->sources;

	WRITE_ONCE(owner->gone, true);
	/* Whoever makes it the last one after this sees that it has gone. */
	smp_mb();
	if (rcu_access_pointer(sources->last) == owner)
		RCU_INIT_POINTER(sources->last, NULL);
	shim_table_remove(&engine->owners.table, &owner->node, owner_table);
	list_del_rcu(&owner->vm_node);
	sources->places &= ~owner->bit;
	WRITE_ONCE(sources->n_owned, sources->n_owned - 1);
	shim_free_rcu(owner, rcu);
}

void shim_sources_exit(struct shim_vm *vm)
{
	struct shim_owners *owners = &vm->engine->owners;
	struct shim_owner *owner, *next;

	shim_sources_set(vm, NULL);
	spin_lock_bh(&owners->lock);
	list_for_each_entry_safe(owner, next, &vm->sources.owned, vm_node)
		owner_remove(vm->engine, owner);
	spin_unlock_bh(&owners->lock);
}

/* Counts a VM less for whom an address is set.  Configuration's lock. */
static void reserved_put(struct shim_owners *owners, const struct shim_address *address)
{
	struct shim_reserved *reserved;

	rcu_read_lock();
	reserved = shim_table_find(&owners->reserved, address, reserved_table);
	rcu_read_unlock();
	if (!reserved || --reserved->n)
		return;
	shim_table_remove(&owners->reserved, &reserved->node, reserved_table);
	shim_free_rcu(reserved, rcu);
}

/* Counts a VM more for whom an address is set; false without memory.  Configuration's lock. */
static bool reserved_get(struct shim_owners *owners, const struct shim_address *address)
{
	struct shim_reserved *reserved;

	rcu_read_lock();
	reserved = shim_table_find(&owners->reserved, address, reserved_table);
	rcu_read_unlock();
	if (reserved) {
		reserved->n++;
		return true;
	}
	reserved = shim_alloc_wait(sizeof(*reserved));
	if (!reserved)
		return false;
	reserved->address = *address;
	reserved->n = 1;
	if (!shim_table_insert(&owners->reserved, &reserved->node, reserved_table))
		return true;
	shim_free(reserved);
	return false;
}

/* Gives back the single addresses among the first n of a VM's prefixes.  Configuration's lock. */
static void prefixes_put(struct shim_owners *owners, const struct shim_prefixes *prefixes, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (prefixes->prefixes[i].length == ADDRESS_BITS)
			reserved_put(owners, &prefixes->prefixes[i].address);
}

/* Reserves the single addresses among a VM's prefixes, all or none.  Configuration's lock. */
static bool prefixes_get(struct shim_owners *owners, const struct shim_prefixes *prefixes)
{
	u32 i;

	for (i = 0; i < prefixes->n; i++) {
		if (prefixes->prefixes[i].length == ADDRESS_BITS &&
		    !reserved_get(owners, &prefixes->prefixes[i].address)) {
			prefixes_put(owners, prefixes, i);
			return false;
		}
	}
	return true;
}

/*
 * Takes back what a VM was seen to own: all of `vm` itself, whose addresses have been set, and of
 * others without set ones what is now reserved.  RCU read lock.
 */
static void sources_revoke(struct shim_vm *vm, const struct shim_vm *set)
{
	struct shim_owners *owners = &vm->engine->owners;
	struct shim_owner *owner, *next;

	if (vm != set && rcu_access_pointer(vm->sources.set))
		return;
	spin_lock_bh(&owners->lock);
	list_for_each_entry_safe(owner, next, &vm->sources.owned, vm_node)
		if (vm == set || shim_table_find(&owners->reserved, &owner->key.address,
						 reserved_table))
			owner_remove(vm->engine, owner);
	spin_unlock_bh(&owners->lock);
}

bool shim_sources_set(struct shim_vm *vm, struct shim_prefixes *prefixes)
{
	struct shim_prefixes *old = rcu_dereference_protected(vm->sources.set, true);
	struct shim_owners *owners = &vm->engine->owners;
	struct shim_vm *other;

	if (prefixes && !prefixes_get(owners, prefixes))
		return false;
	rcu_assign_pointer(vm->sources.set, prefixes);
	if (old) {
		prefixes_put(owners, old, old->n);
		shim_free_rcu(old, rcu);
	}
	if (!prefixes)
		return true;
	rcu_read_lock();
	list_for_each_entry(other, &vm->engine->vms, node)
		sources_revoke(other, vm);
	rcu_read_unlock();
	return true;
}

/* Tells whether the first bits of two addresses are the same. */
static bool address_matches(const struct shim_address *address, const struct shim_prefix *prefix)
{
	u8 whole = prefix->length / 8, rest = prefix->length % 8;

	if (memcmp(address->bytes, prefix->address.bytes, whole))
		return false;
	return !rest ||
	       !((address->bytes[whole] ^ prefix->address.bytes[whole]) >> (8 - rest));
}

/* Tells whether an address is within what is set. */
static bool address_is_set(const struct shim_prefixes *prefixes,
			   const struct shim_address *address)
{
	u32 i;

	for (i = 0; i < prefixes->n; i++)
		if (address_matches(address, &prefixes->prefixes[i]))
			return true;
	return false;
}

/* Tells whether a packet's source is an address that no host can have. */
static bool source_impossible(const struct shim_packet *packet)
{
	const struct shim_address *source = &packet->source;

	if (packet->version == 6 && shim_address_ipv4(source))
		return true;
	if (shim_address_unspecified(source))
		return !shim_address_group(&packet->destination);
	return shim_address_group(source) || shim_address_loopback(source);
}

/* Notes the use of an address: it is nobody else's. */
static void owner_use(struct shim_owner *owner, u64 now_ns)
{
	if (unlikely(READ_ONCE(owner->claimant)))
		WRITE_ONCE(owner->claimant, NULL);
	if (shim_sub_sat(now_ns, READ_ONCE(owner->seen_ns)) >= SEEN_NS)
		WRITE_ONCE(owner->seen_ns, now_ns);
}

/* Lets the next packet of a VM find an address at once.  RCU read lock. */
static void owner_remember(struct shim_sources *sources, struct shim_owner *owner)
{
	rcu_assign_pointer(sources->last, owner);
	/* Whoever lets it go after this sees that it is the last one. */
	smp_mb();
	if (READ_ONCE(owner->gone))
		RCU_INIT_POINTER(sources->last, NULL);
}

/* Tells whether all the addresses that may be remembered of a VM are, and lately were in use. */
static bool sources_full(const struct shim_sources *sources, u64 now_ns)
{
	return READ_ONCE(sources->n_owned) >= SHIM_OWNED_MAX &&
	       shim_sub_sat(now_ns, READ_ONCE(sources->tidied_ns)) < SEEN_NS;
}

/* Forgets the addresses that a VM has not used for idle_ns.  owners->lock. */
static void sources_tidy(struct shim_vm *vm, u64 now_ns, u64 idle_ns)
{
	struct shim_owner *owner, *next;

	WRITE_ONCE(vm->sources.tidied_ns, now_ns);
	list_for_each_entry_safe(owner, next, &vm->sources.owned, vm_node)
		if (shim_sub_sat(now_ns, READ_ONCE(owner->seen_ns)) >= idle_ns)
			owner_remove(vm->engine, owner);
}

/*
 * Makes a VM the owner of an address, if it may have more; NULL: it may not.  owners->lock, RCU
 * read lock.
 */
static struct shim_owner *owner_create(struct shim_vm *vm, const struct shim_owner_key *key,
				       const struct shim_packet *packet, u64 idle_ns)
{
	u64 now_ns = packet->now_ns;
	struct shim_sources *sources = &vm->sources;
	struct shim_owner *owner;

	if (sources->n_owned >= SHIM_OWNED_MAX)
		sources_tidy(vm, now_ns, idle_ns);
	if (READ_ONCE(vm->gone) || sources->n_owned >= SHIM_OWNED_MAX)
		return NULL;
	owner = shim_alloc_now(sizeof(*owner));
	if (!owner)
		return NULL;
	owner->key = *key;
	owner->vm = vm;
	owner->version = packet->version;
	/* The lowest place that is free. */
	owner->bit = ~sources->places & (sources->places + 1);
	owner->seen_ns = now_ns;
	shim_host_source(packet, owner->mac);
	if (shim_table_insert(&vm->engine->owners.table, &owner->node, owner_table)) {
		shim_free(owner);
		return NULL;
	}
	list_add_tail_rcu(&owner->vm_node, &sources->owned);
	sources->places |= owner->bit;
	WRITE_ONCE(sources->n_owned, sources->n_owned + 1);
	owner_remember(sources, owner);
	return owner;
}

/* Tells whether an owner of an address shares it with a VM: it is set for both. */
static bool owner_shares(const struct shim_owner *owner, const struct shim_address *address)
{
	struct shim_prefixes *set = rcu_dereference(owner->vm->sources.set);

	return set && address_is_set(set, address);
}

/* Tells whether an address of another VM's may become a VM's that sends from it. */
static bool owner_yields(const struct shim_owner *owner, const struct shim_vm *vm, u64 now_ns,
			 u64 idle_ns)
{
	if (shim_sub_sat(now_ns, READ_ONCE(owner->seen_ns)) >= idle_ns)
		return true;
	if (READ_ONCE(owner->former) == vm && now_ns < READ_ONCE(owner->former_ns))
		return true;
	return READ_ONCE(owner->claimant) == vm &&
	       READ_ONCE(owner->asked_ns) >= READ_ONCE(owner->claimed_ns) &&
	       shim_sub_sat(now_ns, READ_ONCE(owner->claimed_ns)) >= HANDOVER_NS &&
	       shim_sub_sat(now_ns, READ_ONCE(owner->asked_ns)) >= ANSWER_NS;
}

/*
 * Tells whether the owner of an address that was announced is to be asked for it, now: after the
 * announcement, and again while the last question leaves time to answer.  owners->lock.
 */
static bool owner_to_ask(struct shim_owner *owner, u64 now_ns)
{
	if (owner->asked_ns && shim_sub_sat(now_ns, owner->asked_ns) < ANSWER_NS)
		return false;
	if (owner->asked_ns >= owner->claimed_ns &&
	    shim_sub_sat(now_ns, owner->claimed_ns) >= HANDOVER_NS - ANSWER_NS)
		return false;
	WRITE_ONCE(owner->asked_ns, max_t(u64, now_ns, 1));
	return true;
}

/*
 * Asks the owner of an address, in whose place `vm` sends from it, once more; a host that cannot
 * ask hands nothing over.  RCU read lock.
 */
static noinline void owner_ask_again(struct shim_owner *owner, const struct shim_vm *vm, u64 now_ns)
{
	struct shim_owners *owners = &vm->engine->owners;
	bool ask;

	spin_lock(&owners->lock);
	ask = owner->claimant == vm && !owner->gone && owner_to_ask(owner, now_ns);
	spin_unlock(&owners->lock);
	if (ask && !shim_host_ask(owner->vm, &owner->key.address, owner->mac, owner->asker))
		WRITE_ONCE(owner->claimant, NULL);
}

/* Settles whose an address is that nobody owns yet, or another VM.  RCU read lock. */
static enum shim_counter sources_claim(struct shim_vm *vm, const struct shim_owner_key *key,
				       const struct shim_packet *packet, u64 idle_ns, bool set)
{
	struct shim_owners *owners = &vm->engine->owners;
	enum shim_counter drop = SHIM_COUNTER_NONE;
	const struct shim_vm *former = NULL;
	u64 now_ns = packet->now_ns, former_ns = 0;
	struct shim_owner *owner;

	spin_lock(&owners->lock);
	owner = shim_table_find(&owners->table, key, owner_table);
	if (owner && owner->vm != vm && !set && !owner_yields(owner, vm, now_ns, idle_ns)) {
		drop = SHIM_DROP_SPOOFED;
	} else if (!owner || owner->vm != vm) {
		if (owner) {
			/* One that lost it by silence may return, but not take turns. */
			if (READ_ONCE(owner->former) != vm)
				former = owner->vm;
			former_ns = shim_add_sat(READ_ONCE(owner->seen_ns), idle_ns);
			owner_remove(vm->engine, owner);
		}
		owner = owner_create(vm, key, packet, idle_ns);
		if (owner && !set) {
			WRITE_ONCE(owner->former, former);
			WRITE_ONCE(owner->former_ns, former_ns);
		}
	}
	spin_unlock(&owners->lock);
	return drop;
}

/* Tells whether a VM may send from an address by what is set for it and others.  RCU read lock. */
static bool sources_allowed(struct shim_vm *vm, const struct shim_prefixes *set,
			    const struct shim_address *address)
{
	return set ? address_is_set(set, address) :
		     !shim_table_find(&vm->engine->owners.reserved, address, reserved_table);
}

/* As shim_sources_check() for an IP packet whose source is not that of the one before it. */
static noinline enum shim_counter sources_look(struct shim_vm *vm, const struct shim_packet *packet)
{
	u64 idle_ns = shim_engine_settings(vm->engine)->peer_idle_ns;
	struct shim_prefixes *set;
	struct shim_owner_key key;
	struct shim_owner *owner;

	if (source_impossible(packet))
		return SHIM_DROP_SOURCE;
	if (shim_address_unspecified(&packet->source))
		return SHIM_COUNTER_NONE;
	set = rcu_dereference(vm->sources.set);
	if (!sources_allowed(vm, set, &packet->source))
		return SHIM_DROP_SPOOFED;
	key = (struct shim_owner_key){
		.address = packet->source,
		.network = packet->network,
	};
	owner = shim_table_find(&vm->engine->owners.table, &key, owner_table);
	if (owner && owner->vm == vm) {
		owner_use(owner, packet->now_ns);
		owner_remember(&vm->sources, owner);
		return SHIM_COUNTER_NONE;
	}
	if (owner && set && owner_shares(owner, &packet->source))
		return SHIM_COUNTER_NONE;
	if (!owner && sources_full(&vm->sources, packet->now_ns))
		return SHIM_COUNTER_NONE;
	/* Another's: look before taking the lock, as whoever tries addresses must cost nobody. */
	if (owner && !set && !owner_yields(owner, vm, packet->now_ns, idle_ns)) {
		if (READ_ONCE(owner->claimant) == vm)
			owner_ask_again(owner, vm, packet->now_ns);
		return SHIM_DROP_SPOOFED;
	}
	return sources_claim(vm, &key, packet, idle_ns, set);
}

enum shim_counter shim_sources_check(struct shim_vm *vm, const struct shim_packet *packet)
{
	const struct shim_owner_key *key;
	struct shim_owner *owner;

	if (!packet->version)
		return SHIM_COUNTER_NONE;
	owner = rcu_dereference(vm->sources.last);
	if (unlikely(!owner || owner->version != packet->version))
		return sources_look(vm, packet);
	key = &owner->key;
	if (unlikely(!shim_address_equal(&key->address, &packet->source) ||
		     key->network.tunnel_id != packet->network.tunnel_id ||
		     key->network.vlan != packet->network.vlan))
		return sources_look(vm, packet);
	owner_use(owner, packet->now_ns);
	return SHIM_COUNTER_NONE;
}

u16 shim_sources_bit(const struct shim_vm *vm, const struct shim_packet *packet)
{
	const struct shim_owner *owner = rcu_dereference(vm->sources.last);

	/* The check before has found the address if it is remembered. */
	if (likely(owner && shim_address_equal(&owner->key.address, &packet->source)))
		return owner->bit;
	return 0;
}

u16 shim_sources_bits(const struct shim_vm *vm, const struct shim_address *address,
		      const struct shim_network *network)
{
	const struct shim_owner *owner;
	u16 bits = 0;

	list_for_each_entry_rcu(owner, &vm->sources.owned, vm_node)
		if (shim_address_equal(&owner->key.address, address) &&
		    (!network || (owner->key.network.tunnel_id == network->tunnel_id &&
				  owner->key.network.vlan == network->vlan)))
			bits |= owner->bit;
	return bits;
}

/* Notes that a VM that owns an address, in whatever networks, speaks for it.  RCU read lock. */
static void sources_answer(struct shim_vm *vm, const struct shim_address *address, u64 now_ns)
{
	struct shim_owner *owner;

	list_for_each_entry_rcu(owner, &vm->sources.owned, vm_node)
		if (shim_address_equal(&owner->key.address, address))
			owner_use(owner, now_ns);
}

void shim_sources_announce(struct shim_vm *vm, const struct shim_address *address,
			   const struct shim_packet *packet, bool uplink)
{
	struct shim_owner_key key = { .address = *address, .network = packet->network };
	struct shim_prefixes *set = rcu_dereference(vm->sources.set);
	struct shim_owners *owners = &vm->engine->owners;
	u64 now_ns = packet->now_ns;
	struct shim_owner *owner;
	bool ask = false;

	sources_answer(vm, address, now_ns);
	if (!uplink || !sources_allowed(vm, set, address))
		return;
	owner = shim_table_find(&owners->table, &key, owner_table);
	if (!owner || owner->vm == vm)
		return;
	spin_lock(&owners->lock);
	if (!owner->gone && (!owner->claimant ||
			     shim_sub_sat(now_ns, owner->claimed_ns) >= CLAIM_NS)) {
		shim_host_source(packet, owner->asker);
		WRITE_ONCE(owner->claimed_ns, now_ns);
		WRITE_ONCE(owner->claimant, vm);
	}
	ask = !owner->gone && owner->claimant == vm && owner_to_ask(owner, now_ns);
	spin_unlock(&owners->lock);
	if (ask && !shim_host_ask(owner->vm, address, owner->mac, owner->asker))
		WRITE_ONCE(owner->claimant, NULL);
}

/* Tells whether an address is the link-local one of a MAC address (RFC 4291, appendix A). */
static bool address_of_mac(const struct shim_address *address, const u8 mac[6])
{
	const u8 expected[16] = {
		0xfe, 0x80, [8] = mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5],
	};

	return !memcmp(address->bytes, expected, sizeof(expected));
}

/* What a VM's own addresses say of one that it is told at. */
struct sources_match {
	bool any;			/* the VM has some */
	bool own;			/* it is one of these, in whatever network */
	bool mac;			/* a MAC address stands for it, in the network asked for */
	bool present;			/* one of these is in the network asked for */
	bool untagged;			/* the VM lately sent without the tag of a VLAN */
};

/* Compares an address and a network with what a VM owns.  RCU read lock. */
static struct sources_match sources_match(struct shim_vm *vm, const struct shim_address *address,
					  const struct shim_packet *packet, u64 idle_ns)
{
	struct sources_match match = {};
	struct shim_owner *owner;
	bool there;

	list_for_each_entry_rcu(owner, &vm->sources.owned, vm_node) {
		there = owner->key.network.vlan == packet->network.vlan;
		match.any = true;
		match.own |= shim_address_equal(&owner->key.address, address);
		match.mac |= there && address_of_mac(address, owner->mac);
		match.present |= there;
		match.untagged |= !owner->key.network.vlan &&
				  shim_sub_sat(packet->now_ns,
					       READ_ONCE(owner->seen_ns)) < idle_ns;
	}
	return match;
}

/* Tells whether another VM has an address in the network that a packet came by, and uses it. */
static bool source_is_anothers(struct shim_vm *vm, const struct shim_address *address,
			       const struct shim_packet *packet, u64 idle_ns)
{
	struct shim_owner_key key = { .address = *address, .network = packet->network };
	struct shim_owner *owner;

	owner = shim_table_find(&vm->engine->owners.table, &key, owner_table);
	return owner && owner->vm != vm &&
	       shim_sub_sat(packet->now_ns, READ_ONCE(owner->seen_ns)) < idle_ns;
}

bool shim_sources_told(struct shim_vm *vm, const struct shim_address *address,
		       const struct shim_packet *packet)
{
	u64 idle_ns = shim_engine_settings(vm->engine)->peer_idle_ns;
	struct shim_prefixes *set = rcu_dereference(vm->sources.set);
	struct sources_match match = sources_match(vm, address, packet, idle_ns);
	bool own;

	if (set)
		own = address_is_set(set, address) || match.mac;
	else
		own = match.own || match.mac ||
		      (READ_ONCE(vm->sources.n_owned) >= SHIM_OWNED_MAX &&
		       !shim_address_unspecified(address) &&
		       !shim_table_find(&vm->engine->owners.reserved, address, reserved_table));
	if (!own)
		return false;
	/* A tag that nobody saw on the uplink may have been taken off on the way. */
	if (!packet->network_known && !packet->network.vlan && match.any && !match.untagged)
		return true;
	/* Cards of one guest have addresses in common; tenants are in networks of their own. */
	return !source_is_anothers(vm, address, packet, idle_ns) ||
	       (set && (match.present || !match.any));
}

bool shim_sources_used(const struct shim_vm *vm, const struct shim_address *address,
		       const struct shim_network *network)
{
	const struct shim_prefixes *set = rcu_dereference(vm->sources.set);

	return set ? address_is_set(set, address) : shim_sources_bits(vm, address, network);
}
