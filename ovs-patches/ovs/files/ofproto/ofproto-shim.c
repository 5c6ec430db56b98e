/* SPDX-License-Identifier: Apache-2.0 */

/* Serves PORT_MARKS and VM_STATE, which include/openflow/shim-ext.h describes.
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
#include "random.h"
#include "shim-netlink.h"
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
    void (*append)(struct appender *, struct ofport *);
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
    if (request->port_no == OFPP_ANY) {
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

    if (shim_nl_dump_limiters(&limiters, &n)) {
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

/* Appends the VM_STATE entry of 'vm' on 'port'. */
static void
append_vm(struct appender *a, const struct ofport *port, const struct vm *vm)
{
    const struct shim_nl_limiter *l = &vm->limiter;
    struct shim_vm_state *svs;

    svs = ofputil_shim_reply_append(&a->replies, sizeof *svs, &a->reply);
    svs->port_no = ofputil_port_to_ofp11(port->ofp_port);
    svs->uplink_port = ofputil_port_to_ofp11(find_port(a->ofproto,
                                                       l->uplink));
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
            append_vm(a, port, vm);
        }
    }
}

/* Reads the limiters and makes 'a' tell them. */
static void
prepare_vm_state(struct appender *a)
{
    refresh_vms(now_ns());
    a->reply.time_ns = vms_ns;
    a->append = append_vm_state;
}

/* Answers 'oh', a PORT_MARKS or VM_STATE request, on 'ofconn'.  Returns 0 if
 * successful, otherwise an OFPERR_* value. */
enum ofperr
ofproto_shim_handle_request(struct ofconn *ofconn, const struct ofp_header *oh)
{
    struct ofputil_shim_request request;
    struct appender a;
    enum ofperr error = ofputil_decode_shim_request(oh, &request);

    if (error) {
        return error;
    }
    if (ofpraw_decode_assert(oh) == OFPRAW_SHIMST_PORT_MARKS_REQUEST) {
        prepare_port_marks(&a);
    } else {
        prepare_vm_state(&a);
    }
    answer(ofconn, oh, &request, &a);
    return 0;
}
