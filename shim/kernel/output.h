/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A packet's way out.
 */
#ifndef OVS_SHIM_OUTPUT_H
#define OVS_SHIM_OUTPUT_H

#include <linux/types.h>

struct ovs_shim_outer;
struct ovs_shim_port;
struct ovs_shim_way;
struct sk_buff;

/*
 * Judges a packet, whose data starts at the link-layer header, about to leave by skb->dev; true: it
 * may go on, as it now is; false: it is consumed.  from, to: the ports it came and leaves by, NULL
 * without a role; local: user space of this very switch sent it; vlan: the outermost tag that it
 * came with, as in struct shim_network, or OVS_SHIM_VLAN_UNKNOWN; way: how packets like it may have
 * a short way from now on, NULL: not.  Softirqs off, RCU read lock.
 */
bool ovs_shim_judge(const struct ovs_shim_port *from, const struct ovs_shim_port *to, bool local,
		    u32 vlan, const struct ovs_shim_way *way, struct sk_buff *skb);

/*
 * The same of a packet of a VM in a tunnel, on the uplink below that; outer: what is in front of
 * the VM's frame.
 */
bool ovs_shim_judge_tunnelled(const struct ovs_shim_port *from, const struct ovs_shim_port *to,
			      const struct ovs_shim_outer *outer, struct sk_buff *skb);

#endif
