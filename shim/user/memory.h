/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What threads see of each other's memory, and the few words of the kernel's C that the engine
 * uses, under the kernel's names.
 *
 * Without SHIM_THREADS there is one thread: nothing is ordered, and a lock only tells whether it is
 * held, which ends the program where it should be and is not, or the other way round.  All work of
 * the engine takes locks, so a test can let each of them take time.  With SHIM_THREADS, all
 * is to be compiled with _GNU_SOURCE as well.  A thread waits for a lock by looking at it again and
 * again; with SHIM_SLEEP, for threads that share processors, it sleeps.
 */
#ifndef SHIM_USER_MEMORY_H
#define SHIM_USER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#ifdef SHIM_THREADS
#include <pthread.h>
#endif

#include "../core/types.h"
#ifndef SHIM_THREADS
#include "account.h"
#endif

typedef int s32;

#ifdef __CHECKER__
#define __rcu __attribute__((noderef, address_space(__rcu)))
#define __force __attribute__((force))
#else
#define __rcu
#define __force
#endif
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define noinline __attribute__((noinline))
#define __maybe_unused __attribute__((unused))
#define __must_check __attribute__((warn_unused_result))
#define fallthrough __attribute__((fallthrough))
#define ____cacheline_aligned __attribute__((aligned(64)))

