// SPDX-License-Identifier: GPL-2.0-only
/*
 * Watches the memory accesses of modules compiled with -fsanitize=thread, on a kernel that was
 * built without KCSAN, and tells of data races in KCSAN's words.
 *
 * The compiler calls a function below at each access.  Now and then one access is watched: its
 * address is published, the CPU waits some ten microseconds, and if meanwhile another CPU comes to
 * the same bytes by an access that conflicts, or the bytes change though nobody was seen, that is a
 * race.  Accesses by READ_ONCE() and the like are marked: they are never watched, but found.
 * Atomic operations are assembler, which nobody instruments: they show as bytes that change.
 *
 * The stack of the access that was watched may end with its innermost frame, because objtool knows
 * these functions' names and expects KCSAN behind them.
 *
 * What it lacks beside KCSAN: a model of weak memory, the accesses of all other code, and
 * interrupts of the CPU that watches.  The idea is KCSAN's (kernel/kcsan), the code is not.
 */
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/instruction_pointer.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/stacktrace.h>
#include <linux/string.h>

/* Accesses that can be watched at once, as a power of two. */
#define WATCH_SLOT_BITS 6

/* Frames of a stack that are told. */
#define WATCH_FRAMES 16

/* Races that are told, each once. */
#define WATCH_RACES 256

/* Accesses of a CPU between two that are watched: at least, and how many more by chance. */
#define WATCH_SKIP_MIN 20
#define WATCH_SKIP_MORE 100

/* Time an access is watched, us: with interrupts off; else at least, and more by chance. */
#define WATCH_ATOMIC_US 15
#define WATCH_US_MIN 30
#define WATCH_US_MORE 60

/* In the place of an address: the other CPU came to it. */
#define WATCH_TAKEN (-1L)

/* One access. */
struct watch_access {
	unsigned long frames[WATCH_FRAMES];	/* where, innermost first */
	unsigned int n;		/* number of frames */
	unsigned long address;	/* first byte */
	size_t bytes;		/* how many */
	bool write;		/* or a read */
	bool marked;		/* by READ_ONCE(), WRITE_ONCE() and the like */
	int cpu;		/* which one */
	int pid;		/* of the task, or of that which was interrupted */
};

/* An access that is watched. */
struct watch_slot {
	atomic_long_t address;	/* first byte; 0: the slot is free; WATCH_TAKEN */
	size_t bytes;		/* how many; valid before address is */
	bool write;		/* as bytes */
	struct watch_access other;	/* what came to it; valid once met is set */
	atomic_t met;		/* other is complete */
};

/* All that is watched, by the address in units of 8 bytes. */
static struct watch_slot watch_slots[1 << WATCH_SLOT_BITS];

/* Accesses until the next that is watched. */
static DEFINE_PER_CPU(int, watch_skip);

/* The CPU watches an access, or was told to look away. */
static DEFINE_PER_CPU(int, watch_busy);

/* State of each CPU's pseudo-random numbers. */
static DEFINE_PER_CPU(u32, watch_random);

/* Accesses that were watched. */
static atomic_long_t watch_count;

/* Pairs of places that were told of; under watch_lock. */
static unsigned long watch_told[WATCH_RACES][2];

/* Number of pairs; under watch_lock. */
static unsigned int watch_told_n;

/* Keeps reports apart; no softirq or sleeping lock may be waited for at an access. */
static DEFINE_RAW_SPINLOCK(watch_lock);

/* Returns up to 8 bytes as they are now; longer ones are not compared. */
static u64 watch_look(unsigned long address, size_t bytes)
{
	switch (bytes) {
	case 1:
		return READ_ONCE(*(u8 *)address);
	case 2:
		return READ_ONCE(*(u16 *)address);
	case 4:
		return READ_ONCE(*(u32 *)address);
	case 8:
		return READ_ONCE(*(u64 *)address);
	}
	return 0;
}

/* Fills in an access that was made at ip; what the stack tells of it begins there. */
static noinline void watch_note(struct watch_access *access, unsigned long ip,
				unsigned long address, size_t bytes, bool write, bool marked)
{
	unsigned int all = stack_trace_save(access->frames, WATCH_FRAMES, 0), first = 0;

	while (first < all && access->frames[first] != ip)
		first++;
	access->n = all - first;
	memmove(access->frames, access->frames + first, access->n * sizeof(*access->frames));
	/* The stack may not be told as far as that. */
	if (!access->n)
		access->frames[access->n++] = ip;
	access->address = address;
	access->bytes = bytes;
	access->write = write;
	access->marked = marked;
	access->cpu = raw_smp_processor_id();
	access->pid = current->pid;
}

