/* SPDX-License-Identifier: Apache-2.0 */

/* A pacer is a timing wheel: a ring of slots, each for packets that leave in
 * the same few microseconds, in the order in which they came.  To add a packet
 * and to let one go cost the same however many wait.  A packet leaves as soon
 * as its slot has passed, so at most SLOT_NS late as far as the pacer goes.
 *
 * Each PMD thread has a pacer of its own, which it looks at in its loop.  All
 * other threads share one, which the thread of shim-clock.c looks at. */

#include <config.h>
#include "shim-pace.h"
#include "bitmap.h"
#include "dp-packet.h"
#include "hash.h"
#include "odp-util.h"
#include "openvswitch/list.h"
#include "ovs-thread.h"
#include "shim-clock.h"
#include "shim-gso.h"
#include "shim-host.h"
#include "shim-netdev-private.h"
#include "util.h"

/* Time that a slot stands for, in ns, as a power of 2: 4 us. */
#define SLOT_SHIFT 12
#define SLOT_NS (UINT64_C(1) << SLOT_SHIFT)

/* Slots of a wheel, a power of 2: 16 ms.  Packets that wait longer, by a
 * shim-horizon-us above that, are looked at once a turn. */
#define N_SLOTS 4096

/* Queues of a pacer.  Keys may share one: each may then wait up to a slot for
 * the other, and be overtaken by itself where its rate rises. */
#define N_QUEUES 1024

/* A packet that waits. */
struct waiting {
    struct ovs_list node;       /* In a slot, or about to leave. */
    struct dp_packet *packet;   /* The packet. */
    struct shim_dp *dp;         /* Its datapath. */
    odp_port_t port_no;         /* Port by which it leaves. */
    uint16_t queue;             /* Number of its queue. */
    uint64_t slot;              /* Number of its slot, not modulo. */
};

/* What is known of the packets that leave in the order in which they came. */
struct queue {
    const void *key;            /* What the last one had in common with others;
                                 * never followed. */
    uint64_t slot;              /* Number of that one's slot, not modulo. */
    unsigned int n_unsent;      /* Packets that wait or are just being sent;
                                 * read without the mutex, too. */
};

/* A pacer. */
struct shim_pacer {
    struct ovs_mutex mutex;     /* Of what follows. */
    uint64_t next;              /* Number of the first slot not yet passed. */
    size_t n_waiting;           /* Packets that wait; read without it, too. */
    unsigned long *used;        /* Bitmap of slots that are not empty. */
    struct queue queues[N_QUEUES]; /* By the hash of their keys. */
    struct ovs_list slots[N_SLOTS]; /* Of struct waiting. */
};

/* Returns a new pacer. */
struct shim_pacer *
shim_pacer_create(void)
{
    struct shim_pacer *pacer = xzalloc(sizeof *pacer);

    ovs_mutex_init(&pacer->mutex);
    pacer->used = bitmap_allocate(N_SLOTS);
    for (size_t i = 0; i < N_SLOTS; i++) {
        ovs_list_init(&pacer->slots[i]);
    }
    return pacer;
}

/* Returns the number of the queue of packets with 'key'. */
static uint16_t
get_queue(const void *key)
{
    return hash_pointer(key, 0) % N_QUEUES;
}

/* Notes that packets, as many as 'more', came to queue number 'i' of 'pacer'.
 * 'pacer->mutex'. */
static void
count_unsent(struct shim_pacer *pacer, uint16_t i, int more)
{
    struct queue *queue = &pacer->queues[i];

    WRITE_ONCE(queue->n_unsent, queue->n_unsent + more);
}

/* Frees 'waiting', which is in no slot of 'pacer' any more, and its packet.
 * 'pacer->mutex'. */
static void
drop(struct shim_pacer *pacer, struct waiting *waiting)
{
    count_unsent(pacer, waiting->queue, -1);
    dp_packet_delete(waiting->packet);
    free(waiting);
}

