/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "shim-netlink.h"
#include "shim-netlink-private.h"
#include <errno.h>
#include "util.h"

#ifdef HAVE_NETLINK
#include <poll.h>
#include "netlink.h"
#include "netlink-socket.h"
#include "openvswitch/ofpbuf.h"
#include "timeval.h"

/* How long to believe that the kernel has no shim, in ms. */
#define ABSENT_MS 1000

/* Number of the family, 0 if not known. */
static int family;

/* Until when not to look for the family again, in ms of time_msec(). */
static long long int absent_until = LLONG_MIN;

/* Socket for everything but dumps, NULL until first used. */
static struct nl_sock *sock;

/* Socket by which the kernel tells of families that come and go, NULL if it
 * could not be had, and whether that was tried. */
static struct nl_sock *notices;
static bool notices_tried;

/* Looks the family up unless it is known.  Returns true if the kernel has
 * it. */
bool
shim_nl_is_available(void)
{
    if (!family && time_msec() >= absent_until) {
        int number = 0;

        if (!nl_lookup_genl_family(OVS_SHIM_FAMILY, &number)) {
            family = number;
        } else {
            absent_until = time_msec() + ABSENT_MS;
        }
    }
    return family > 0;
}

/* Notes that the module was unloaded. */
void
shim_nl_forget_family(void)
{
    family = 0;
}

/* Begins to listen for families that come and go.  Without that, what becomes
 * of ours is seen when it is asked next. */
static void
listen_for_notices(void)
{
    unsigned int group;

    notices_tried = true;
    if (nl_lookup_genl_mcgroup("nlctrl", "notify", &group)
        || nl_sock_create(NETLINK_GENERIC, &notices)) {
        return;
    }
    if (nl_sock_join_mcgroup(notices, group)) {
        nl_sock_destroy(notices);
        notices = NULL;
    }
}

/* Returns true if 'notice' says that our family is there now.  Forgets the
 * family if it says that it is gone; it is not asked for at once, for then the
 * kernel would load the module that is just being taken out. */
static bool
is_new_family(const struct ofpbuf *notice)
{
    const struct nlmsghdr *nlmsg = nl_msg_nlmsghdr(notice);
    const struct genlmsghdr *genlmsg = nl_msg_genlmsghdr(notice);
    const struct nlattr *name;

    if (!genlmsg || nlmsg->nlmsg_type != GENL_ID_CTRL) {
        return false;
    }
    name = nl_attr_find(notice, NLMSG_HDRLEN + GENL_HDRLEN,
                        CTRL_ATTR_FAMILY_NAME);
    if (!name || strcmp(nl_attr_get_string(name), OVS_SHIM_FAMILY)) {
        return false;
    }
    if (genlmsg->cmd == CTRL_CMD_DELFAMILY) {
        shim_nl_forget_family();
        absent_until = time_msec() + ABSENT_MS;
        return false;
    }
    if (genlmsg->cmd != CTRL_CMD_NEWFAMILY) {
        return false;
    }
    shim_nl_forget_family();
    absent_until = LLONG_MIN;
    return true;
}

/* Takes in what the kernel told since the last call.  Returns true if it has a
 * shim that it had not before, as after its module was exchanged, or if some
 * of what it told is lost. */
bool
shim_nl_run(void)
{
    uint64_t stub[4096 / 8];
    bool new = false;
    struct ofpbuf b;
    int error;

    if (!notices_tried) {
        listen_for_notices();
    }
    if (!notices) {
        return false;
    }
    ofpbuf_use_stub(&b, stub, sizeof stub);
    do {
        error = nl_sock_recv(notices, &b, NULL, false);
        new |= error == ENOBUFS || (!error && is_new_family(&b));
    } while (!error || error == ENOBUFS);
    ofpbuf_uninit(&b);
    return new;
}

/* Wakes the poll loop when shim_nl_run() has something to do. */
void
shim_nl_wait(void)
{
    if (notices) {
        nl_sock_wait(notices, POLLIN);
    }
}

/* Initializes 'b' as a request for 'cmd' with netlink 'flags'. */
void
shim_nl_start_request(struct ofpbuf *b, uint8_t cmd, uint32_t flags)
{
    ofpbuf_init(b, 512);
    nl_msg_put_genlmsghdr(b, 0, family, NLM_F_REQUEST | flags, cmd,
                          OVS_SHIM_VERSION);
}

