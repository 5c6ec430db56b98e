/* SPDX-License-Identifier: Apache-2.0 */

/* Ports of the shim in the userspace datapath: what the operator says a device
 * is, and what is told of it.
 *
 * A port never changes but in what the engine keeps of it: another role makes
 * another port, so that packets see one or the other. */

#include <config.h>
#include "shim-netdev.h"
#include <errno.h>
#include "netdev.h"
#include "openvswitch/ofp-port.h"
#include "shim-host.h"
#include "shim-netdev-private.h"
#include "shim-netlink.h"
#include "util.h"

/* OVS_SHIM_STAT_* by counter of the engine; 0 for those that limiters
 * count. */
static const uint8_t stats_of[SHIM_N_COUNTERS] = {
/* Netlink has a longer name for the marks that messages carried. */
#define OVS_SHIM_STAT_MARKS OVS_SHIM_STAT_MESSAGE_MARKS
#define STAT(NAME, WORD) [SHIM_##NAME] = OVS_SHIM_STAT_##NAME,
    SHIM_COUNTERS(STAT)
#undef STAT
#undef OVS_SHIM_STAT_MARKS
};

/* Returns the device with 'ifindex', and in '*dpp' its datapath, or NULL.
 * 'shim_mutex'. */
static struct shim_device *
find_device(int ifindex, struct shim_dp **dpp)
{
    struct shim_device *device;
    struct shim_dp *dp;

    LIST_FOR_EACH (dp, node, &shim_dps) {
        HMAP_FOR_EACH (device, node, &dp->devices) {
            if (netdev_get_ifindex(device->netdev) == ifindex) {
                *dpp = dp;
                return device;
            }
        }
    }
    return NULL;
}

/* Returns true if a userspace datapath has the device with 'ifindex'. */
bool
shim_netdev_has(uint32_t ifindex)
{
    struct shim_dp *dp;

    ovs_mutex_lock(&shim_mutex);
    bool found = find_device(ifindex, &dp) != NULL;
    ovs_mutex_unlock(&shim_mutex);
    return found;
}

/* Returns the name of the device with 'ifindex', which the caller must free,
 * or NULL if no userspace datapath has it. */
char *
shim_netdev_name(uint32_t ifindex)
{
    const struct shim_device *device;
    struct shim_dp *dp;

    ovs_mutex_lock(&shim_mutex);
    device = find_device(ifindex, &dp);
    char *name = device ? xstrdup(netdev_get_name(device->netdev)) : NULL;
    ovs_mutex_unlock(&shim_mutex);
    return name;
}

/* Returns the link speed of 'netdev' in bytes/s, 0 if it tells none. */
static u64
link_rate(const struct netdev *netdev)
{
    enum netdev_features current;

    return (netdev_get_features(netdev, &current, NULL, NULL, NULL) ? 0
            : netdev_features_to_bps(current, 0) / 8);
}

/* Refuses a configuration of 'device' under which the guarantees of all VMs,
 * any of which may use any uplink, would exceed an uplink's capacity. */
static int
check_guarantees(const struct shim_device *device,
                 const struct shim_nl_port *want, u64 rate, char **reason)
{
    const struct shim_dp_port *port = device->port;
    const struct shim_uplink *least;
    u64 guaranteed = shim_engine.guaranteed;
    u64 capacity = U64_MAX;
    u64 exceeded;

    if (port && port->vm) {
        guaranteed -= port->vm->config.min;
    }
    if (want->role == OVS_SHIM_ROLE_VM) {
        guaranteed += want->min_rate;
    } else {
        capacity = shim_capacity_of(want->capacity, rate);
    }
    exceeded = shim_engine_exceeds(&shim_engine, guaranteed, capacity,
                                   port ? port->uplink : NULL, &least);
    if (!exceeded) {
        return 0;
    }
    return shim_refuse(EDQUOT, reason, "min-rate: guarantees sum to %llu "
                       "bytes/s, an uplink has only %llu", guaranteed,
                       exceeded);
}

/* Returns the MTU of 'netdev', 0 if it tells none. */
static int
get_mtu(const struct netdev *netdev)
{
    int mtu;

    return netdev_get_mtu(netdev, &mtu) ? 0 : mtu;
}

