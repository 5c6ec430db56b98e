// SPDX-License-Identifier: Apache-2.0
/*
 * The first process of a machine with several CPUs: stresses the shim and tells the runner on the
 * first serial port.
 *
 * The kernel passes what its command line has and it does not know as environment:
 *
 *     STRESS_CONTROL   parameter of planted.ko: what it shall do wrong
 *     STRESS_CONSERVE  seconds of each trial of conservation
 *     STRESS_CHURN     seconds of changes under traffic
 *
 * Lines begin with "progress", "conserve", "churn", "count", "watched", "control" or "failed:";
 * "end" is the last one.
 */
#define _GNU_SOURCE
#include "stress.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Seconds for which the planted module does wrong under traffic. */
#define CONTROL_S 6

/* Times a module that is in use is tried again, and the wait between. */
#define UNLOAD_TRIES 300
#define UNLOAD_WAIT_NS (20 * NSEC_PER_MSEC)

/* Packets that wait on a CPU for its softirq: enough that none is lost behind the limiter. */
#define BACKLOG "100000"

int cpus;

/* Where lines go. */
static FILE *report;

/* Ends the machine. */
static void power_off(void) __attribute__((noreturn));
static void power_off(void)
{
	fflush(report);
	nap_ns(200 * NSEC_PER_MSEC);
	sync();
	reboot(RB_AUTOBOOT);
	_exit(1);
}

void die(bool errno_too, const char *format, ...)
{
	int number = errno;
	char text[200];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	say("failed: %s%s%s", text, errno_too ? ": " : "", errno_too ? strerror(number) : "");
	say("end");
	power_off();
}

void say(const char *format, ...)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	va_list list;

	pthread_mutex_lock(&lock);
	va_start(list, format);
	vfprintf(report, format, list);
	va_end(list);
	fputc('\n', report);
	fflush(report);
	pthread_mutex_unlock(&lock);
}

int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

void nap_ns(int64_t ns)
{
	struct timespec wait = { ns / NSEC_PER_SEC, ns % NSEC_PER_SEC };

	nanosleep(&wait, NULL);
}

bool put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return good;
}

/* Reads the begin of a file as a text; returns whether there is any. */
static bool get_file(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return false;
	got = read(fd, text, bytes - 1);
	close(fd);
	text[got > 0 ? got : 0] = '\0';
	return got > 0;
}

uint32_t draw(uint64_t *state, uint32_t bound)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)((*state >> 33) % bound);
}

void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die(true, "CPU %d", cpu);
}

int module_load(const char *path, const char *parameters)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), error;

	if (fd < 0)
		return -errno;
	error = syscall(SYS_finit_module, fd, parameters, 0) ? -errno : 0;
	close(fd);
	return error;
}

int module_unload(const char *name)
{
	for (int i = 0; i < UNLOAD_TRIES; i++) {
		if (!syscall(SYS_delete_module, name, O_NONBLOCK))
			return 0;
		if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EBUSY)
			return -errno;
		nap_ns(UNLOAD_WAIT_NS);
	}
	return -EBUSY;
}

/* Returns the name of the module that the shim is part of. */
static const char *shim_module(void)
{
	const char *name = getenv("STRESS_MODULE");

	return name ? name : "openvswitch";
}

void shim_load(void)
{
	char path[64];
	int error;

	snprintf(path, sizeof(path), "/%s.ko", shim_module());
	error = module_load(path, "");
	if (error)
		die(false, "%s: %s", path, strerror(-error));
}

void shim_unload(void)
{
	int error = module_unload(shim_module());

	if (error)
		die(false, "removing %s: %s", shim_module(), strerror(-error));
}

/* Returns the number that the command line gives a name, a default without it. */
static int option(const char *name, int otherwise)
{
	const char *text = getenv(name);

	return text ? atoi(text) : otherwise;
}

