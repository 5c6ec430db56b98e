/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included before each file that the watcher watches: what data_race() calls, which does nothing in
 * a kernel without KCSAN, tells the watcher to look away.
 */
#ifndef SMP_WATCH_H
#define SMP_WATCH_H

#include <linux/kcsan-checks.h>

void watch_pause(void);
void watch_resume(void);

#undef __kcsan_disable_current
#undef __kcsan_enable_current
#define __kcsan_disable_current() watch_pause()
#define __kcsan_enable_current() watch_resume()

#endif