/* Drops the packets of 'dp', or all if that is NULL, that wait in 'pacer'. */
static void
forget(struct shim_pacer *pacer, const struct shim_dp *dp)
{
    struct waiting *waiting;

    ovs_mutex_lock(&pacer->mutex);
    for (size_t i = 0; i < N_SLOTS; i++) {
        LIST_FOR_EACH_SAFE (waiting, node, &pacer->slots[i]) {
            if (!dp || waiting->dp == dp) {
                ovs_list_remove(&waiting->node);
                drop(pacer, waiting);
                WRITE_ONCE(pacer->n_waiting, pacer->n_waiting - 1);
            }
        }
        bitmap_set(pacer->used, i, !ovs_list_is_empty(&pacer->slots[i]));
    }
    ovs_mutex_unlock(&pacer->mutex);
}

/* Destroys 'pacer' with all packets that wait in it. */
void
shim_pacer_destroy(struct shim_pacer *pacer)
{
    if (pacer) {
        forget(pacer, NULL);
        ovs_mutex_destroy(&pacer->mutex);
        free(pacer->used);
        free(pacer);
    }
}

/* Returns the pacer of all threads that do not poll. */
static struct shim_pacer *
get_shared(void)
{
    static struct ovsthread_once once = OVSTHREAD_ONCE_INITIALIZER;
    static struct shim_pacer *shared;

    if (ovsthread_once_start(&once)) {
        shared = shim_pacer_create();
        ovsthread_once_done(&once);
    }
    return shared;
}

/* Drops the packets of 'dp', which is about to be destroyed, that wait in the
 * shared pacer. */
void
shim_pace_forget(const struct shim_dp *dp)
{
    forget(get_shared(), dp);
}

/* Returns true if packets with 'key' are in 'pacer', or in the shared one if
 * that is NULL.  Another one that may leave at once would overtake them: their
 * time may have come but not the end of their slot, or the thread not be there
 * yet. */
bool
shim_pace_holds(const struct shim_pacer *pacer, const void *key)
{
    if (!pacer) {
        pacer = get_shared();
    }
    return READ_ONCE(pacer->queues[get_queue(key)].n_unsent) > 0;
}

/* Puts 'waiting', which has 'key' and may leave at 'departure_ns', into its
 * slot of 'pacer'.  That is none before the one of the last packet with 'key',
 * which was given its time when the rate was lower.  'pacer->mutex'. */
static void
enqueue(struct shim_pacer *pacer, struct waiting *waiting, const void *key,
        uint64_t departure_ns)
{
    uint16_t i = get_queue(key);
    struct queue *queue = &pacer->queues[i];

    waiting->slot = MAX(departure_ns >> SLOT_SHIFT, pacer->next);
    if (queue->key == key) {
        waiting->slot = MAX(waiting->slot, queue->slot);
    }
    queue->key = key;
    queue->slot = waiting->slot;
    waiting->queue = i;
    count_unsent(pacer, i, 1);
    ovs_list_push_back(&pacer->slots[waiting->slot % N_SLOTS],
                       &waiting->node);
    bitmap_set1(pacer->used, waiting->slot % N_SLOTS);
    WRITE_ONCE(pacer->n_waiting, pacer->n_waiting + 1);
}

/* Lets 'packet' leave by port 'port_no' of 'dp' at 'departure_ns' of
 * CLOCK_MONOTONIC, but behind all with 'key' that wait, by the hand of the
 * thread that owns 'pacer' or, if that is NULL, of the shared one. */
void
shim_pace(struct shim_pacer *pacer, struct shim_dp *dp, odp_port_t port_no,
          const void *key, struct dp_packet *packet, uint64_t departure_ns)
{
    struct waiting *waiting = xmalloc(sizeof *waiting);
    bool alone = pacer;
    uint64_t slot;

    if (!alone) {
        pacer = get_shared();
    }
    waiting->packet = packet;
    waiting->dp = dp;
    waiting->port_no = port_no;

    ovs_mutex_lock(&pacer->mutex);
    if (!pacer->n_waiting) {
        /* Nobody turned the wheel meanwhile. */
        pacer->next = MAX(pacer->next, shim_now_ns() >> SLOT_SHIFT);
    }
    enqueue(pacer, waiting, key, departure_ns);
    slot = waiting->slot;
    ovs_mutex_unlock(&pacer->mutex);

    if (!alone) {
        shim_clock_wake((slot + 1) << SLOT_SHIFT);
    }
}

/* Moves the packets of slot number 'slot' to 'leaving', but for those of a
 * later turn.  'pacer->mutex'. */
