/* SPDX-License-Identifier: Apache-2.0 */

/* Serves the shim's requests, which include/openflow/shim-ext.h describes.
 *
 * One number counts the generations of everything we tell.  It goes up when a
 * reading finds something moved, or when a port joins a bridge.  An entry
 * remembers in which generation it last moved, so to answer a request is to
 * compare. */

#include <config.h>
#include "ofproto-shim.h"
#include "byte-order.h"
#include "connmgr.h"
#include "hash.h"
#include "netdev.h"
#include "netdev-marks.h"
#include "ofproto-provider.h"
#include "openvswitch/ofp-shim.h"
#include "openvswitch/hmap.h"
#include "openvswitch/list.h"
#include "packets.h"
#include "random.h"
#include "shim-dpif.h"
#include "shim-hash.h"
#include "timeval.h"

/* Generation of the last change.  Never 0, which asks for everything. */
static uint64_t generation = 1;

/* Returns CLOCK_MONOTONIC in ns. */
static uint64_t
now_ns(void)
{
    struct timespec ts;

    time_timespec(&ts);
    return ts.tv_sec * UINT64_C(1000000000) + ts.tv_nsec;
}

/* Returns the random number, not 0, that identifies this start of the
 * switch. */
static uint64_t
boot_id(void)
{
    static uint64_t boot;

    while (!boot) {
        boot = random_uint64();
    }
    return boot;
}

/* Begins a new generation and returns it, for something that moved. */
uint64_t
ofproto_shim_new_generation(void)
{
    return ++generation;
}

/* Returns the generation after which the client of 'request' wants to know
 * what moved, 0 for everything. */
static uint64_t
generation_since(const struct ofputil_shim_request *request)
{
    return (request->boot == boot_id() && request->generation <= generation
            ? request->generation : 0);
}

/* Returns the kernel's index of the device of 'port', or a negative number if
 * it has none.  Asks the device only when it may have changed. */
static int
port_ifindex(struct ofport *port)
{
    uint64_t seq = netdev_get_change_seq(port->netdev);

    if (port->shim_ifindex <= 0 || port->shim_netdev_seq != seq) {
        port->shim_ifindex = netdev_get_ifindex(port->netdev);
        port->shim_netdev_seq = seq;
    }
    return port->shim_ifindex;
}

/* What appends the entries of one kind for a port to a reply. */
struct appender {
    struct ofproto *ofproto;            /* Bridge asked. */
    uint64_t since;                     /* Append what moved after that. */
    struct ofputil_shim_reply reply;    /* Header of each part. */
    struct ovs_list replies;            /* Parts of the reply. */

    /* One of these is NULL: of a port of the bridge, or of all of the host. */
    void (*append)(struct appender *, struct ofport *);
    void (*append_host)(struct appender *);
};

/* Sends on 'ofconn' what 'a' has to say in answer to 'oh', a request that
 * decodes to 'request'. */
static void
answer(struct ofconn *ofconn, const struct ofp_header *oh,
       const struct ofputil_shim_request *request, struct appender *a)
{
    struct ofport *port;

    a->ofproto = ofconn_get_ofproto(ofconn);
    a->since = generation_since(request);
    a->reply.generation = generation;
    a->reply.boot = boot_id();
    ofputil_shim_reply_start(&a->replies, oh, &a->reply);
    if (a->append_host) {
        a->append_host(a);
    } else if (request->port_no == OFPP_ANY) {
        HMAP_FOR_EACH (port, hmap_node, &a->ofproto->ports) {
            a->append(a, port);
        }
    } else {
        port = ofproto_get_port(a->ofproto, request->port_no);
        if (port) {
            a->append(a, port);
        }
    }
    ofconn_send_replies(ofconn, &a->replies);
}

/* PORT_MARKS. */

