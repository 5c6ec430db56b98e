/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Structures of the shim's kernel glue.
 *
 * Locks, outermost first: ovs_mutex, RTNL, shim->lock, flow->lock, peer->lock.  Configuration is
 * written under ovs_mutex, and under shim->lock too where the packet path or the timer reads it.
 * Packets take shim->lock only to make a limiter, a peer or a flow, to wake a clock, and for
 * control messages.
 */
#ifndef OVS_SHIM_INTERNAL_H
#define OVS_SHIM_INTERNAL_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/hrtimer.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/netlink.h>
#include <linux/rcupdate.h>
#include <linux/rhashtable-types.h>
#include <linux/seqlock.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/netlink.h>

#include "../core/bucket.h"
#include "../core/law.h"
#include "../core/message.h"
#include "../core/share.h"
#include "uapi/ovs_shim.h"
#include "ovs_shim.h"

struct genl_family;
struct genl_info;
struct metadata_dst;
struct net;
struct notifier_block;
struct ovs_shim_port;

/* Laws that the kernel has room for. */
#define OVS_SHIM_LAW_SLOTS 16

/* In the place of a law's index: no law, and for a VM the namespace's. */
#define OVS_SHIM_LAW_NONE (-1)
#define OVS_SHIM_LAW_DEFAULT (-2)

/* What can be set of one law; kept while another law is in force. */
struct ovs_shim_law_settings {
	u64 period_ns;			/* T */
	u64 knobs[SHIM_KNOBS_MAX];	/* values, in the order of law->knobs */
};

/* What a namespace's operator can set; plain values, copied as a whole. */
struct ovs_shim_settings {
	int law;			/* index of VMs' law, OVS_SHIM_LAW_NONE: "none" */
	u64 horizon_ns;			/* longest wait of a paced packet */
	u64 inactive_ns;		/* T_o */
	u64 peer_idle_ns;		/* silence after which a peer is collected */
	u32 peers_max;			/* peers a VM may have */
	u32 burst_bytes;		/* depth of a policing bucket */
	u32 quantum_bytes;		/* depth of a pacing bucket */
	enum ovs_shim_limiter limiter;	/* what happens to a packet over the rate */
	u8 key[SHIM_KEY_BYTES];		/* SipHash key of control messages */
	u8 protocol;			/* IP protocol of control messages */
	bool key_set;			/* key is valid */
	bool accept_v0;			/* unauthenticated messages are obeyed */
	bool segment;			/* GSO packets are cut before the bucket */
	bool ecn;			/* Not-ECT packets are made ECT, and given back */
	struct ovs_shim_law_settings laws[OVS_SHIM_LAW_SLOTS];	/* by the law's index */
};

/* What a packet needs to know of a port and of the settings; read without a lock. */
struct ovs_shim_mode {
	u64 horizon_ns;			/* 0: police */
	u32 depth;			/* of buckets, bytes */
	u8 role;			/* enum ovs_shim_role; none for a VM whose law is "none" */
	u8 wants;			/* SHIM_LAW_* of the VM's law */
	u8 protocol;			/* IP protocol of control messages */
	bool segment;			/* as in settings */
	bool ecn;			/* as in settings */
};

