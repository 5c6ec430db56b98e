/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_NETLINK_H
#define SHIM_NETLINK_H 1

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "linux/ovs_shim.h"

/* Client of generic netlink family "ovs_shim", which the kernel's shim offers.
 * Main thread only.  Functions that return an int return 0 if successful,
 * otherwise a positive errno value, ENOENT if the kernel has no shim. */

struct ofpbuf;

/* Bytes of a law's name with its null terminator, as the kernel has it. */
#define SHIM_LAW_SIZE 32

/* Most addresses that can be set for a VM, as the kernel has it. */
#define SHIM_ADDRESSES_MAX 256

/* An address, or all that begin as it does. */
struct shim_nl_address {
    struct in6_addr value;      /* IPv4 as ::ffff:a.b.c.d; 0 after 'prefix'. */
    uint8_t prefix;             /* Bits of 'value' that count, 0 to 128. */
};

/* A port of the shim. */
struct shim_nl_port {
    uint32_t ifindex;           /* The kernel's index of the device. */
    uint32_t role;              /* OVS_SHIM_ROLE_*. */
    uint32_t weight;            /* 1 to 65535. */
    uint64_t min_rate;          /* Guarantee in bytes/s; 0 if none. */
    uint64_t max_rate;          /* Ceiling in bytes/s; 0 if none. */
    uint64_t capacity;          /* In bytes/s; 0 for the link speed. */
    uint32_t overhead;          /* In bytes a packet; 0 for the device's. */
    char law[SHIM_LAW_SIZE];    /* Of a VM; "default" for that of settings. */
    uint32_t qdisc;             /* OVS_SHIM_QDISC_*, of an uplink. */
    uint32_t n_addresses;       /* How many are in 'addresses'. */
    struct shim_nl_address addresses[SHIM_ADDRESSES_MAX]; /* Of a VM. */
    uint64_t stats[OVS_SHIM_STAT_MAX + 1]; /* By OVS_SHIM_STAT_*. */
};

/* A limiter: one VM on one uplink.  Rates in bytes/s. */
struct shim_nl_limiter {
    uint32_t vm;                /* The kernel's index of the VM's device. */
    uint32_t uplink;            /* The same of the uplink's. */
    uint32_t weight;            /* Of the VM. */
    uint32_t active;            /* 1 if the VM sent in the last moments. */
    uint32_t congested;         /* 1 if its law holds it back. */
    uint32_t messages;          /* Control messages accepted, mod 2^32. */
    uint32_t refused;           /* Control messages refused, mod 2^32. */
    uint32_t pad;
    uint64_t rate;              /* What the VM may send now. */
    uint64_t share;             /* Its fair share. */
    uint64_t min_rate;          /* Its guarantee; 0 if none. */
    uint64_t max_rate;          /* Its ceiling; 0 if none. */
    uint64_t sent_rate;         /* What it sent in the last period. */
    uint64_t tx_bytes;          /* Bytes let through. */
    uint64_t tx_packets;        /* Packets let through. */
    uint64_t drops;             /* Packets dropped for the rate. */
    uint64_t message_marks;     /* Marks that accepted messages carried. */
};

/* What a VM exchanged with one remote address.  Addresses of IPv4 are
 * ::ffff:a.b.c.d. */
struct shim_nl_peer {
    uint32_t vm;                /* The kernel's index of the VM's device. */
    uint32_t uplink;            /* The same of the uplink's; 0 if unknown. */
    uint16_t vlan;              /* VLAN that it is reached by; 0 if none. */
    struct in6_addr remote;     /* The other end. */
    struct in6_addr local;      /* The VM's own, as the uplink has it. */
    struct in6_addr tunnel;     /* Far end of the tunnel; zeros if none. */
    uint64_t tunnel_id;         /* Key of the tunnel. */
    uint64_t tx_bytes;          /* Sent. */
    uint64_t tx_packets;        /* Sent. */
    uint64_t rx_bytes;          /* Received. */
    uint64_t rx_packets;        /* Received. */
    uint64_t rx_marks;          /* Packets received with CE. */
};

/* What a VM sends by a path.  Rates in bytes/s. */
struct shim_nl_path {
    uint32_t vm;                /* The kernel's index of the VM's device. */
    uint8_t bits;               /* Of 'prefix' that count; 0: the rest. */
    uint8_t scope;              /* 0: destinations, 1: tunnels' far ends. */
    uint16_t limited;           /* 1 if it held packets back lately. */
    struct in6_addr prefix;     /* IPv4 as ::ffff:a.b.c.d. */
    uint64_t rate;              /* What may be sent. */
    uint64_t sent_rate;         /* What was sent in the last period. */
    uint64_t tx_bytes;          /* Sent. */
    uint64_t tx_packets;        /* Sent. */
    uint64_t held;              /* Packets that waited, or were dropped. */
};

bool shim_nl_is_available(void);
bool shim_nl_run(void);
void shim_nl_wait(void);

int shim_nl_port_set(const struct shim_nl_port *, char **reason);
int shim_nl_port_del(uint32_t ifindex, char **reason);
int shim_nl_dump_ports(struct shim_nl_port **, size_t *n);
int shim_nl_dump_limiters(struct shim_nl_limiter **, size_t *n);
int shim_nl_dump_peers(uint64_t since_ns, struct shim_nl_peer **, size_t *n);
int shim_nl_dump_paths(struct shim_nl_path **, size_t *n);

int shim_nl_message(uint32_t ifindex, const void *, size_t len);

int shim_nl_settings_set(const struct ofpbuf *attrs, char **reason);
int shim_nl_settings_get(const char *of, struct ofpbuf *attrs);

#endif /* shim-netlink.h */
