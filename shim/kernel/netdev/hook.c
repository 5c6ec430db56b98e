// SPDX-License-Identifier: GPL-2.0-only
/*
 * The hooks: what a packet meets that comes from a device, and one that goes to it.
 *
 *   a port, tap or NIC   comes by NF_NETDEV_INGRESS, goes by NF_NETDEV_EGRESS
 *   an internal port     its host sends what comes and receives what goes: the other way round
 *
 * Where a packet is from, the first of these tells:
 *
 *   skb->skb_iif    names a port of a bridge that is none internal: openvswitch forwarded it from
 *                   there, whatever flows did to its mark
 *   skb->mark       a hook wrote it where the packet came
 *   nothing         user space sent it, or a flow overwrote the mark of what user space, or the
 *                   host behind an internal port, sent: its origin is unknown
 *
 * The bits are overwritten where packets come, so that no guest and no other host writes them, and
 * cleared where packets go.  Two ways lead from one hook to another through the host: into a tunnel
 * a packet takes its VM's id along, to the uplink below; out of one, its uplink's id, to the VM.
 */
#include <linux/etherdevice.h>
#include <linux/limits.h>
#include <linux/netfilter_netdev.h>
#include <linux/skbuff.h>

#include "../hook.h"
#include "../outer.h"
#include "../output.h"
#include "../ovs_shim.h"
#include "netdev.h"

DEFINE_STATIC_KEY_FALSE(ovs_shim_overlay);

/* Returns what a packet's mark says, without its tunnel. */
static inline u32 hook_id(const struct sk_buff *skb)
{
	return (skb->mark & ovs_shim_mark.mask & ~ovs_shim_mark.tunnelled) >> ovs_shim_mark.shift;
}

/*
 * Tells whether a packet went into a tunnel since it came.  One that openvswitch forwarded from a
 * device did not, whatever a flow made of its mark.
 */
static inline bool hook_is_tunnelled(const struct ovs_shim_device *device,
				     const struct sk_buff *skb)
{
	return skb->mark & ovs_shim_mark.tunnelled &&
	       (device->kind == OVS_SHIM_DEVICE_UNDERLAY || !skb->skb_iif);
}

/* Writes to a packet's mark where it is from, and that it went into no tunnel. */
static inline void hook_set_id(struct sk_buff *skb, u32 id)
{
	skb->mark = (skb->mark & ~ovs_shim_mark.mask) | id << ovs_shim_mark.shift;
}

/* Returns the port of a device with an id if it has that role, NULL if not.  RCU. */
static const struct ovs_shim_port *hook_port_by_id(u32 id, enum ovs_shim_role role)
{
	const struct ovs_shim_device *device = ovs_shim_device_by_id(id);
	const struct ovs_shim_port *port = device ? rcu_dereference(device->port) : NULL;

	return port && port->role == role ? port : NULL;
}

/*
 * Returns the device that a packet came by which openvswitch forwarded from `in`, a port of a
 * bridge; id: what its mark says.  RCU.
 */
static const struct ovs_shim_device *hook_forwarded(const struct net_device *in, u32 id)
{
	const struct ovs_shim_device *device = ovs_shim_device_of(in);

	/* It came by the uplink below the tunnel. */
	if (device && device->kind == OVS_SHIM_DEVICE_TUNNEL &&
	    READ_ONCE(device->id) < OVS_SHIM_ORIGIN_PORTS &&
	    hook_port_by_id(id, OVS_SHIM_ROLE_UPLINK))
		return ovs_shim_device_by_id(id);
	return device;
}

/*
 * Returns the device that a packet about to leave came by, with a role or without, NULL if it has
 * no hooks, and in *known whether it is known.  iif: skb->skb_iif is still of where it came.  RCU.
 */
static const struct ovs_shim_device *hook_origin(const struct sk_buff *skb, bool iif, bool *known)
{
	const struct ovs_shim_device *device;
	u32 id = hook_id(skb);
	const struct net_device *in;

	*known = true;
	device = ovs_shim_device_by_id(id);
	iif = iif && skb->skb_iif;
	if (likely(device && (!iif || device->dev->ifindex == skb->skb_iif)))
		return device;
	if (iif) {
		in = dev_get_by_index_rcu(dev_net(skb->dev), skb->skb_iif);
		if (in && netif_is_ovs_port(in))
			return hook_forwarded(in, id);
	}
	*known = device || id == OVS_SHIM_ORIGIN_FREE;
	return device;
}

