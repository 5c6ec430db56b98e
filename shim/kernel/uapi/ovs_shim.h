/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Generic netlink family "ovs_shim": settings, ports and limiters of the end-host shim.
 * Rates are bytes/s, times ns.  ovs_shim.yaml is the specification.
 */
#ifndef _UAPI_LINUX_OVS_SHIM_H
#define _UAPI_LINUX_OVS_SHIM_H

#define OVS_SHIM_FAMILY "ovs_shim"
#define OVS_SHIM_VERSION 1

/* What a vport is to the shim. */
enum ovs_shim_role {
	OVS_SHIM_ROLE_NONE,
	OVS_SHIM_ROLE_VM,
	OVS_SHIM_ROLE_UPLINK,
};

/* What happens to a packet over the rate. */
enum ovs_shim_limiter {
	OVS_SHIM_LIMITER_POLICE,	/* dropped */
	OVS_SHIM_LIMITER_PACE,		/* given a departure time, obeyed by sch_fq on the uplink */
};

/* Whether an uplink's queuing discipline obeys departure times. */
enum ovs_shim_qdisc {
	OVS_SHIM_QDISC_UNKNOWN,
	OVS_SHIM_QDISC_FIT,		/* fq, or mq with fq at every queue; any while policing */
	OVS_SHIM_QDISC_UNFIT,
};

enum ovs_shim_cmd {
	OVS_SHIM_CMD_UNSPEC,
	OVS_SHIM_CMD_SETTINGS_GET,	/* do: the namespace's settings and law knobs */
	OVS_SHIM_CMD_SETTINGS_SET,	/* do: change those named, all or none */
	OVS_SHIM_CMD_PORT_GET,		/* do by ifindex, dump: configuration and counters */
	OVS_SHIM_CMD_PORT_SET,		/* do: create or change */
	OVS_SHIM_CMD_PORT_DEL,		/* do: role none, state freed */
	OVS_SHIM_CMD_LIMITER_GET,	/* dump: one entry per (VM, uplink) pair ever active */
	OVS_SHIM_CMD_PEER_GET,		/* dump: per (VM, address), or what moved */
	OVS_SHIM_CMD_PEER_SET,		/* do: a weight for a VM's address, which is then kept */
	OVS_SHIM_CMD_PEER_DEL,		/* do: forget it */
	OVS_SHIM_CMD_MESSAGE,		/* do: a control message for a VM */
	OVS_SHIM_CMD_PATH_GET,		/* dump: per (VM, path) */

	__OVS_SHIM_CMD_MAX
};

#define OVS_SHIM_CMD_MAX (__OVS_SHIM_CMD_MAX - 1)

