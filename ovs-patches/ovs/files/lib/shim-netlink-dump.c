/* SPDX-License-Identifier: Apache-2.0 */

/* Reads all of a kind from the kernel's shim. */

#include <config.h>
#include "shim-netlink.h"
#include <errno.h>
#include "util.h"

#ifdef HAVE_NETLINK
#include "netlink.h"
#include "netlink-socket.h"
#include "openvswitch/ofpbuf.h"
#include "shim-netlink-private.h"

/* Returns the integer in 'a', of 1, 2, 4 or 8 bytes, or 0 if it has another
 * size. */
static uint64_t
get_uint(const struct nlattr *a)
{
    switch (nl_attr_get_size(a)) {
    case sizeof(uint8_t):
        return nl_attr_get_u8(a);
    case sizeof(uint16_t):
        return nl_attr_get_u16(a);
    case sizeof(uint32_t):
        return nl_attr_get_u32(a);
    case sizeof(uint64_t):
        return nl_attr_get_u64(a);
    default:
        return 0;
    }
}

/* Parses the nest 'a' of a port's addresses into '*port'. */
static void
parse_addresses(const struct nlattr *a, struct shim_nl_port *port)
{
    const struct nlattr *one;
    size_t left;

    port->n_addresses = 0;
    NL_NESTED_FOR_EACH (one, left, a) {
        const struct nlattr *value = nl_attr_find_nested(
            one, OVS_SHIM_ADDRESS_VALUE);
        const struct nlattr *prefix = nl_attr_find_nested(
            one, OVS_SHIM_ADDRESS_PREFIX);

        if (value && prefix && port->n_addresses < SHIM_ADDRESSES_MAX
            && nl_attr_get_size(value) == sizeof(struct in6_addr)) {
            struct shim_nl_address *address
                = &port->addresses[port->n_addresses++];

            address->value = nl_attr_get_in6_addr(value);
            address->prefix = get_uint(prefix);
        }
    }
}

/* Parses the attribute 'a' of a port into '*port'. */
static void
parse_port(const struct nlattr *a, void *port_)
{
    struct shim_nl_port *port = port_;
    const struct nlattr *stat;
    size_t left;

    switch (nl_attr_type(a)) {
    case OVS_SHIM_PORT_IFINDEX:
        port->ifindex = get_uint(a);
        break;
    case OVS_SHIM_PORT_ROLE:
        port->role = get_uint(a);
        break;
    case OVS_SHIM_PORT_WEIGHT:
        port->weight = get_uint(a);
        break;
    case OVS_SHIM_PORT_MIN_RATE:
        port->min_rate = get_uint(a);
        break;
    case OVS_SHIM_PORT_MAX_RATE:
        port->max_rate = get_uint(a);
        break;
    case OVS_SHIM_PORT_CAPACITY:
        port->capacity = get_uint(a);
        break;
    case OVS_SHIM_PORT_OVERHEAD:
        port->overhead = get_uint(a);
        break;
    case OVS_SHIM_PORT_LAW:
        ovs_strlcpy(port->law, nl_attr_get_string(a), sizeof port->law);
        break;
    case OVS_SHIM_PORT_ADDRESSES:
        parse_addresses(a, port);
        break;
    case OVS_SHIM_PORT_QDISC:
        port->qdisc = get_uint(a);
        break;
    case OVS_SHIM_PORT_STATS:
        NL_NESTED_FOR_EACH (stat, left, a) {
            if (nl_attr_type(stat) <= OVS_SHIM_STAT_MAX) {
                port->stats[nl_attr_type(stat)] = get_uint(stat);
            }
        }
        break;
    }
}

/* Parses the attribute 'a' of a limiter into '*limiter'. */
static void
parse_limiter(const struct nlattr *a, void *limiter_)
{
    struct shim_nl_limiter *limiter = limiter_;
    uint64_t value = get_uint(a);

    switch (nl_attr_type(a)) {
    case OVS_SHIM_LIMITER_VM:
        limiter->vm = value;
        break;
    case OVS_SHIM_LIMITER_UPLINK:
        limiter->uplink = value;
        break;
    case OVS_SHIM_LIMITER_RATE:
        limiter->rate = value;
        break;
    case OVS_SHIM_LIMITER_SHARE:
        limiter->share = value;
        break;
    case OVS_SHIM_LIMITER_SENT_RATE:
        limiter->sent_rate = value;
        break;
    case OVS_SHIM_LIMITER_TX_BYTES:
        limiter->tx_bytes = value;
        break;
    case OVS_SHIM_LIMITER_TX_PACKETS:
        limiter->tx_packets = value;
        break;
    case OVS_SHIM_LIMITER_DROPS:
        limiter->drops = value;
        break;
    case OVS_SHIM_LIMITER_ACTIVE:
        limiter->active = value;
        break;
    case OVS_SHIM_LIMITER_CONGESTED:
        limiter->congested = value;
        break;
    case OVS_SHIM_LIMITER_WEIGHT:
        limiter->weight = value;
        break;
    case OVS_SHIM_LIMITER_MIN_RATE:
        limiter->min_rate = value;
        break;
    case OVS_SHIM_LIMITER_MAX_RATE:
        limiter->max_rate = value;
        break;
    case OVS_SHIM_LIMITER_MESSAGES:
        limiter->messages = value;
        break;
    case OVS_SHIM_LIMITER_MESSAGE_MARKS:
        limiter->message_marks = value;
        break;
    case OVS_SHIM_LIMITER_REFUSED:
        limiter->refused = value;
        break;
    }
}