/* Returns a new port for 'device' of 'dp' with the role that is wanted. */
static struct shim_dp_port *
create_port(struct shim_dp *dp, const struct shim_device *device,
            const struct shim_nl_port *want)
{
    struct shim_dp_port *port = xzalloc(sizeof *port);

    port->dp = dp;
    port->port_no = device->port_no;
    port->ifindex = want->ifindex;
    port->tags = UINT8_MAX;
    if (want->role == OVS_SHIM_ROLE_VM) {
        port->vm = shim_vm_create(&shim_engine, port);
    } else {
        port->uplink = shim_uplink_create(&shim_engine, port);
    }
    return port;
}

/* Sets the addresses that 'vm' may send from as 'want' says. */
static void
set_addresses(struct shim_vm *vm, const struct shim_nl_port *want)
{
    struct shim_prefixes *prefixes = NULL;

    if (want->n_addresses) {
        prefixes = shim_alloc_wait(struct_size(prefixes, prefixes,
                                               want->n_addresses));
        prefixes->n = want->n_addresses;
        for (size_t i = 0; i < want->n_addresses; i++) {
            memcpy(&prefixes->prefixes[i].address, &want->addresses[i].value,
                   sizeof prefixes->prefixes[i].address);
            prefixes->prefixes[i].length = want->addresses[i].prefix;
        }
    }
    shim_sources_set(vm, prefixes);
}

/* Gives 'device' of 'dp' the role that is wanted.  'shim_mutex'. */
static int
set_port(struct shim_dp *dp, struct shim_device *device,
         const struct shim_nl_port *want, char **reason)
{
    struct shim_vm_config config = {
        .weight = want->weight,
        .law = SHIM_LAW_DEFAULT,
        .min = want->min_rate,
        .max = want->max_rate,
    };
    bool is_vm = want->role == OVS_SHIM_ROLE_VM;
    struct shim_dp_port *port = device->port;
    u64 rate = is_vm ? 0 : link_rate(device->netdev);
    int error = 0;

    if (is_vm && strcmp(want->law, "default")) {
        error = shim_law_by_name(want->law, &config.law, reason);
    } else if (!is_vm && !want->capacity && !rate) {
        error = shim_refuse(EINVAL, reason, "capacity: %s tells no link "
                            "speed, so a value above 0 is needed",
                            netdev_get_name(device->netdev));
    }
    if (!error) {
        error = check_guarantees(device, want, rate, reason);
    }
    if (error) {
        return error;
    }
    if (!port || !port->vm == is_vm || port->ifindex != want->ifindex) {
        shim_device_del_role(dp, device);
        port = create_port(dp, device, want);
    }
    if (is_vm) {
        set_addresses(port->vm, want);
        shim_vm_configure(port->vm, &config);
    } else {
        shim_uplink_set_overhead(port->uplink, want->overhead
                                 ? want->overhead : SHIM_OVERHEAD_ETHERNET);
        shim_uplink_configure(port->uplink, want->capacity, rate);
        WRITE_ONCE(port->mtu, get_mtu(device->netdev));
    }
    if (!device->port) {
        shim_device_set_role(dp, device, port);
    }
    shim_count_active();
    return 0;
}

/* Creates or changes a port.  If it is refused, stores in '*reason' why, which
 * the caller must free. */
int
shim_netdev_port_set(const struct shim_nl_port *want, char **reason)
{
    struct shim_device *device;
    struct shim_dp *dp;
    int error;

    *reason = NULL;
    if (!shim_engine_start()) {
        return ENOMEM;
    }
    ovs_mutex_lock(&shim_mutex);
    device = find_device(want->ifindex, &dp);
    error = (device ? set_port(dp, device, want, reason)
             : shim_refuse(ENODEV, reason, "ifindex: %"PRIu32" is no port of "
                           "a userspace datapath", want->ifindex));
    ovs_mutex_unlock(&shim_mutex);
    return error;
}