/* Attributes of SETTINGS_GET and SETTINGS_SET. */
enum ovs_shim_settings_attr {
	OVS_SHIM_SETTINGS_UNSPEC,
	OVS_SHIM_SETTINGS_PAD,
	OVS_SHIM_SETTINGS_LAW,		/* string: "none" switches the shim off */
	OVS_SHIM_SETTINGS_PERIOD,	/* u64 ns: T; 0 on set: the law's default */
	OVS_SHIM_SETTINGS_LIMITER,	/* u32: enum ovs_shim_limiter */
	OVS_SHIM_SETTINGS_BURST,	/* u32 bytes: depth of a policing bucket */
	OVS_SHIM_SETTINGS_QUANTUM,	/* refused: BURST_US does its work */
	OVS_SHIM_SETTINGS_HORIZON,	/* u64 ns: longest wait of a paced packet */
	OVS_SHIM_SETTINGS_SEGMENT,	/* refused: BURST_US does its work */
	OVS_SHIM_SETTINGS_ECN,		/* u8: 1 makes Not-ECT ECT, hidden from the receiver */
	OVS_SHIM_SETTINGS_INACTIVE,	/* u64 ns: T_o */
	OVS_SHIM_SETTINGS_PROTOCOL,	/* u8: IP protocol of control messages */
	OVS_SHIM_SETTINGS_ACCEPT_V0,	/* u8: 1 accepts v0 messages: laboratory */
	OVS_SHIM_SETTINGS_KEY,		/* binary, 16 bytes: SipHash key; set only */
	OVS_SHIM_SETTINGS_KEY_SET,	/* flag: a key is set; get only */
	OVS_SHIM_SETTINGS_KNOBS,	/* nest of OVS_SHIM_KNOBS_KNOB */
	OVS_SHIM_SETTINGS_LAWS,		/* nest of OVS_SHIM_LAWS_NAME; get only */
	OVS_SHIM_SETTINGS_OF,		/* string: law of PERIOD and KNOBS; absent: LAW's */
	OVS_SHIM_SETTINGS_PEERS_MAX,	/* u32: peers a VM may have */
	OVS_SHIM_SETTINGS_PEER_IDLE,	/* u64 ns: silence after which a peer is collected */
	OVS_SHIM_SETTINGS_KEY_OTHER,	/* binary, 16 bytes: accepted, not signed with; set only */
	OVS_SHIM_SETTINGS_KEY_OTHER_SET, /* flag: an other key is set; get only */
	OVS_SHIM_SETTINGS_CODEPOINT,	/* u8: 0 or 1: Not-ECT is made ECT(0) or ECT(1) */
	OVS_SHIM_SETTINGS_WAITING_MAX,	/* u32: packets a VM may have waiting; 0: unbounded */
	OVS_SHIM_SETTINGS_OTHER_KEY_SENDERS, /* nest of SENDERS_SENDER; get only */
	OVS_SHIM_SETTINGS_CONVERSATIONS,	/* u8: 1 keeps peers under laws that need none */
	OVS_SHIM_SETTINGS_EARLY,	/* refused: AHEAD does its work */
	OVS_SHIM_SETTINGS_AHEAD,	/* u8: 1 lets some packets leave ahead of others */
	OVS_SHIM_SETTINGS_BURST_US,	/* u32 us: what a rate sends in it may leave in one go */

	__OVS_SHIM_SETTINGS_MAX
};

#define OVS_SHIM_SETTINGS_MAX (__OVS_SHIM_SETTINGS_MAX - 1)

enum ovs_shim_knobs_attr {
	OVS_SHIM_KNOBS_UNSPEC,
	OVS_SHIM_KNOBS_KNOB,		/* nest of OVS_SHIM_KNOB_*, repeated */

	__OVS_SHIM_KNOBS_MAX
};

#define OVS_SHIM_KNOBS_MAX (__OVS_SHIM_KNOBS_MAX - 1)

/* A knob of a law; set needs NAME and VALUE. */
enum ovs_shim_knob_attr {
	OVS_SHIM_KNOB_UNSPEC,
	OVS_SHIM_KNOB_PAD,
	OVS_SHIM_KNOB_NAME,		/* string */
	OVS_SHIM_KNOB_VALUE,		/* u64 */
	OVS_SHIM_KNOB_DEFAULT,		/* u64; get only, as all below */
	OVS_SHIM_KNOB_MIN,		/* u64 */
	OVS_SHIM_KNOB_MAX_VALUE,	/* u64 */
	OVS_SHIM_KNOB_UNIT,		/* string */
	OVS_SHIM_KNOB_HELP,		/* string */
	OVS_SHIM_KNOB_SOURCE,		/* string */

	__OVS_SHIM_KNOB_MAX
};

#define OVS_SHIM_KNOB_MAX (__OVS_SHIM_KNOB_MAX - 1)

enum ovs_shim_laws_attr {
	OVS_SHIM_LAWS_UNSPEC,
	OVS_SHIM_LAWS_NAME,		/* string, repeated */

	__OVS_SHIM_LAWS_MAX
};

#define OVS_SHIM_LAWS_MAX (__OVS_SHIM_LAWS_MAX - 1)

/* Who signs with the other key. */
enum ovs_shim_senders_attr {
	OVS_SHIM_SENDERS_UNSPEC,
	OVS_SHIM_SENDERS_SENDER,	/* nest of OVS_SHIM_SENDER_*, repeated */

	__OVS_SHIM_SENDERS_MAX
};

