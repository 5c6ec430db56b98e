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
#include "../output.h"
#include "../ovs_shim.h"
#include "netdev.h"

/* Returns what a packet's mark says, without its tunnel. */
static inline u32 hook_id(const struct sk_buff *skb)
{
	return (skb->mark & ovs_shim_mark.mask & ~ovs_shim_mark.tunnelled) >> ovs_shim_mark.shift;
}

/* Writes to a packet's mark where it is from, and that it went into no tunnel. */
static inline void hook_set_id(struct sk_buff *skb, u32 id)
{
	skb->mark = (skb->mark & ~ovs_shim_mark.mask) | id << ovs_shim_mark.shift;
}

/*
 * Returns the device with a role that a packet about to leave came by, NULL if that has none, and
 * in *known whether it is known.  iif: skb->skb_iif is still of where it came.  RCU.
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
			return ovs_shim_device_of(in);
	}
	*known = device || id == OVS_SHIM_ORIGIN_FREE || id == OVS_SHIM_ORIGIN_PASSED;
	return device;
}

/* Judges a packet that goes to a device with a role; true: it goes on. */
static bool hook_judge(struct ovs_shim_device *device, const struct ovs_shim_port *to,
		       struct sk_buff *skb, bool iif)
{
	const struct ovs_shim_device *from;
	bool known;

	from = hook_origin(skb, iif, &known);
	hook_set_id(skb, OVS_SHIM_ORIGIN_NOTHING);
	if (likely(known))
		return ovs_shim_judge(from ? ovs_shim_port_of(from->dev) : NULL, to, false, skb);
	if (to->role == OVS_SHIM_ROLE_UPLINK)
		return ovs_shim_stray_judge(device, to, skb);
	return ovs_shim_judge(NULL, to, true, skb);
}

/* A packet comes from a port. */
static unsigned int hook_port_in(void *priv, struct sk_buff *skb,
				 const struct nf_hook_state *state)
{
	const struct ovs_shim_device *device = priv;

	hook_set_id(skb, READ_ONCE(device->id));
	return NF_ACCEPT;
}

/* A packet goes to a port. */
static unsigned int hook_port_out(void *priv, struct sk_buff *skb,
				  const struct nf_hook_state *state)
{
	struct ovs_shim_device *device = priv;
	const struct ovs_shim_port *to;

	to = ovs_shim_enabled() ? ovs_shim_port_of(device->dev) : NULL;
	if (likely(to))
		return hook_judge(device, to, skb, true) ? NF_ACCEPT : NF_STOLEN;
	hook_set_id(skb, OVS_SHIM_ORIGIN_NOTHING);
	return NF_ACCEPT;
}

/* The host sends a packet by an internal port. */
static unsigned int hook_internal_in(void *priv, struct sk_buff *skb,
				     const struct nf_hook_state *state)
{
	const struct ovs_shim_device *device = priv;

	hook_set_id(skb, READ_ONCE(device->id));
	return NF_ACCEPT;
}

/* An internal port hands the host a packet. */
static unsigned int hook_internal_out(void *priv, struct sk_buff *skb,
				      const struct nf_hook_state *state)
{
	struct ovs_shim_device *device = priv;
	const struct ovs_shim_port *to;
	bool on;

	to = ovs_shim_enabled() ? ovs_shim_port_of(device->dev) : NULL;
	if (!to || hook_id(skb) == OVS_SHIM_ORIGIN_PASSED) {
		hook_set_id(skb, OVS_SHIM_ORIGIN_NOTHING);
		return NF_ACCEPT;
	}
	skb_push_rcsum(skb, ETH_HLEN);
	on = hook_judge(device, to, skb, false);
	if (on)
		skb_pull_rcsum(skb, ETH_HLEN);
	return on ? NF_ACCEPT : NF_STOLEN;
}

void ovs_shim_device_hooks(struct ovs_shim_device *device)
{
	bool internal = device->kind == OVS_SHIM_DEVICE_INTERNAL;

	/* Behind all others, which then see whole packets, and whose marks cannot tell lies. */
	device->in = (struct nf_hook_ops){
		.hook = internal ? hook_internal_in : hook_port_in,
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
