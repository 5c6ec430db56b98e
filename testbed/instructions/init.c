// SPDX-License-Identifier: Apache-2.0
/*
 * The first process of a machine of `make bench-instructions`: loads the modules that the machine's
 * root needs, enters it, and becomes the parent of the program that measures.
 *
 * The kernel passes as environment what it does not know of its command line:
 *
 *     BENCH_PYTHON   interpreter
 *     BENCH_JOB      file that tells the program what to measure
 *
 * The program talks on the first serial port.  The kernel's console is the second one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Modules of the initial RAM disk, at most: 0.ko, 1.ko, ... in the order to load them. */
#define MODULES_MAX 100

/* Ends the machine; with a text, tells on the console why. */
static void power_off(const char *why) __attribute__((noreturn));
static void power_off(const char *why)
{
	if (why)
		fprintf(stderr, "init: %s: %s\n", why, strerror(errno));
	fflush(stderr);
	sync();
	reboot(RB_AUTOBOOT);
	_exit(1);
}

/* Loads the modules of the initial RAM disk. */
static void load_modules(void)
{
	char path[16];

	for (int i = 0; i < MODULES_MAX; i++) {
		int fd;

		snprintf(path, sizeof(path), "/%d.ko", i);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return;
		if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST)
			power_off(path);
		close(fd);
	}
}

/* Mounts a file system at a place of the new root. */
static void mount_at(const char *type, const char *place, unsigned long flags, const char *options)
{
	if (mount(type, place, type, flags, options))
		power_off(place);
}

/* Enters the host's files, which stay as they are. */
static void enter_root(void)
{
	if (mkdir("/root", 0755) && errno != EEXIST)
		power_off("mkdir /root");
	if (mount("root", "/root", "9p", MS_RDONLY,
		  "trans=virtio,version=9p2000.L,cache=loose,msize=262144"))
		power_off("mount the host's files");
	mount_at("devtmpfs", "/root/dev", 0, NULL);
	mount_at("proc", "/root/proc", 0, NULL);
	mount_at("sysfs", "/root/sys", 0, NULL);
	mount_at("tmpfs", "/root/run", 0, "mode=755");
	if (chdir("/root") || chroot("."))
		power_off("chroot");
}

int main(void)
{
	const char *python, *job;
	pid_t child;
	int fd;

	load_modules();
	enter_root();
	fd = open("/dev/ttyS0", O_RDWR);
	if (fd < 0)
		power_off("/dev/ttyS0");
	python = getenv("BENCH_PYTHON");
	job = getenv("BENCH_JOB");
	if (!python || !job)
		power_off("BENCH_PYTHON and BENCH_JOB are required");
	setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
	setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
	child = fork();
	if (!child) {
		for (int i = 0; i < 3; i++)
			dup2(fd, i);
		execl(python, python, "-m", "sdngcc.testbed.instructions.guest", job, (char *)NULL);
		power_off(python);
	}
	if (child < 0 || waitpid(child, NULL, 0) < 0)
		power_off("the program that measures");
	power_off(NULL);
}