/* Counters of a port that have no limiter to stand beside, packets unless said otherwise. */
enum ovs_shim_counter {
	OVS_SHIM_RX_PACKETS,
	OVS_SHIM_RX_BYTES,		/* bytes */
	OVS_SHIM_RX_CE,
	OVS_SHIM_RX_RESTORED,
	OVS_SHIM_DROP_SEGMENT,
	OVS_SHIM_DROP_MEMORY,
	OVS_SHIM_DROP_FORGED,
	OVS_SHIM_MESSAGES,
	OVS_SHIM_MESSAGE_MARKS,		/* marks */
	OVS_SHIM_REFUSED_SHORT,
	OVS_SHIM_REFUSED_FORM,
	OVS_SHIM_REFUSED_TAG,
	OVS_SHIM_REFUSED_REPLAY,
	OVS_SHIM_REFUSED_ADDRESS,
	OVS_SHIM_REFUSED_PEER,
	OVS_SHIM_REFUSED_LAW,
	OVS_SHIM_REPORTS,
	OVS_SHIM_REPORT_BYTES,		/* bytes */
	OVS_SHIM_REPORTS_SENT,
	OVS_SHIM_REPORT_BYTES_SENT,	/* bytes */
	OVS_SHIM_REPORTS_UNSENT,
	OVS_SHIM_REPORTS_NO_KEY,
	OVS_SHIM_DROP_PEER,
	OVS_SHIM_PEERS_FULL,
	OVS_SHIM_PEERS_NO_MEMORY,
	OVS_SHIM_PEERS_COLLECTED,	/* peers */
	OVS_SHIM_RX_WINDOWS,
	OVS_SHIM_FLOWS_FULL,
	OVS_SHIM_FLOWS_NO_MEMORY,
	OVS_SHIM_FLOWS_COLLECTED,	/* flows */

	OVS_SHIM_N_COUNTERS
};

/* Counters of one limiter, or of all a VM has lost; packets unless said otherwise. */
struct ovs_shim_tx {
	atomic64_t bytes;		/* bytes sent, headers as on the wire */
	atomic64_t packets;		/* sent */
	atomic64_t ect;			/* made ECT by the shim */
	atomic64_t paced;		/* given a departure time later than now */
	atomic64_t drop_police;		/* dropped: over the rate */
	atomic64_t drop_horizon;	/* dropped: would wait longer than the horizon */
};

/* A bucket and its rate; bucket.c says how they are shared. */
struct ovs_shim_bucket {
	atomic64_t slack;		/* bytes that may pass unasked << 32 | bytes that did */
	atomic64_t tat;			/* bucket word */
	struct shim_rate rate;		/* under seq */
	seqcount_spinlock_t seq;	/* of rate; written under the lock of whose bucket it is */
};

/* T(i,j) and R(i,j): the limiter of one VM on one uplink. */
struct ovs_shim_pair {
	/* First cache line: read for each packet. */
	const struct vport *out;	/* vport of the uplink; compared, never followed */
	struct ovs_shim_pair __rcu *next;	/* of the same VM */
	bool active;			/* a packet came in the last T_o */

	/* Second cache line: written for each packet. */
	struct ovs_shim_tx tx ____cacheline_aligned;	/* what became of the packets */
	struct ovs_shim_bucket bucket;	/* rate changes under shim->lock */

	/* The rest: the timer's, under shim->lock. */
	struct ovs_shim_port *vm ____cacheline_aligned;	/* VM it limits */
	union {
		struct list_head active_list;	/* in uplink->active while active */
		struct rcu_head rcu;	/* deferred free */
	};
	struct ovs_shim_port *uplink;	/* uplink it limits the VM on */
	u64 share;			/* E(i) of this VM, bytes/s */
	u64 sent_rate;			/* over the last period, bytes/s */
	u64 last_bytes;			/* tx.bytes at the last tick */
	u32 last_events;		/* packets sent and dropped at the last tick, modulo 2^32 */
	u32 idle_us;			/* time since the last tick that saw a packet */
	struct shim_limiter_state state;	/* of the law, whose own is behind it */
};

/* Whose packets with whom. */
struct ovs_shim_peer_key {
	struct ovs_shim_port *vm;	/* the VM */
	struct in6_addr address;	/* of the other end, IPv4-mapped if need be */
};

/* How a report to a peer leaves: the header of packets that the VM sends there. */
struct ovs_shim_way {
	u8 macs[2 * ETH_ALEN];		/* destination and source */
	__be16 vlan_proto;		/* 0: no tag */
	u16 vlan_tci;			/* the tag */
	struct metadata_dst *tunnel;	/* where the tunnel leads, held; NULL: there is none */
};

/*
 * What a VM exchanges with one address, under a law that wants peers.  Found under RCU, changed
 * under its lock.
 */