#define OVS_SHIM_SENDERS_MAX (__OVS_SHIM_SENDERS_MAX - 1)

/* A sender whose messages were accepted under the other key. */
enum ovs_shim_sender_attr {
	OVS_SHIM_SENDER_UNSPEC,
	OVS_SHIM_SENDER_ID,		/* u32: as in its messages */
	OVS_SHIM_SENDER_SILENT,		/* u32 s: since the last such message */

	__OVS_SHIM_SENDER_MAX
};

#define OVS_SHIM_SENDER_MAX (__OVS_SHIM_SENDER_MAX - 1)

/* Attributes of PORT_* and MESSAGE.  A port is named by IFINDEX, or by NAME in requests. */
enum ovs_shim_port_attr {
	OVS_SHIM_PORT_UNSPEC,
	OVS_SHIM_PORT_PAD,
	OVS_SHIM_PORT_IFINDEX,		/* u32 */
	OVS_SHIM_PORT_NAME,		/* string: device name */
	OVS_SHIM_PORT_ROLE,		/* u32: enum ovs_shim_role */
	OVS_SHIM_PORT_WEIGHT,		/* u32: 1..65535, default 1; VM */
	OVS_SHIM_PORT_MIN_RATE,		/* u64 bytes/s; 0: no guarantee; VM */
	OVS_SHIM_PORT_MAX_RATE,		/* u64 bytes/s; 0: no ceiling; VM */
	OVS_SHIM_PORT_CAPACITY,		/* u64 bytes/s; 0: the device's link speed; uplink */
	OVS_SHIM_PORT_STATS,		/* nest of OVS_SHIM_STAT_*; get only */
	OVS_SHIM_PORT_LAW,		/* string: of this VM; "default": the namespace's; VM */
	OVS_SHIM_PORT_ADDRESSES,	/* nest of OVS_SHIM_ADDRESSES_ADDRESS; empty: none; VM */
	OVS_SHIM_PORT_QDISC,		/* u32: enum ovs_shim_qdisc; get only; uplink */
	OVS_SHIM_PORT_MESSAGE,		/* binary, 1 to 1336 bytes: of MESSAGE only */
	OVS_SHIM_PORT_OVERHEAD,		/* u32 bytes a packet; 0: that of the device; uplink */

	__OVS_SHIM_PORT_MAX
};

#define OVS_SHIM_PORT_MAX (__OVS_SHIM_PORT_MAX - 1)

/* The addresses a VM may send from. */
enum ovs_shim_addresses_attr {
	OVS_SHIM_ADDRESSES_UNSPEC,
	OVS_SHIM_ADDRESSES_ADDRESS,	/* nest of OVS_SHIM_ADDRESS_*, repeated */

	__OVS_SHIM_ADDRESSES_MAX
};

#define OVS_SHIM_ADDRESSES_MAX (__OVS_SHIM_ADDRESSES_MAX - 1)

/* An address, or all that begin as it does; set needs both. */
enum ovs_shim_address_attr {
	OVS_SHIM_ADDRESS_UNSPEC,
	OVS_SHIM_ADDRESS_VALUE,		/* binary, 16 bytes: IPv6, IPv4 as ::ffff:a.b.c.d */
	OVS_SHIM_ADDRESS_PREFIX,	/* u8 bits of VALUE that count, 0..128; others are 0 */

	__OVS_SHIM_ADDRESS_MAX
};

#define OVS_SHIM_ADDRESS_MAX (__OVS_SHIM_ADDRESS_MAX - 1)

/*
 * Counters of a port, u64 packets unless said otherwise; one for each way a packet ends: name, name
 * in lower case, and what it is: of a VM, one of a VM's drops or of messages that were refused, of
 * strays at an uplink, one of their drops, or unused.  New ones go to the end.
 */
