// SPDX-License-Identifier: Apache-2.0
/*
 * Extended state: two processes of two threads each keep a value in %xmm15, over system calls that let others run and
 * over page faults, and look whether it is still theirs.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Pages that each thread touches, one a turn. */
#define PAGES 2000

/* Bytes of a page. */
#define PAGE 4096L

/* Keeps a value of its own in the register; ends the process when it has another. */
static void *keep(void *of)
{
	unsigned long mine = (unsigned long)of, seen;
	char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long i;

	for (i = 0; i < PAGES; i++) {
		long call = i % 7 ? SYS_sched_yield : SYS_getpid;

		__asm__ volatile("movq %[mine], %%xmm15\n\tsyscall\n\tmovb $1, (%[at])\n\tmovq %%xmm15, %[seen]"
				 : [seen] "=r"(seen), "+a"(call)
				 : [mine] "r"(mine), [at] "r"(memory + i * PAGE)
				 : "xmm15", "rcx", "r11", "memory");
		if (seen != mine) {
			printf("%lx has %lx\n", mine, seen);
			exit(1);
		}
	}
	return NULL;
}

/* Says what became of the child; each of both processes is two threads. */
int main(void)
{
	pthread_t thread;
	int child, status = 0;

	child = fork();
	pthread_create(&thread, NULL, keep, (void *)(0x1000UL + !child));
	keep((void *)(0x2000UL + !child));
	pthread_join(thread, NULL);
	if (!child)
		return 0;
	waitpid(child, &status, 0);
	printf("kept %d\n", status);
	return 0;
}
