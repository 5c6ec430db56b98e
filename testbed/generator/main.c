// SPDX-License-Identifier: Apache-2.0
/*
 * Traffic generator and sampler of the virtual testbed.
 *
 * In User Mode Linux a system call or a wake-up costs 50 to 100 us of wall time, so every mode does as few of
 * them as its job allows: TCP moves in pieces of 1 MiB, UDP in trains cut by the kernel (UDP_SEGMENT) and is
 * counted by the socket instead of being read.  All times are CLOCK_MONOTONIC, absolute, in nanoseconds, so
 * that processes started one after the other begin together.
 */
#include "util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Most bytes wake_at() waits for. */
#define WAKE_MAX (1 << 20)

/* A mode of the program. */
struct mode {
	const char *name;			/* first argument that selects it */
	int (*run)(int argc, char **argv);	/* see util.h */
	const char *usage;			/* its options */
};

/* All modes. */
static const struct mode modes[] = {
	{ "source", source_main,
	  "--proto tcp|udp --to ADDRESS --port N --start NS --stop NS\n"
	  "          tcp: [--cc NAME] [--connect NS] [--count N]\n"
	  "          udp: --rate BIT_PER_S [--payload BYTES] [--on NS --off NS]" },
	{ "sink", sink_main,
	  "--flow tcp:PORT:CC|udp:PORT:PAYLOAD_BYTES ... --start NS --bin NS --bins N --out FILE" },
	{ "client", client_main,
	  "--to ADDRESS --port N --start NS --stop NS --out FILE [--connect NS] [--cc NAME] [--count N]\n"
	  "          [--size BYTES [--size-max BYTES]] [--reply BYTES] [--interval NS [--poisson]] [--anew]\n"
	  "          [--requests N] [--seed N] [--schedule FILE]" },
	{ "server", server_main,
	  "--port PORT:CC:REQUEST_BYTES:REPLY_BYTES ... --stop NS" },
	{ "sampler", sampler_main,
	  "--dev NAME --handle MAJOR --start NS --interval NS --count N --out FILE\n"
	  "          [--limiters FILE --limiters-every N]" },
	{ "workload", workload_main,
	  "--to ADDRESS --port N --start NS --end NS --schedule FILE [--cc NAME]\n"
	  "          [--order none|size|deadline] [--turns N] [--connections N] [--early]\n"
	  "          [--register PATH]" },
	{ "arrivals", arrivals_main,
	  "--port N --start NS --end NS --out FILE [--cc NAME] [--message BYTES]" },
	{ "clock", clock_main,
	  "(answers each line with the time in NS)" },
};

void die(bool errno_too, const char *format, ...)
{
	const char *reason = errno_too ? strerror(errno) : NULL;
	va_list args;

	fputs("generator: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, reason ? ": %s\n" : "\n", reason);
	exit(EXIT_FAILURE);
}

int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

void sleep_until(int64_t at_ns)
{
	struct timespec ts = { at_ns / NSEC_PER_SEC, at_ns % NSEC_PER_SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

int64_t parse_number(const char *option, const char *text, int64_t min, int64_t max)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno || end == text || *end || value < min || value > max)
		die(false, "--%s: '%s' is not a whole number from %lld to %lld", option, text,
		    (long long)min, (long long)max);
	return value;
}

void wake_at(int fd, int64_t bytes, int *set)
{
	int lowat = bytes < WAKE_MAX ? bytes : WAKE_MAX;

	if (lowat == *set)
		return;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat)))
		die(true, "SO_RCVLOWAT");
	*set = lowat;
}

void *alloc(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory)
		die(false, "no memory for %zu items of %zu bytes", count, size);
	return memory;
}

/* Files that may be open at a time where the one who runs it may say so. */
#define FILES 65536

void allow_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		die(true, "getrlimit");
	/* Who may raise it does: flows under an overload wait by thousands, each with its socket. */
	if (!geteuid() && files.rlim_max < FILES)
		files.rlim_max = FILES;
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files))
		die(true, "setrlimit");
}

FILE *open_output(const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file)
		die(true, "cannot write %s", path);
	return file;
}

void close_output(FILE *file, const char *path)
{
	if (ferror(file) | fclose(file))
		die(true, "cannot write %s", path);
}

/* Prints the options of all modes to stream. */
static void usage(FILE *stream)
{
	fputs("Usage: generator MODE OPTIONS\n", stream);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		fprintf(stream, "  %-8s%s\n", modes[i].name, modes[i].usage);
}

/* Runs the mode named by the first argument. */
int main(int argc, char **argv)
{
	if (argc >= 2 && !strcmp(argv[1], "--help")) {
		usage(stdout);
		return EXIT_SUCCESS;
	}
	/* Sleeps end when asked, not up to 50 us (the default slack) later. */
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	for (size_t i = 0; argc >= 2 && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[1], modes[i].name))
			return modes[i].run(argc - 1, argv + 1);
	usage(stderr);
	return EXIT_FAILURE;
}
