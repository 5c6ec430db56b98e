/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All ports of a namespace in the order of their making, to be walked in pieces.
 *
 * A port has a serial number that no other port of the namespace has.  Whoever walks remembers the
 * number of the last port seen and finds the next one at once, whatever came and went meanwhile: a
 * walk of n ports takes n steps, each of the time that the tree needs for a search.
 */
#ifndef OVS_SHIM_NETLINK_WALK_H
#define OVS_SHIM_NETLINK_WALK_H

#include <linux/bug.h>
#include <linux/limits.h>
#include <linux/xarray.h>

#include "../port.h"

/* Prepares a namespace's ports. */
static inline void ovs_shim_walk_init(struct ovs_shim_net *net)
{
	xa_init_flags(&net->ports, XA_FLAGS_ALLOC1);
	net->next_serial = 0;
}

/* Ends them; all have been removed. */
static inline void ovs_shim_walk_exit(struct ovs_shim_net *net)
{
	WARN_ON_ONCE(!xa_empty(&net->ports));
	xa_destroy(&net->ports);
}

/*
 * Adds a port, whole but for its serial number, to its namespace's; 0 or a negative error number.
 * Configuration; may sleep.
 */
static inline int ovs_shim_walk_add(struct ovs_shim_net *net, struct ovs_shim_port *port)
{
	int err = xa_alloc_cyclic(&net->ports, &port->serial, port, XA_LIMIT(1, U32_MAX),
				  &net->next_serial, GFP_KERNEL_ACCOUNT);

	return min(err, 0);
}

/* Removes a port; readers may hold it until a grace period is over.  Configuration. */
static inline void ovs_shim_walk_remove(struct ovs_shim_net *net, const struct ovs_shim_port *port)
{
	xa_erase(&net->ports, port->serial);
}

/* Returns the first port whose serial number is above `serial`, NULL past the last.  RCU. */
static inline struct ovs_shim_port *ovs_shim_walk_next(struct ovs_shim_net *net,
						       unsigned long serial)
{
	serial++;
	return xa_find(&net->ports, &serial, U32_MAX, XA_PRESENT);
}

#endif
