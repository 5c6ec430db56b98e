/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_NETDEV_PRIVATE_H
#define SHIM_NETDEV_PRIVATE_H 1

#include "cmap.h"
#include "openvswitch/hmap.h"
#include "ovs-thread.h"
#include "shim-netdev.h"
#include "shim/core/engine/engine.h"

/* What the files of the shim in the userspace datapath share. */

/* A datapath. */
struct shim_dp {
    struct ovs_list node;       /* In 'shim_dps'. */
    struct ovs_mutex mutex;     /* Of 'aux', held while others send by it. */
    void *aux;                  /* dpif-netdev's; NULL once that is gone. */
    shim_send_cb *send;         /* Sends by a port of it. */
    struct cmap ports;          /* Of struct shim_dp_port, by 'port_no';
                                 * changed under 'shim_mutex'. */
    struct hmap devices;        /* Of struct shim_device, by 'port_no';
                                 * 'shim_mutex'. */
};

/* A device that a datapath has, with or without a role.  'shim_mutex'. */
struct shim_device {
    struct hmap_node node;      /* In 'devices' of its datapath. */
    odp_port_t port_no;         /* Its port's number there. */
    struct netdev *netdev;      /* The device. */
    struct shim_dp_port *port;  /* Its role, NULL if none. */
};

/* A port with a role.  Never changes but for its MTU and tags, freed after a
 * grace period. */
struct shim_dp_port {
    struct cmap_node node;      /* In 'ports' of its datapath. */
    struct shim_dp *dp;         /* Its datapath. */
    odp_port_t port_no;         /* Its number there. */
    uint32_t ifindex;           /* Of its device. */
    struct shim_vm *vm;         /* The VM, NULL for an uplink. */
    struct shim_uplink *uplink; /* The uplink, NULL for a VM. */
    int mtu;                    /* Of an uplink's device; 0 if unknown.  Read
                                 * without a lock. */
    u16 vlan_tci;               /* Of a VM: tag that its packets leave with,
                                 * and VLAN_CFI; 0 if none.  No lock. */
    u8 tags;                    /* Of a VM: the fewest that a packet to a peer
                                 * left with.  No lock. */
};

/* Lock of configuration: of the engine's, and of all datapaths and devices. */
extern struct ovs_mutex shim_mutex;

/* All datapaths; 'shim_mutex'. */
extern struct ovs_list shim_dps;

/* The engine of all of them. */
extern struct shim_engine shim_engine;

bool shim_engine_start(void);
void shim_count_active(void);
void shim_device_set_role(struct shim_dp *, struct shim_device *,
                          struct shim_dp_port *);
void shim_device_del_role(struct shim_dp *, struct shim_device *);
void shim_dp_send(struct shim_dp *, void *thread, odp_port_t,
                  struct dp_packet_batch *);
int shim_law_by_name(const char *name, int *law, char **reason);
const char *shim_law_name(int law);
int shim_refuse(int error, char **reason, const char *format, ...)
    OVS_PRINTF_FORMAT(3, 4);

#endif /* shim-netdev-private.h */
