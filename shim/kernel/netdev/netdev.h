/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The shim beside an unmodified openvswitch.ko: what the files of this folder share.
 *
 * Every port of a bridge, and every uplink that is no port, has a struct ovs_shim_device with two
 * netfilter hooks: one where packets come from it, one where they go to it.  The first writes where
 * the packet is from, the second reads it and takes it off.  It stands in two places:
 *
 *   skb->skb_iif  less than 0, with the VLAN tag that the packet came with.  Devices' indexes are
 *                 more than 0, so nothing but the hook writes that.  It is lost where a packet
 *                 visits user space, a tunnel or the host
 *   skb->mark     some high bits, which survive all ways through openvswitch.  Whoever sends by an
 *                 internal port can write them, and by tc have its hook left out
 *
 * Both hold
 *
 *   nothing       no hook saw the packet come: user space made it, or the host itself
 *   free          it came by a port without a role
 *   stray         it went into a tunnel, and nobody knew from where
 *   passed        the shim has judged it already
 *   a port's id   it came by that port; ids are of ports with a role alone
 *
 * and the mark one bit more: it went into a tunnel since.
 */
#ifndef OVS_SHIM_NETDEV_H
#define OVS_SHIM_NETDEV_H

#include <linux/bits.h>
#include <linux/cache.h>
#include <linux/jump_label.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>

#include "../../core/bucket.h"
#include "../../core/engine/limiter.h"
#include "../port.h"

/* What the bits say that are no port's id. */
enum ovs_shim_origin {
	OVS_SHIM_ORIGIN_NOTHING,	/* see above */
	OVS_SHIM_ORIGIN_FREE,
	OVS_SHIM_ORIGIN_STRAY,
	OVS_SHIM_ORIGIN_PASSED,
	OVS_SHIM_ORIGIN_PORTS,		/* the first id of a port */
};

/* Which bits of skb->mark are the shim's; fixed when the module is loaded. */
struct ovs_shim_mark {
	u32 mask;			/* all of them */
	u32 shift;			/* of the lowest */
	u32 tunnelled;			/* the highest: it went into a tunnel */
	u32 n_ids;			/* what the others can tell apart */
};

extern struct ovs_shim_mark ovs_shim_mark;

/* On while a tunnel without a role may lead to an uplink below that has one. */
DECLARE_STATIC_KEY_FALSE(ovs_shim_overlay);

/* On while an internal port has a role: whoever is behind it may write marks. */
DECLARE_STATIC_KEY_FALSE(ovs_shim_inner);

/* What a device is to the hooks. */
enum ovs_shim_device_kind {
	OVS_SHIM_DEVICE_PORT,		/* a port of a bridge */
	OVS_SHIM_DEVICE_TUNNEL,		/* such a port that leads into tunnels */
	OVS_SHIM_DEVICE_INTERNAL,	/* an internal port: the host is behind it */
	OVS_SHIM_DEVICE_UNDERLAY,	/* no port: an uplink that tunnels leave by */
};

/* What leaves by an uplink from nobody knows where: its bucket, and what was counted. */
struct ovs_shim_stray {
	spinlock_t lock;		/* of what follows */
	u64 tat;			/* bucket word */
	struct shim_rate rate;		/* bytes_per_s 0: not yet set */
	struct shim_order order;	/* behind those that wait by a lower rate */
	struct shim_waiting waiting;	/* packets paced, some of their departures */
	struct shim_frame_size frame;	/* of these packets */
	struct shim_tx tx;		/* what became of the packets */
};

/*
 * A device that has hooks, or had some and counted strays; listed under configuration and RTNL,
 * found under RCU.
 */
struct ovs_shim_device {
	struct hlist_node node;		/* in the table of devices */
	struct net_device *dev;		/* held */
	netdevice_tracker tracker;	/* of that hold */
	enum ovs_shim_device_kind kind;	/* fixed */
	u32 id;				/* what its packets carry; configuration, read without */
	const struct ovs_shim_port __rcu *port;	/* its role; configuration, RCU */
	bool gone;			/* it is no more what it was; RTNL, read without */
	bool hooked;			/* packets meet the hooks; configuration, RTNL */
	struct nf_hook_ops in;		/* where packets come from it */
	struct nf_hook_ops out;		/* where packets go to it */
	struct ovs_shim_stray stray;	/* of an uplink */
	struct rcu_head rcu;		/* deferred free */
};

/* Returns the device that has an id of ports, NULL if none has it.  RCU. */
const struct ovs_shim_device *ovs_shim_device_by_id(u32 id);

/* Returns what is known of a device, NULL if it had no hooks.  RCU, configuration or RTNL. */
struct ovs_shim_device *ovs_shim_device_of(const struct net_device *dev);

/* Begins to follow which devices come and go; 0 or a negative error number. */
int ovs_shim_devices_init(void);

/* Ends that: hooks stay where they are. */
void ovs_shim_devices_stop(void);

/* Takes the hooks off all devices, none of which has a role by now, and frees all. */
void ovs_shim_devices_exit(void);

/* Fills the hooks of a device. */
void ovs_shim_device_hooks(struct ovs_shim_device *device);

/* Tells whether strays were counted. */
bool ovs_shim_stray_any(struct ovs_shim_stray *stray);

/*
 * Judges a packet of unknown origin that leaves by an uplink, whose port is `to`; true: it goes on.
 * False: it is consumed.  Softirqs off, RCU read lock.
 */
bool ovs_shim_stray_judge(struct ovs_shim_device *device, const struct ovs_shim_port *to,
			  struct sk_buff *skb);

#endif