/* Takes the port with 'ifindex' out of the shim. */
int
shim_netdev_port_del(uint32_t ifindex, char **reason)
{
    struct shim_device *device;
    struct shim_dp *dp;

    *reason = NULL;
    ovs_mutex_lock(&shim_mutex);
    device = find_device(ifindex, &dp);
    if (device) {
        shim_device_del_role(dp, device);
    }
    ovs_mutex_unlock(&shim_mutex);
    return device ? 0 : ENODEV;
}

/* Hands the control message of 'len' bytes in 'data' to the VM whose device
 * has 'ifindex'.  Returns EACCES if it was refused. */
int
shim_netdev_message(uint32_t ifindex, const void *data, size_t len)
{
    struct shim_packet packet = {
        .plain = true, .timed = true, .packets = 1, .bytes = len,
    };
    enum shim_counter outcome = SHIM_REFUSED_LAW;
    struct shim_device *device;
    struct shim_message message;
    struct shim_dp *dp;

    if (len >= SHIM_MESSAGE_V1_BYTES) {
        /* No header names a destination: the message says whom it is for. */
        memcpy(&packet.destination, (const u8 *) data + SHIM_MESSAGE_VM_AT,
               sizeof packet.destination);
    }
    packet.version = shim_address_ipv4(&packet.destination) ? 4 : 6;
    packet.now_ns = shim_now_ns();

    ovs_mutex_lock(&shim_mutex);
    device = find_device(ifindex, &dp);
    struct shim_vm *vm = device && device->port ? device->port->vm : NULL;
    if (vm && READ_ONCE(vm->mode.ruled)) {
        outcome = shim_engine_message(vm, NULL, &packet, data, len, &message);
    } else if (vm) {
        shim_vm_count(vm, outcome, 1);
    }
    ovs_mutex_unlock(&shim_mutex);
    return !vm ? ENOENT : outcome == SHIM_MESSAGES ? 0 : EACCES;
}

/* Makes room for an element of 'size' bytes more in '*arrayp', which has '*n'
 * of '*allocated'.  Returns it, zeroed. */
static void *
append(void **arrayp, size_t *n, size_t *allocated, size_t size)
{
    if (*n >= *allocated) {
        *arrayp = x2nrealloc(*arrayp, allocated, size);
    }
    void *element = (char *) *arrayp + (*n)++ * size;
    memset(element, 0, size);
    return element;
}

/* Fills '*to' with what 'vm' counted. */
static void
read_stats(struct shim_vm *vm, struct shim_nl_port *to)
{
    struct shim_tx tx = { .packets = 0 };

    shim_vm_sent(vm, &tx);
    to->stats[OVS_SHIM_STAT_TX_PACKETS] = tx.packets;
    to->stats[OVS_SHIM_STAT_TX_BYTES] = tx.bytes;
    to->stats[OVS_SHIM_STAT_TX_ECT] = tx.ect;
    to->stats[OVS_SHIM_STAT_TX_PACED] = tx.paced;
    to->stats[OVS_SHIM_STAT_DROP_POLICE] = tx.drop_police;
    to->stats[OVS_SHIM_STAT_DROP_HORIZON] = tx.drop_horizon;
    to->stats[OVS_SHIM_STAT_DROP_WAITING] = tx.drop_waiting;
    to->stats[OVS_SHIM_STAT_TX_AHEAD] = tx.ahead;
    for (size_t i = SHIM_COUNTER_NONE + 1; i < SHIM_N_COUNTERS; i++) {
        if (!shim_counter_limiter(i)) {
            to->stats[stats_of[i]] = atomic64_read(&vm->counters[i]);
        }
    }
}

/* Fills '*to' with what is configured of 'vm', and its counters. */
static void
read_vm(struct shim_vm *vm, struct shim_nl_port *to)
{
    const struct shim_prefixes *set = rcu_dereference(vm->sources.set);

    to->role = OVS_SHIM_ROLE_VM;
    to->weight = vm->config.weight;
    to->min_rate = vm->config.min;
    to->max_rate = vm->config.max;
    ovs_strlcpy(to->law, shim_law_name(vm->config.law), sizeof to->law);
    for (size_t i = 0; set && i < set->n; i++) {
        struct shim_nl_address *address = &to->addresses[to->n_addresses++];

        memcpy(&address->value, &set->prefixes[i].address,
               sizeof address->value);
        address->prefix = set->prefixes[i].length;
    }
    read_stats(vm, to);
}