/* Appends the PORT_MARKS entry of 'port' if it moved. */
static void
append_port_marks(struct appender *a, struct ofport *port)
{
    static const struct netdev_marks none;
    const struct netdev_marks *m = netdev_marks_get(port_ifindex(port));

    if (!m) {
        m = &none;
    }
    if (a->since && m->generation <= a->since
        && port->shim_generation <= a->since) {
        return;
    }

    struct shim_port_marks *spm;
    spm = ofputil_shim_reply_append(&a->replies, sizeof *spm, &a->reply);
    spm->port_no = ofputil_port_to_ofp11(port->ofp_port);
    spm->kinds = htonl(m->kinds);
    spm->marks = htonll(m->marks);
    spm->packets = htonll(m->packets);
    spm->bytes = htonll(m->bytes);
    spm->drops = htonll(m->drops);
    spm->backlog_bytes = htonl(m->backlog_bytes);
    spm->backlog_packets = htonl(m->backlog_packets);
}

/* Reads the marks and makes 'a' tell them. */
static void
prepare_port_marks(struct appender *a)
{
    uint64_t now = now_ns();

    if (netdev_marks_refresh(now, generation + 1)) {
        generation++;
    }

    uint64_t read = netdev_marks_time_ns();
    a->reply.time_ns = read ? read : now;
    a->append = append_port_marks;
}

/* VM_STATE. */

/* One VM on one uplink. */
struct vm {
    struct hmap_node hmap_node;     /* In 'vms', by 'limiter.vm'. */
    struct shim_nl_limiter limiter; /* As last read. */
    uint64_t generation;            /* When it last moved. */
    uint64_t seen_ns;               /* When it was last read. */
};

/* All VMs that the last reading showed. */
static struct hmap vms = HMAP_INITIALIZER(&vms);

/* CLOCK_MONOTONIC of the last reading of 'vms' in ns; 0 before the first. */
static uint64_t vms_ns;

/* Returns the entry of 'vms' that 'limiter' is about, which it creates if
 * there is none. */
static struct vm *
vm_get(const struct shim_nl_limiter *limiter)
{
    uint32_t hash = hash_int(limiter->vm, 0);
    struct vm *vm;

    HMAP_FOR_EACH_WITH_HASH (vm, hmap_node, hash, &vms) {
        if (vm->limiter.vm == limiter->vm
            && vm->limiter.uplink == limiter->uplink) {
            return vm;
        }
    }
    vm = xzalloc(sizeof *vm);
    hmap_insert(&vms, &vm->hmap_node, hash);
    return vm;
}

/* Reads the kernel's limiters into 'vms', as of 'now', unless the last reading
 * is fresh enough.  If any moved, begins a new generation. */
static void
refresh_vms(uint64_t now)
{
    if (vms_ns && now - vms_ns <= NETDEV_MARKS_FRESH_NS) {
        return;
    }

    struct shim_nl_limiter *limiters;
    bool moved = false;
    size_t n;

    if (shim_dpif_dump_limiters(&limiters, &n)) {
        n = 0;
    }
    for (size_t i = 0; i < n; i++) {
        struct vm *vm = vm_get(&limiters[i]);

        vm->seen_ns = now;
        if (memcmp(&vm->limiter, &limiters[i], sizeof vm->limiter)) {
            vm->limiter = limiters[i];
            vm->generation = generation + 1;
            moved = true;
        }
    }
    free(limiters);
    generation += moved;
    vms_ns = now;

    struct vm *vm;
    HMAP_FOR_EACH_SAFE (vm, hmap_node, &vms) {
        if (vm->seen_ns != now) {
            hmap_remove(&vms, &vm->hmap_node);
            free(vm);
        }
    }
}

/* Returns the number of the port of 'ofproto' whose device has 'ifindex', or
 * OFPP_NONE. */
static ofp_port_t
find_port(const struct ofproto *ofproto, int ifindex)
{
    struct ofport *port;

    HMAP_FOR_EACH (port, hmap_node, &ofproto->ports) {
        if (port_ifindex(port) == ifindex) {
            return port->ofp_port;
        }
    }
    return OFPP_NONE;
}

