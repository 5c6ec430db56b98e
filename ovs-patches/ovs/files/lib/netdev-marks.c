/* SPDX-License-Identifier: Apache-2.0 */

/* Reads the marks of queuing disciplines over rtnetlink and extends them to 64
 * bits.
 *
 * For a discipline that said 'old' and now says 'new', the fresh marks are
 *
 *     new.marks - old.marks (mod 2^32)   if it is still the same one, and
 *     new.marks                          if it started anew in between.
 *
 * It started anew if its bytes went back, or if more packets would have been
 * marked than passed:  each marked packet was sent (and holds at least
 * MIN_PACKET bytes), was dropped, or still waits.  So
 *
 *     fresh <= (new.bytes - old.bytes) / MIN_PACKET
 *              + (new.drops - old.drops) + new.backlog + old.backlog
 *
 * tells a wrap from a reset.  A discipline with another parent, handle or kind
 * is another one, whose marks are all fresh.  The sum over a device's
 * disciplines is never taken back. */

#include <config.h>
#include "netdev-marks.h"
#include "util.h"

#ifdef HAVE_NETLINK
#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include "hash.h"
#include "netlink.h"
#include "netlink-socket.h"
#include "openflow/shim-ext.h"
#include "openvswitch/hmap.h"
#include "openvswitch/list.h"
#include "openvswitch/ofpbuf.h"
#include "openvswitch/vlog.h"

VLOG_DEFINE_THIS_MODULE(netdev_marks);
#endif

/* Smallest packet that a queuing discipline counts, in bytes: an Ethernet
 * header and an IPv4 header. */
#define MIN_PACKET 34

/* Returns the packets marked between 'old' and 'new', two samples of a
 * discipline with the same parent, handle and kind.  The file's first comment
 * has the rule. */
uint32_t
marks_sample_delta(const struct marks_sample *old,
                   const struct marks_sample *new)
{
    if (new->bytes < old->bytes) {
        return new->marks;
    }

    uint32_t fresh = new->marks - old->marks;
    uint64_t passed = ((new->bytes - old->bytes) / MIN_PACKET
                       + (uint32_t) (new->drops - old->drops)
                       + new->backlog + old->backlog);
    return new->marks < old->marks && fresh > passed ? new->marks : fresh;
}

#ifdef HAVE_NETLINK
/* How long a device or discipline that no dump shows is remembered, in ns. */
#define FORGET_NS (60ULL * 1000 * 1000 * 1000)

/* A queuing discipline that counts marks. */
struct qdisc {
    struct ovs_list list_node;  /* In struct device's 'qdiscs'. */
    uint32_t parent;            /* TC_H_ROOT or a class. */
    uint32_t handle;            /* Its own handle. */
    uint32_t kind;              /* SHIM_MARK_*. */
    uint64_t seen_ns;           /* Last dump that showed it. */
    struct marks_sample sample; /* What it said then. */
};

/* A network device with queuing disciplines. */
struct device {
    struct hmap_node hmap_node; /* In 'devices', by 'ifindex'. */
    int ifindex;                /* The kernel's index of the device. */
    uint32_t kinds;             /* SHIM_MARK_* found in this dump. */
    uint64_t seen_ns;           /* Last dump that showed it. */
    uint64_t fresh;             /* Marks not yet in 'marks'. */
    struct netdev_marks marks;  /* What we tell. */
    struct ovs_list qdiscs;     /* Contains "struct qdisc"s. */
};

/* What one message of the dump says. */
struct qdisc_reading {
    int ifindex;                /* Device. */
    uint32_t parent;            /* TC_H_ROOT or a class. */
    uint32_t handle;            /* Its own handle. */
    uint32_t kind;              /* SHIM_MARK_*, 0 if it counts no marks. */
    uint64_t packets;           /* Packets sent. */
    uint32_t backlog_bytes;     /* Bytes waiting. */
    struct marks_sample sample; /* The rest. */
};

/* All devices that a dump has shown, by ifindex.  Main thread only. */
static struct hmap devices = HMAP_INITIALIZER(&devices);

/* CLOCK_MONOTONIC of the last successful dump, in ns; 0 before the first. */
static uint64_t dump_ns;

/* Rate limit of complaints about the kernel. */
static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(1, 5);

