/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPENFLOW_SHIM_EXT_H
#define OPENFLOW_SHIM_EXT_H 1

#include "openflow/openflow-common.h"
#include "openvswitch/types.h"

/* Experimenter messages of the end-host shim, OpenFlow 1.3 and later.  All
 * fields are in network byte order.  Multipart requests and replies:
 *
 *     SHIM_VENDOR_ID, exp_type 1: PORT_MARKS, the ECN marks that the queuing
 *                                 disciplines of a bridge's ports have set.
 *     SHIM_VENDOR_ID, exp_type 2: VM_STATE, what the shim grants the VMs on a
 *                                 bridge and what they send.
 *     SHIM_VENDOR_ID, exp_type 3: HOST_VMS, the same of all VMs of the host,
 *                                 whichever bridge they are on.
 *     SHIM_VENDOR_ID, exp_type 4: HOST_PEERS, what the VMs of the host
 *                                 exchange with which remote address.
 *
 *     SHIM_VENDOR_ID, exp_type 6: HOST_PATHS, what the VMs of the host send by
 *                                 the paths that controllers told of.
 *
 * Experimenter messages, which are not answered:
 *
 *     SHIM_VENDOR_ID, exp_type 5: VM_MESSAGES, control messages for VMs of the
 *                                 host.
 *     SHIM_VENDOR_ID, exp_type 7: PATH_MESSAGES, the same, of any length.
 *
 * Where a message is about the host, devices are named by the kernel's index,
 * Interface:ifindex in the database, instead of by OpenFlow port, so that any
 * bridge will do to ask, one without ports too.  Their port_no is OFPP_ANY.
 *
 * All requests name the generation that the client last saw, and the reply
 * holds only what moved since.  So a client that polls an idle switch every
 * few milliseconds pays for two headers:
 *
 *     entries = { e : changed(e) > generation }   if boot is ours and
 *                                                 0 < generation <= current
 *             = everything                        otherwise
 *
 * where changed(e) is the generation in which the entry last moved.  A
 * PORT_MARKS entry moves when its marks or kinds change, or when the port
 * joins the bridge: packets, bytes, drops and backlog alone do not move it.  A
 * VM_STATE, HOST_VMS, HOST_PEERS or HOST_PATHS entry moves when anything in it
 * changes.  A
 * HOST_PEERS entry that did not move for a minute, or that is none of the
 * 65,536 that moved last, is told no more.  Errors are OFPBRC_BAD_LEN and
 * OFPBRC_BAD_EXPERIMENTER_TYPE. */

/* Request of any kind. */
struct shim_multipart_request {
    ovs_be64 generation;    /* Last one seen; 0 asks for everything. */
    ovs_be64 boot;          /* The switch's boot that it belongs to; 0 if
                             * unknown, which asks for everything. */
    ovs_be32 port_no;       /* One port, or OFPP_ANY. */
    uint8_t pad[4];
};
OFP_ASSERT(sizeof(struct shim_multipart_request) == 24);

/* Header of each part of a reply of any kind, followed by 'entry_count'
 * entries of 'entry_len' bytes.  Later versions may have longer entries, whose
 * beginning stays what it is: a reader leaves out what it does not know, and
 * takes for 0 what is not there. */
struct shim_multipart_reply {
    ovs_be64 generation;    /* Name this one next time. */
    ovs_be64 boot;          /* Random, new with each start of the switch. */
    ovs_be64 time_ns;       /* CLOCK_MONOTONIC of the reading, in ns. */
    ovs_be32 entry_count;   /* Entries in this part. */
    ovs_be32 entry_len;     /* Bytes of each; 0 without entries. */
};
OFP_ASSERT(sizeof(struct shim_multipart_reply) == 32);

/* Bits of 'kinds' in struct shim_port_marks: queuing disciplines found on a
 * port that count marks.  No bit means that the port has no such counter,
 * which is not the same as no marks. */
enum shim_mark_kind {
    SHIM_MARK_RED      = 1 << 0,
    SHIM_MARK_FQ_CODEL = 1 << 1,
    SHIM_MARK_CODEL    = 1 << 2,
    SHIM_MARK_CAKE     = 1 << 3,
    SHIM_MARK_CHOKE    = 1 << 4,
};

/* Entry of a PORT_MARKS reply.  The counters are of the switch's kernel, for
 * packets that leave by the port. */
struct shim_port_marks {
    ovs_be32 port_no;           /* OpenFlow port. */
    ovs_be32 kinds;             /* SHIM_MARK_*. */
    ovs_be64 marks;             /* Packets marked CE, all queuing disciplines
                                 * of the port together. */
    ovs_be64 packets;           /* Packets sent by the root one. */
    ovs_be64 bytes;             /* Bytes sent by the root one. */
    ovs_be64 drops;             /* Packets dropped by the root one, modulo
                                 * 2^32 as the kernel counts. */
    ovs_be32 backlog_bytes;     /* Bytes waiting now. */
    ovs_be32 backlog_packets;   /* Packets waiting now. */
};
OFP_ASSERT(sizeof(struct shim_port_marks) == 48);