/* Tells of one access. */
static void watch_tell_access(const struct watch_access *access, const char *before)
{
	unsigned int i;

	pr_err("%s%s%s to 0x%px of %zu bytes by pid %d on cpu %d:\n", before,
	       access->write ? "write" : "read", access->marked ? " (marked)" : "",
	       (void *)access->address, access->bytes, access->pid, access->cpu);
	for (i = 0; i < access->n; i++)
		pr_err(" %pS\n", (void *)access->frames[i]);
	pr_err("\n");
}

/* Returns whether a race between two places is new, and remembers it.  Under watch_lock. */
static bool watch_new(unsigned long first, unsigned long second)
{
	unsigned int i;

	for (i = 0; i < watch_told_n; i++)
		if ((watch_told[i][0] == first && watch_told[i][1] == second) ||
		    (watch_told[i][0] == second && watch_told[i][1] == first))
			return false;
	if (watch_told_n == WATCH_RACES)
		return false;
	watch_told[watch_told_n][0] = first;
	watch_told[watch_told_n++][1] = second;
	return true;
}

/* Tells of a race, with what came to it or NULL when nobody was seen. */
static noinline void watch_tell(const struct watch_access *own, const struct watch_access *other,
				u64 before, u64 after)
{
	unsigned long first = own->n ? own->frames[0] : 0;
	unsigned long second = other && other->n ? other->frames[0] : 0;
	unsigned long flags;

	raw_spin_lock_irqsave(&watch_lock, flags);
	if (watch_new(first, second)) {
		pr_err("==================================================================\n");
		if (other) {
			pr_err("BUG: KCSAN: data-race in %ps / %ps\n\n", (void *)first,
			       (void *)second);
			watch_tell_access(other, "");
			watch_tell_access(own, "");
		} else {
			pr_err("BUG: KCSAN: data-race in %ps\n\n", (void *)first);
			watch_tell_access(own, "race at unknown origin, with ");
		}
		pr_err("value changed: 0x%llx -> 0x%llx\n", before, after);
		pr_err("==================================================================\n");
	}
	raw_spin_unlock_irqrestore(&watch_lock, flags);
}

/* Returns whether an access conflicts with the one that a slot watches, and leaves word there. */
static bool watch_meet(struct watch_slot *slot, unsigned long ip, unsigned long address,
		       size_t bytes, bool write, bool marked)
{
	long held = atomic_long_read_acquire(&slot->address);
	unsigned long watched = (unsigned long)held;

	if (!held || held == WATCH_TAKEN)
		return false;
	if (watched >= address + bytes || address >= watched + slot->bytes ||
	    (!write && !slot->write))
		return false;
	if (!atomic_long_try_cmpxchg(&slot->address, &held, WATCH_TAKEN))
		return false;
	watch_note(&slot->other, ip, address, bytes, write, marked);
	atomic_set_release(&slot->met, 1);
	return true;
}

/*
 * Returns a number below bound by chance.  The kernel's own would take a lock, which sleeps under
 * PREEMPT_RT.  With preemption off, while watch_busy keeps interrupts away.
 */
static u32 watch_draw(u32 bound)
{
	u32 next = this_cpu_read(watch_random) * 1664525 + 1013904223 + 2 * smp_processor_id();

	this_cpu_write(watch_random, next);
	return (u64)next * bound >> 32;
}

/* Watches an access for a while.  With preemption off. */
static noinline void watch_wait(struct watch_slot *slot, unsigned long ip, unsigned long address,
				size_t bytes, bool write)
{
	struct watch_access own;
	bool met, changed;
	u64 before, after;
	long held = 0;

	/* Only who finds the slot free fills it in: busy until the address is there. */
	if (!atomic_long_try_cmpxchg(&slot->address, &held, WATCH_TAKEN))
		return;
	slot->bytes = bytes;
	slot->write = write;
	atomic_set(&slot->met, 0);
	atomic_long_set_release(&slot->address, (long)address);
	atomic_long_inc(&watch_count);
	before = watch_look(address, bytes);
	udelay(irqs_disabled() ? WATCH_ATOMIC_US
			       : WATCH_US_MIN + watch_draw(WATCH_US_MORE));
	after = watch_look(address, bytes);
	changed = before != after;
	held = (long)address;
	met = !atomic_long_try_cmpxchg(&slot->address, &held, 0);
	while (met && !atomic_read_acquire(&slot->met))
		cpu_relax();
	if (met || changed) {
		watch_note(&own, ip, address, bytes, write, false);
		watch_tell(&own, met ? &slot->other : NULL, before, after);
	}
	if (met)
		atomic_long_set_release(&slot->address, 0);
}