struct ovs_shim_peer {
	struct rhash_head node;		/* in shim->peers */
	struct ovs_shim_peer_key key;	/* by which it is found */
	spinlock_t lock;		/* of what follows, unless said otherwise */
	u32 weight;			/* set by the operator; 0: not set */
	const struct ovs_shim_clock *clock;	/* of its law; NULL: no law has it */
	u64 tat;			/* bucket word */
	struct shim_rate rate;		/* bytes_per_s 0: only the VM's bucket counts */
	u64 tx_bytes;			/* sent, headers as on the wire */
	u64 tx_packets;			/* sent */
	u64 drops;			/* packets dropped by this bucket */
	u64 rx_bytes;			/* received, link-layer header included */
	u64 rx_packets;			/* received */
	u64 rx_marks;			/* received with CE */
	const struct vport *out;	/* uplink of the last packet sent; compared only */
	const struct vport *in;		/* uplink of the last packet received; compared only */
	struct in6_addr local;		/* the VM's address */
	struct ovs_shim_way way;	/* of reports */
	bool way_sent;			/* the VM itself sent a packet that way */
	bool way_bad;			/* more VLAN tags than a report can have, or no memory */
	struct shim_replay_slot replay;	/* reports seen */
	u32 sequence;			/* of the last report sent */
	u32 last_events;		/* packets at the last tick, modulo 2^32; shim->lock */
	u32 idle_us;			/* time since the tick that saw the last; shim->lock */
	union {
		struct list_head list;	/* in vm->peers; shim->lock */
		struct rcu_head rcu;	/* deferred free */
	};
	struct shim_peer_state state;	/* of the law, whose own is behind it */
};

/* Which TCP connection of which VM. */
struct ovs_shim_flow_key {
	struct ovs_shim_port *vm;	/* the VM */
	struct in6_addr local;		/* its address, IPv4-mapped if need be */
	struct in6_addr remote;		/* the other end's */
	__be16 port_vm;			/* its TCP port */
	__be16 port_peer;		/* the other end's */
	u32 zero;			/* fills the hole that would be hashed */
};

/* A TCP connection of a VM, under a law that wants flows.  Found under RCU. */
struct ovs_shim_flow {
	struct rhash_head node;		/* in shim->flows */
	struct ovs_shim_flow_key key;	/* by which it is found */
	spinlock_t lock;		/* of what follows, unless said otherwise */
	const struct ovs_shim_clock *clock;	/* of its law; never changes */
	u64 seen_ns;			/* time of the last segment */
	const struct vport *out;	/* uplink of the last one sent; compared, never followed */
	union {
		struct list_head list;	/* in vm->flows; shim->lock */
		struct rcu_head rcu;	/* deferred free */
	};
	struct shim_flow state;		/* of the law, whose own is behind it */
};

/* The periods of one law in a namespace, and the VMs under it. */
struct ovs_shim_clock {
	struct hrtimer timer;		/* every T while vms is not empty */
	const struct shim_law *law;	/* the law */
	struct ovs_shim_law_settings *settings;	/* in force, in shim->settings */
	struct ovs_shim_net *shim;	/* its namespace */
	struct list_head vms;		/* VMs that send, receive or have peers; shim->lock */
	u64 tick_ns;			/* time of the last tick */
};

/* What is configured for a vport, and what it counted. */
struct ovs_shim_port {
	/* First cache line: read for each packet. */
	struct ovs_shim_mode mode;	/* what packets need to know */
	struct ovs_shim_pair __rcu *pairs;	/* VM: its limiters */
	struct ovs_shim_net *shim;	/* its namespace */