/* Returns the device with 'ifindex', or NULL if there is none. */
static struct device *
device_find(int ifindex)
{
    struct device *dev;

    HMAP_FOR_EACH_WITH_HASH (dev, hmap_node, hash_int(ifindex, 0), &devices) {
        if (dev->ifindex == ifindex) {
            return dev;
        }
    }
    return NULL;
}

/* Returns the device with 'ifindex', which it creates if there is none. */
static struct device *
device_get(int ifindex)
{
    struct device *dev = device_find(ifindex);

    if (!dev) {
        dev = xzalloc(sizeof *dev);
        dev->ifindex = ifindex;
        ovs_list_init(&dev->qdiscs);
        hmap_insert(&devices, &dev->hmap_node, hash_int(ifindex, 0));
    }
    return dev;
}

/* Returns the discipline of 'dev' that 'r' is about, or NULL. */
static struct qdisc *
qdisc_find(const struct device *dev, const struct qdisc_reading *r)
{
    struct qdisc *q;

    LIST_FOR_EACH (q, list_node, &dev->qdiscs) {
        if (q->parent == r->parent && q->handle == r->handle
            && q->kind == r->kind) {
            return q;
        }
    }
    return NULL;
}

/* Returns the u32 at byte 'ofs' of 'attr', or 0 if 'attr' ends before, as it
 * does with older kernels. */
static uint32_t
get_u32_at(const struct nlattr *attr, size_t ofs)
{
    uint32_t value = 0;

    if (nl_attr_get_size(attr) >= ofs + sizeof value) {
        memcpy(&value, (const char *) nl_attr_get(attr) + ofs, sizeof value);
    }
    return value;
}

/* Returns the marks of all tins in CAKE's statistics 'app', modulo 2^32. */
static uint32_t
cake_marks(const struct nlattr *app)
{
    const struct nlattr *tins = nl_attr_find_nested(app,
                                                    TCA_CAKE_STATS_TIN_STATS);
    const struct nlattr *tin;
    uint32_t marks = 0;
    size_t left;

    if (tins) {
        NL_NESTED_FOR_EACH (tin, left, tins) {
            const struct nlattr *a = nl_attr_find_nested(
                tin, TCA_CAKE_TIN_STATS_ECN_MARKED_PACKETS);
            if (a) {
                marks += get_u32_at(a, 0);
            }
        }
    }
    return marks;
}

/* Stores in '*r' the kind and marks of a discipline of type 'name' with
 * specific statistics 'app', which may be NULL.  CoDel sets CE for its target
 * delay and for its CE threshold, and counts these apart. */
static void
parse_marks(const char *name, const struct nlattr *app,
            struct qdisc_reading *r)
{
    if (!app) {
        return;
    }
    if (!strcmp(name, "red")) {
        r->kind = SHIM_MARK_RED;
        r->sample.marks = get_u32_at(app,
                                     offsetof(struct tc_red_xstats, marked));
    } else if (!strcmp(name, "choke")) {
        r->kind = SHIM_MARK_CHOKE;
        r->sample.marks = get_u32_at(app,
                                     offsetof(struct tc_choke_xstats, marked));
    } else if (!strcmp(name, "codel")) {
        r->kind = SHIM_MARK_CODEL;
        r->sample.marks =
            get_u32_at(app, offsetof(struct tc_codel_xstats, ecn_mark))
            + get_u32_at(app, offsetof(struct tc_codel_xstats, ce_mark));
    } else if (!strcmp(name, "fq_codel")
               && get_u32_at(app, 0) == TCA_FQ_CODEL_XSTATS_QDISC) {
        r->kind = SHIM_MARK_FQ_CODEL;
        r->sample.marks =
            get_u32_at(app, offsetof(struct tc_fq_codel_xstats,
                                     qdisc_stats.ecn_mark))
            + get_u32_at(app, offsetof(struct tc_fq_codel_xstats,
                                       qdisc_stats.ce_mark));
    } else if (!strcmp(name, "cake")) {
        r->kind = SHIM_MARK_CAKE;
        r->sample.marks = cake_marks(app);
    }
}

/* Parses 'msg', one message of the dump, into '*r'.  Returns true if
 * successful, false if it is not about a discipline with statistics. */