/* Judges a packet in a tunnel that leaves by an uplink; true: it goes on. */
static noinline bool hook_judge_tunnelled(struct ovs_shim_device *device,
					  const struct ovs_shim_port *to, struct sk_buff *skb)
{
	const struct ovs_shim_port *from = hook_port_by_id(hook_id(skb), OVS_SHIM_ROLE_VM);
	struct ovs_shim_outer outer;

	hook_set_id(skb, OVS_SHIM_ORIGIN_NOTHING);
	/* A VM that has gone, or one whose frame cannot be found, is nobody. */
	if (from && from->net == to->net && ovs_shim_outer_read(skb, &outer))
		return ovs_shim_judge_tunnelled(from, to, &outer, skb);
	return ovs_shim_stray_judge(device, to, skb);
}

/* Judges a packet that goes to a device with a role; true: it goes on. */
static bool hook_judge(struct ovs_shim_device *device, const struct ovs_shim_port *to,
		       struct sk_buff *skb, bool iif)
{
	const struct ovs_shim_port *port;
	const struct ovs_shim_device *from;
	bool known;

	if (unlikely(hook_is_tunnelled(device, skb) && to->role == OVS_SHIM_ROLE_UPLINK))
		return hook_judge_tunnelled(device, to, skb);
	from = hook_origin(skb, iif, &known);
	hook_set_id(skb, OVS_SHIM_ORIGIN_NOTHING);
	/* What is in no tunnel there is the host's own. */
	if (unlikely(device->kind == OVS_SHIM_DEVICE_UNDERLAY))
		return true;
	port = from ? rcu_dereference(from->port) : NULL;
	/* Namespaces have engines of their own, which know nothing of each other. */
	if (unlikely(port && port->net != to->net))
		port = NULL;
	if (likely(known))
		return ovs_shim_judge(port, to, false, skb);
	if (to->role == OVS_SHIM_ROLE_UPLINK)
		return ovs_shim_stray_judge(device, to, skb);
	return ovs_shim_judge(NULL, to, true, skb);
}

/*
 * Tells whether a packet that has come by a device is on its way from an uplink to a tunnel above,
 * and back to openvswitch.
 */
static inline bool hook_keeps_uplink(const struct sk_buff *skb, const struct net_device *dev)
{
	const struct ovs_shim_port *port;

	if (!static_branch_unlikely(&ovs_shim_overlay))
		return false;
	port = hook_port_by_id(hook_id(skb), OVS_SHIM_ROLE_UPLINK);
	return port && port->net == ovs_shim_net(dev_net(dev));
}

/* Tells whether a packet that the host sends by a device is one of a VM, from a tunnel. */
static inline bool hook_keeps_vm(const struct sk_buff *skb, const struct net_device *dev)
{
	const struct ovs_shim_port *port;

	if (likely(!(skb->mark & ovs_shim_mark.tunnelled)))
		return false;
	if (hook_id(skb) == OVS_SHIM_ORIGIN_STRAY)
		return true;
	/* Another namespace, which has no tunnel of the VM's, may be a guest's own. */
	port = hook_port_by_id(hook_id(skb), OVS_SHIM_ROLE_VM);
	return port && port->net == ovs_shim_net(dev_net(dev));
}

/* A packet comes from a port. */
static unsigned int hook_port_in(void *priv, struct sk_buff *skb,
				 const struct nf_hook_state *state)
{
	const struct ovs_shim_device *device = priv;

	hook_set_id(skb, READ_ONCE(device->id));
	return NF_ACCEPT;
}

/* A packet comes out of a tunnel. */
static unsigned int hook_tunnel_in(void *priv, struct sk_buff *skb,
				   const struct nf_hook_state *state)
{
	const struct ovs_shim_device *device = priv;
	u32 id = READ_ONCE(device->id);

	if (id >= OVS_SHIM_ORIGIN_PORTS || !hook_keeps_uplink(skb, device->dev))
		hook_set_id(skb, id);
	return NF_ACCEPT;
}

/* A packet comes from an uplink that is no port: for the host, and perhaps for a tunnel of its. */
static unsigned int hook_underlay_in(void *priv, struct sk_buff *skb,
				     const struct nf_hook_state *state)
{
	const struct ovs_shim_device *device = priv;

	if (static_branch_unlikely(&ovs_shim_overlay))
		hook_set_id(skb, READ_ONCE(device->id));
	return NF_ACCEPT;
}

/* The host sends a packet by an internal port. */
static unsigned int hook_internal_in(void *priv, struct sk_buff *skb,
				     const struct nf_hook_state *state)
{
	const struct ovs_shim_device *device = priv;
	u32 id = READ_ONCE(device->id);

	if (unlikely(id < OVS_SHIM_ORIGIN_PORTS && hook_keeps_vm(skb, device->dev)))
		skb->skb_iif = 0;
	else
		hook_set_id(skb, id);
	return NF_ACCEPT;
}