#define __aligned(bytes) __attribute__((aligned(bytes)))
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define BUILD_BUG_ON(condition) _Static_assert(!(condition), #condition)
#ifndef ARRAY_SIZE
#define ARRAY_SIZE(array) SHIM_COUNT(array)
#endif

#ifndef U32_MAX
#define U32_MAX (~(u32)0)
#endif
#ifndef U64_MAX
#define U64_MAX (~(u64)0)
#endif
#define NSEC_PER_SEC 1000000000L
#define NSEC_PER_MSEC 1000000L
#define NSEC_PER_USEC 1000L

#define container_of(pointer, type, member) \
	((type *)((unsigned long)(pointer) - offsetof(type, member)))
#define struct_size(object, member, n) \
	(sizeof(*(object)) + sizeof((object)->member[0]) * (size_t)(n))

/* Calls a macro with two names that no other use of it has. */
#define SHIM_NAMES_2(macro, n, ...) macro(a_##n, b_##n, __VA_ARGS__)
#define SHIM_NAMES_1(macro, n, ...) SHIM_NAMES_2(macro, n, __VA_ARGS__)
#define SHIM_NAMES(macro, ...) SHIM_NAMES_1(macro, __COUNTER__, __VA_ARGS__)

/* Returns the lesser, or by the sign the greater, of two values of one type. */
#define SHIM_LESSER(x, y, type_x, a, type_y, b, sign) \
	({ type_x x = (a); type_y y = (b); (void)(&x == &y); x sign y ? x : y; })
#define min_t(type, a, b) SHIM_NAMES(SHIM_LESSER, type, a, type, b, <)
#define max_t(type, a, b) SHIM_NAMES(SHIM_LESSER, type, a, type, b, >)
#define min(a, b) SHIM_NAMES(SHIM_LESSER, __typeof__(a), a, __typeof__(b), b, <)
#define max(a, b) SHIM_NAMES(SHIM_LESSER, __typeof__(a), a, __typeof__(b), b, >)

/* Returns a value, or the end of the range that it is beyond. */
#define clamp_t(type, value, low, high) \
	SHIM_NAMES(SHIM_CLAMPED, type, (type)(value), (type)(low), (type)(high))
#define SHIM_CLAMPED(x, y, type, value, low, high) \
	({ \
		type x = (value), y = (low); \
		x = x < y ? y : x; \
		y = (high); \
		x > y ? y : x; \
	})
#define clamp(value, low, high) clamp_t(__typeof__(value), value, low, high)
#define swap(a, b) \
	do { __typeof__(a) a_ = (a); (a) = (b); (b) = a_; } while (0)

/* Sets memory to 0 that is not read any more, and yet must not stay as it is. */
#define memzero_explicit(object, bytes) \
	do { \
		void *m_ = (object); \
		memset(m_, 0, bytes); \
		__asm__ __volatile__("" : : "r"(m_) : "memory"); \
	} while (0)

#define barrier() __asm__ __volatile__("" : : : "memory")

/* A word that many may change. */
typedef struct {
	s64 counter;			/* its value */
} atomic64_t;

#ifdef SHIM_THREADS

#define READ_ONCE(object) __atomic_load_n(&(object), __ATOMIC_RELAXED)
#define WRITE_ONCE(object, value) __atomic_store_n(&(object), value, __ATOMIC_RELAXED)
#define smp_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define smp_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define smp_wmb() __atomic_thread_fence(__ATOMIC_RELEASE)
#define smp_load_acquire(pointer) __atomic_load_n(pointer, __ATOMIC_ACQUIRE)
#define smp_store_release(pointer, value) __atomic_store_n(pointer, value, __ATOMIC_RELEASE)
#define xchg(pointer, value) __atomic_exchange_n(pointer, value, __ATOMIC_SEQ_CST)
#define try_cmpxchg(pointer, old, new) \
	__atomic_compare_exchange_n(pointer, old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)
#define cmpxchg(pointer, old, new) \
	({ __typeof__(*(pointer)) o_ = (old); try_cmpxchg(pointer, &o_, new); o_; })
#define rcu_dereference(pointer) \
	((__typeof__(*(pointer)) __force *)__atomic_load_n(&(pointer), __ATOMIC_ACQUIRE))

/* Adds to a word, and returns what it was. */
static inline s64 atomic64_fetch_add(s64 n, atomic64_t *word)
{
	return __atomic_fetch_add(&word->counter, n, __ATOMIC_SEQ_CST);
}

/* Adds to a word. */
static inline void atomic64_add(s64 n, atomic64_t *word)
{
	__atomic_fetch_add(&word->counter, n, __ATOMIC_RELAXED);
}

#ifdef SHIM_SLEEP
#define SHIM_LOCK(what) pthread_mutex_##what
typedef pthread_mutex_t shim_lock_t;
#else
#define SHIM_LOCK(what) pthread_spin_##what
typedef pthread_spinlock_t shim_lock_t;
#endif

/* A lock. */
typedef struct {
	shim_lock_t lock;		/* it */
} spinlock_t;

/* Prepares a lock. */
static inline void spin_lock_init(spinlock_t *lock)
{
	SHIM_LOCK(init)(&lock->lock, 0);
}

/* Takes a lock. */
static inline void spin_lock(spinlock_t *lock)
{
	SHIM_LOCK(lock)(&lock->lock);
}

/* Takes a lock unless somebody has it; tells whether it did. */
static inline bool spin_trylock(spinlock_t *lock)
{
	return !SHIM_LOCK(trylock)(&lock->lock);
}

/* Gives a lock back. */
static inline void spin_unlock(spinlock_t *lock)
{
	SHIM_LOCK(unlock)(&lock->lock);
}

#define lockdep_is_held(lock) ((void)(lock), true)
#define lockdep_assert_held(lock) ((void)(lock))
#define shim_host_expect(condition) ((void)(condition))

#else

#define READ_ONCE(object) (*(const volatile __typeof__(object) *)&(object))
#define WRITE_ONCE(object, value) \
	do { *(volatile __typeof__(object) *)&(object) = (value); } while (0)
#define smp_mb() barrier()
#define smp_rmb() barrier()
#define smp_wmb() barrier()
#define smp_load_acquire(pointer) READ_ONCE(*(pointer))
#define smp_store_release(pointer, value) WRITE_ONCE(*(pointer), value)
#define xchg(pointer, value) \
	({ __typeof__(*(pointer)) o_ = *(pointer); *(pointer) = (value); o_; })
#define cmpxchg(pointer, old, new) \
	({ __typeof__(*(pointer)) o_ = *(pointer); if (o_ == (old)) *(pointer) = (new); o_; })
#define try_cmpxchg(pointer, old, new) \
	({ \
		bool same_ = *(pointer) == *(old); \
		if (same_) \
			*(pointer) = (new); \
		else \
			*(old) = *(pointer); \
		same_; \
	})
#define rcu_dereference(pointer) ((__typeof__(*(pointer)) __force *)READ_ONCE(pointer))

/* Adds to a word, and returns what it was. */
static inline s64 atomic64_fetch_add(s64 n, atomic64_t *word)
{
	s64 old = word->counter;

	word->counter += n;
	return old;
}

/* Adds to a word. */
static inline void atomic64_add(s64 n, atomic64_t *word)
{
	word->counter += n;
}

/* A lock. */
typedef struct {
	bool held;			/* by the only thread there is */
} spinlock_t;

void shim_host_lock_wrong(const char *what) __attribute__((noreturn));

/* Prepares a lock. */
static inline void spin_lock_init(spinlock_t *lock)
{
	lock->held = false;
}

/* Takes a lock, which must not be held. */
static inline void spin_lock(spinlock_t *lock)
{
	if (unlikely(lock->held))
		shim_host_lock_wrong("taken twice");
	lock->held = true;
	shim_host_clock_ns += shim_host_lock_ns;
	barrier();
}

/* Takes a lock unless it is held; tells whether it did. */
static inline bool spin_trylock(spinlock_t *lock)
{
	if (lock->held)
		return false;
	lock->held = true;
	return true;
}

/* Gives a lock back, which must be held. */
static inline void spin_unlock(spinlock_t *lock)
{
	barrier();
	if (unlikely(!lock->held))
		shim_host_lock_wrong("given back without being held");
	lock->held = false;
}

#define lockdep_is_held(lock) ((lock)->held)
#define lockdep_assert_held(lock) shim_host_expect(lockdep_is_held(lock))
#define shim_host_expect(condition) \
	((condition) ? (void)0 : shim_host_lock_wrong("not held: " #condition))

#endif

/* Softirqs are nothing to user space. */
#define spin_lock_bh spin_lock
#define spin_unlock_bh spin_unlock
#define local_bh_disable() barrier()
#define local_bh_enable() barrier()

/* Nothing is freed before shim_host_quiesce(): a read section needs no mark. */
#define rcu_read_lock() barrier()
#define rcu_read_unlock() barrier()

#define rcu_dereference_protected(pointer, condition) \
	(shim_host_expect(condition), (__typeof__(*(pointer)) __force *)(pointer))
#define rcu_dereference_check(pointer, condition) rcu_dereference(pointer)
#define rcu_access_pointer(pointer) ((__typeof__(*(pointer)) __force *)READ_ONCE(pointer))
#define rcu_assign_pointer(pointer, value) \
	smp_store_release(&(pointer), (__typeof__(*(value)) __force __rcu *)(value))
#define RCU_INIT_POINTER(pointer, value) \
	WRITE_ONCE(pointer, (__typeof__(*(pointer)) __force __rcu *)(value))

/* Adds one to a word. */
static inline void atomic64_inc(atomic64_t *word)
{
	atomic64_add(1, word);
}

/* Returns a word. */
static inline s64 atomic64_read(const atomic64_t *word)
{
	return READ_ONCE(word->counter);
}

/* Sets a word. */
static inline void atomic64_set(atomic64_t *word, s64 value)
{
	WRITE_ONCE(word->counter, value);
}

/* Sets a word, and returns what it was. */
static inline s64 atomic64_xchg(atomic64_t *word, s64 value)
{
	return xchg(&word->counter, value);
}

/* Sets a word if it is *old, which becomes what it was; tells whether it did. */
static inline bool atomic64_try_cmpxchg(atomic64_t *word, s64 *old, s64 new)
{
	return try_cmpxchg(&word->counter, old, new);
}

#endif
