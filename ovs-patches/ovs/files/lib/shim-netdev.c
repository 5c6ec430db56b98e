/* SPDX-License-Identifier: Apache-2.0 */

/* A packet's way between the datapath's decision where it goes and the device:
 *
 *   from a VM, anywhere:    control messages are dropped, VMs may not send
 *                           them
 *   from a VM to an uplink: the engine decides
 *   from elsewhere to a VM: control messages are obeyed or refused, and never
 *                           delivered
 *   from an uplink to a VM: the engine decides what the guest sees
 *   everything else:        untouched
 *
 * A message that the controller handed to a bridge has no port that it came
 * by, or the datapath's own.  Any other port but an uplink may carry none.
 *
 * A packet in a tunnel is from the VM whose frame is inside.  One out of a
 * tunnel is from the uplink that it came by.
 *
 * There is one engine for all datapaths of the process and all its threads,
 * so that a VM's bucket is one however many queues it sends by. */

#include <config.h>
#include "shim-netdev.h"
#include "dp-packet.h"
#include "hash.h"
#include "netdev.h"
#include "odp-util.h"
#include "openvswitch/vlog.h"
#include "random.h"
#include "shim-clock.h"
#include "shim-frame.h"
#include "shim-gso.h"
#include "shim-host.h"
#include "shim-netdev-private.h"
#include "shim-outer.h"
#include "shim-pace.h"
#include "shim/core/engine/decide.h"
#include "timeval.h"

VLOG_DEFINE_THIS_MODULE(shim_netdev);

atomic_bool shim_netdev_active = false;
struct ovs_mutex shim_mutex = OVS_MUTEX_INITIALIZER;
struct ovs_list shim_dps = OVS_LIST_INITIALIZER(&shim_dps);
struct shim_engine shim_engine;

/* Starts the engine if it does not run yet.  Returns true if it runs. */
bool
shim_engine_start(void)
{
    static struct ovsthread_once once = OVSTHREAD_ONCE_INITIALIZER;
    static bool runs;

    if (ovsthread_once_start(&once)) {
        runs = !shim_engine_init(&shim_engine, random_uint32(),
                                 time_wall());
        if (runs) {
            shim_clock_start(&shim_engine);
        }
        ovsthread_once_done(&once);
    }
    return runs;
}

/* Notes whether any VM has a law.  'shim_mutex'. */
void
shim_count_active(void)
{
    atomic_store_relaxed(&shim_netdev_active, shim_engine.n_ruled > 0);
}

/* Datapaths and their devices. */

/* Returns a new datapath, which sends by 'send' with 'aux'. */
struct shim_dp *
shim_netdev_create(void *aux, shim_send_cb *send)
{
    struct shim_dp *dp = xzalloc(sizeof *dp);

    ovs_mutex_init(&dp->mutex);
    dp->aux = aux;
    dp->send = send;
    cmap_init(&dp->ports);
    hmap_init(&dp->devices);
    ovs_mutex_lock(&shim_mutex);
    ovs_list_push_back(&shim_dps, &dp->node);
    ovs_mutex_unlock(&shim_mutex);
    return dp;
}

/* Frees 'dp'. */
static void
free_dp(struct shim_dp *dp)
{
    cmap_destroy(&dp->ports);
    hmap_destroy(&dp->devices);
    ovs_mutex_destroy(&dp->mutex);
    free(dp);
}

/* Destroys 'dp', which has no ports any more. */
void
shim_netdev_destroy(struct shim_dp *dp)
{
    ovs_mutex_lock(&shim_mutex);
    ovs_list_remove(&dp->node);
    ovs_mutex_unlock(&shim_mutex);
    ovs_mutex_lock(&dp->mutex);
    dp->aux = NULL;
    ovs_mutex_unlock(&dp->mutex);
    shim_pace_forget(dp);
    ovsrcu_postpone(free_dp, dp);
}

/* Returns the hash of a port's number. */
static uint32_t
hash_port(odp_port_t port_no)
{
    return hash_int(odp_to_u32(port_no), 0);
}