#define OVS_SHIM_STATS(X) \
	X(TX_PACKETS, tx_packets, VM) /* VM to uplink, let through; GSO: its segments */ \
	X(TX_BYTES, tx_bytes, VM) /* bytes, headers as on the wire */ \
	X(TX_ECT, tx_ect, VM) /* made ECT by the shim */ \
	X(TX_PACED, tx_paced, VM) /* given a departure time later than now */ \
	X(RX_PACKETS, rx_packets, VM) /* uplink to VM */ \
	X(RX_BYTES, rx_bytes, VM) /* bytes */ \
	X(RX_CE, rx_ce, VM) /* arrived CE-marked */ \
	X(RX_RESTORED, rx_restored, VM) /* ECN field given back as the sender's VM meant it */ \
	X(DROP_POLICE, drop_police, DROP) /* over the rate */ \
	X(DROP_HORIZON, drop_horizon, DROP) /* would wait longer than the horizon */ \
	X(DROP_SEGMENT, drop_segment, DROP) /* GSO packet could not be segmented */ \
	X(DROP_MEMORY, drop_memory, DROP) /* no memory for a writable header or a limiter */ \
	X(DROP_FORGED, drop_forged, DROP) /* a control message sent by a VM */ \
	X(MESSAGES, messages, VM) /* control messages for this VM accepted */ \
	X(MESSAGE_MARKS, message_marks, VM) /* marks they carried */ \
	X(REFUSED_SHORT, refused_short, REFUSED) /* control messages refused: truncated */ \
	X(REFUSED_FORM, refused_form, REFUSED) /* malformed, or v0 while not accepted */ \
	X(REFUSED_TAG, refused_tag, REFUSED) /* bad tag, or no key set */ \
	X(REFUSED_REPLAY, refused_replay, REFUSED) /* replayed */ \
	X(REFUSED_ADDRESS, refused_address, REFUSED) /* its VM is not the packet's destination */ \
	X(REFUSED_PEER, refused_peer, REFUSED) /* report of whom the VM does not talk to */ \
	X(REFUSED_LAW, refused_law, REFUSED) /* not for the VM's law */ \
	X(REPORTS, reports, VM) /* reports of peers' shims accepted */ \
	X(REPORT_BYTES, report_bytes, VM) /* bytes of them, link-layer header included */ \
	X(REPORTS_SENT, reports_sent, VM) /* reports sent to peers' shims */ \
	X(REPORT_BYTES_SENT, report_bytes_sent, VM) /* bytes of them */ \
	X(REPORTS_UNSENT, reports_unsent, VM) /* not sent: no uplink, way or memory */ \
	X(REPORTS_NO_KEY, reports_no_key, VM) /* not sent: no key is set */ \
	X(DROP_PEER, drop_peer, DROP) /* over the rate to its peer */ \
	X(PEERS_FULL, peers_full, VM) /* packets without a peer: the VM has its most */ \
	X(PEERS_NO_MEMORY, peers_no_memory, VM) /* packets without a peer: no memory for one */ \
	X(PEERS_COLLECTED, peers_collected, VM) /* peers forgotten because nothing came or went */ \
	X(RX_WINDOWS, rx_windows, VM) /* ACKs whose receive window was made smaller */ \
	X(FLOWS_FULL, flows_full, VM) /* segments without a flow: the VM has its most */ \
	X(FLOWS_NO_MEMORY, flows_no_memory, VM) /* segments without a flow: no memory for one */ \
	X(FLOWS_COLLECTED, flows_collected, VM) /* connections forgotten: nothing came or went */ \
	X(DROP_SOURCE, drop_source, DROP) /* a source address that no host can have */ \
	X(DROP_SPOOFED, drop_spoofed, DROP) /* a source not this port's own */ \
	X(TX_CE_CLEARED, tx_ce_cleared, VM) /* sent with CE by the VM, left as ECT(0) */ \
	X(REFUSED_PORT, refused_port, REFUSED) /* for an address that this port does not own */ \
	X(REFUSED_ORIGIN, refused_origin, REFUSED) /* came by a port that may not carry them */ \
	X(MESSAGES_OTHER_KEY, messages_other_key, VM) /* accepted, signed with the other key */ \
	X(PEERS_EVICTED, peers_evicted, VM) /* peers that made room for others */ \
	X(DROP_SHARED, drop_shared, DROP) /* over the rate shared without a peer */ \
	X(FLOWS_EVICTED, flows_evicted, VM) /* TCP connections that made room for others */ \
	X(DROP_WAITING, drop_waiting, DROP) /* too many packets of the VM wait */ \
	X(REPORTS_OVERDUE, reports_overdue, VM) /* seconds in which a peer did not answer */ \
	X(STRAY_PACKETS, stray_packets, STRAY) /* sent, from unknown */ \
	X(STRAY_BYTES, stray_bytes, STRAY) /* bytes of them, headers as on the wire */ \
	X(STRAY_PACED, stray_paced, STRAY) /* of them, given a departure time later than now */ \
	X(STRAY_DROP_POLICE, stray_drop_police, STRAY_DROP) /* over the rate of strays */ \
	X(STRAY_DROP_HORIZON, stray_drop_horizon, STRAY_DROP) /* would wait beyond the horizon */ \
	X(STRAY_DROP_WAITING, stray_drop_waiting, STRAY_DROP) /* too many strays wait */ \
	X(DROP_PATH, drop_path, DROP) /* over the rate of its path */ \
	X(PATHS_FULL, paths_full, VM) /* entries of messages that bound the rest: no room */ \
	X(PATHS_NO_MEMORY, paths_no_memory, VM) /* the same, or the whole VM: no memory */ \
	X(DROP_EARLY, drop_early, UNUSED) /* unused */ \
	X(TX_AHEAD, tx_ahead, VM) /* left at once, ahead of those that wait */ \
	X(RX_CE_LOST, rx_ce_lost, VM) /* CE hidden: a flow with ECN was lost for want of room */ \
	X(DROP_UNANSWERED, drop_unanswered, DROP) /* over the rate of packets nobody answers */ \
	X(DROP_SIZE, drop_size, DROP) /* to be cut into parts above the uplink's MTU */ \
	X(REPORTS_DEFERRED, reports_deferred, VM) /* periods in which a report waited */

