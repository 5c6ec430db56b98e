// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * What tests see of a VM's peers and paths.
 */
#include "../core/engine/engine.h"
#include "lab.h"

bool shim_lab_read_peer(struct shim_vm *vm, const u8 *address, struct shim_lab_peer *to)
{
	struct shim_peer_key key = { .vm = vm };
	struct shim_peer *peer;

	memcpy(&key.address, address, sizeof(key.address));
	peer = shim_peer_find(vm->engine, &key);
	if (!peer)
		return false;
	*to = (struct shim_lab_peer){
		.rate = peer->rate.bytes_per_s,
		.tx_bytes = peer->tx_bytes,
		.tx_packets = peer->tx_packets,
		.rx_bytes = peer->rx_bytes,
		.rx_packets = peer->rx_packets,
		.rx_marks = peer->rx_marks,
		.drops = peer->drops,
		.rank = peer->rank,
		.weight = peer->weight,
	};
	return true;
}

/* Where shim_lab_moved() stores addresses. */
struct lab_moved {
	u8 *addresses;			/* room for 16 bytes each */
	u32 room;			/* of them */
	u32 n;				/* peers told */
};

/* Stores a peer's address; false: there is no room for another one. */
static bool lab_take_moved(struct shim_peer *peer, void *context)
{
	struct lab_moved *moved = context;

	memcpy(moved->addresses + moved->n++ * sizeof(peer->key.address), &peer->key.address,
	       sizeof(peer->key.address));
	return moved->n < moved->room;
}

u32 shim_lab_moved(struct shim_vm *vm, u64 since_ns, u8 *addresses, u32 room)
{
	struct lab_moved moved = { .addresses = addresses, .room = room };

	spin_lock_bh(&vm->lock);
	shim_peers_moved(vm, since_ns, lab_take_moved, &moved);
	spin_unlock_bh(&vm->lock);
	return moved.n;
}

bool shim_lab_read_path(struct shim_vm *vm, const u8 *prefix, u32 bits, u32 scope,
			struct shim_lab_path *to)
{
	struct shim_path_reading now;
	struct shim_path *path;
	bool found = false;

	spin_lock_bh(&vm->lock);
	list_for_each_entry(path, &vm->paths, node) {
		shim_path_read(path, &now);
		if (now.bits != bits || now.scope != scope || memcmp(&now.prefix, prefix, 16))
			continue;
		*to = (struct shim_lab_path){
			.rate = now.rate,
			.sent_rate = now.sent_rate,
			.bytes = now.bytes,
			.packets = now.packets,
			.held = now.held,
			.limited = now.limited,
		};
		found = true;
	}
	spin_unlock_bh(&vm->lock);
	return found;
}

u32 shim_lab_paths(const struct shim_vm *vm)
{
	return READ_ONCE(vm->n_paths);
}

u64 shim_lab_rx_rate(const struct shim_vm *vm)
{
	return vm->rx_rate;
}

u64 shim_lab_visited(const struct shim_vm *vm)
{
	return vm->tick_ns;
}

u32 shim_lab_peers(const struct shim_vm *vm)
{
	return vm->n_peers;
}