/* Notes that 'dp' has 'netdev' as port 'port_no'. */
void
shim_netdev_add_port(struct shim_dp *dp, odp_port_t port_no,
                     struct netdev *netdev)
{
    struct shim_device *device = xzalloc(sizeof *device);

    device->port_no = port_no;
    device->netdev = netdev;
    ovs_mutex_lock(&shim_mutex);
    hmap_insert(&dp->devices, &device->node, hash_port(port_no));
    ovs_mutex_unlock(&shim_mutex);
}

/* Forgets the role of 'device'.  Packets may hold its port until a grace
 * period is over.  'shim_mutex'. */
void
shim_device_del_role(struct shim_dp *dp, struct shim_device *device)
{
    struct shim_dp_port *port = device->port;

    if (!port) {
        return;
    }
    device->port = NULL;
    cmap_remove(&dp->ports, &port->node, hash_port(port->port_no));
    if (port->vm) {
        shim_vm_remove(port->vm);
    } else {
        shim_uplink_remove(port->uplink);
    }
    ovsrcu_postpone(free, port);
    shim_count_active();
}

/* Gives 'device' of 'dp', which has none, the role of 'port'.
 * 'shim_mutex'. */
void
shim_device_set_role(struct shim_dp *dp, struct shim_device *device,
                     struct shim_dp_port *port)
{
    device->port = port;
    cmap_insert(&dp->ports, &port->node, hash_port(port->port_no));
    shim_count_active();
}

/* Forgets port 'port_no' of 'dp'. */
void
shim_netdev_del_port(struct shim_dp *dp, odp_port_t port_no)
{
    struct shim_device *device;

    ovs_mutex_lock(&shim_mutex);
    HMAP_FOR_EACH_WITH_HASH (device, node, hash_port(port_no), &dp->devices) {
        if (device->port_no == port_no) {
            shim_device_del_role(dp, device);
            hmap_remove(&dp->devices, &device->node);
            free(device);
            break;
        }
    }
    ovs_mutex_unlock(&shim_mutex);
}

/* Sends 'batch', which it takes over, by port 'port_no' of 'dp' by the hand of
 * 'thread', NULL for one that does not poll. */
void
shim_dp_send(struct shim_dp *dp, void *thread, odp_port_t port_no,
             struct dp_packet_batch *batch)
{
    if (thread) {
        dp->send(dp->aux, thread, port_no, batch);
        return;
    }
    ovs_mutex_lock(&dp->mutex);
    if (dp->aux) {
        dp->send(dp->aux, NULL, port_no, batch);
    } else {
        dp_packet_delete_batch(batch, true);
    }
    ovs_mutex_unlock(&dp->mutex);
}

/* Packets. */

/* Returns the port of 'dp' numbered 'port_no', NULL if it has no role. */
static const struct shim_dp_port *
find_port(const struct shim_dp *dp, odp_port_t port_no)
{
    const struct shim_dp_port *port;

    CMAP_FOR_EACH_WITH_HASH (port, node, hash_port(port_no), &dp->ports) {
        if (port->port_no == port_no) {
            return port;
        }
    }
    return NULL;
}

/* Counts 'packet' of or for 'vm', which the engine refused; limiters count
 * their own refusals. */
static void
count_drop(struct shim_vm *vm, const struct shim_packet *packet,
           enum shim_counter drop)
{
    if (!shim_counter_limiter(drop)) {
        shim_vm_count(vm, drop, packet->packets);
    }
}

/* Returns true if 'packet' is a control message, by the settings of 'vm'. */
static bool
is_message(const struct shim_vm *vm, const struct shim_packet *packet)
{
    return packet->version && packet->protocol == READ_ONCE(vm->mode.protocol);
}

/* Fills the time of a packet of or for 'vm'. */
static void
set_time(const struct shim_vm *vm, struct shim_packet *packet, u64 now_ns)
{
    packet->timed = (READ_ONCE(vm->mode.wants) & SHIM_VM_TIMED) != 0;
    packet->now_ns = now_ns;
}