/* One of each, by name. */
enum ovs_shim_stat {
	OVS_SHIM_STAT_UNSPEC,
	OVS_SHIM_STAT_PAD,
#define OVS_SHIM_STAT(NAME, name, kind) OVS_SHIM_STAT_##NAME,
	OVS_SHIM_STATS(OVS_SHIM_STAT)
#undef OVS_SHIM_STAT

	__OVS_SHIM_STAT_MAX
};

#define OVS_SHIM_STAT_MAX (__OVS_SHIM_STAT_MAX - 1)

/* Attributes of LIMITER_GET. */
enum ovs_shim_limiter_attr {
	OVS_SHIM_LIMITER_UNSPEC,
	OVS_SHIM_LIMITER_PAD,
	OVS_SHIM_LIMITER_VM,		/* u32 ifindex */
	OVS_SHIM_LIMITER_UPLINK,	/* u32 ifindex */
	OVS_SHIM_LIMITER_RATE,		/* u64 bytes/s: R(i,j) */
	OVS_SHIM_LIMITER_SHARE,		/* u64 bytes/s: E(i) of this VM */
	OVS_SHIM_LIMITER_SENT_RATE,	/* u64 bytes/s: measured over the last period */
	OVS_SHIM_LIMITER_TX_BYTES,	/* u64 */
	OVS_SHIM_LIMITER_TX_PACKETS,	/* u64 */
	OVS_SHIM_LIMITER_DROPS,		/* u64 packets: police and horizon */
	OVS_SHIM_LIMITER_ACTIVE,	/* u8 */
	OVS_SHIM_LIMITER_CONGESTED,	/* u8 */
	OVS_SHIM_LIMITER_TIME,		/* u64 ns, CLOCK_MONOTONIC at reading */
	OVS_SHIM_LIMITER_WEIGHT,	/* u32: of the VM: one dump tells it all */
	OVS_SHIM_LIMITER_MIN_RATE,	/* u64 bytes/s: of the VM */
	OVS_SHIM_LIMITER_MAX_RATE,	/* u64 bytes/s: of the VM; 0: no ceiling */
	OVS_SHIM_LIMITER_MESSAGES,	/* u64: control messages accepted for the VM */
	OVS_SHIM_LIMITER_MESSAGE_MARKS,	/* u64: marks they carried */
	OVS_SHIM_LIMITER_REFUSED,	/* u64: control messages for the VM refused, all reasons */