	/* Configuration, under ovs_mutex and shim->lock. */
	struct vport *vport;		/* the port itself */
	enum ovs_shim_role role;	/* VM or uplink, as configured */
	struct list_head list;		/* in shim->ports */
	struct list_head uplink_list;	/* uplink: in shim->uplinks */
	struct list_head active;	/* uplink: active limiters */
	u64 active_weight;		/* uplink: sum of the weights of their VMs */
	u64 min;			/* VM: guarantee, bytes/s */
	u64 max;			/* VM: ceiling, bytes/s; 0: none */
	u64 capacity;			/* uplink: as configured, bytes/s; 0: link speed */
	u64 link_rate;			/* uplink: link speed, bytes/s; 0: unknown */
	u32 weight;			/* VM: 1..SHIM_WEIGHT_MAX */
	int ifindex;			/* of its device */
	int own_law;			/* VM: as configured, index or OVS_SHIM_LAW_* */
	struct ovs_shim_clock *clock;	/* VM: of the law in force, NULL for none; shim->lock */
	struct list_head tick_list;	/* VM: in clock->vms */
	struct list_head peers;		/* VM: struct ovs_shim_peer, under shim->lock */
	struct list_head flows;		/* VM: struct ovs_shim_flow, under shim->lock */
	u32 n_flows;			/* VM: in flows; written under shim->lock */
	u64 flows_ns;			/* VM: when its flows take their next step; shim->lock */
	u32 n_peers;			/* VM: in peers; written under shim->lock */
	u32 busy_peers;			/* VM: those with packets in the last period */
	u32 vlan;			/* VM: protocol and tag it last sent with, to a peer */
	bool new_law;			/* VM: the change being made gives it another law */
	bool receiving;			/* VM: a packet came in the last T_o; shim->lock */
	const struct vport *rx_in;	/* VM: uplink it came by, NULL: any; compared only */
	u64 rx_ns;			/* VM: when it was last measured what it receives */
	u64 rx_idle_ns;			/* VM: time in which nothing came */
	u64 rx_bytes;			/* VM: what had come by then */
	u64 rx_rate;			/* VM: received over the last period, bytes/s */
	u64 rx_share;			/* VM: its part of what its uplink can bring, bytes/s */
	struct shim_replay replay;	/* VM: messages seen, under shim->lock */

	atomic64_t counters[OVS_SHIM_N_COUNTERS];	/* enum ovs_shim_counter */
	struct ovs_shim_tx gone;	/* VM: counters of limiters that are no more */
	struct rcu_head rcu;		/* deferred free */
};

/* A namespace's part of the shim. */
struct ovs_shim_net {
	spinlock_t lock;		/* see the top of the file */
	struct ovs_shim_settings settings;	/* in force */
	struct list_head ports;		/* struct ovs_shim_port, all */
	struct list_head uplinks;	/* struct ovs_shim_port, uplinks */
	struct shim_claim *claims;	/* scratch of ovs_shim_divide() */
	u32 n_claims;			/* length of claims, at least n_vms */
	u32 n_vms;			/* VMs among the ports */
	bool divide;			/* shares must be computed again at the next tick */
	bool divide_rx;			/* so must rx_share */
	bool running;			/* this namespace is counted in ovs_shim_key */
	u32 generation;			/* changes with the list of ports, for dumps */
	u32 sender;			/* id in reports, random */
	u32 epoch;			/* start in reports, seconds since 1970 */
	u32 first_sequence;		/* no less than that of any peer that is no more */
	struct ovs_shim_clock clocks[OVS_SHIM_LAW_SLOTS];	/* by the law's index */
	struct rhashtable peers;	/* struct ovs_shim_peer of all VMs */
	struct rhashtable flows;	/* struct ovs_shim_flow of all VMs */
};

/* A packet's network header, found without trusting anything. */
struct ovs_shim_packet {
	int offset;			/* of the IP header from skb->data */
	int payload;			/* of what follows the IP header */
	u8 version;			/* 4, 6; 0: not IP, or malformed */
	u8 protocol;			/* of the payload, behind IPv6 extension headers */
	u8 ecn;				/* INET_ECN_* */
	bool plain;			/* no fragment, no IPv6 extension header */
};

/* What skb->cb of a report holds until it is sent. */
struct ovs_shim_report_cb {
	struct vport *vport;		/* where it leaves */
};