/* Sees an access of the compiler's: compares it with those that are watched, or watches it. */
static __always_inline void watch_access(unsigned long ip, unsigned long address, size_t bytes,
					 bool write, bool marked)
{
	struct watch_slot *slot = &watch_slots[hash_long(address >> 3, WATCH_SLOT_BITS)];

	if (this_cpu_read(watch_busy) == 0 && watch_meet(slot, ip, address, bytes, write, marked))
		return;
	if (marked || this_cpu_dec_return(watch_skip) > 0)
		return;
	/* Nobody else sees the stack. */
	if (object_is_on_stack((void *)address))
		return;
	preempt_disable();
	if (this_cpu_read(watch_busy) == 0) {
		this_cpu_write(watch_busy, 1);
		this_cpu_write(watch_skip, WATCH_SKIP_MIN + watch_draw(WATCH_SKIP_MORE));
		watch_wait(slot, ip, address, bytes, write);
		this_cpu_write(watch_busy, 0);
	}
	preempt_enable();
}

/* Looks away: data_race() begins. */
void watch_pause(void)
{
	preempt_disable();
	this_cpu_inc(watch_busy);
}
EXPORT_SYMBOL_GPL(watch_pause);

/* Looks again: data_race() ends. */
void watch_resume(void)
{
	this_cpu_dec(watch_busy);
	preempt_enable();
}
EXPORT_SYMBOL_GPL(watch_resume);

/* Defines one function that the compiler calls. */
#define WATCH_DEFINE(name, bytes, write, marked)						\
	void name(void *address);								\
	noinline void name(void *address)							\
	{											\
		watch_access(_RET_IP_, (unsigned long)address, bytes, write, marked);		\
	}											\
	EXPORT_SYMBOL_GPL(name)

/* Defines all that it calls for accesses of a size. */
#define WATCH_DEFINE_SIZE(bytes)								\
	WATCH_DEFINE(__tsan_read##bytes, bytes, false, false);					\
	WATCH_DEFINE(__tsan_write##bytes, bytes, true, false);					\
	WATCH_DEFINE(__tsan_unaligned_read##bytes, bytes, false, false);			\
	WATCH_DEFINE(__tsan_unaligned_write##bytes, bytes, true, false);			\
	WATCH_DEFINE(__tsan_volatile_read##bytes, bytes, false, true);				\
	WATCH_DEFINE(__tsan_volatile_write##bytes, bytes, true, true);				\
	WATCH_DEFINE(__tsan_unaligned_volatile_read##bytes, bytes, false, true);		\
	WATCH_DEFINE(__tsan_unaligned_volatile_write##bytes, bytes, true, true)

WATCH_DEFINE_SIZE(1);
WATCH_DEFINE_SIZE(2);
WATCH_DEFINE_SIZE(4);
WATCH_DEFINE_SIZE(8);
WATCH_DEFINE_SIZE(16);

/* Sees a read of any length. */
void __tsan_read_range(void *address, size_t bytes);
noinline void __tsan_read_range(void *address, size_t bytes)
{
	watch_access(_RET_IP_, (unsigned long)address, bytes, false, false);
}
EXPORT_SYMBOL_GPL(__tsan_read_range);

/* Sees a write of any length. */
void __tsan_write_range(void *address, size_t bytes);
noinline void __tsan_write_range(void *address, size_t bytes)
{
	watch_access(_RET_IP_, (unsigned long)address, bytes, true, false);
}
EXPORT_SYMBOL_GPL(__tsan_write_range);

/* Called when a watched module is loaded. */
void __tsan_init(void);
void __tsan_init(void)
{
}
EXPORT_SYMBOL_GPL(__tsan_init);

/* Returns accesses watched so far, for /sys/module/watch/parameters/watched. */
static int watch_get_count(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%ld\n", atomic_long_read(&watch_count));
}

/* The parameter that tells the count. */
static const struct kernel_param_ops watch_count_ops = { .get = watch_get_count };
module_param_cb(watched, &watch_count_ops, NULL, 0444);
MODULE_PARM_DESC(watched, "accesses watched so far");

MODULE_DESCRIPTION("Tells of data races in modules compiled for it");
MODULE_LICENSE("GPL");
