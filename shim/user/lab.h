/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * An engine for tests and simulators: plain functions and structs, as a caller of another language
 * wants them.  One thread; time is shim_host_clock_ns.
 *
 * Addresses are 16 bytes, IPv4 as ::ffff:a.b.c.d.  Functions that can fail return 0 or a negative
 * error number.
 */
#ifndef SHIM_USER_LAB_H
#define SHIM_USER_LAB_H

#include "../core/types.h"

struct shim_lab;
struct shim_uplink;
struct shim_vm;

/* A packet, as the engine is told of it. */
struct shim_lab_packet {
	u8 source[16];		/* address */
	u8 destination[16];	/* address */
	u8 tunnel_end[16];	/* address of the tunnel's far end */
	u64 tunnel_id;		/* of the tunnel, 0: none */
	u64 link_source;	/* MAC address in the low 48 bits; 0: unknown */
	u64 link_destination;	/* the same of where it goes */
	u32 vlan;		/* protocol << 16 | tag, 0: none */
	u32 bytes;		/* link-layer header included, once for each packet */
	u32 packets;		/* more than 1: GSO or GRO */
	u32 seq;		/* TCP: sequence number of the first byte */
	u32 ack;		/* TCP: acknowledged so far */
	u32 payload;		/* TCP: bytes */
	u16 port_source;	/* TCP */
	u16 port_destination;	/* TCP */
	u16 window;		/* TCP: field of the header */
	u16 flags;		/* TCP: SHIM_TCP_* */
	u16 size;		/* TCP: payload of the largest packet, bytes */
	u16 mss;		/* TCP: option of a SYN; 0: none */
	u16 id;			/* IPv4 identification */
	u8 scale;		/* TCP: option of a SYN; SHIM_SCALE_NONE: none */
	u8 version;		/* 4, 6; 0: not IP */
	u8 protocol;		/* of the payload */
	u8 ecn;			/* SHIM_NOT_ECT and so on */
	bool is_tcp;		/* what says TCP is valid */
	bool tunnelled;		/* it goes into a tunnel: tunnel_end is valid */
	bool echo;		/* the reserved bit of the IPv4 header */
	bool fragment;		/* one of a datagram */
	bool whole;		/* not to be cut, however many packets it stands for */
};

/* What became of a packet. */
struct shim_lab_result {
	u64 departure_ns;	/* earliest, of the last part that passed; 0: at once */
	u32 drop;		/* enum shim_counter; 0: all or a part of it passed */
	u32 passed;		/* bytes that passed */
	u16 id;			/* IPv4 identification, as it leaves */
	u16 tcp_flags;		/* as they leave */
	u16 tcp_window;		/* as it leaves */
	u8 ecn;			/* as it leaves */
	bool echo;		/* as it leaves */
	bool cut;		/* it was cut */
};

/* A limiter, as it stands. */
struct shim_lab_limiter {
	u64 rate;		/* in force, bytes/s */
	u64 share;		/* bytes/s */
	u64 sent_rate;		/* over the last period, bytes/s */
	u64 depth;		/* of the bucket, bytes */
	u64 bytes;		/* sent */
	u64 packets;		/* sent */
	u64 paced;		/* packets given a departure time */
	u64 drop_police;	/* packets over the rate */
	u64 drop_horizon;	/* packets that would wait too long */
	u64 drop_waiting;	/* packets too many */
	u64 ahead;		/* packets that left at once, ahead of those that wait */
	bool active;		/* a packet came in the last T_o */
};

/* A peer, as it stands. */
struct shim_lab_peer {
	u64 rate;		/* in force, bytes/s; 0: none of its own */
	u64 tx_bytes;		/* sent */
	u64 tx_packets;		/* sent */
	u64 rx_bytes;		/* received */
	u64 rx_packets;		/* received */
	u64 rx_marks;		/* packets received with CE */
	u64 drops;		/* packets over the rate */
	u32 rank;		/* enum shim_peer_rank */
	u32 weight;		/* set by an operator; 0: none */
};

/* A path, as it stands. */
struct shim_lab_path {
	u64 rate;		/* in force, bytes/s */
	u64 sent_rate;		/* over the last period, bytes/s */
	u64 bytes;		/* sent */
	u64 packets;		/* sent */
	u64 held;		/* packets that its bucket let wait, or dropped */
	bool limited;		/* some were in the last period */
};

/* A report that is to be delivered. */
struct shim_lab_report {
	u8 source[16];		/* address it is sent from */
	u8 destination[16];	/* address it is sent to */
	u8 data[96];		/* the message as it is on the wire */
	u32 bytes;		/* of the frame */
	u64 mac;		/* MAC address that it is sent to; 0: unknown */
};

/* Returns an engine without VMs, whose reports bear `sender` and `epoch`; NULL without memory. */
struct shim_lab *shim_lab_create(u32 sender, u32 epoch);

/* Removes an engine with all it has; what it allocated is freed. */
void shim_lab_remove(struct shim_lab *lab);

/* Changes a member of struct shim_settings by its name; -ENOENT: there is none of that name. */
int shim_lab_set(struct shim_lab *lab, const char *name, u64 value);

/* Makes a law that of all VMs without one of their own; NULL: none.  -ENOENT: no such law. */
int shim_lab_set_law(struct shim_lab *lab, const char *law);

/* Changes a knob of a law, or with the name "period" its period in ns. */
int shim_lab_set_knob(struct shim_lab *lab, const char *law, const char *knob, u64 value);