/*
 * Sees a packet that goes to a device without a role; true: it goes on.  Into a tunnel it takes
 * along whose it is.
 */
static bool hook_pass(const struct ovs_shim_device *device, struct sk_buff *skb, bool iif)
{
	bool tunnel = device->kind == OVS_SHIM_DEVICE_TUNNEL, known;
	const struct ovs_shim_device *from = hook_origin(skb, iif, &known);
	const struct ovs_shim_port *port = from ? rcu_dereference(from->port) : NULL;

	if (port && port->role == OVS_SHIM_ROLE_VM) {
		hook_set_id(skb, tunnel ? READ_ONCE(from->id) : OVS_SHIM_ORIGIN_NOTHING);
		if (tunnel)
			skb->mark |= ovs_shim_mark.tunnelled;
		return ovs_shim_judge(port, NULL, false, skb);
	}
	if (tunnel && !known) {
		hook_set_id(skb, OVS_SHIM_ORIGIN_STRAY);
		skb->mark |= ovs_shim_mark.tunnelled;
	} else if (device->kind != OVS_SHIM_DEVICE_INTERNAL ||
		   !hook_keeps_uplink(skb, device->dev)) {
		hook_set_id(skb, OVS_SHIM_ORIGIN_NOTHING);
	}
	return true;
}

/* Sees a packet that goes to a device, while some port has a law; true: it goes on. */
static inline bool hook_out(struct ovs_shim_device *device, struct sk_buff *skb, bool iif)
{
	const struct ovs_shim_port *to = rcu_dereference(device->port);

	return likely(to) ? hook_judge(device, to, skb, iif) : hook_pass(device, skb, iif);
}

/* A packet goes to a port. */
static unsigned int hook_port_out(void *priv, struct sk_buff *skb,
				  const struct nf_hook_state *state)
{
	if (ovs_shim_enabled())
		return hook_out(priv, skb, true) ? NF_ACCEPT : NF_STOLEN;
	hook_set_id(skb, OVS_SHIM_ORIGIN_NOTHING);
	return NF_ACCEPT;
}

/* An internal port hands the host a packet. */
static unsigned int hook_internal_out(void *priv, struct sk_buff *skb,
				      const struct nf_hook_state *state)
{
	bool on;

	if (!ovs_shim_enabled() || hook_id(skb) == OVS_SHIM_ORIGIN_PASSED) {
		hook_set_id(skb, OVS_SHIM_ORIGIN_NOTHING);
		return NF_ACCEPT;
	}
	skb_push_rcsum(skb, ETH_HLEN);
	on = hook_out(priv, skb, false);
	if (on)
		skb_pull_rcsum(skb, ETH_HLEN);
	return on ? NF_ACCEPT : NF_STOLEN;
}

void ovs_shim_device_hooks(struct ovs_shim_device *device)
{
	static const struct {
		nf_hookfn *in;
	} kinds[] = {
		[OVS_SHIM_DEVICE_PORT] = { hook_port_in },
		[OVS_SHIM_DEVICE_TUNNEL] = { hook_tunnel_in },
		[OVS_SHIM_DEVICE_INTERNAL] = { hook_internal_in },
		[OVS_SHIM_DEVICE_UNDERLAY] = { hook_underlay_in },
	};
	bool internal = device->kind == OVS_SHIM_DEVICE_INTERNAL;

	/* Behind all others, which then see whole packets, and whose marks cannot tell lies. */
	device->in = (struct nf_hook_ops){
		.hook = kinds[device->kind].in,
		.dev = device->dev,
		.priv = device,
		.pf = NFPROTO_NETDEV,
		.hooknum = internal ? NF_NETDEV_EGRESS : NF_NETDEV_INGRESS,
		.priority = INT_MAX,
	};
	device->out = (struct nf_hook_ops){
		.hook = internal ? hook_internal_out : hook_port_out,
		.dev = device->dev,
		.priv = device,
		.pf = NFPROTO_NETDEV,
		.hooknum = internal ? NF_NETDEV_INGRESS : NF_NETDEV_EGRESS,
		.priority = internal ? INT_MIN : INT_MAX,
	};
}

void ovs_shim_hook_send(struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;

	if (likely(!netif_is_ovs_master(dev))) {
		nf_skip_egress(skb, true);
		dev_queue_xmit(skb);
		return;
	}
	/* As openvswitch hands it to the host. */
	hook_set_id(skb, OVS_SHIM_ORIGIN_PASSED);
	skb->pkt_type = PACKET_HOST;
	skb->protocol = eth_type_trans(skb, dev);
	skb_postpull_rcsum(skb, eth_hdr(skb), ETH_HLEN);
	netif_rx(skb);
}
