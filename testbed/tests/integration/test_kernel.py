# SPDX-License-Identifier: Apache-2.0
"""What the testbed's own patches for its kernel must not change: the clock, and what registers hold."""

import subprocess

import pytest

from sdngcc.testbed.inside import run_inside

pytestmark = pytest.mark.uml

# Reads a clock by a system call, without one, and by one again, at times over several seconds.
CLOCKS = """
import ctypes, time
libc = ctypes.CDLL(None)
class Timespec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]
def asked(clock):
    ts = Timespec()
    assert libc.syscall(228, clock, ctypes.byref(ts)) == 0
    return ts.s * 10**9 + ts.ns
steps = set()
for clock in (time.CLOCK_MONOTONIC, time.CLOCK_REALTIME):
    for _ in range(400):
        one, own, other = asked(clock), time.clock_gettime_ns(clock), asked(clock)
        steps |= {own - one, other - own}
        time.sleep(0.0073)
print(min(steps), max(steps))
print(len({time.monotonic_ns() for _ in range(1000)}))
"""

# Waits for a timer by nothing but readings of the clock.
TIMER = """
import signal, time
fired = []
signal.signal(signal.SIGALRM, lambda *_: fired.append(time.monotonic_ns()))
time.sleep(0.05)  # timers are exact only after the machine's first tick
start = time.monotonic_ns()
signal.setitimer(signal.ITIMER_REAL, 1e-3)
readings = 0
while not fired and readings < 10000:
    time.monotonic_ns()
    readings += 1
print(readings, fired[0] - start)
"""

# Two processes of two threads each keep a value in a register of the extended state, over system calls that let
# others run, over page faults and signals, and look whether it is still theirs.
STATE = """
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 2000

static void on_signal(int signal)
{
	unsigned long other = 0xdead0000UL + signal;

	__asm__ volatile("movq %0, %%xmm15" : : "r"(other) : "xmm15");
}

static void *keep(void *of)
{
	unsigned long mine = (unsigned long)of, seen;
	char *memory = mmap(NULL, PAGES * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long i;

	for (i = 0; i < PAGES; i++) {
		long call = i % 7 ? SYS_sched_yield : SYS_getpid;

		__asm__ volatile("movq %[mine], %%xmm15\\n\\tsyscall\\n\\tmovb $1, (%[at])\\n\\tmovq %%xmm15, %[seen]"
				 : [seen] "=r"(seen), "+a"(call)
				 : [mine] "r"(mine), [at] "r"(memory + i * 4096)
				 : "xmm15", "rcx", "r11", "memory");
		if (seen != mine) {
			printf("%lx has %lx\\n", mine, seen);
			exit(1);
		}
		if (i % 50 == 0)
			raise(SIGUSR1);
	}
	return NULL;
}

int main(void)
{
	pthread_t thread;
	int child, status = 0;

	signal(SIGUSR1, on_signal);
	child = fork();
	pthread_create(&thread, NULL, keep, (void *)(0x1000UL + !child));
	keep((void *)(0x2000UL + !child));
	pthread_join(thread, NULL);
	if (!child)
		return 0;
	waitpid(child, &status, 0);
	printf("kept %d\\n", status);
	return 0;
}
"""


def test_the_clock_is_one_whether_the_kernel_is_asked_or_not():
    steps, readings = run_inside(["python3", "-c", CLOCKS]).output.splitlines()
    least, most = map(int, steps.split())
    # The timekeeper's factor is not quite 256.
    assert 255 <= least <= most <= 257
    assert readings == "1000"


def test_who_only_reads_the_clock_is_interrupted_in_time():
    readings, took_ns = map(int, run_inside(["python3", "-c", TIMER]).output.split())
    assert readings < 4000
    assert 1_000_000 <= took_ns < 1_002_000


def test_the_extended_state_is_each_threads_own(tmp_path):
    (tmp_path / "state.c").write_text(STATE)
    program = tmp_path / "state"
    subprocess.run(["gcc", "-O1", "-Wall", "-pthread", "-o", str(program), str(tmp_path / "state.c")], check=True)
    assert run_inside([str(program)]).output == "kept 0\n"
