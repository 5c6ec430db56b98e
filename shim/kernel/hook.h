/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The hook: what ties the shim to devices and their packets.  Whatever module the shim is part of,
 * one file hook_*.c of it does; the rest of the shim knows devices alone.
 *
 * Whoever sees a packet leave asks ovs_shim_judge() (output.h), and lets it go on if that says so.
 */
#ifndef OVS_SHIM_HOOK_H
#define OVS_SHIM_HOOK_H

#include <linux/types.h>

struct net;
struct net_device;
struct netlink_ext_ack;
struct ovs_shim_port;
struct shim_tx;
struct sk_buff;

/* Takes the lock of configuration; may sleep.  RTNL is taken inside it, never outside. */
void ovs_shim_lock(void);

/* Leaves the lock of configuration. */
void ovs_shim_unlock(void);

/* Tells whether the lock of configuration is held, for lockdep; true without it. */
bool ovs_shim_lock_is_held(void);

/*
 * Returns the device that can have a role in a namespace, by its name or, if that is NULL, by its
 * index; held, NULL if there is none.  Lock of configuration.
 */
struct net_device *ovs_shim_hook_find(struct net *net, const char *name, u32 ifindex);

/*
 * Lets the packets of a port's device reach the shim, if they do not yet, and this port be its
 * role; 0, or a negative error number and the reason in *extack.  Lock of configuration, takes
 * RTNL.
 */
int ovs_shim_hook_attach(const struct ovs_shim_port *port, struct netlink_ext_ack *extack);

/* Ends that; packets may still be on their way.  Lock of configuration, takes RTNL. */
void ovs_shim_hook_detach(const struct ovs_shim_port *port);

/*
 * Has packets reach the shim in namespaces where a VM has a law, and not elsewhere, after a change
 * of that.  Lock of configuration, takes RTNL.
 */
void ovs_shim_hook_follow(void);

/*
 * Writes to *tx, which is 0, what became of packets that left by an uplink and of which it is not
 * known where they are from.  RCU.
 */
void ovs_shim_hook_strays(const struct ovs_shim_port *uplink, struct shim_tx *tx);

/* Sends a packet of the shim's own, whose data starts at the link-layer header, by skb->dev. */
void ovs_shim_hook_send(struct sk_buff *skb);

#endif
