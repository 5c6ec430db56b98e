/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the modes of the traffic generator share: time, options, output.
 */
#ifndef GENERATOR_UTIL_H
#define GENERATOR_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NSEC_PER_SEC 1000000000LL

/* Prints "generator: ..." with the reason in errno when errno_too, and ends the program. */
void die(bool errno_too, const char *format, ...)
	__attribute__((noreturn, format(printf, 2, 3)));

/* Returns CLOCK_MONOTONIC in nanoseconds. */
int64_t now_ns(void);

/* Sleeps until CLOCK_MONOTONIC shows at_ns; returns at once when that is past. */
void sleep_until(int64_t at_ns);

/* Returns text as a whole number in [min, max], or ends the program naming the option. */
int64_t parse_number(const char *option, const char *text, int64_t min, int64_t max);

/* Returns zeroed memory for count items of size bytes, or ends the program. */
void *alloc(size_t count, size_t size);

/* Lets this program open as many files at a time as the system ever lets it, FILES as root. */
void allow_files(void);

/* Opens path for writing, or ends the program. */
FILE *open_output(const char *path);

/* Closes what open_output() opened; ends the program if anything was not written. */
void close_output(FILE *file, const char *path);

/*
 * Lets a TCP socket wake its reader when at least bytes (or 1 MiB) are there, or its sender has ended; *set is what was
 * set last.  A wake-up of each packet would cost more than the packet.
 */
void wake_at(int fd, int64_t bytes, int *set);

/* First bytes of a flow of workload.c, as its machine stores numbers. */
struct flow_head {
	uint64_t size;		/* bytes of the flow, these included */
	uint64_t id;		/* its line in the schedule, from 0 */
};

/* Runs the mode of that name with its own arguments; argv[0] is the mode. */
int source_main(int argc, char **argv);
int sink_main(int argc, char **argv);
int client_main(int argc, char **argv);
int server_main(int argc, char **argv);
int sampler_main(int argc, char **argv);
int workload_main(int argc, char **argv);
int arrivals_main(int argc, char **argv);
int clock_main(int argc, char **argv);

#endif