/* Bits of 'flags' in struct shim_vm_state. */
enum shim_vm_flags {
    SHIM_VM_ACTIVE    = 1 << 0, /* Sent something in the last moments. */
    SHIM_VM_CONGESTED = 1 << 1, /* Its law holds it back for congestion. */
};

/* Entry of a VM_STATE or HOST_VMS reply: one VM on one uplink.  Rates in
 * bytes/s.  In HOST_VMS the two ports are the kernel's indexes. */
struct shim_vm_state {
    ovs_be32 port_no;           /* OpenFlow port of the VM. */
    ovs_be32 uplink_port;       /* OpenFlow port of the uplink, or OFPP_NONE if
                                 * that is not on this bridge. */
    ovs_be32 weight;            /* 1 to 65535. */
    ovs_be32 flags;             /* SHIM_VM_*. */
    ovs_be64 rate;              /* What the VM may send now. */
    ovs_be64 share;             /* Its fair share of the uplink. */
    ovs_be64 min_rate;          /* Its guarantee; 0 if none. */
    ovs_be64 max_rate;          /* Its ceiling; 0 if none. */
    ovs_be64 sent_rate;         /* What it sent in the last period. */
    ovs_be64 tx_bytes;          /* Bytes let through. */
    ovs_be64 tx_packets;        /* Packets let through. */
    ovs_be64 drops;             /* Packets dropped for the rate. */
    ovs_be32 messages;          /* Control messages accepted, modulo 2^32. */
    ovs_be32 refused;           /* Control messages refused, modulo 2^32. */
    ovs_be64 message_marks;     /* Marks that the accepted ones carried. */
};
OFP_ASSERT(sizeof(struct shim_vm_state) == 96);

/* Entry of a HOST_PEERS reply: what a VM exchanged with one remote address.
 * Addresses of IPv4 are ::ffff:a.b.c.d.  A counter that is less than before
 * began anew: the datapath forgets addresses that are silent. */
struct shim_host_peer {
    ovs_be32 vm;                /* The kernel's index of the VM's device. */
    ovs_be32 uplink;            /* The same of the uplink's; 0 if unknown. */
    ovs_be16 vlan;              /* VLAN that it is reached by; 0 if none. */
    uint8_t pad[6];
    uint8_t remote[16];         /* The other end. */
    uint8_t local[16];          /* The VM's own, as the uplink has it. */
    uint8_t tunnel[16];         /* Far end of the tunnel; zeros if none. */
    ovs_be64 tunnel_id;         /* Key of the tunnel. */
    ovs_be64 tx_bytes;          /* Sent. */
    ovs_be64 tx_packets;        /* Sent. */
    ovs_be64 rx_bytes;          /* Received. */
    ovs_be64 rx_packets;        /* Received. */
    ovs_be64 rx_marks;          /* Packets received with CE. */
};
OFP_ASSERT(sizeof(struct shim_host_peer) == 112);

/* Bits of 'flags' in struct shim_host_path. */
enum shim_path_flags {
    SHIM_PATH_LIMITED = 1 << 0, /* Held packets back in the last period. */
};

/* Entry of a HOST_PATHS reply: what a VM sends to a prefix.  Rates in
 * bytes/s.  A path that ended is told no more. */
struct shim_host_path {
    ovs_be32 vm;                /* The kernel's index of the VM's device. */
    ovs_be32 flags;             /* SHIM_PATH_*. */
    uint8_t prefix[16];         /* IPv4 as ::ffff:a.b.c.d. */
    uint8_t bits;               /* Of it that count; 0: what no other has. */
    uint8_t scope;              /* 0: destinations, 1: tunnels' far ends. */
    uint8_t pad[2];
    ovs_be32 port_no;           /* The VM's port of the bridge that was asked;
                                 * 0: it is on none of that. */
    ovs_be64 rate;              /* What may be sent. */
    ovs_be64 sent_rate;         /* What was sent in the last period. */
    ovs_be64 tx_bytes;          /* Sent. */
    ovs_be64 tx_packets;        /* Sent. */
    ovs_be64 held;              /* Packets that had to wait, or were
                                 * dropped. */
};
OFP_ASSERT(sizeof(struct shim_host_path) == 72);

/* Bytes of a control message of version 1. */
#define SHIM_MESSAGE_LEN 96

/* VM_MESSAGES: control messages for VMs of the host, which the datapath checks
 * as if they had come by an uplink.  Refused ones are counted at the VM. */
struct shim_vm_message {
    ovs_be32 vm;                /* The kernel's index of the VM's device. */
    uint8_t pad[4];
    uint8_t message[SHIM_MESSAGE_LEN];
};
OFP_ASSERT(sizeof(struct shim_vm_message) == 104);

/* PATH_MESSAGES: what stands in front of each message, whose length is a
 * multiple of 8. */
struct shim_path_message {
    ovs_be32 vm;                /* The kernel's index of the VM's device. */
    ovs_be16 length;            /* Bytes of the message that follows. */
    uint8_t pad[2];
};
OFP_ASSERT(sizeof(struct shim_path_message) == 8);

#endif /* openflow/shim-ext.h */