/* What an operator asks of a port. */
struct ovs_shim_port_config {
	enum ovs_shim_role role;	/* VM or uplink */
	u32 weight;			/* VM: 1..SHIM_WEIGHT_MAX */
	u64 min;			/* VM: guarantee, bytes/s; 0: none */
	u64 max;			/* VM: ceiling, bytes/s; 0: none */
	u64 capacity;			/* uplink: bytes/s; 0: the device's link speed */
	int law;			/* VM: index of its law or OVS_SHIM_LAW_* */
};

/* Namespaces: net.c. */
struct ovs_shim_net *ovs_shim_net(const struct net *net);

/* Headers: packet.c. */
struct ovs_shim_packet ovs_shim_parse(struct sk_buff *skb);
bool ovs_shim_set_ecn(struct sk_buff *skb, struct ovs_shim_packet packet, u8 ecn);
bool ovs_shim_set_id(struct sk_buff *skb, const struct ovs_shim_packet *packet, u16 id,
		     bool echo);
void ovs_shim_addresses(const struct sk_buff *skb, const struct ovs_shim_packet *packet,
			struct in6_addr *source, struct in6_addr *destination);
u32 ovs_shim_weight(const struct sk_buff *skb, u32 *bytes);

/*
 * Returns the header of untagged IPv4 without options in Ethernet, the common case, NULL for what
 * is not or has it elsewhere than in front.  The data of skb starts at the link-layer header.
 */
static inline const struct iphdr *ovs_shim_common_ip(const struct sk_buff *skb)
{
	const struct ethhdr *ethernet = (const struct ethhdr *)skb->data;
	const struct iphdr *ip = (const struct iphdr *)(ethernet + 1);

	if (unlikely(skb_headlen(skb) < sizeof(*ethernet) + sizeof(*ip) ||
		     skb->dev->type != ARPHRD_ETHER || ethernet->h_proto != htons(ETH_P_IP) ||
		     *(const u8 *)ip != 0x45))
		return NULL;
	return ip;
}

/*
 * Finds the network header of skb, whose data starts at the link-layer header.  May move the
 * header.
 */
static inline struct ovs_shim_packet ovs_shim_look(struct sk_buff *skb)
{
	const struct iphdr *ip = ovs_shim_common_ip(skb);

	if (!ip)
		return ovs_shim_parse(skb);
	return (struct ovs_shim_packet){
		.offset = ETH_HLEN,
		.payload = ETH_HLEN + sizeof(*ip),
		.version = 4,
		.protocol = ip->protocol,
		.ecn = ip->tos & INET_ECN_MASK,
		.plain = !ip_is_fragment(ip),
	};
}

/* What flows meant: ecn.c. */
int ovs_shim_ecn_init(void);
void ovs_shim_ecn_exit(void);
u8 ovs_shim_ecn_restore(struct sk_buff *skb, u8 ecn, enum shim_told told);

/* Packets for VMs: receive.c. */
void ovs_shim_receive(struct ovs_shim_port *vm, struct ovs_shim_port *in,
		      struct vport *vport, struct sk_buff *skb);

/* What VMs exchange with one address: peer.c, peer_packet.c. */
int ovs_shim_peer_init(void);
void ovs_shim_peer_exit(void);
int ovs_shim_peers_start(struct ovs_shim_net *shim);
void ovs_shim_peers_stop(struct ovs_shim_net *shim);
struct ovs_shim_peer *ovs_shim_peer_find(struct ovs_shim_net *shim,
					 const struct ovs_shim_peer_key *key);
struct ovs_shim_peer *ovs_shim_peer_create(const struct ovs_shim_peer_key *key,
					   const struct vport *via);
void ovs_shim_peer_free(struct ovs_shim_peer *peer);
void ovs_shim_peers_free(struct ovs_shim_port *vm);
void ovs_shim_peers_restart(struct ovs_shim_port *vm, u64 now_ns);
bool ovs_shim_peers_measure(struct ovs_shim_port *vm, u64 now_ns, u64 elapsed_ns);
void ovs_shim_peers_period(struct ovs_shim_port *vm, u64 now_ns, struct sk_buff_head *reports);
enum ovs_shim_counter ovs_shim_peer_report(struct ovs_shim_port *vm,
					   const struct shim_message *report, u64 now_ns);
