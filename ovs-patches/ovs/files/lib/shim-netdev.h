/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_NETDEV_H
#define SHIM_NETDEV_H 1

#include <stdint.h>
#include "openvswitch/types.h"
#include "ovs-atomic.h"

/* The shim in the userspace datapath.
 *
 * dpif-netdev.c tells of datapaths and their ports, hands over each batch that
 * is about to leave by a port, and sends what waited.  What VMs and uplinks
 * are is told by shim_netdev_port_set() and the others below, which are what
 * shim-netlink.h has for the kernel's shim: all main thread only. */

struct dp_packet_batch;
struct netdev;
struct ofpbuf;
struct shim_dp;
struct shim_nl_limiter;
struct shim_nl_path;
struct shim_nl_peer;
struct shim_nl_port;
struct shim_pacer;

/* What dpif-netdev.c calls. */

/* Sends packets, which it takes over, by a port of 'dp'.  'thread' is the PMD
 * thread that is to do so and calls, NULL if none of these does. */
typedef void shim_send_cb(void *dp, void *thread, odp_port_t,
                          struct dp_packet_batch *);

struct shim_dp *shim_netdev_create(void *dp, shim_send_cb *);
void shim_netdev_destroy(struct shim_dp *);
void shim_netdev_add_port(struct shim_dp *, odp_port_t, struct netdev *);
void shim_netdev_del_port(struct shim_dp *, odp_port_t);

/* Whether any VM has a law: else packets pass. */
extern atomic_bool shim_netdev_active;

void shim_netdev_judge(struct shim_dp *, struct shim_pacer *, odp_port_t,
                       struct dp_packet_batch *);

/* Does with 'batch', about to leave by port 'port_no', what the shim decides:
 * some packets are dropped, some wait in the calling thread's 'pacer', and
 * what is left in the batch may leave at once. */
static inline void
shim_netdev_output(struct shim_dp *dp, struct shim_pacer *pacer,
                   odp_port_t port_no, struct dp_packet_batch *batch)
{
    bool active;

    atomic_read_relaxed(&shim_netdev_active, &active);
    if (OVS_UNLIKELY(active)) {
        shim_netdev_judge(dp, pacer, port_no, batch);
    }
}

/* What shim-dpif.c calls. */

bool shim_netdev_has(uint32_t ifindex);
char *shim_netdev_name(uint32_t ifindex);
int shim_netdev_port_set(const struct shim_nl_port *, char **reason);
int shim_netdev_port_del(uint32_t ifindex, char **reason);
int shim_netdev_dump_ports(struct shim_nl_port **, size_t *n);
int shim_netdev_dump_limiters(struct shim_nl_limiter **, size_t *n);
int shim_netdev_dump_peers(uint64_t since_ns, struct shim_nl_peer **,
                           size_t *n);
int shim_netdev_dump_paths(struct shim_nl_path **, size_t *n);
int shim_netdev_message(uint32_t ifindex, const void *, size_t len);
int shim_netdev_settings_set(const struct ofpbuf *attrs, char **reason);
int shim_netdev_settings_get(const char *of, struct ofpbuf *attrs);

#endif /* shim-netdev.h */
