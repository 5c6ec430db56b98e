/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What the engine is given by its host: locks, memory, tables, lists, and a few services.
 *
 * These are names, not function pointers: a packet's way has no room for indirect calls.  A host
 * provides a header with all of them; the kernel's own names are used where they exist, so that
 * for the kernel there is nothing to provide.
 *
 *   from <linux/...>   spinlock_t, spin_lock_init(), spin_lock(), spin_unlock(); READ_ONCE(),
 *                      WRITE_ONCE(), smp_mb(); struct list_head and its functions; struct
 *                      llist_head, llist_add(), llist_del_all(), llist_empty(), llist_entry();
 *                      atomic64_t; rcu_dereference(), rcu_assign_pointer(), RCU_INIT_POINTER(),
 *                      rcu_dereference_protected(); container_of(); likely(), unlikely();
 *                      ____cacheline_aligned; min(), max(), min_t(), max_t(), clamp_t();
 *                      local_bh_disable(), local_bh_enable(); lockdep_is_held(); WARN_ON_ONCE();
 *                      cmpxchg(); memzero_explicit(); memcmp(), memcpy(), memset()
 *   shim_rcu_t         what an object freed after a grace period holds
 *   shim_free_rcu(object, member), shim_call_rcu(rcu, function)
 *   shim_alloc_now(bytes)      zeroed memory from any context, or NULL; to be freed by shim_free()
 *                              or shim_free_rcu(); accounted to whoever configured the VM if the
 *                              host can
 *   shim_alloc_wait(bytes)     the same, may sleep
 *   shim_free(object)
 *   struct shim_table, struct shim_table_node, struct shim_table_params (head_offset, key_offset,
 *   key_len), shim_table_init(), shim_table_exit(), shim_table_count(), and with a constant
 *   struct shim_table_params: shim_table_find(), shim_table_insert() (0 or an error),
 *   shim_table_remove(); tables hash under a key that nobody outside knows
 *   struct shim_host_timer, shim_host_timer_init(clock), shim_host_timer_start(clock, ns),
 *   shim_host_timer_stop(clock)  (the last may sleep, and waits for the clock's tick to end)
 *   shim_now_ns()              monotonic time
 *   shim_grace_begin()         begins a grace period, shim_grace_over(since) tells whether packets
 *                              that were under way when that was returned are over
 *   shim_host_random(to, bytes)  fills memory with what nobody can guess
 *   struct shim_reports        reports to be sent when the tick is over
 *   struct shim_host_peer      how reports to a peer leave
 *   shim_host_peer_tunnel(host)  tells whether the way, a struct shim_host_peer, leads into a
 *                              tunnel
 *   shim_host_peer_exit(peer)  a peer is about to be freed, after its grace period
 *   shim_host_peer_learn(peer, packet, sent)  a packet passed to (sent) or from a peer; false: it
 *                              is none that reports could follow; peer->lock
 *   shim_host_report(peer, uplink, report, settings, reports)  builds and queues a report; uplink
 *                              leads to the peer; returns its bytes, 0: it cannot be sent;
 *                              peer->lock
 *   shim_host_source(packet, mac)  copies the 6 bytes of a packet's link-layer source, all 0
 *                              without
 *   shim_host_flow_hash(packet)  a hash of the flow that a packet belongs to
 *   shim_host_ask(vm, address, mac, asker)  asks a VM, whose link-layer address is mac, whether
 *                              it has an address, as if asker did; false: the host cannot
 *   shim_host_tunnel_end(packet, end)  the far end of the tunnel that a packet goes into; false:
 *                              none, or not known
 *   shim_host_rate_changed(limiter, rate), shim_host_message(vm, message, verdict)  for traces
 */
#ifndef SHIM_CORE_HOST_H
#define SHIM_CORE_HOST_H

#include "types.h"

#ifdef __KERNEL__
#include "../kernel/host.h"
#else
#include "../user/host.h"
#endif

#endif