/* Appends the entry of 'vm', which is on 'port' and sends by 'uplink_port'. */
static void
append_vm(struct appender *a, const struct vm *vm, ovs_be32 port,
          ovs_be32 uplink_port)
{
    const struct shim_nl_limiter *l = &vm->limiter;
    struct shim_vm_state *svs;

    svs = ofputil_shim_reply_append(&a->replies, sizeof *svs, &a->reply);
    svs->port_no = port;
    svs->uplink_port = uplink_port;
    svs->weight = htonl(l->weight);
    svs->flags = htonl((l->active ? SHIM_VM_ACTIVE : 0)
                       | (l->congested ? SHIM_VM_CONGESTED : 0));
    svs->rate = htonll(l->rate);
    svs->share = htonll(l->share);
    svs->min_rate = htonll(l->min_rate);
    svs->max_rate = htonll(l->max_rate);
    svs->sent_rate = htonll(l->sent_rate);
    svs->tx_bytes = htonll(l->tx_bytes);
    svs->tx_packets = htonll(l->tx_packets);
    svs->drops = htonll(l->drops);
    svs->messages = htonl(l->messages);
    svs->refused = htonl(l->refused);
    svs->message_marks = htonll(l->message_marks);
}

/* Appends the VM_STATE entries of 'port' that moved: one for each uplink. */
static void
append_vm_state(struct appender *a, struct ofport *port)
{
    int ifindex = port_ifindex(port);
    const struct vm *vm;

    HMAP_FOR_EACH_WITH_HASH (vm, hmap_node, hash_int(ifindex, 0), &vms) {
        if (vm->limiter.vm == ifindex
            && (!a->since || vm->generation > a->since
                || port->shim_generation > a->since)) {
            append_vm(a, vm, ofputil_port_to_ofp11(port->ofp_port),
                      ofputil_port_to_ofp11(find_port(a->ofproto,
                                                      vm->limiter.uplink)));
        }
    }
}

/* Appends the HOST_VMS entries that moved. */
static void
append_host_vms(struct appender *a)
{
    const struct vm *vm;

    HMAP_FOR_EACH (vm, hmap_node, &vms) {
        if (!a->since || vm->generation > a->since) {
            append_vm(a, vm, htonl(vm->limiter.vm), htonl(vm->limiter.uplink));
        }
    }
}

/* Reads the limiters and makes 'a' tell them, those of the whole 'host' or of
 * its bridge. */
static void
prepare_vm_state(struct appender *a, bool host)
{
    refresh_vms(now_ns());
    a->reply.time_ns = vms_ns;
    if (host) {
        a->append_host = append_host_vms;
    } else {
        a->append = append_vm_state;
    }
}

/* HOST_PEERS. */

/* How long a peer is told after it moved last, in ns. */
#define PEER_TOLD_NS (60 * UINT64_C(1000000000))

/* Most peers that are told.  A VM that sends to ever new addresses pushes out
 * those that moved longest ago, and fills no memory. */
#define PEERS_TOLD_MAX 65536

/* What one VM exchanges with one address. */
struct peer {
    struct hmap_node hmap_node;     /* In 'peers', by VM and address. */
    struct ovs_list list_node;      /* In 'moved_peers'. */
    struct shim_nl_peer peer;       /* As last read. */
    uint64_t generation;            /* When it last moved. */
    uint64_t moved_ns;              /* The same, CLOCK_MONOTONIC. */
};

/* All peers that are told. */
static struct hmap peers = HMAP_INITIALIZER(&peers);

/* The same, the one that moved last at the end. */
static struct ovs_list moved_peers = OVS_LIST_INITIALIZER(&moved_peers);

/* CLOCK_MONOTONIC at the beginning of the last reading of 'peers' in ns; 0
 * before the first. */
static uint64_t peers_ns;

/* Returns the entry of 'peers' that 'read' is about, which it creates if there
 * is none. */
static struct peer *
peer_get(const struct shim_nl_peer *read)
{
    uint32_t hash = shim_hash(&read->remote, sizeof read->remote, read->vm);
    struct peer *peer;

    HMAP_FOR_EACH_WITH_HASH (peer, hmap_node, hash, &peers) {
        if (peer->peer.vm == read->vm
            && ipv6_addr_equals(&peer->peer.remote, &read->remote)) {
            return peer;
        }
    }
    peer = xzalloc(sizeof *peer);
    hmap_insert(&peers, &peer->hmap_node, hash);
    ovs_list_push_back(&moved_peers, &peer->list_node);
    return peer;
}