void ovs_shim_peer_apply(struct ovs_shim_peer *peer, u64 now_ns);
struct ovs_shim_peer *ovs_shim_peer_sending(struct ovs_shim_port *vm, const struct vport *vport,
					    const struct sk_buff *skb,
					    const struct ovs_shim_packet *headers);
bool ovs_shim_peer_sent(struct ovs_shim_peer *peer, const struct vport *vport,
			const struct sk_buff *skb, const struct ovs_shim_packet *headers,
			struct shim_law_packet *packet);
bool ovs_shim_peer_received(struct ovs_shim_port *vm, struct vport *vport, struct sk_buff *skb,
			    const struct ovs_shim_packet *headers, enum shim_told *told);

/* TCP connections: flow.c, tcp.c. */
int ovs_shim_flows_start(struct ovs_shim_net *shim);
void ovs_shim_flows_stop(struct ovs_shim_net *shim);
struct ovs_shim_flow *ovs_shim_flow_find(const struct ovs_shim_flow_key *key);
struct ovs_shim_flow *ovs_shim_flow_make(const struct ovs_shim_flow_key *key);
void ovs_shim_flows_free(struct ovs_shim_port *vm);
void ovs_shim_flows_period(struct ovs_shim_port *vm, u64 now_ns);
bool ovs_shim_tcp_out(struct ovs_shim_pair *pair, struct ovs_shim_peer *peer, struct sk_buff *skb,
		      struct ovs_shim_packet packet, bool *made_ect);
bool ovs_shim_tcp_in(struct ovs_shim_port *vm, struct sk_buff *skb, struct ovs_shim_packet packet,
		     enum shim_told told, bool *restored);

/* Reports: report.c. */
struct sk_buff *ovs_shim_report_build(struct ovs_shim_peer *peer, struct shim_message *report,
				      struct vport *vport);
void ovs_shim_report_send(struct sk_buff *skb);

/* Buckets: bucket.c. */
void ovs_shim_bucket_init(struct ovs_shim_bucket *bucket, spinlock_t *lock);
void ovs_shim_bucket_fill(struct ovs_shim_bucket *bucket, u64 now_ns);
void ovs_shim_bucket_settle(struct ovs_shim_bucket *bucket, u64 now_ns);
void ovs_shim_bucket_set(struct ovs_shim_bucket *bucket, u64 bytes_per_s, u32 depth, u64 now_ns);
struct shim_verdict ovs_shim_bucket_ask(const struct shim_rate *rate, u64 tat, u64 now_ns,
					u32 bytes, u64 horizon_ns);
struct shim_verdict ovs_shim_bucket_judge(struct ovs_shim_bucket *bucket, u64 now_ns, u32 bytes,
					  u64 horizon_ns);
u64 ovs_shim_bucket_wait(const struct ovs_shim_bucket *bucket, u64 now_ns);

/* Lets bytes pass if they may do so unasked; else they must be judged. */
static inline bool ovs_shim_bucket_pass(struct ovs_shim_bucket *bucket, u32 bytes)
{
	s64 slack = atomic64_read(&bucket->slack);

	do {
		if ((u64)slack >> 32 < bytes)
			return false;
	} while (!atomic64_try_cmpxchg(&bucket->slack, &slack,
				       slack - ((u64)bytes << 32) + bytes));
	return true;
}

/* Limiters: limiter.c. */
u64 ovs_shim_capacity(const struct ovs_shim_port *uplink);
struct shim_law_input ovs_shim_law_input(const struct ovs_shim_port *vm,
					 const struct ovs_shim_pair *pair,
					 const struct ovs_shim_port *uplink, u64 now_ns);
struct ovs_shim_pair *ovs_shim_limiter_find(const struct ovs_shim_port *vm,
					    const struct vport *vport);
void ovs_shim_limiter_apply(struct ovs_shim_pair *pair, u64 now_ns);
struct ovs_shim_pair *ovs_shim_limiter_start(struct ovs_shim_port *vm,
					     struct ovs_shim_port *uplink);