/* Mounts what the program needs and opens the serial port. */
static void begin(void)
{
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mkdir("/dev", 0755);
	if (mount("dev", "/dev", "devtmpfs", 0, NULL) && errno != EBUSY)
		_exit(1);
	report = fopen("/dev/ttyS0", "w");
	if (!report)
		_exit(1);
	if (mount("proc", "/proc", "proc", 0, NULL) || mount("sys", "/sys", "sysfs", 0, NULL) ||
	    mount("debug", "/sys/kernel/debug", "debugfs", 0, NULL))
		die(true, "mount");
	cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus < 2)
		die(false, "the machine has %d CPU", cpus);
	if (cpus > CPUS_MAX)
		cpus = CPUS_MAX;
	if (!put_file("/proc/sys/net/core/netdev_max_backlog", BACKLOG))
		die(true, "netdev_max_backlog");
	/* No splat may hide behind another, and none may end the machine. */
	put_file("/proc/sys/kernel/hung_task_warnings", "-1");
	put_file("/proc/sys/net/ipv6/conf/default/accept_dad", "0");
}

/*
 * Loads what the shim's module needs where it has to be loaded: before0.ko, before1.ko and so on.
 */
static void load_before(void)
{
	for (int i = 0;; i++) {
		char path[32];
		int error;

		snprintf(path, sizeof(path), "/before%d.ko", i);
		error = module_load(path, "");
		if (error == -ENOENT && access(path, F_OK))
			return;
		if (error)
			die(false, "%s: %s", path, strerror(-error));
	}
}

/* Tells how many accesses to memory were watched for races so far, where something watches. */
static void tell_watched(void)
{
	static const char title[] = "setup_watchpoints:";
	char text[2048];
	char *at;

	if (get_file("/sys/module/watch/parameters/watched", text, sizeof(text))) {
		say("watched %lu", strtoul(text, NULL, 10));
	} else if (get_file("/sys/kernel/debug/kcsan", text, sizeof(text))) {
		at = strstr(text, title);
		if (!at)
			die(false, "KCSAN does not tell what it watched");
		say("watched %lu", strtoul(at + strlen(title), NULL, 10));
	}
}

/*
 * Lets the planted module do wrong for packets of all CPUs; the runner looks for what the kernel
 * says of it.
 */
static void control_run(struct side *sides, const char *what)
{
	struct hammer hammers[CPUS_MAX] = { 0 };
	pthread_t threads[CPUS_MAX];
	char parameters[64];
	int error;

	snprintf(parameters, sizeof(parameters), "what=%s", what);
	error = module_load("/planted.ko", parameters);
	if (error)
		die(false, "planted.ko: %s", strerror(-error));
	for (int i = 0; i < cpus; i++) {
		hammers[i] = (struct hammer){
			.cpu = i,
			.ns = sides[0].guest_ns,
			.device = GUEST_DEVICE,
			.addresses = 1,
			.bytes = 100,
		};
		pthread_create(&threads[i], NULL, hammer_run, &hammers[i]);
	}
	nap_ns(CONTROL_S * NSEC_PER_SEC);
	for (int i = 0; i < cpus; i++)
		hammers[i].stop = true;
	for (int i = 0; i < cpus; i++) {
		pthread_join(threads[i], NULL);
		say("control cpu %d: %lu packets in %d s", i, hammers[i].sent, CONTROL_S);
	}
	error = module_unload("planted");
	if (error)
		die(false, "removing planted.ko: %s", strerror(-error));
}

/*
 * Runs all parts in turn; lockdep falls silent after its first complaint, so the planted one comes
 * last.
 */
int main(void)
{
	const char *what = getenv("STRESS_CONTROL");
	struct side sides[2];

	begin();
	say("progress booted: %d CPUs", cpus);
	load_before();
	shim_load();
	scene_links(sides);
	scene_datapaths(sides);
	put_file("/sys/kernel/debug/kcsan", "on");
	conserve_all(sides, option("STRESS_CONSERVE", 5));
	churn_all(sides, option("STRESS_CHURN", 30));
	tell_watched();
	if (what) {
		say("progress control: %s", what);
		control_run(sides, what);
	}
	put_file("/sys/kernel/debug/kcsan", "off");
	scene_clear(sides);
	shim_unload();
	say("end");
	power_off();
}