/* Forgets the peers that did not move for so long that none tells them, and
 * those that moved longest ago where there are too many. */
static void
forget_peers(uint64_t now)
{
    struct peer *peer;

    LIST_FOR_EACH_SAFE (peer, list_node, &moved_peers) {
        if (now - peer->moved_ns <= PEER_TOLD_NS
            && hmap_count(&peers) <= PEERS_TOLD_MAX) {
            return;
        }
        hmap_remove(&peers, &peer->hmap_node);
        ovs_list_remove(&peer->list_node);
        free(peer);
    }
}

/* Reads the kernel's peers that had packets since the last reading into
 * 'peers', as of 'now', unless that is fresh enough.  If any moved, begins a
 * new generation. */
static void
refresh_peers(uint64_t now)
{
    struct shim_nl_peer *read;
    bool moved = false;
    size_t n;

    if (peers_ns && now - peers_ns <= NETDEV_MARKS_FRESH_NS) {
        return;
    }
    if (shim_dpif_dump_peers(peers_ns, &read, &n)) {
        n = 0;
    } else {
        peers_ns = now;
    }
    for (size_t i = 0; i < n; i++) {
        struct peer *peer = peer_get(&read[i]);

        if (memcmp(&peer->peer, &read[i], sizeof peer->peer)) {
            peer->peer = read[i];
            peer->generation = generation + 1;
            peer->moved_ns = now;
            ovs_list_remove(&peer->list_node);
            ovs_list_push_back(&moved_peers, &peer->list_node);
            moved = true;
        }
    }
    free(read);
    generation += moved;
    forget_peers(now);
}

/* Appends the HOST_PEERS entry of 'peer'. */
static void
append_host_peer(struct appender *a, const struct shim_nl_peer *peer)
{
    struct shim_host_peer *shp;

    shp = ofputil_shim_reply_append(&a->replies, sizeof *shp, &a->reply);
    shp->vm = htonl(peer->vm);
    shp->uplink = htonl(peer->uplink);
    shp->vlan = htons(peer->vlan);
    memcpy(shp->remote, &peer->remote, sizeof shp->remote);
    memcpy(shp->local, &peer->local, sizeof shp->local);
    memcpy(shp->tunnel, &peer->tunnel, sizeof shp->tunnel);
    shp->tunnel_id = htonll(peer->tunnel_id);
    shp->tx_bytes = htonll(peer->tx_bytes);
    shp->tx_packets = htonll(peer->tx_packets);
    shp->rx_bytes = htonll(peer->rx_bytes);
    shp->rx_packets = htonll(peer->rx_packets);
    shp->rx_marks = htonll(peer->rx_marks);
}

/* Appends the HOST_PEERS entries that moved. */
static void
append_host_peers(struct appender *a)
{
    const struct peer *peer;

    LIST_FOR_EACH_REVERSE (peer, list_node, &moved_peers) {
        if (a->since && peer->generation <= a->since) {
            break;
        }
        append_host_peer(a, &peer->peer);
    }
}

/* Reads the peers and makes 'a' tell them. */
static void
prepare_host_peers(struct appender *a)
{
    refresh_peers(now_ns());
    a->reply.time_ns = peers_ns;
    a->append_host = append_host_peers;
}

/* HOST_PATHS. */

/* The port of a bridge that a device is. */
struct device_port {
    struct hmap_node hmap_node; /* By index of the device. */
    ofp_port_t ofp_port;        /* Its number. */
};

/* Finds the devices of all ports of 'ofproto'.  Returns them in an array that
 * the caller must free, and puts them into 'devices'. */