void ovs_shim_limiter_wake(struct ovs_shim_port *vm, struct ovs_shim_port *uplink);
void ovs_shim_limiter_stop(struct ovs_shim_pair *pair);
void ovs_shim_limiter_free(struct ovs_shim_pair __rcu **link);
void ovs_shim_limiter_restart(struct ovs_shim_pair *pair, u64 now_ns);
void ovs_shim_limiter_message(struct ovs_shim_pair *pair, const struct shim_message *message,
			      u64 now_ns);
void ovs_shim_limiter_measure(struct ovs_shim_pair *pair, u64 now_ns, u64 elapsed_ns);
void ovs_shim_limiter_period(struct ovs_shim_pair *pair, u64 now_ns);
void ovs_shim_divide(struct ovs_shim_net *shim);

/* What VMs receive: meter.c. */
void ovs_shim_meter(struct ovs_shim_clock *clock, u64 now_ns);

/* Periods: timer.c. */
void ovs_shim_clocks_init(struct ovs_shim_net *shim);
void ovs_shim_clocks_stop(struct ovs_shim_net *shim);
void ovs_shim_clock_start(struct ovs_shim_clock *clock);
void ovs_shim_clock_add(struct ovs_shim_port *vm);

/* Settings: settings.c. */
void ovs_shim_settings_default(struct ovs_shim_settings *settings);
int ovs_shim_settings_change(struct ovs_shim_settings *settings, struct nlattr *const *attrs,
			     struct netlink_ext_ack *extack);
void ovs_shim_settings_apply(struct ovs_shim_net *shim, const struct ovs_shim_settings *settings);
int ovs_shim_law_read(const struct nlattr *attr, int *law, struct netlink_ext_ack *extack);
const char *ovs_shim_law_name(int law);
u32 ovs_shim_law_room(size_t offset);

/* Ports: port.c. */
int ovs_shim_port_set(struct ovs_shim_net *shim, struct vport *vport,
		      const struct ovs_shim_port_config *config, struct netlink_ext_ack *extack);
void ovs_shim_port_del(struct ovs_shim_port *port);
struct ovs_shim_port *ovs_shim_port_find(const struct vport *vport);
void ovs_shim_port_count(struct ovs_shim_net *shim);
extern struct notifier_block ovs_shim_device_notifier;

/* What requests may hold: policy.c. */
extern const struct nla_policy ovs_shim_settings_policy[OVS_SHIM_SETTINGS_MAX + 1];
extern const struct nla_policy ovs_shim_knobs_policy[OVS_SHIM_KNOBS_MAX + 1];
extern const struct nla_policy ovs_shim_knob_policy[OVS_SHIM_KNOB_MAX + 1];
extern const struct nla_policy ovs_shim_port_policy[OVS_SHIM_PORT_MAX + 1];
extern const struct nla_policy ovs_shim_peer_policy[OVS_SHIM_PEER_MAX + 1];
void __printf(2, 3) ovs_shim_say(struct netlink_ext_ack *extack, const char *format, ...);

/* The netlink family: netlink.c, netlink_port.c, netlink_peer.c. */
extern struct genl_family ovs_shim_family;
int ovs_shim_cmd_port_get(struct sk_buff *skb, struct genl_info *info);
int ovs_shim_cmd_port_dump(struct sk_buff *skb, struct netlink_callback *cb);
int ovs_shim_cmd_port_set(struct sk_buff *skb, struct genl_info *info);
int ovs_shim_cmd_port_del(struct sk_buff *skb, struct genl_info *info);
struct ovs_shim_port *ovs_shim_requested_port(struct genl_info *info, const struct nlattr *index,
					      const struct nlattr *name);
int ovs_shim_cmd_limiter_dump(struct sk_buff *skb, struct netlink_callback *cb);
int ovs_shim_cmd_peer_dump(struct sk_buff *skb, struct netlink_callback *cb);
int ovs_shim_cmd_peer_set(struct sk_buff *skb, struct genl_info *info);
int ovs_shim_cmd_peer_del(struct sk_buff *skb, struct genl_info *info);

#endif