/* Where packets of a batch leave. */
struct way {
    struct shim_dp *dp;         /* Their datapath. */
    struct shim_pacer *pacer;   /* Where they wait. */
    odp_port_t port_no;         /* The port. */
    const struct shim_dp_port *to; /* Its role, NULL without one. */
    u64 now_ns;                 /* The time. */
};

/* Parses 'packet' from a VM into 'frame'.  If it is in a tunnel, enters it,
 * fills 'outer' and returns that, or else NULL. */
static const struct shim_outer *
parse_sent(struct dp_packet *packet, u8 wants, struct shim_outer *outer,
           struct shim_frame *frame)
{
    if (OVS_LIKELY(!packet->md.tnl_push_len)) {
        shim_frame_parse(packet, wants, frame);
        return NULL;
    }
    shim_outer_read(packet, outer);
    shim_outer_enter(packet, outer);
    shim_outer_parse(packet, outer, wants, frame);
    return outer;
}

/* Makes the headers of what parse_sent() filled as 'action' says, unless that
 * drops it.  Returns true if it goes on, false if it is to be dropped, which
 * is counted. */
static bool
act_sent(struct shim_vm *vm, const struct shim_outer *outer,
         const struct shim_frame *frame, const struct shim_action *action)
{
    if (action->drop) {
        count_drop(vm, &frame->packet, action->drop);
        return false;
    }
    shim_frame_act(frame, action);
    if (outer) {
        shim_outer_act(outer, frame, action);
    }
    return true;
}

/* Returns what packets have in common that leave in the order in which they
 * passed through 'passage': the bucket that gives them their time.  NULL if
 * none does. */
static const void *
get_key(const struct shim_passage *passage)
{
    return (passage->gate ? (const void *) passage->gate
            : passage->peer ? (const void *) passage->peer
            : passage->limiter);
}

/* Lets 'packet', which has passed through 'passage', wait as 'action' says,
 * and behind what waits already. */
static void
wait_turn(const struct way *way, const struct shim_passage *passage,
          struct dp_packet *packet, const struct shim_action *action)
{
    shim_pace(way->pacer, way->dp, way->port_no, get_key(passage), packet,
              MAX(action->departure_ns, shim_now_ns()));
}

/* Returns true if what has passed through 'passage' may not leave at once, by
 * 'action' or because others wait. */
static bool
must_wait(const struct way *way, const struct shim_passage *passage,
          const struct shim_action *action)
{
    const void *key = get_key(passage);

    return (action->departure_ns > way->now_ns
            || (key && shim_pace_holds(way->pacer, key)));
}

/* Asks the engine for 'packet', a part of 'whole', which has passed through
 * 'passage', and lets it leave, not before what waits already, or drops it. */
static void
judge_part(struct shim_vm *vm, const struct way *way,
           const struct shim_passage *passage,
           const struct shim_packet *whole, struct dp_packet *packet)
{
    const struct shim_outer *entered;
    struct shim_action action;
    struct shim_frame frame;
    struct shim_outer outer;
    bool passes;

    entered = parse_sent(packet, 0, &outer, &frame);
    frame.packet.now_ns = whole->now_ns;
    frame.packet.timed = whole->timed;
    shim_action_init(&action, &frame.packet);
    shim_admit(passage, &frame.packet, &action);
    passes = act_sent(vm, entered, &frame, &action);
    if (entered) {
        shim_outer_leave(packet, entered);
    }
    if (passes) {
        wait_turn(way, passage, packet, &action);
    } else {
        dp_packet_delete(packet);
    }
}

/* Cuts 'packet' from 'vm', which is 'whole' and has passed through 'passage',
 * as its device would, and judges the parts.  Drops one that a guest wants to
 * be cut into too many. */