static bool
parse_qdisc(struct ofpbuf *msg, struct qdisc_reading *r)
{
    const struct nlmsghdr *nlmsg = nl_msg_nlmsghdr(msg);
    size_t ofs = NLMSG_HDRLEN + sizeof(struct tcmsg);

    if (nlmsg->nlmsg_type != RTM_NEWQDISC || msg->size < ofs) {
        return false;
    }

    const struct tcmsg *tc = ofpbuf_at_assert(msg, NLMSG_HDRLEN, sizeof *tc);
    const struct nlattr *attrs = ofpbuf_at(msg, ofs, 0);
    size_t len = msg->size - ofs;
    const struct nlattr *kind = nl_attr_find__(attrs, len, TCA_KIND);
    const struct nlattr *stats = nl_attr_find__(attrs, len, TCA_STATS2);
    if (!kind || !stats) {
        return false;
    }

    memset(r, 0, sizeof *r);
    r->ifindex = tc->tcm_ifindex;
    r->parent = tc->tcm_parent;
    r->handle = tc->tcm_handle;

    const struct nlattr *a = nl_attr_find_nested(stats, TCA_STATS_BASIC);
    if (a && nl_attr_get_size(a) >= sizeof r->sample.bytes) {
        memcpy(&r->sample.bytes, nl_attr_get(a), sizeof r->sample.bytes);
        r->packets = get_u32_at(a, offsetof(struct gnet_stats_basic, packets));
    }
    a = nl_attr_find_nested(stats, TCA_STATS_PKT64);
    if (a && nl_attr_get_size(a) >= sizeof r->packets) {
        memcpy(&r->packets, nl_attr_get(a), sizeof r->packets);
    }
    a = nl_attr_find_nested(stats, TCA_STATS_QUEUE);
    if (a) {
        r->sample.backlog = get_u32_at(a, offsetof(struct gnet_stats_queue,
                                                   qlen));
        r->backlog_bytes = get_u32_at(a, offsetof(struct gnet_stats_queue,
                                                  backlog));
        r->sample.drops = get_u32_at(a, offsetof(struct gnet_stats_queue,
                                                 drops));
    }
    parse_marks(nl_attr_get_string(kind),
                nl_attr_find_nested(stats, TCA_STATS_APP), r);
    return true;
}

/* Takes 'r', read at 'now_ns', into the device that it is about. */
static void
device_update(const struct qdisc_reading *r, uint64_t now_ns)
{
    struct device *dev = device_get(r->ifindex);

    if (dev->seen_ns != now_ns) {
        dev->seen_ns = now_ns;
        dev->kinds = 0;
    }
    if (r->parent == TC_H_ROOT) {
        dev->marks.packets = r->packets;
        dev->marks.bytes = r->sample.bytes;
        dev->marks.drops = r->sample.drops;
        dev->marks.backlog_bytes = r->backlog_bytes;
        dev->marks.backlog_packets = r->sample.backlog;
    }
    if (!r->kind) {
        return;
    }

    struct qdisc *q = qdisc_find(dev, r);
    uint32_t fresh;

    if (q) {
        fresh = marks_sample_delta(&q->sample, &r->sample);
    } else {
        q = xzalloc(sizeof *q);
        q->parent = r->parent;
        q->handle = r->handle;
        q->kind = r->kind;
        ovs_list_push_back(&dev->qdiscs, &q->list_node);
        fresh = r->sample.marks;
    }
    q->seen_ns = now_ns;
    q->sample = r->sample;
    dev->kinds |= r->kind;
    dev->fresh += fresh;
}

/* Forgets what no dump has shown for FORGET_NS, and 'dev' itself if that is
 * all of it. */
static void
device_forget(struct device *dev, uint64_t now_ns)
{
    struct qdisc *q;

    LIST_FOR_EACH_SAFE (q, list_node, &dev->qdiscs) {
        if (now_ns - q->seen_ns > FORGET_NS) {
            ovs_list_remove(&q->list_node);
            free(q);
        }
    }
    if (ovs_list_is_empty(&dev->qdiscs) && now_ns - dev->seen_ns > FORGET_NS) {
        hmap_remove(&devices, &dev->hmap_node);
        free(dev);
    }
}

