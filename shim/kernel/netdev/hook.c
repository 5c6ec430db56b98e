// SPDX-License-Identifier: GPL-2.0-only
/*
 * The hooks: what a packet meets that comes from a device, and one that goes to it.
 *
 *   a port, tap or NIC   comes by NF_NETDEV_INGRESS, goes by NF_NETDEV_EGRESS
 *   an internal port     its host sends what comes and receives what goes: the other way round
 *
 * Where a packet is from, the first of these tells:
 *
 *   skb->skb_iif    less than 0: a hook wrote it where the packet came, whatever flows did to its
 *                   mark
 *   skb->skb_iif    0, and a port's id in skb->mark: a hook wrote that, and the packet has been in
 *                   user space since, or came from another namespace
 *   nothing         user space sent it, a flow overwrote the mark of what visited user space, or
 *                   the packet came to an internal port without its hook: its origin is unknown
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
#include "../pass.h"
#include "../vlan.h"
#include "netdev.h"

DEFINE_STATIC_KEY_FALSE(ovs_shim_overlay);
DEFINE_STATIC_KEY_FALSE(ovs_shim_inner);

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

/* What stands in skb->skb_iif, which is less than 0: id in 0 to 14, tag in 15 to 26, protocol. */
#define IIF_HOOKED BIT(31)
#define IIF_VLAN_SHIFT 15
#define IIF_QINQ BIT(27)
#define IIF_ID_MASK GENMASK(IIF_VLAN_SHIFT - 1, 0)

/* Writes where a packet that comes is from, and how it is tagged. */
static inline void hook_come(struct sk_buff *skb, u32 id)
{
	u32 word = IIF_HOOKED | id;

	if (unlikely(skb_vlan_tag_present(skb))) {
		word |= (u32)skb_vlan_tag_get_id(skb) << IIF_VLAN_SHIFT;
		if (skb->vlan_proto == htons(ETH_P_8021AD))
			word |= IIF_QINQ;
	}
	hook_set_id(skb, id);
	skb->skb_iif = (int)word;
}

/* Tells whether a hook saw a packet come, and nothing but openvswitch had it since. */
static inline bool hook_saw(const struct sk_buff *skb)
{
	return skb->skb_iif < 0;
}

/* Returns the VLAN tag that a packet came with, which a hook saw. */
static inline u32 hook_vlan(const struct sk_buff *skb)
{
	u32 word = (u32)skb->skb_iif;

	return ovs_shim_vlan(htons(word & IIF_QINQ ? ETH_P_8021AD : ETH_P_8021Q),
			     word >> IIF_VLAN_SHIFT);
}

/* Takes off a packet that goes whatever hooks wrote; from: the device it came by, NULL: unknown. */
static inline void hook_go(struct sk_buff *skb, const struct ovs_shim_device *from)
{
	hook_set_id(skb, OVS_SHIM_ORIGIN_NOTHING);
	if (hook_saw(skb))
		skb->skb_iif = from ? from->dev->ifindex : 0;
}

/* Returns the port of a device with an id if it has that role, NULL if not.  RCU. */
static const struct ovs_shim_port *hook_port_by_id(u32 id, enum ovs_shim_role role)
{
	const struct ovs_shim_device *device = ovs_shim_device_by_id(id);
	const struct ovs_shim_port *port = device ? rcu_dereference(device->port) : NULL;

	return port && port->role == role ? port : NULL;
}

/*
 * Returns the device that a packet about to leave came by if that has a role, else NULL, and in
 * *known whether it is known.  iif: skb->skb_iif is still of where it came.  RCU.
 *
 * A mark alone is left of the first packets of flows, and of what comes from another namespace.
 * While a VM is behind an internal port it says which VM is to pay, but makes nothing free: a host
 * with root there could have written it, and had tc leave the hook out.
 */