static void
take_slot(struct shim_pacer *pacer, uint64_t slot, struct ovs_list *leaving)
{
    struct ovs_list *list = &pacer->slots[slot % N_SLOTS];
    struct waiting *waiting;

    LIST_FOR_EACH_SAFE (waiting, node, list) {
        if (waiting->slot <= slot) {
            ovs_list_remove(&waiting->node);
            ovs_list_push_back(leaving, &waiting->node);
            WRITE_ONCE(pacer->n_waiting, pacer->n_waiting - 1);
        }
    }
    bitmap_set(pacer->used, slot % N_SLOTS, !ovs_list_is_empty(list));
}

/* Returns the number of the first slot from 'pacer->next' on that is not
 * empty; there is one.  'pacer->mutex'. */
static uint64_t
first_used(const struct shim_pacer *pacer)
{
    size_t next = pacer->next % N_SLOTS;
    size_t i = bitmap_scan(pacer->used, true, next, N_SLOTS);

    if (i == N_SLOTS) {
        i = N_SLOTS + bitmap_scan(pacer->used, true, 0, next);
    }
    return pacer->next + i - next;
}

/* Moves the packets whose slots have passed at 'now_ns' to 'leaving'.  Returns
 * when the next one passes, or UINT64_MAX. */
static uint64_t
take_due(struct shim_pacer *pacer, uint64_t now_ns, struct ovs_list *leaving)
{
    uint64_t now = now_ns >> SLOT_SHIFT;
    uint64_t next_ns = UINT64_MAX;

    ovs_mutex_lock(&pacer->mutex);
    while (pacer->n_waiting) {
        uint64_t slot = first_used(pacer);

        if (slot >= now) {
            next_ns = (slot + 1) << SLOT_SHIFT;
            break;
        }
        take_slot(pacer, slot, leaving);
        pacer->next = slot + 1;
    }
    ovs_mutex_unlock(&pacer->mutex);
    return next_ns;
}

/* Sends 'leaving', packets of 'pacer', by the hand of 'thread', those that
 * follow each other in one batch if they leave by one port and have memory of
 * one kind. */
static void
send_all(struct shim_pacer *pacer, struct ovs_list *leaving, void *thread)
{
    while (!ovs_list_is_empty(leaving)) {
        uint16_t queues[NETDEV_MAX_BURST];
        struct dp_packet_batch batch;
        size_t n_sent = 0;
        struct shim_dp *dp = NULL;
        odp_port_t port_no = ODPP_NONE;
        struct waiting *waiting;

        dp_packet_batch_init(&batch);
        LIST_FOR_EACH_SAFE (waiting, node, leaving) {
            if (dp && (waiting->dp != dp || waiting->port_no != port_no
                       || waiting->packet->source != batch.packets[0]->source
                       || dp_packet_batch_size(&batch) == NETDEV_MAX_BURST)) {
                break;
            }
            dp = waiting->dp;
            port_no = waiting->port_no;
            queues[n_sent++] = waiting->queue;
            dp_packet_batch_add(&batch, waiting->packet);
            ovs_list_remove(&waiting->node);
            free(waiting);
        }
        shim_dp_send(dp, thread, port_no, &batch);
        shim_gso_batch_done(&batch);

        ovs_mutex_lock(&pacer->mutex);
        for (size_t i = 0; i < n_sent; i++) {
            count_unsent(pacer, queues[i], -1);
        }
        ovs_mutex_unlock(&pacer->mutex);
    }
}

/* Lets the packets go that waited long enough in 'pacer', by the hand of its
 * 'thread'.  Returns when the next one may, or UINT64_MAX. */
uint64_t
shim_pacer_run(struct shim_pacer *pacer, void *thread)
{
    struct ovs_list leaving = OVS_LIST_INITIALIZER(&leaving);
    uint64_t next_ns;

    if (!READ_ONCE(pacer->n_waiting)) {
        return UINT64_MAX;
    }
    next_ns = take_due(pacer, shim_now_ns(), &leaving);
    send_all(pacer, &leaving, thread);
    return next_ns;
}

/* Does the same with the shared pacer. */
uint64_t
shim_pace_run_shared(void)
{
    return shim_pacer_run(get_shared(), NULL);
}