/* Receives messages on 'sock' until the acknowledgement or error of the
 * request numbered 'seq'.  Moves the attributes of an answer that comes before
 * into 'attrs', if that is not NULL.  Stores in '*reason' a copy of what the
 * kernel says about a refusal, or NULL if it says nothing. */
static int
receive(uint32_t seq, struct ofpbuf *attrs, char **reason)
{
    struct ofpbuf buf;
    int error;

    ofpbuf_init(&buf, 4096);
    for (;;) {
        const char *text = NULL;

        error = nl_sock_recv(sock, &buf, NULL, true);
        if (error) {
            break;
        }
        if (nl_msg_nlmsghdr(&buf)->nlmsg_seq != seq) {
            continue;
        }
        if (nl_msg_nlmsgerr(&buf, &error, &text)) {
            *reason = text ? xstrdup(text) : NULL;
            break;
        }

        size_t hdrs_len = NLMSG_HDRLEN + GENL_HDRLEN;
        if (attrs && buf.size > hdrs_len) {
            ofpbuf_put(attrs, (const char *) buf.data + hdrs_len,
                       buf.size - hdrs_len);
        }
    }
    ofpbuf_uninit(&buf);
    return error;
}

/* Sends 'request' and waits for the kernel to obey or refuse it, with 'attrs'
 * and 'reason' as for receive().  'reason' may be NULL. */
int
shim_nl_transact(struct ofpbuf *request, struct ofpbuf *attrs, char **reason)
{
    char *text = NULL;
    int error = 0;

    nl_msg_nlmsghdr(request)->nlmsg_flags |= NLM_F_ACK;
    if (!sock) {
        error = nl_sock_create(NETLINK_GENERIC, &sock);
    }
    if (!error) {
        error = nl_sock_send(sock, request, true);
    }
    if (!error) {
        error = receive(nl_msg_nlmsghdr(request)->nlmsg_seq, attrs, &text);
    }
    if (error == ENOENT && !text) {
        shim_nl_forget_family();
    }
    if (reason) {
        *reason = text;
    } else {
        free(text);
    }
    return error;
}

/* Appends the addresses of 'port', of which there may be none, to
 * 'request'. */
static void
put_addresses(const struct shim_nl_port *port, struct ofpbuf *request)
{
    size_t all = nl_msg_start_nested(request,
                                     OVS_SHIM_PORT_ADDRESSES | NLA_F_NESTED);
    for (size_t i = 0; i < port->n_addresses; i++) {
        const struct shim_nl_address *address = &port->addresses[i];
        size_t one = nl_msg_start_nested(
            request, OVS_SHIM_ADDRESSES_ADDRESS | NLA_F_NESTED);

        nl_msg_put_in6_addr(request, OVS_SHIM_ADDRESS_VALUE, &address->value);
        nl_msg_put_u8(request, OVS_SHIM_ADDRESS_PREFIX, address->prefix);
        nl_msg_end_nested(request, one);
    }
    nl_msg_end_nested(request, all);
}

/* Creates or changes a port.  If the kernel refuses, stores in '*reason' what
 * it says, which the caller must free, or NULL. */
int
shim_nl_port_set(const struct shim_nl_port *port, char **reason)
{
    struct ofpbuf request;

    *reason = NULL;
    if (!shim_nl_is_available()) {
        return ENOENT;
    }
    shim_nl_start_request(&request, OVS_SHIM_CMD_PORT_SET, 0);
    nl_msg_put_u32(&request, OVS_SHIM_PORT_IFINDEX, port->ifindex);
    nl_msg_put_u32(&request, OVS_SHIM_PORT_ROLE, port->role);
    if (port->role == OVS_SHIM_ROLE_VM) {
        nl_msg_put_u32(&request, OVS_SHIM_PORT_WEIGHT, port->weight);
        nl_msg_put_u64(&request, OVS_SHIM_PORT_MIN_RATE, port->min_rate);
        nl_msg_put_u64(&request, OVS_SHIM_PORT_MAX_RATE, port->max_rate);
        nl_msg_put_string(&request, OVS_SHIM_PORT_LAW, port->law);
        put_addresses(port, &request);
    } else {
        nl_msg_put_u64(&request, OVS_SHIM_PORT_CAPACITY, port->capacity);
        nl_msg_put_u32(&request, OVS_SHIM_PORT_OVERHEAD, port->overhead);
    }

    int error = shim_nl_transact(&request, NULL, reason);
    ofpbuf_uninit(&request);
    return error;
}