static void
judge_parts(struct shim_vm *vm, const struct way *way,
            const struct shim_passage *passage,
            const struct shim_packet *whole, struct dp_packet *packet)
{
    struct shim_parts parts;

    if (whole->packets > SHIM_PARTS_MAX) {
        count_drop(vm, whole, SHIM_DROP_SEGMENT);
        dp_packet_delete(packet);
        return;
    }
    shim_gso_cut(packet, &parts);
    if (!parts.n) {
        count_drop(vm, whole, SHIM_DROP_SEGMENT);
    }
    for (size_t i = 0; i < parts.n; i++) {
        judge_part(vm, way, passage, whole, parts.packets[i]);
    }
    free(parts.packets);
}

/* Returns true if 'frame' is to be cut into packets that exceed the MTU of the
 * uplink 'to'. */
static bool
exceeds(const struct shim_frame *frame, const struct shim_dp_port *to)
{
    int mtu = READ_ONCE(to->mtu);

    return mtu && frame->part > (frame->tunnelled ? 0 : frame->offset) + mtu;
}

/* Tells the engine which address 'vm', which has a law, says in 'frame' is its
 * own. */
static void
announce(struct shim_vm *vm, const struct way *way, struct shim_frame *frame)
{
    const struct shim_packet *packet = &frame->packet;
    struct shim_address address;

    if (OVS_LIKELY(packet->version && packet->protocol != IPPROTO_ICMPV6)
        || !shim_frame_announces(frame, &address)) {
        return;
    }
    frame->packet.now_ns = way->now_ns;
    shim_sources_announce(vm, &address, packet, way->to && way->to->uplink);
}

/* Fills '*passage' and '*action' with what the engine decides about 'frame'
 * from 'vm'. */
static void
decide_sent(struct shim_vm *vm, const struct way *way,
            struct shim_frame *frame, struct shim_passage *passage,
            struct shim_action *action)
{
    bool forged = is_message(vm, &frame->packet);
    bool ruled = !forged && READ_ONCE(vm->mode.ruled);
    bool judged = ruled && way->to && way->to->uplink;
    bool large = judged && exceeds(frame, way->to);

    if (ruled) {
        announce(vm, way, frame);
    }
    if (judged && !large) {
        set_time(vm, &frame->packet, way->now_ns);
        shim_decide_sent(vm, way->to->uplink, &frame->packet, NULL, passage,
                         action);
        return;
    }
    *passage = (struct shim_passage) { .limiter = NULL };
    shim_action_init(action, &frame->packet);
    if (forged) {
        action->drop = SHIM_DROP_FORGED;
    } else if (large) {
        action->drop = SHIM_DROP_SIZE;
    }
}

/* Judges 'packet' from 'vm'.  Returns true if it is to leave at once; if not,
 * takes it over. */
static bool
judge_sent(struct shim_vm *vm, const struct way *way, struct dp_packet *packet)
{
    const struct shim_outer *entered;
    struct shim_action action;
    struct shim_frame frame;
    struct shim_outer outer;
    struct shim_passage passage;
    bool passes;

    entered = parse_sent(packet, READ_ONCE(vm->mode.wants), &outer, &frame);
    decide_sent(vm, way, &frame, &passage, &action);
    passes = act_sent(vm, entered, &frame, &action);
    if (entered) {
        shim_outer_leave(packet, entered);
    }
    if (!passes) {
        dp_packet_delete(packet);
    } else if (OVS_UNLIKELY(action.cut_bytes)) {
        judge_parts(vm, way, &passage, &frame.packet, packet);
    } else if (must_wait(way, &passage, &action)) {
        wait_turn(way, &passage, packet, &action);
    } else {
        return true;
    }
    return false;
}

/* Refuses a control message for 'vm' that the engine need not see. */
static void
refuse_message(struct shim_vm *vm, enum shim_counter refusal)
{
    static const struct shim_message unknown;

    shim_vm_count(vm, refusal, 1);
    shim_host_message(vm, &unknown, shim_counter_name(refusal));
}

/* Obeys or refuses the control message in 'frame' for 'vm'; 'from' is the port
 * it came by, NULL without a role, and 'local' whether the controller sent
 * it. */