/* Initializes 'request' as one for 'cmd' if the kernel has a shim.  Returns 0
 * if successful, otherwise ENOENT. */
static int
start_dump(uint8_t cmd, struct ofpbuf *request)
{
    if (!shim_nl_is_available()) {
        return ENOENT;
    }
    shim_nl_start_request(request, cmd, 0);
    return 0;
}

/* Dumps what 'request' asks for, which it destroys, into a new array of '*n'
 * elements of 'size' bytes, of which 'parse' fills one from an attribute.
 * Stores the array, which the caller must free even after an error, in
 * '*arrayp'. */
static int
dump(struct ofpbuf *request, size_t size,
     void (*parse)(const struct nlattr *, void *element),
     char **arrayp, size_t *n)
{
    static uint64_t stub[64 * 1024 / 8];
    struct ofpbuf msg, buf;
    size_t allocated = 0;
    struct nl_dump nld;

    nl_dump_start(&nld, NETLINK_GENERIC, request);
    ofpbuf_uninit(request);

    *arrayp = NULL;
    *n = 0;
    ofpbuf_use_stub(&buf, stub, sizeof stub);
    while (nl_dump_next(&nld, &msg, &buf)) {
        size_t hdrs_len = NLMSG_HDRLEN + GENL_HDRLEN;
        const struct nlattr *a;
        size_t left;

        if (msg.size < hdrs_len) {
            continue;
        }
        if (*n >= allocated) {
            allocated = MAX(2 * allocated, 16);
            *arrayp = xrealloc(*arrayp, allocated * size);
        }

        char *element = *arrayp + (*n)++ * size;
        memset(element, 0, size);
        NL_ATTR_FOR_EACH (a, left, ofpbuf_at(&msg, hdrs_len, 0),
                          msg.size - hdrs_len) {
            parse(a, element);
        }
    }
    ofpbuf_uninit(&buf);

    int error = nl_dump_done(&nld);
    if (error == ENOENT) {
        shim_nl_forget_family();
    }
    return error;
}

/* Stores all ports of the shim in '*ports', a new array of '*n' that the
 * caller must free, even after an error. */
int
shim_nl_dump_ports(struct shim_nl_port **ports, size_t *n)
{
    char *array = NULL;
    struct ofpbuf request;

    *n = 0;
    int error = start_dump(OVS_SHIM_CMD_PORT_GET, &request);
    if (!error) {
        error = dump(&request, sizeof **ports, parse_port, &array, n);
    }
    *ports = ALIGNED_CAST(struct shim_nl_port *, array);
    return error;
}

/* Stores all limiters of the shim in '*limiters', a new array of '*n' that the
 * caller must free, even after an error. */
int
shim_nl_dump_limiters(struct shim_nl_limiter **limiters, size_t *n)
{
    char *array = NULL;
    struct ofpbuf request;

    *n = 0;
    int error = start_dump(OVS_SHIM_CMD_LIMITER_GET, &request);
    if (!error) {
        error = dump(&request, sizeof **limiters, parse_limiter, &array, n);
    }
    *limiters = ALIGNED_CAST(struct shim_nl_limiter *, array);
    return error;
}

/* Parses the 16 bytes of 'a' into '*address'. */
static void
parse_in6(const struct nlattr *a, struct in6_addr *address)
{
    if (nl_attr_get_size(a) == sizeof *address) {
        *address = nl_attr_get_in6_addr(a);
    }
}

