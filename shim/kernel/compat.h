/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All that differs between the kernels the shim is built for, 6.1 to 7.x.
 *
 * What a kernel has its headers tell, by macros or, as OVS_SHIM_HAS_*, by features.mk; versions do
 * not, for distributions backport.  The versions named here are those of kernel.org.
 */
#ifndef OVS_SHIM_COMPAT_H
#define OVS_SHIM_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/local_lock.h>
#include <linux/netdevice.h>
#include <linux/netlink.h>
#include <linux/skbuff.h>
#include <net/genetlink.h>
#include <net/ip_tunnels.h>

#include "../core/engine/counters.h"

/* 6.5 moved skb_gso_segment() out of netdevice.h. */
#ifdef OVS_SHIM_HAS_GSO_H
#include <net/gso.h>
#endif

/* 6.6 gave openvswitch drop reasons of its own; a patch of it puts ours behind them. */
#ifdef OVS_SHIM_HAS_DROP_H
#include "../../drop.h"
#endif

/* Returns what the kernel's own tools tell of a packet that was dropped. */
static inline u32 ovs_shim_drop_reason(enum shim_counter drop)
{
#ifdef OVS_SHIM_DROP_REASONS
	BUILD_BUG_ON(OVS_DROP_SHIM_WAITING - OVS_DROP_SHIM_SEGMENT !=
		     SHIM_DROP_WAITING - SHIM_DROP_SEGMENT);
	return OVS_DROP_SHIM_SEGMENT + (drop - SHIM_DROP_SEGMENT);
#else
	/* A module cannot have reasons of its own: the nearest of the network core's. */
	switch (drop) {
	case SHIM_DROP_SEGMENT:
		return SKB_DROP_REASON_SKB_GSO_SEG;
	case SHIM_DROP_MEMORY:
		return SKB_DROP_REASON_NOMEM;
	case SHIM_DROP_FORGED:
		return SKB_DROP_REASON_UNHANDLED_PROTO;
	case SHIM_DROP_SOURCE:
	case SHIM_DROP_SPOOFED:
		return SKB_DROP_REASON_IP_RPFILTER;
	case SHIM_DROP_SIZE:
		return SKB_DROP_REASON_PKT_TOO_BIG;
	default:
		return SKB_DROP_REASON_QDISC_DROP;
	}
#endif
}

/* Frees a packet that was dropped, with the reason. */
static inline void ovs_shim_free_dropped(struct sk_buff *skb, enum shim_counter drop)
{
	kfree_skb_reason(skb, ovs_shim_drop_reason(drop));
}

/* Kinds of GSO that say more of TCP's headers: 6.18 brought both. */
#ifdef OVS_SHIM_HAS_GSO_TCP_ACCECN
#define OVS_SHIM_GSO_ACCECN SKB_GSO_TCP_ACCECN
#else
#define OVS_SHIM_GSO_ACCECN 0
#endif
#ifdef OVS_SHIM_HAS_GSO_TCP_FIXEDID_INNER
#define OVS_SHIM_GSO_FIXEDID_INNER SKB_GSO_TCP_FIXEDID_INNER
#else
#define OVS_SHIM_GSO_FIXEDID_INNER 0
#endif

/* Prepares a timer of monotonic time whose function runs in softirq context. */
static inline void ovs_shim_hrtimer_setup(struct hrtimer *timer,
					  enum hrtimer_restart (*function)(struct hrtimer *timer))
{
	/* 6.13 brought it, and 6.15 has no hrtimer_init() any more. */
#ifdef OVS_SHIM_HAS_HRTIMER_SETUP
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	timer->function = function;
#endif
}

/* Tells whether a device must stay in its network namespace. */
static inline bool ovs_shim_netns_local(const struct net_device *dev)
{
	/* 6.12 made the feature a flag, which 6.15 gave another name. */
#if defined(NETIF_F_NETNS_LOCAL)
	return dev->features & NETIF_F_NETNS_LOCAL;
#elif defined(OVS_SHIM_HAS_NETNS_IMMUTABLE)
	return dev->netns_immutable;
#else
	return dev->netns_local;
#endif
}

/* Tells whether a device is a port of a network card's own switch.  RTNL. */
static inline bool ovs_shim_switched(struct net_device *dev)
{
	struct netdev_phys_item_id id;

	/* 7.x gave it another name. */
#ifdef OVS_SHIM_HAS_NETIF_PORT_PARENT_ID
	return !netif_get_port_parent_id(dev, &id, false);
#else
	return !dev_get_port_parent_id(dev, &id, false);
#endif
}

/* Returns the attributes of a request for a dump. */
static inline struct nlattr **ovs_shim_dump_attrs(struct netlink_callback *cb)
{
	/* 6.6 keeps them where those of other requests are. */
#ifdef OVS_SHIM_HAS_GENL_INFO_DUMP
	return genl_info_dump(cb)->attrs;
#else
	return genl_dumpit_info(cb)->attrs;
#endif
}

/*
 * Gives the key of a tunnel, whose flags are none yet, those that the way back shares with the way
 * there; df: outer packets must not be fragmented.
 */
static inline void ovs_shim_tunnel_flags_back(struct ip_tunnel_key *back,
					      const struct ip_tunnel_key *there, bool df)
{
	/* 6.10 made them a bitmap. */
#ifdef IP_TUNNEL_DECLARE_FLAGS
	if (test_bit(IP_TUNNEL_KEY_BIT, there->tun_flags))
		__set_bit(IP_TUNNEL_KEY_BIT, back->tun_flags);
	if (test_bit(IP_TUNNEL_CSUM_BIT, there->tun_flags))
		__set_bit(IP_TUNNEL_CSUM_BIT, back->tun_flags);
	if (df)
		__set_bit(IP_TUNNEL_DONT_FRAGMENT_BIT, back->tun_flags);
#else
	back->tun_flags = there->tun_flags & (TUNNEL_KEY | TUNNEL_CSUM);
	if (df)
		back->tun_flags |= TUNNEL_DONT_FRAGMENT;
#endif
}

/*
 * Whether packets run alone on their CPU while softirqs are off.  With PREEMPT_RT 6.18 can do
 * without the lock that has them so; 6.11 brought local locks for what needs it.
 */
#if defined(CONFIG_PREEMPT_RT) && defined(local_lock_nested_bh) && \
	!defined(CONFIG_PREEMPT_RT_NEEDS_BH_LOCK)
#define OVS_SHIM_CPU_ALONE false
#else
#define OVS_SHIM_CPU_ALONE true
#endif

#endif
