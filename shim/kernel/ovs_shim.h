/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the datapath's own files see of the shim: four calls and one test.
 */
#ifndef OVS_SHIM_H
#define OVS_SHIM_H

#include <linux/jump_label.h>

struct ovs_shim_port;
struct sk_buff;
struct vport;

/* On while some namespace has a law other than "none" and a port with a role. */
DECLARE_STATIC_KEY_FALSE(ovs_shim_key);

/* Tells whether packets must go through ovs_shim_output(). */
static inline bool ovs_shim_enabled(void)
{
	return static_branch_unlikely(&ovs_shim_key);
}

/* Sends skb, whose data starts at the link-layer header, to vport; or drops it.  RCU read lock. */
void ovs_shim_output(struct vport *vport, struct sk_buff *skb);

/* Forgets what is configured for a vport about to be destroyed.  ovs_mutex. */
void ovs_shim_vport_gone(struct vport *vport);

/* Starts the shim; 0 or a negative error number. */
int ovs_shim_init(void);

/* Stops the shim once no datapath is left. */
void ovs_shim_exit(void);

#endif