static const struct ovs_shim_device *hook_origin(const struct sk_buff *skb, bool iif, bool *known)
{
	const struct ovs_shim_device *device;

	if (likely(iif && hook_saw(skb))) {
		*known = true;
		return ovs_shim_device_by_id((u32)skb->skb_iif & IIF_ID_MASK);
	}
	device = iif && skb->skb_iif ? NULL : ovs_shim_device_by_id(hook_id(skb));
	*known = device || (hook_id(skb) == OVS_SHIM_ORIGIN_FREE &&
			    !(iif && static_branch_unlikely(&ovs_shim_inner)));
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

/* Returns the word that tells where a packet came by that a hook saw come. */
static inline unsigned long hook_from(const struct sk_buff *skb)
{
	return (u32)skb->skb_iif & (IIF_HOOKED | IIF_ID_MASK);
}

/* Returns the way of a packet that a hook saw come; ifindex: of the device that it came by. */
static inline struct ovs_shim_way hook_way(const struct ovs_shim_device *device,
					   const struct sk_buff *skb, int ifindex)
{
	return (struct ovs_shim_way){
		.from = hook_from(skb),
		.to = (unsigned long)device,
		.iif = ifindex,
	};
}

/* Lets a packet pass that a hook saw come, by what was judged of one before it. */
static inline bool hook_passes(const struct ovs_shim_device *device, struct sk_buff *skb)
{
	const struct ovs_shim_pass *pass;

	if (!hook_saw(skb))
		return false;
	pass = ovs_shim_pass(hook_from(skb), (unsigned long)device, skb);
	if (!pass)
		return false;
	hook_set_id(skb, OVS_SHIM_ORIGIN_NOTHING);
	skb->skb_iif = pass->way.iif;
	return true;
}

/* Judges a packet that goes to a device with a role; true: it goes on. */
static bool hook_judge(struct ovs_shim_device *device, const struct ovs_shim_port *to,
		       struct sk_buff *skb, bool iif)
{
	const struct ovs_shim_port *port;
	const struct ovs_shim_device *from;
	struct ovs_shim_way way;
	bool known, saw;
	u32 vlan;

	if (unlikely(hook_is_tunnelled(device, skb) && to->role == OVS_SHIM_ROLE_UPLINK))
		return hook_judge_tunnelled(device, to, skb);
	from = hook_origin(skb, iif, &known);
	saw = iif && hook_saw(skb);
	way = hook_way(device, skb, from ? from->dev->ifindex : 0);
	vlan = saw ? hook_vlan(skb) : OVS_SHIM_VLAN_UNKNOWN;
	hook_go(skb, from);
	/* What is in no tunnel there is the host's own. */
	if (unlikely(device->kind == OVS_SHIM_DEVICE_UNDERLAY))
		return true;
	port = from ? rcu_dereference(from->port) : NULL;
	/* Namespaces have engines of their own, which know nothing of each other. */
	if (unlikely(port && port->net != to->net))
		port = NULL;
	/* A mark alone makes nobody an uplink to others. */
	if (unlikely(!saw && port && port->role == to->role && to->role == OVS_SHIM_ROLE_UPLINK))
		known = false;
	if (likely(known))
		return ovs_shim_judge(port, to, false, vlan, saw && from ? &way : NULL, skb);
	if (to->role == OVS_SHIM_ROLE_UPLINK)
		return ovs_shim_stray_judge(device, to, skb);
	return ovs_shim_judge(NULL, to, true, vlan, NULL, skb);
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

	hook_come(skb, READ_ONCE(device->id));
	return NF_ACCEPT;
}

/* A packet comes out of a tunnel. */
static unsigned int hook_tunnel_in(void *priv, struct sk_buff *skb,
				   const struct nf_hook_state *state)
{
	const struct ovs_shim_device *device = priv;
	u32 id = READ_ONCE(device->id);

	if (id < OVS_SHIM_ORIGIN_PORTS && hook_keeps_uplink(skb, device->dev))
		id = hook_id(skb);
	hook_come(skb, id);
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
		hook_come(skb, id);
	return NF_ACCEPT;
}

/*
 * Sees a packet that goes to a device without a role; true: it goes on.  Into a tunnel it takes
 * along whose it is.
 */
static bool hook_pass(const struct ovs_shim_device *device, struct sk_buff *skb, bool iif)
{
	bool tunnel = device->kind == OVS_SHIM_DEVICE_TUNNEL, keeps, known;
	const struct ovs_shim_device *from = hook_origin(skb, iif, &known);
	const struct ovs_shim_port *port = from ? rcu_dereference(from->port) : NULL;
	u32 id;

	keeps = device->kind == OVS_SHIM_DEVICE_INTERNAL && hook_keeps_uplink(skb, device->dev);
	id = hook_id(skb);
	hook_go(skb, from);
	if (port && port->role == OVS_SHIM_ROLE_VM) {
		if (tunnel)
			hook_set_id(skb, READ_ONCE(from->id));
		if (tunnel)
			skb->mark |= ovs_shim_mark.tunnelled;
		return ovs_shim_judge(port, NULL, false, OVS_SHIM_VLAN_UNKNOWN, NULL, skb);
	}
	if (tunnel && !known) {
		hook_set_id(skb, OVS_SHIM_ORIGIN_STRAY);
		skb->mark |= ovs_shim_mark.tunnelled;
	} else if (keeps) {
		hook_set_id(skb, id);
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
		return hook_passes(priv, skb) || hook_out(priv, skb, true) ? NF_ACCEPT : NF_STOLEN;
	hook_go(skb, NULL);
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