/* Stores all ports in '*ports', a new array of '*n' that the caller must free.
 * Notes at what speed the uplinks' links are by now, and their MTUs. */
int
shim_netdev_dump_ports(struct shim_nl_port **ports, size_t *n)
{
    const struct shim_device *device;
    struct shim_dp *dp;
    size_t allocated = 0;
    void *array = NULL;

    *n = 0;
    ovs_mutex_lock(&shim_mutex);
    LIST_FOR_EACH (dp, node, &shim_dps) {
        HMAP_FOR_EACH (device, node, &dp->devices) {
            struct shim_dp_port *port = device->port;
            struct shim_nl_port *to;
            u64 rate;

            if (!port) {
                continue;
            }
            to = append(&array, n, &allocated, sizeof *to);
            to->ifindex = port->ifindex;
            if (port->vm) {
                read_vm(port->vm, to);
                continue;
            }
            rate = link_rate(device->netdev);
            if (rate) {
                shim_uplink_link_rate(port->uplink, rate);
            }
            WRITE_ONCE(port->mtu, get_mtu(device->netdev));
            to->role = OVS_SHIM_ROLE_UPLINK;
            to->capacity = port->uplink->configured;
            to->overhead = port->uplink->overhead;
            to->qdisc = OVS_SHIM_QDISC_FIT;
        }
    }
    ovs_mutex_unlock(&shim_mutex);
    *ports = array;
    return 0;
}

/* Returns the index of the device of 'vm'. */
static uint32_t
vm_ifindex(const struct shim_vm *vm)
{
    return ((const struct shim_dp_port *) vm->port)->ifindex;
}

/* Returns the index of the device of 'uplink'. */
static uint32_t
uplink_ifindex(const struct shim_uplink *uplink)
{
    return ((const struct shim_dp_port *) uplink->port)->ifindex;
}

/* Fills '*to' from 'limiter'.  'vm->lock'. */
static void
read_limiter(struct shim_limiter *limiter, struct shim_nl_limiter *to)
{
    const struct shim_vm *vm = limiter->vm;
    struct shim_tx tx;

    shim_limiter_counted(limiter, &tx);
    to->vm = vm_ifindex(vm);
    to->uplink = uplink_ifindex(limiter->uplink);
    to->weight = vm->config.weight;
    to->active = limiter->active;
    to->congested = limiter->active && limiter->state.congested;
    to->messages = atomic64_read(&vm->counters[SHIM_MESSAGES]);
    for (size_t i = SHIM_REFUSED_SHORT; i <= SHIM_REFUSED_ORIGIN; i++) {
        to->refused += atomic64_read(&vm->counters[i]);
    }
    to->rate = shim_limiter_rate(limiter);
    to->share = READ_ONCE(limiter->share);
    to->min_rate = vm->config.min;
    to->max_rate = vm->config.max;
    to->sent_rate = limiter->sent_rate;
    to->tx_bytes = tx.bytes;
    to->tx_packets = tx.packets;
    to->drops = tx.drop_police + tx.drop_horizon + tx.drop_waiting;
    to->message_marks = atomic64_read(&vm->counters[SHIM_MARKS]);
}

/* Stores all limiters in '*limiters', a new array of '*n' that the caller must
 * free. */
int
shim_netdev_dump_limiters(struct shim_nl_limiter **limiters, size_t *n)
{
    size_t allocated = 0;
    void *array = NULL;
    struct shim_vm *vm;

    *n = 0;
    *limiters = NULL;
    if (!shim_engine_start()) {
        return ENOMEM;
    }
    ovs_mutex_lock(&shim_mutex);
    list_for_each_entry (vm, &shim_engine.vms, node) {
        struct shim_limiter *limiter;

        spin_lock(&vm->lock);
        for (limiter = rcu_dereference(vm->limiters); limiter;
             limiter = rcu_dereference(limiter->next)) {
            read_limiter(limiter, append(&array, n, &allocated,
                                         sizeof **limiters));
        }
        spin_unlock(&vm->lock);
    }
    ovs_mutex_unlock(&shim_mutex);
    *limiters = array;
    return 0;
}

