/* SPDX-License-Identifier: Apache-2.0 */

/* Laws take a step every T, 5 ms or less, and a paced packet is to leave
 * within some microseconds of its time.  The main loop cannot promise that: it
 * takes longer to reconfigure a bridge, and poll_block() counts in ms.  PMD
 * threads may all be gone.  So one thread sleeps until the next of these
 * times, to the ns that the kernel's timers have. */

#include <config.h>
#include "shim-clock.h"
#include <sys/prctl.h>
#include "shim-host.h"
#include "shim-pace.h"
#include "shim-report.h"
#include "shim/core/engine/engine.h"
#include "timeval.h"

/* The engine whose clocks tick. */
static struct shim_engine *engine;

/* Of 'wakes_at' and of all timers' members. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Signalled when the thread must not sleep as long as it means to. */
static pthread_cond_t cond;

/* When the thread is to look again, in ns of CLOCK_MONOTONIC, as far as
 * anybody said since it last slept. */
static u64 wakes_at = U64_MAX;

/* Returns CLOCK_MONOTONIC in ns. */
u64
shim_now_ns(void)
{
    struct timespec ts;

    xclock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * SHIM_NSEC_PER_SEC + ts.tv_nsec;
}

/* Prepares the timer of 'clock'. */
void
shim_host_timer_init(struct shim_clock *clock)
{
    clock->timer = (struct shim_host_timer) { .started = false };
}

/* Lets the thread not sleep beyond 'due_ns'.  'mutex'. */
static void
wake(u64 due_ns)
{
    if (due_ns < wakes_at) {
        wakes_at = due_ns;
        pthread_cond_signal(&cond);
    }
}

/* Sees to it that the thread looks what there is to do at 'due_ns'. */
void
shim_clock_wake(uint64_t due_ns)
{
    pthread_mutex_lock(&mutex);
    wake(due_ns);
    pthread_mutex_unlock(&mutex);
}

/* Has 'clock' tick in 'ns'. */
void
shim_host_timer_start(struct shim_clock *clock, u64 ns)
{
    u64 due_ns = shim_now_ns() + ns;

    pthread_mutex_lock(&mutex);
    clock->timer.due_ns = due_ns;
    clock->timer.started = true;
    wake(due_ns);
    pthread_mutex_unlock(&mutex);
}

/* Has 'clock' tick no more. */
void
shim_host_timer_stop(struct shim_clock *clock)
{
    pthread_mutex_lock(&mutex);
    clock->timer.started = false;
    pthread_mutex_unlock(&mutex);
}

/* Returns true, once, if 'clock' is due at 'now_ns', and then in '*late_ns'
 * since when. */
static bool
timer_expires(struct shim_clock *clock, u64 now_ns, u64 *late_ns)
{
    pthread_mutex_lock(&mutex);
    bool due = clock->timer.started && clock->timer.due_ns <= now_ns;
    if (due) {
        *late_ns = now_ns - clock->timer.due_ns;
        clock->timer.started = false;
    }
    pthread_mutex_unlock(&mutex);
    return due;
}

/* Has 'clock', which ticked 'late_ns' after it was due, tick again 'ns' after
 * that time, unless it was started anew meanwhile. */
static void
timer_again(struct shim_clock *clock, u64 ns, u64 late_ns)
{
    u64 due_ns = shim_now_ns() + (late_ns < ns ? ns - late_ns : ns);

    pthread_mutex_lock(&mutex);
    if (!clock->timer.started) {
        clock->timer.due_ns = due_ns;
        clock->timer.started = true;
    }
    pthread_mutex_unlock(&mutex);
}

/* Lets 'clock' tick if it is time for that. */
static void
run_clock(struct shim_clock *clock)
{
    u64 now_ns = shim_now_ns();
    struct shim_reports reports;
    u64 late_ns;

    if (!timer_expires(clock, now_ns, &late_ns)) {
        return;
    }
    ovs_list_init(&reports.list);
    u64 next_ns = shim_clock_tick(clock, now_ns, &reports);
    shim_reports_send(&reports);
    if (next_ns) {
        timer_again(clock, next_ns, late_ns);
    }
}

/* Sleeps until 'until_ns', or earlier if a clock or somebody else needs it. */
static void
sleep_until(u64 until_ns)
{
    pthread_mutex_lock(&mutex);
    wakes_at = MIN(wakes_at, until_ns);
    for (size_t i = 0; i < SHIM_LAW_SLOTS; i++) {
        const struct shim_host_timer *timer = &engine->clocks[i].timer;

        if (timer->started) {
            wakes_at = MIN(wakes_at, timer->due_ns);
        }
    }
    while (shim_now_ns() < wakes_at) {
        struct timespec ts = {
            .tv_sec = wakes_at / SHIM_NSEC_PER_SEC,
            .tv_nsec = wakes_at % SHIM_NSEC_PER_SEC,
        };

        if (wakes_at == U64_MAX) {
            pthread_cond_wait(&cond, &mutex);
        } else {
            pthread_cond_timedwait(&cond, &mutex, &ts);
        }
    }
    wakes_at = U64_MAX;
    pthread_mutex_unlock(&mutex);
}

/* The thread. */
static void *
clock_main(void *arg OVS_UNUSED)
{
    /* Linux rounds sleeps up to 50 us by default. */
    prctl(PR_SET_TIMERSLACK, 1);
    for (;;) {
        for (size_t i = 0; i < SHIM_LAW_SLOTS; i++) {
            run_clock(&engine->clocks[i]);
        }

        u64 next_ns = shim_pace_run_shared();
        ovsrcu_quiesce_start();
        sleep_until(next_ns);
        ovsrcu_quiesce_end();
    }
    return NULL;
}

/* Starts the thread, in which the clocks of 'engine_' tick. */
void
shim_clock_start(struct shim_engine *engine_)
{
    pthread_condattr_t attr;

    engine = engine_;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&cond, &attr);
    pthread_condattr_destroy(&attr);
    ovs_thread_create("shim", clock_main, NULL);
}
