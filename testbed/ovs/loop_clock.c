// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded into ovs-vswitchd of the virtual testbed: a thread reads the clock once in a round of
 * its loop, not some seventy times.
 *
 * In User Mode Linux a reading is a system call, and two thirds of all that vswitchd makes were
 * readings.  Rounds take no virtual time but what readings take, 256 ns each, so the time a round
 * began at is the time it ends at.  A round ends in poll(), in which alone vswitchd's threads
 * sleep; KEPT bounds what a loop without it could see of the past.
 *
 * Not for datapath_type=netdev, which paces packets by the clock.
 */
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Readings after which the clock is read anew. */
#define KEPT 64

/* A thread's last reading of a clock. */
struct reading {
	/* The time read. */
	struct timespec at;
	/* How often it may still be told. */
	unsigned int left;
};

/* By clock: CLOCK_REALTIME, CLOCK_MONOTONIC. */
static __thread struct reading readings[2];

/* Tells the time of this round; of clocks other than those two the time of now. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	struct reading *reading;

	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return syscall(SYS_clock_gettime, clock, now);
	reading = &readings[clock == CLOCK_MONOTONIC];
	if (!reading->left) {
		if (syscall(SYS_clock_gettime, clock, &reading->at))
			return -1;
		reading->left = KEPT;
	}
	reading->left--;
	*now = reading->at;
	return 0;
}

/* Waits as poll() does; a new round begins. */
int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	int found = syscall(SYS_poll, fds, count, timeout_ms);

	readings[0].left = 0;
	readings[1].left = 0;
	return found;
}