static void
obey(struct shim_vm *vm, const struct shim_dp_port *from, bool local,
     struct shim_frame *frame)
{
    /* One byte more than a message has, so that what is too long is seen to
     * be. */
    u8 data[SHIM_MESSAGE_MOST_BYTES + 1];
    struct shim_message message;

    if (!(from && from->uplink) && !local) {
        refuse_message(vm, SHIM_REFUSED_ORIGIN);
    } else if (!READ_ONCE(vm->mode.ruled)) {
        refuse_message(vm, SHIM_REFUSED_LAW);
    } else {
        size_t len = shim_frame_payload(frame, data, sizeof data);

        frame->packet.now_ns = shim_now_ns();
        frame->packet.timed = true;
        shim_engine_message(vm, from ? from->uplink : NULL, &frame->packet,
                            data, len, &message);
    }
}

/* Judges 'packet' for 'vm' that no other VM sent; 'from' and 'local' as for
 * obey().  Returns true if it is to leave; if not, takes it over. */
static bool
judge_received(struct shim_vm *vm, const struct shim_dp_port *from, bool local,
               struct dp_packet *packet, u64 now_ns)
{
    u8 wants = READ_ONCE(vm->mode.wants);
    struct shim_action action;
    struct shim_frame frame;

    if (READ_ONCE(vm->mode.codepoint) == SHIM_ECT_ZERO) {
        /* TCP's flags tell whether an ECT(0) may be the guest's. */
        wants |= SHIM_LAW_FLOWS;
    }
    shim_frame_parse(packet, wants, &frame);
    if (is_message(vm, &frame.packet)) {
        obey(vm, from, local, &frame);
        dp_packet_delete(packet);
        return false;
    }
    if (!from || !from->uplink || !READ_ONCE(vm->mode.ruled)) {
        return true;
    }
    set_time(vm, &frame.packet, now_ns);
    shim_decide_received(vm, from->uplink, &frame.packet, NULL, &action);
    if (action.drop) {
        count_drop(vm, &frame.packet, action.drop);
        dp_packet_delete(packet);
        return false;
    }
    shim_frame_act(&frame, &action);
    return true;
}

/* Returns the number of the port that 'packet' came by before it went into a
 * tunnel, if it did. */
static odp_port_t
get_origin(const struct dp_packet *packet)
{
    return (packet->md.tnl_push_len ? packet->md.tnl_push_port
            : packet->md.in_port.odp_port);
}

/* Returns the number of the port that 'packet', which came by 'in', came by
 * below the tunnel that it was in; 'in' if it was in none. */
static odp_port_t
get_below(const struct dp_packet *packet, odp_port_t in)
{
    return packet->md.tnl_push_len ? in : packet->md.orig_in_port;
}

/* Does with 'batch', about to leave by port 'port_no' of 'dp', what the engine
 * decides. */
void
shim_netdev_judge(struct shim_dp *dp, struct shim_pacer *pacer,
                  odp_port_t port_no, struct dp_packet_batch *batch)
{
    struct way way = {
        .dp = dp,
        .pacer = pacer,
        .port_no = port_no,
        .to = find_port(dp, port_no),
        .now_ns = shim_now_ns(),
    };
    odp_port_t from_no = ODPP_NONE, below_no = ODPP_NONE;
    const struct shim_dp_port *from = NULL;
    struct dp_packet *packet;
    size_t left = 0;

    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        odp_port_t in = get_origin(packet);
        odp_port_t below = get_below(packet, in);
        bool leaves = true;

        if (in != from_no || below != below_no) {
            from = find_port(dp, in);
            if (!from && below != in) {
                from = find_port(dp, below);
            }
            from_no = in;
            below_no = below;
        }
        if (from && from->vm) {
            leaves = judge_sent(from->vm, &way, packet);
        } else if (way.to && way.to->vm) {
            leaves = judge_received(way.to->vm, from,
                                    in == ODPP_NONE || in == ODPP_LOCAL,
                                    packet, way.now_ns);
        }
        if (leaves) {
            batch->packets[left++] = packet;
        }
    }
    batch->count = left;
}