/* Sets the key, or the other key, of 16 bytes; NULL: none. */
int shim_lab_set_key(struct shim_lab *lab, const u8 *key, bool other);

/* Returns a new VM of weight 1 under the engine's law; NULL without memory. */
struct shim_vm *shim_lab_add_vm(struct shim_lab *lab);

/* Removes a VM. */
void shim_lab_remove_vm(struct shim_vm *vm);

/* Configures a VM: weight, guarantee and ceiling in bytes/s; law NULL: the engine's. */
int shim_lab_configure_vm(struct shim_vm *vm, u32 weight, u64 min, u64 max, const char *law);

/* Sets the addresses a VM may send from: n of 16 bytes, and bits of each that count; n 0: any. */
int shim_lab_set_prefixes(struct shim_vm *vm, const u8 *addresses, const u8 *lengths, u32 n);

/* Gives the peer of an address a weight; 0: none. */
int shim_lab_weigh_peer(struct shim_vm *vm, const u8 *address, u32 weight);

/* Returns a new uplink of a capacity in bytes/s; NULL without memory. */
struct shim_uplink *shim_lab_add_uplink(struct shim_lab *lab, u64 capacity);

/* Removes an uplink. */
void shim_lab_remove_uplink(struct shim_uplink *uplink);

/* Changes an uplink's capacity, bytes/s. */
void shim_lab_configure_uplink(struct shim_uplink *uplink, u64 capacity);

/* Changes what a packet takes of an uplink's wire beyond its bytes; 0, at first: nothing. */
void shim_lab_set_overhead(struct shim_uplink *uplink, u32 bytes);

/* Sends a packet from a VM to an uplink; returns whether all or a part of it passed. */
bool shim_lab_send(struct shim_vm *vm, struct shim_uplink *uplink,
		   const struct shim_lab_packet *packet, struct shim_lab_result *result);

/*
 * Sends an announcement of an address, which is the packet's source, from a VM; uplink NULL: by no
 * uplink, but to another port.
 */
void shim_lab_announce(struct shim_vm *vm, struct shim_uplink *uplink,
		       const struct shim_lab_packet *packet);

/* Brings a packet that is no control message from an uplink to a VM; returns whether it passed. */
bool shim_lab_receive(struct shim_vm *vm, struct shim_uplink *uplink,
		      const struct shim_lab_packet *packet, struct shim_lab_result *result);

/*
 * Brings a control message between two addresses to a VM, by an uplink or with NULL from the
 * bridge, without a VLAN tag that the VM would see; returns the enum shim_counter of what became
 * of it.
 */
u32 shim_lab_message(struct shim_vm *vm, struct shim_uplink *uplink, const u8 *source,
		     const u8 *destination, const u8 *data, u32 len);

/* As shim_lab_message(), with VLAN and tunnel that it is known to have come by; 0: none. */
u32 shim_lab_message_within(struct shim_vm *vm, struct shim_uplink *uplink, const u8 *source,
			    const u8 *destination, u32 vlan, u64 tunnel_id, const u8 *data,
			    u32 len);

/* As shim_lab_message() of one that comes from a MAC address, as in struct shim_lab_packet. */
u32 shim_lab_message_from(struct shim_vm *vm, struct shim_uplink *uplink, u64 link_source,
			  const u8 *source, const u8 *destination, const u8 *data, u32 len);

/* Returns when the next clock is to tick, ns; 0: none is. */
u64 shim_lab_due(const struct shim_lab *lab);

/* Lets the clocks tick that are due; returns how many did. */
u32 shim_lab_tick(struct shim_lab *lab);

/* Takes the next report that is to be delivered; false: there is none. */
bool shim_lab_report(struct shim_lab *lab, struct shim_lab_report *report);

/* Reads a counter of a VM. */
u64 shim_lab_counter(const struct shim_vm *vm, u32 counter);

/* Reads the limiter of a VM on an uplink; false: there is none. */
bool shim_lab_read_limiter(struct shim_vm *vm, struct shim_uplink *uplink,
			   struct shim_lab_limiter *limiter);

/* Reads the peer of an address; false: there is none. */
bool shim_lab_read_peer(struct shim_vm *vm, const u8 *address, struct shim_lab_peer *peer);

/*
 * Stores the addresses of the peers that shim_peers_moved() tells of a VM, at most `room` of 16
 * bytes each; returns how many it told.
 */
u32 shim_lab_moved(struct shim_vm *vm, u64 since_ns, u8 *addresses, u32 room);

/* Reads the path of a prefix of `bits` bits; false: there is none. */
bool shim_lab_read_path(struct shim_vm *vm, const u8 *prefix, u32 bits, u32 scope,
			struct shim_lab_path *path);

/* Returns how many paths a VM has. */
u32 shim_lab_paths(const struct shim_vm *vm);

/* Returns when the last visit of a VM began to measure, ns. */
u64 shim_lab_visited(const struct shim_vm *vm);

/* Returns what a VM received over the last period where that is metered, bytes/s. */
u64 shim_lab_rx_rate(const struct shim_vm *vm);

/* Returns how many peers a VM has. */
u32 shim_lab_peers(const struct shim_vm *vm);

/* Returns how many peers of an engine at most share a chain of its table. */
u32 shim_lab_longest_chain(struct shim_lab *lab);

/* Returns how many connections of enum shim_connection_rank `rank` a VM has. */
u32 shim_lab_connections(struct shim_vm *vm, u32 rank);

/* Tells whether a VM has a connection between two TCP ports. */
bool shim_lab_connected(struct shim_vm *vm, u16 port_vm, u16 port_peer);

#endif