/* Where read_peer() stores. */
struct peer_dump {
    void *array;                /* Of struct shim_nl_peer. */
    size_t n;                   /* Elements in it. */
    size_t allocated;           /* Room for elements. */
};

/* Stores what is told of 'peer' in the struct peer_dump 'dump_'.  Returns
 * true, for more are wanted. */
static bool
read_peer(struct shim_peer *peer, void *dump_)
{
    struct peer_dump *dump = dump_;
    struct shim_nl_peer *to = append(&dump->array, &dump->n, &dump->allocated,
                                     sizeof *to);
    const struct shim_uplink *uplink;

    to->vm = vm_ifindex(peer->key.vm);
    memcpy(&to->remote, &peer->key.address, sizeof to->remote);
    spin_lock(&peer->lock);
    memcpy(&to->local, &peer->local, sizeof to->local);
    to->tx_bytes = peer->tx_bytes;
    to->tx_packets = peer->tx_packets;
    to->rx_bytes = peer->rx_bytes;
    to->rx_packets = peer->rx_packets;
    to->rx_marks = peer->rx_marks;
    to->vlan = peer->host.vlan_tci & 0xfff;
    uplink = peer->out ? peer->out : peer->in;
    spin_unlock(&peer->lock);
    uplink = shim_uplink_find(&shim_engine, uplink);
    to->uplink = uplink ? uplink_ifindex(uplink) : 0;
    return true;
}

/* Stores the peers of all VMs that had a packet at 'since_ns' of
 * CLOCK_MONOTONIC or later in '*peers', a new array of '*n' that the caller
 * must free. */
int
shim_netdev_dump_peers(uint64_t since_ns, struct shim_nl_peer **peers,
                       size_t *n)
{
    struct peer_dump dump = { .array = NULL };
    struct shim_vm *vm;

    *n = 0;
    *peers = NULL;
    if (!shim_engine_start()) {
        return ENOMEM;
    }
    ovs_mutex_lock(&shim_mutex);
    list_for_each_entry (vm, &shim_engine.vms, node) {
        spin_lock(&vm->lock);
        shim_peers_moved(vm, since_ns, read_peer, &dump);
        spin_unlock(&vm->lock);
    }
    ovs_mutex_unlock(&shim_mutex);
    *peers = dump.array;
    *n = dump.n;
    return 0;
}

/* Fills '*to' from 'path' of 'vm'.  'vm->lock'. */
static void
read_path(const struct shim_vm *vm, struct shim_path *path,
          struct shim_nl_path *to)
{
    struct shim_path_reading now;

    shim_path_read(path, &now);
    to->vm = vm_ifindex(vm);
    to->bits = now.bits;
    to->scope = now.scope;
    to->limited = now.limited;
    memcpy(&to->prefix, &now.prefix, sizeof to->prefix);
    to->rate = now.rate;
    to->sent_rate = now.sent_rate;
    to->tx_bytes = now.bytes;
    to->tx_packets = now.packets;
    to->held = now.held;
}

/* Stores the paths of all VMs in '*paths', a new array of '*n' that the caller
 * must free. */
int
shim_netdev_dump_paths(struct shim_nl_path **paths, size_t *n)
{
    size_t allocated = 0;
    void *array = NULL;
    struct shim_vm *vm;

    *n = 0;
    *paths = NULL;
    if (!shim_engine_start()) {
        return ENOMEM;
    }
    ovs_mutex_lock(&shim_mutex);
    list_for_each_entry (vm, &shim_engine.vms, node) {
        struct shim_path *path;

        if (!READ_ONCE(vm->n_paths)) {
            continue;
        }
        spin_lock(&vm->lock);
        list_for_each_entry (path, &vm->paths, node) {
            read_path(vm, path, append(&array, n, &allocated, sizeof **paths));
        }
        spin_unlock(&vm->lock);
    }
    ovs_mutex_unlock(&shim_mutex);
    *paths = array;
    return 0;
}