/* Takes the port with 'ifindex' out of the shim.  'reason' as for
 * shim_nl_port_set(). */
int
shim_nl_port_del(uint32_t ifindex, char **reason)
{
    struct ofpbuf request;

    *reason = NULL;
    if (!shim_nl_is_available()) {
        return ENOENT;
    }
    shim_nl_start_request(&request, OVS_SHIM_CMD_PORT_DEL, 0);
    nl_msg_put_u32(&request, OVS_SHIM_PORT_IFINDEX, ifindex);

    int error = shim_nl_transact(&request, NULL, reason);
    ofpbuf_uninit(&request);
    return error;
}

/* Hands the control message of 'len' bytes in 'data' to the VM whose device
 * has 'ifindex'.  The kernel checks and counts it; EACCES means that it
 * refused. */
int
shim_nl_message(uint32_t ifindex, const void *data, size_t len)
{
    struct ofpbuf request;

    if (!shim_nl_is_available()) {
        return ENOENT;
    }
    shim_nl_start_request(&request, OVS_SHIM_CMD_MESSAGE, 0);
    nl_msg_put_u32(&request, OVS_SHIM_PORT_IFINDEX, ifindex);
    nl_msg_put_unspec(&request, OVS_SHIM_PORT_MESSAGE, data, len);

    int error = shim_nl_transact(&request, NULL, NULL);
    ofpbuf_uninit(&request);
    return error;
}

/* Changes the settings named in 'attrs', OVS_SHIM_SETTINGS_* attributes, all
 * or none.  'reason' as for shim_nl_port_set(). */
int
shim_nl_settings_set(const struct ofpbuf *attrs, char **reason)
{
    struct ofpbuf request;

    *reason = NULL;
    if (!shim_nl_is_available()) {
        return ENOENT;
    }
    shim_nl_start_request(&request, OVS_SHIM_CMD_SETTINGS_SET, 0);
    ofpbuf_put(&request, attrs->data, attrs->size);

    int error = shim_nl_transact(&request, NULL, reason);
    ofpbuf_uninit(&request);
    return error;
}

/* Appends the settings in force, OVS_SHIM_SETTINGS_* attributes, to 'attrs'.
 * Period and knobs are those of the law 'of', or if that is NULL of the law in
 * force. */
int
shim_nl_settings_get(const char *of, struct ofpbuf *attrs)
{
    struct ofpbuf request;

    if (!shim_nl_is_available()) {
        return ENOENT;
    }
    shim_nl_start_request(&request, OVS_SHIM_CMD_SETTINGS_GET, 0);
    if (of) {
        nl_msg_put_string(&request, OVS_SHIM_SETTINGS_OF, of);
    }

    int error = shim_nl_transact(&request, attrs, NULL);
    ofpbuf_uninit(&request);
    return error;
}

#else  /* !HAVE_NETLINK */
/* Returns false: there is no shim here. */
bool
shim_nl_is_available(void)
{
    return false;
}

/* Returns false: there is no shim here. */
bool
shim_nl_run(void)
{
    return false;
}

/* Does nothing: there is no shim here. */
void
shim_nl_wait(void)
{
}

/* Returns ENOENT: there is no shim here. */
int
shim_nl_port_set(const struct shim_nl_port *port OVS_UNUSED, char **reason)
{
    *reason = NULL;
    return ENOENT;
}

/* Returns ENOENT: there is no shim here. */
int
shim_nl_port_del(uint32_t ifindex OVS_UNUSED, char **reason)
{
    *reason = NULL;
    return ENOENT;
}

/* Returns ENOENT: there is no shim here. */
int
shim_nl_message(uint32_t ifindex OVS_UNUSED, const void *data OVS_UNUSED,
                size_t len OVS_UNUSED)
{
    return ENOENT;
}

/* Returns ENOENT: there is no shim here. */
int
shim_nl_settings_set(const struct ofpbuf *attrs OVS_UNUSED, char **reason)
{
    *reason = NULL;
    return ENOENT;
}

/* Returns ENOENT: there is no shim here. */
int
shim_nl_settings_get(const char *of OVS_UNUSED,
                     struct ofpbuf *attrs OVS_UNUSED)
{
    return ENOENT;
}
#endif /* !HAVE_NETLINK */