static struct device_port *
map_devices(const struct ofproto *ofproto, struct hmap *devices)
{
    struct device_port *all, *next;
    struct ofport *port;

    all = next = xcalloc(hmap_count(&ofproto->ports), sizeof *all);
    hmap_init(devices);
    hmap_reserve(devices, hmap_count(&ofproto->ports));
    HMAP_FOR_EACH (port, hmap_node, &ofproto->ports) {
        int ifindex = port_ifindex(port);

        if (ifindex > 0) {
            next->ofp_port = port->ofp_port;
            hmap_insert_fast(devices, &next->hmap_node, ifindex);
            next++;
        }
    }
    return all;
}

/* Returns the port of a bridge with 'devices' that the device with 'ifindex'
 * is, 0 if it is none. */
static ovs_be32
device_port_no(const struct hmap *devices, uint32_t ifindex)
{
    struct hmap_node *node = hmap_first_with_hash(devices, ifindex);

    return (node ? ofputil_port_to_ofp11(CONTAINER_OF(
                       node, struct device_port, hmap_node)->ofp_port)
            : 0);
}

/* Appends the HOST_PATHS entry of 'path', whose VM is on 'port_no'. */
static void
append_host_path(struct appender *a, const struct shim_nl_path *path,
                 ovs_be32 port_no)
{
    struct shim_host_path *shp;

    shp = ofputil_shim_reply_append(&a->replies, sizeof *shp, &a->reply);
    shp->vm = htonl(path->vm);
    shp->port_no = port_no;
    shp->flags = htonl(path->limited ? SHIM_PATH_LIMITED : 0);
    memcpy(shp->prefix, &path->prefix, sizeof shp->prefix);
    shp->bits = path->bits;
    shp->scope = path->scope;
    shp->rate = htonll(path->rate);
    shp->sent_rate = htonll(path->sent_rate);
    shp->tx_bytes = htonll(path->tx_bytes);
    shp->tx_packets = htonll(path->tx_packets);
    shp->held = htonll(path->held);
}

/* Appends the HOST_PATHS entries that moved. */
static void
append_host_paths(struct appender *a)
{
    const struct hmap *paths = shim_dpif_paths();
    const struct shim_dpif_path *path;
    struct device_port *ports;
    struct hmap devices;

    if (hmap_is_empty(paths)) {
        return;
    }
    ports = map_devices(a->ofproto, &devices);
    HMAP_FOR_EACH (path, hmap_node, paths) {
        if (!a->since || path->generation > a->since) {
            append_host_path(a, &path->path,
                             device_port_no(&devices, path->path.vm));
        }
    }
    hmap_destroy(&devices);
    free(ports);
}

/* Reads the paths and makes 'a' tell them. */
static void
prepare_host_paths(struct appender *a)
{
    a->reply.time_ns = shim_dpif_refresh_paths(now_ns(), &generation);
    a->append_host = append_host_paths;
}

/* Answers 'oh', one of the shim's multipart requests, on 'ofconn'.  Returns 0
 * if successful, otherwise an OFPERR_* value. */
enum ofperr
ofproto_shim_handle_request(struct ofconn *ofconn, const struct ofp_header *oh)
{
    struct ofputil_shim_request request;
    struct appender a = { .append = NULL, .append_host = NULL };
    enum ofperr error = ofputil_decode_shim_request(oh, &request);
    enum ofpraw raw;

    if (error) {
        return error;
    }
    raw = ofpraw_decode_assert(oh);
    switch ((int) raw) {
    case OFPRAW_SHIMST_PORT_MARKS_REQUEST:
        prepare_port_marks(&a);
        break;
    case OFPRAW_SHIMST_VM_STATE_REQUEST:
        prepare_vm_state(&a, false);
        break;
    case OFPRAW_SHIMST_HOST_VMS_REQUEST:
        prepare_vm_state(&a, true);
        break;
    case OFPRAW_SHIMST_HOST_PEERS_REQUEST:
        prepare_host_peers(&a);
        break;
    case OFPRAW_SHIMST_HOST_PATHS_REQUEST:
        prepare_host_paths(&a);
        break;
    }
    answer(ofconn, oh, &request, &a);
    return 0;
}