/* Dumps the queuing disciplines of all devices into 'devices', as read at
 * 'now_ns'.  Returns 0 if successful, otherwise a positive errno value. */
static int
dump_qdiscs(uint64_t now_ns)
{
    static uint64_t stub[64 * 1024 / 8];
    struct ofpbuf request, msg, buf;
    struct qdisc_reading r;
    struct nl_dump dump;

    ofpbuf_init(&request, 0);
    nl_msg_put_nlmsghdr(&request, sizeof(struct tcmsg), RTM_GETQDISC,
                        NLM_F_REQUEST);
    struct tcmsg *tc = ofpbuf_put_zeros(&request, sizeof *tc);
    tc->tcm_family = AF_UNSPEC;
    nl_dump_start(&dump, NETLINK_ROUTE, &request);
    ofpbuf_uninit(&request);

    ofpbuf_use_stub(&buf, stub, sizeof stub);
    while (nl_dump_next(&dump, &msg, &buf)) {
        if (parse_qdisc(&msg, &r)) {
            device_update(&r, now_ns);
        }
    }
    ofpbuf_uninit(&buf);
    return nl_dump_done(&dump);
}

/* Publishes what the dump at 'now_ns' found about 'dev'.  If its marks or
 * kinds moved, gives it 'generation' and returns true, otherwise returns
 * false. */
static bool
device_publish(struct device *dev, uint64_t now_ns, uint64_t generation)
{
    struct netdev_marks *m = &dev->marks;
    uint32_t kinds = dev->kinds;

    if (dev->seen_ns != now_ns) {
        kinds = 0;
        m->backlog_bytes = m->backlog_packets = 0;
        m->packets = m->bytes = m->drops = 0;
    }
    if (!dev->fresh && kinds == m->kinds) {
        return false;
    }
    m->marks += dev->fresh;
    m->kinds = kinds;
    m->generation = generation;
    dev->fresh = 0;
    return true;
}

/* Reads the kernel's counters unless the last reading is fresh enough at
 * 'now_ns', CLOCK_MONOTONIC in ns.  Devices whose marks or kinds moved get
 * 'generation'.  Returns true if there is any, otherwise false.
 *
 * A reading taken at the same 'now_ns' is fresh even where time stands still
 * while the processor is busy, as it does in a simulation:  nothing is sent
 * meanwhile either. */
bool
netdev_marks_refresh(uint64_t now_ns, uint64_t generation)
{
    struct device *dev;
    bool moved = false;

    if (dump_ns && now_ns - dump_ns <= NETDEV_MARKS_FRESH_NS) {
        return false;
    }

    int error = dump_qdiscs(now_ns);
    if (error) {
        VLOG_WARN_RL(&rl, "cannot read the marks of queuing disciplines (%s); "
                     "the last ones read stay", ovs_strerror(error));
        return false;
    }
    dump_ns = now_ns;

    HMAP_FOR_EACH_SAFE (dev, hmap_node, &devices) {
        moved |= device_publish(dev, now_ns, generation);
        device_forget(dev, now_ns);
    }
    return moved;
}

/* Returns the CLOCK_MONOTONIC of the last reading in ns, or 0 if there was
 * none. */
uint64_t
netdev_marks_time_ns(void)
{
    return dump_ns;
}

/* Returns what the last reading said about the device with 'ifindex', or NULL
 * if it showed no queuing discipline there. */
const struct netdev_marks *
netdev_marks_get(int ifindex)
{
    const struct device *dev = ifindex > 0 ? device_find(ifindex) : NULL;

    return dev ? &dev->marks : NULL;
}
#else  /* !HAVE_NETLINK */
/* Does nothing and returns false: there are no queuing disciplines here. */
bool
netdev_marks_refresh(uint64_t now_ns OVS_UNUSED,
                     uint64_t generation OVS_UNUSED)
{
    return false;
}

/* Returns 0: there never is a reading here. */
uint64_t
netdev_marks_time_ns(void)
{
    return 0;
}

/* Returns NULL: no device counts marks here. */
const struct netdev_marks *
netdev_marks_get(int ifindex OVS_UNUSED)
{
    return NULL;
}
#endif /* !HAVE_NETLINK */