	__OVS_SHIM_LIMITER_MAX
};

#define OVS_SHIM_LIMITER_MAX (__OVS_SHIM_LIMITER_MAX - 1)

/* Attributes of PEER_*.  Requests name a VM as PORT_* do, and all but a dump an address. */
enum ovs_shim_peer_attr {
	OVS_SHIM_PEER_UNSPEC,
	OVS_SHIM_PEER_PAD,
	OVS_SHIM_PEER_VM,		/* u32 ifindex */
	OVS_SHIM_PEER_VM_NAME,		/* string: device name; requests only */
	OVS_SHIM_PEER_ADDRESS,		/* binary, 16 bytes: IPv6, IPv4 as ::ffff:a.b.c.d */
	OVS_SHIM_PEER_WEIGHT,		/* u32: 1..65535; 0: none, collected when idle */
	OVS_SHIM_PEER_RATE,		/* u64 bytes/s; 0: the VM's; get only, as all below */
	OVS_SHIM_PEER_TX_BYTES,		/* u64 */
	OVS_SHIM_PEER_TX_PACKETS,	/* u64 */
	OVS_SHIM_PEER_DROPS,		/* u64 packets over the rate to this peer */
	OVS_SHIM_PEER_RX_BYTES,		/* u64 */
	OVS_SHIM_PEER_RX_PACKETS,	/* u64 */
	OVS_SHIM_PEER_RX_MARKS,		/* u64 packets received with CE */
	OVS_SHIM_PEER_TIME,		/* u64 ns, CLOCK_MONOTONIC at reading */
	OVS_SHIM_PEER_SINCE,		/* u64 ns, CLOCK_MONOTONIC: what moved since; dump only */
	OVS_SHIM_PEER_LOCAL,		/* binary, 16 bytes: of the VM, as the uplink has it */
	OVS_SHIM_PEER_UPLINK,		/* u32 ifindex; 0: unknown */
	OVS_SHIM_PEER_VLAN,		/* u16: the VLAN the peer is reached by; 0: untagged */
	OVS_SHIM_PEER_TUNNEL,		/* binary, 16 bytes: far end; absent: no tunnel */
	OVS_SHIM_PEER_TUNNEL_ID,	/* u64: key of the tunnel, with TUNNEL */

	__OVS_SHIM_PEER_MAX
};

#define OVS_SHIM_PEER_MAX (__OVS_SHIM_PEER_MAX - 1)

/* Attributes of PATH_GET: a part of what a VM sends, of which controllers told. */
enum ovs_shim_path_attr {
	OVS_SHIM_PATH_UNSPEC,
	OVS_SHIM_PATH_PAD,
	OVS_SHIM_PATH_VM,		/* u32 ifindex */
	OVS_SHIM_PATH_PREFIX,		/* binary, 16 bytes: IPv6, IPv4 as ::ffff:a.b.c.d */
	OVS_SHIM_PATH_BITS,		/* u8: of it that count, 0..128; 0: the rest */
	OVS_SHIM_PATH_SCOPE,		/* u8: 0: of destinations, 1: of tunnels' far ends */
	OVS_SHIM_PATH_RATE,		/* u64 bytes/s */
	OVS_SHIM_PATH_SENT_RATE,	/* u64 bytes/s: measured over the last period */
	OVS_SHIM_PATH_TX_BYTES,		/* u64 */
	OVS_SHIM_PATH_TX_PACKETS,	/* u64 */
	OVS_SHIM_PATH_HELD,		/* u64 packets that it let wait, or dropped */
	OVS_SHIM_PATH_LIMITED,		/* u8: some, in the last period */
	OVS_SHIM_PATH_TIME,		/* u64 ns, CLOCK_MONOTONIC at reading */

	__OVS_SHIM_PATH_MAX
};

#define OVS_SHIM_PATH_MAX (__OVS_SHIM_PATH_MAX - 1)

#endif
