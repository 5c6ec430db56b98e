// SPDX-License-Identifier: GPL-2.0-only
/*
 * The hook within openvswitch.ko, which ovs-patches/linux puts there: all that knows vports.
 *
 *   a packet leaves    ovs_vport_send() calls ovs_shim_output(), with the vport it came by in
 *                      OVS_CB; the vport's own operation sends what may go on
 *   a packet comes     ovs_vport_receive() and ovs_packet_cmd_execute() note its VLAN in OVS_CB
 *   a vport goes       ovs_vport_del() calls ovs_shim_vport_gone()
 *   configuration      is under ovs_mutex, as the datapath's own is
 *
 * The datapath asks for each packet, so there is nothing to attach to a device.  A vport holds its
 * device; who finds a port under RCU or ovs_mutex finds it there.
 */
#include <linux/hash.h>
#include <linux/netdevice.h>
#include <linux/percpu.h>
#include <linux/skbuff.h>

#include "../../datapath.h"
#include "../../vport.h"
#include "../../vport-internal_dev.h"
#include "../../vport-netdev.h"
#include "compat.h"
#include "hook.h"
#include "output.h"
#include "ovs_shim.h"
#include "pass.h"
#include "port.h"

void ovs_shim_lock(void)
{
	ovs_lock();
}

void ovs_shim_unlock(void)
{
	ovs_unlock();
}

bool ovs_shim_lock_is_held(void)
{
	return lockdep_ovsl_is_held();
}

struct net_device *ovs_shim_hook_find(struct net *net, const char *name, u32 ifindex)
{
	const struct vport *vport = NULL;
	struct net_device *dev;

	if (name) {
		vport = ovs_vport_locate(net, name);
	} else {
		rcu_read_lock();
		dev = dev_get_by_index_rcu(net, ifindex);
		if (dev)
			vport = ovs_internal_dev_get_vport(dev) ?: ovs_netdev_get_vport(dev);
		rcu_read_unlock();
	}
	if (!vport || !net_eq(ovs_dp_get_net(vport->dp), net))
		return NULL;
	dev_hold(vport->dev);
	return vport->dev;
}

int ovs_shim_hook_attach(const struct ovs_shim_port *port, struct netlink_ext_ack *extack)
{
	return 0;
}

void ovs_shim_hook_detach(const struct ovs_shim_port *port)
{
}

/* The datapath asks for the packets of all namespaces as soon as one has a law. */
void ovs_shim_hook_follow(void)
{
}

/* The datapath knows of each packet where it is from. */
void ovs_shim_hook_strays(const struct ovs_shim_port *uplink, struct shim_tx *tx)
{
}

void ovs_shim_hook_send(struct sk_buff *skb)
{
	const struct vport *vport = ovs_internal_dev_get_vport(skb->dev);

	/* Every other kind of vport has it as its operation. */
	if (likely(!vport))
		dev_queue_xmit(skb);
	else
		vport->ops->send(skb);
}

/* What a CPU's packets lately found for a device. */
struct hook_found {
	const struct net_device *dev;	/* compared only */
	struct ovs_shim_port *port;	/* its port, or NULL, in a table of that generation */
	u32 generation;			/* of the table when it was looked at; 0: never */
};

/* Devices of which a CPU remembers what it found, as a shift. */
#define HOOK_FOUND_SHIFT 5

/* By the hash of a device; the CPU's own packets, softirqs off. */
static DEFINE_PER_CPU(struct hook_found, hook_found[1 << HOOK_FOUND_SHIFT]);

/* As ovs_shim_port_of() for packets, which ask for the same devices again.  RCU, softirqs off. */
static struct ovs_shim_port *hook_port_of(const struct net_device *dev)
{
	u32 generation = READ_ONCE(ovs_shim_port_generation);
	struct hook_found *found;

	if (!OVS_SHIM_CPU_ALONE)
		return ovs_shim_port_of(dev);
	found = this_cpu_ptr(&hook_found[hash_ptr(dev, HOOK_FOUND_SHIFT)]);
	if (likely(found->dev == dev && found->generation == generation))
		return found->port;
	/* A port that goes after this is freed when the packet is over. */
	smp_rmb();
	found->port = ovs_shim_port_of(dev);
	found->dev = dev;
	found->generation = generation;
	return found->port;
}

/* Sends a packet that is to be judged first. */
static noinline void hook_judge(struct vport *vport, struct sk_buff *skb)
{
	const struct vport *in = OVS_CB(skb)->input_vport;
	struct ovs_shim_way way = { .from = (unsigned long)in, .to = (unsigned long)vport };
	const struct ovs_shim_port *from;
	bool local;

	from = in ? hook_port_of(in->dev) : NULL;
	local = in && in->port_no == OVSP_LOCAL;
	if (ovs_shim_judge(from, hook_port_of(vport->dev), local,
			   OVS_CB(skb)->input_vlan, &way, skb))
		vport->ops->send(skb);
}

void ovs_shim_output(struct vport *vport, struct sk_buff *skb)
{
	unsigned long from = (unsigned long)OVS_CB(skb)->input_vport;

	if (likely(ovs_shim_pass(from, (unsigned long)vport, skb)))
		vport->ops->send(skb);
	else
		hook_judge(vport, skb);
}

void ovs_shim_vport_gone(struct vport *vport)
{
	struct ovs_shim_port *port = ovs_shim_port_of(vport->dev);

	if (port)
		ovs_shim_port_del(port);
}
