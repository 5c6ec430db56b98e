/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packets of VMs within a tunnel, seen on the uplink below: the frame inside is the VM's, and what
 * is in front of it the host's.
 */
#ifndef OVS_SHIM_OUTER_H
#define OVS_SHIM_OUTER_H

#include <linux/types.h>

struct ovs_shim_frame;
struct shim_action;
struct sk_buff;

/* What is in front of the frame of a VM. */
struct ovs_shim_outer {
	unsigned int bytes;		/* of all headers, the outer link layer's included */
	u64 tunnel_id;			/* as openvswitch tells it */
	__be16 vlan_proto;		/* of the tag beside the packet */
	u16 vlan_tci;			/* that tag */
	bool vlan;			/* there is one */
};

#ifdef OVS_SHIM_BESIDE
/*
 * Reads what is in front of a VM's frame in a packet of VXLAN, Geneve or GRE, whose data starts at
 * the outer link-layer header; false if it is none.
 */
bool ovs_shim_outer_read(struct sk_buff *skb, struct ovs_shim_outer *outer);

/* Lets the data of such a packet start at the VM's frame, without a tag beside it. */
void ovs_shim_outer_enter(struct sk_buff *skb, const struct ovs_shim_outer *outer);

/* Undoes that. */
void ovs_shim_outer_leave(struct sk_buff *skb, const struct ovs_shim_outer *outer);

/* Completes what was parsed of a VM's frame: its network, and its bytes as the uplink has them. */
void ovs_shim_outer_complete(const struct ovs_shim_outer *outer, struct ovs_shim_frame *frame);

/*
 * Gives the outer header the ECN field that the VM's frame has been given; false, and nothing
 * changed, without memory for a private copy of it.  The packet is entered.
 */
bool ovs_shim_outer_act(const struct ovs_shim_outer *outer, const struct ovs_shim_frame *frame,
			const struct shim_action *action);
#else

/* openvswitch itself hands frames over before they go into a tunnel: it has seen none. */
static inline void ovs_shim_outer_enter(struct sk_buff *skb, const struct ovs_shim_outer *outer)
{
}

/* As above. */
static inline void ovs_shim_outer_leave(struct sk_buff *skb, const struct ovs_shim_outer *outer)
{
}

/* As above. */
static inline void ovs_shim_outer_complete(const struct ovs_shim_outer *outer,
					   struct ovs_shim_frame *frame)
{
}

/* As above. */
static inline bool ovs_shim_outer_act(const struct ovs_shim_outer *outer,
				      const struct ovs_shim_frame *frame,
				      const struct shim_action *action)
{
	return true;
}
#endif

#endif