/* Parses the attribute 'a' of a peer into '*peer'. */
static void
parse_peer(const struct nlattr *a, void *peer_)
{
    struct shim_nl_peer *peer = peer_;
    uint64_t value = get_uint(a);

    switch (nl_attr_type(a)) {
    case OVS_SHIM_PEER_VM:
        peer->vm = value;
        break;
    case OVS_SHIM_PEER_ADDRESS:
        parse_in6(a, &peer->remote);
        break;
    case OVS_SHIM_PEER_LOCAL:
        parse_in6(a, &peer->local);
        break;
    case OVS_SHIM_PEER_TUNNEL:
        parse_in6(a, &peer->tunnel);
        break;
    case OVS_SHIM_PEER_TUNNEL_ID:
        peer->tunnel_id = value;
        break;
    case OVS_SHIM_PEER_UPLINK:
        peer->uplink = value;
        break;
    case OVS_SHIM_PEER_VLAN:
        peer->vlan = value;
        break;
    case OVS_SHIM_PEER_TX_BYTES:
        peer->tx_bytes = value;
        break;
    case OVS_SHIM_PEER_TX_PACKETS:
        peer->tx_packets = value;
        break;
    case OVS_SHIM_PEER_RX_BYTES:
        peer->rx_bytes = value;
        break;
    case OVS_SHIM_PEER_RX_PACKETS:
        peer->rx_packets = value;
        break;
    case OVS_SHIM_PEER_RX_MARKS:
        peer->rx_marks = value;
        break;
    }
}

/* Stores the peers of all VMs that had a packet at 'since_ns' of
 * CLOCK_MONOTONIC or later in '*peers', a new array of '*n' that the caller
 * must free, even after an error. */
int
shim_nl_dump_peers(uint64_t since_ns, struct shim_nl_peer **peers, size_t *n)
{
    char *array = NULL;
    struct ofpbuf request;

    *n = 0;
    int error = start_dump(OVS_SHIM_CMD_PEER_GET, &request);
    if (!error) {
        nl_msg_put_u64(&request, OVS_SHIM_PEER_SINCE, since_ns);
        error = dump(&request, sizeof **peers, parse_peer, &array, n);
    }
    *peers = ALIGNED_CAST(struct shim_nl_peer *, array);
    return error;
}

/* Parses the attribute 'a' of a path into '*path'. */
static void
parse_path(const struct nlattr *a, void *path_)
{
    struct shim_nl_path *path = path_;
    uint64_t value = get_uint(a);

    switch (nl_attr_type(a)) {
    case OVS_SHIM_PATH_VM:
        path->vm = value;
        break;
    case OVS_SHIM_PATH_PREFIX:
        parse_in6(a, &path->prefix);
        break;
    case OVS_SHIM_PATH_BITS:
        path->bits = value;
        break;
    case OVS_SHIM_PATH_SCOPE:
        path->scope = value;
        break;
    case OVS_SHIM_PATH_RATE:
        path->rate = value;
        break;
    case OVS_SHIM_PATH_SENT_RATE:
        path->sent_rate = value;
        break;
    case OVS_SHIM_PATH_TX_BYTES:
        path->tx_bytes = value;
        break;
    case OVS_SHIM_PATH_TX_PACKETS:
        path->tx_packets = value;
        break;
    case OVS_SHIM_PATH_HELD:
        path->held = value;
        break;
    case OVS_SHIM_PATH_LIMITED:
        path->limited = value;
        break;
    }
}

/* Stores the paths of all VMs in '*paths', a new array of '*n' that the caller
 * must free, even after an error.  A kernel that knows none has none. */
int
shim_nl_dump_paths(struct shim_nl_path **paths, size_t *n)
{
    char *array = NULL;
    struct ofpbuf request;

    *n = 0;
    int error = start_dump(OVS_SHIM_CMD_PATH_GET, &request);
    if (!error) {
        error = dump(&request, sizeof **paths, parse_path, &array, n);
    }
    *paths = ALIGNED_CAST(struct shim_nl_path *, array);
    return error == EOPNOTSUPP ? 0 : error;
}
#else  /* !HAVE_NETLINK */
/* Returns ENOENT: there is no shim here. */
int
shim_nl_dump_ports(struct shim_nl_port **ports, size_t *n)
{
    *ports = NULL;
    *n = 0;
    return ENOENT;
}

/* Returns ENOENT: there is no shim here. */
int
shim_nl_dump_limiters(struct shim_nl_limiter **limiters, size_t *n)
{
    *limiters = NULL;
    *n = 0;
    return ENOENT;
}


/* Returns ENOENT: there is no shim here. */
int
shim_nl_dump_peers(uint64_t since_ns OVS_UNUSED, struct shim_nl_peer **peers,
                   size_t *n)
{
    *peers = NULL;
    *n = 0;
    return ENOENT;
}

/* Returns ENOENT: there is no shim here. */
int
shim_nl_dump_paths(struct shim_nl_path **paths, size_t *n)
{
    *paths = NULL;
    *n = 0;
    return ENOENT;
}
#endif /* !HAVE_NETLINK */
