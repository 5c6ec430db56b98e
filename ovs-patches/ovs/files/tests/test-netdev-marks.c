/* SPDX-License-Identifier: Apache-2.0 */

/* Checks how 32-bit counters of a queuing discipline become fresh marks. */

#include <config.h>
#undef NDEBUG
#include "netdev-marks.h"
#include "ovstest.h"
#include "util.h"

/* Fails unless 'marks' are fresh between 'old' and 'new'. */
static void
check(struct marks_sample old, struct marks_sample new, uint32_t marks)
{
    ovs_assert(marks_sample_delta(&old, &new) == marks);
}

/* Runs all checks.  Samples are bytes, marks, drops, backlog. */
static void
test_netdev_marks_main(int argc OVS_UNUSED, char *argv[] OVS_UNUSED)
{
    /* Nothing happened; then packets without and with marks. */
    check((struct marks_sample) { 3000, 7, 0, 0 },
          (struct marks_sample) { 3000, 7, 0, 0 }, 0);
    check((struct marks_sample) { 3000, 7, 0, 0 },
          (struct marks_sample) { 6000, 7, 0, 0 }, 0);
    check((struct marks_sample) { 3000, 7, 0, 0 },
          (struct marks_sample) { 6000, 9, 0, 0 }, 2);

    /* The marks wrapped: as many packets passed, were dropped or wait. */
    check((struct marks_sample) { 1ULL << 40, UINT32_MAX - 1, 0, 0 },
          (struct marks_sample) { (1ULL << 40) + 5 * 1514, 3, 0, 0 }, 5);
    check((struct marks_sample) { 1ULL << 40, UINT32_MAX, UINT32_MAX, 0 },
          (struct marks_sample) { 1ULL << 40, 1, 1, 0 }, 2);
    check((struct marks_sample) { 1ULL << 40, UINT32_MAX, 0, 0 },
          (struct marks_sample) { 1ULL << 40, 9, 0, 10 }, 10);
    check((struct marks_sample) { 1ULL << 40, UINT32_MAX, 0, 10 },
          (struct marks_sample) { 1ULL << 40, 9, 0, 0 }, 10);

    /* The discipline was replaced: its bytes went back. */
    check((struct marks_sample) { 6000, 9, 0, 0 },
          (struct marks_sample) { 1514, 1, 0, 0 }, 1);
    check((struct marks_sample) { 6000, 9, 0, 0 },
          (struct marks_sample) { 0, 0, 0, 0 }, 0);
    check((struct marks_sample) { 6000, 1, 0, 0 },
          (struct marks_sample) { 5000, 3, 0, 0 }, 3);

    /* It was replaced and has sent more than the old one since, but not so
     * much that the marks can have wrapped. */
    check((struct marks_sample) { 6000, 3000000000u, 0, 0 },
          (struct marks_sample) { 60000, 12, 0, 0 }, 12);
    check((struct marks_sample) { 6000, UINT32_MAX, 0, 0 },
          (struct marks_sample) { 60000, 0, 0, 0 }, 1);

    /* A wrap of nearly all of 2^32 takes 136 GiB of the smallest packets. */
    check((struct marks_sample) { 0, 10, 0, 0 },
          (struct marks_sample) { 34ULL << 32, 9, 0, 0 }, UINT32_MAX);
    check((struct marks_sample) { 0, 10, 0, 0 },
          (struct marks_sample) { (34ULL << 32) - 35, 9, 0, 0 }, 9);
}

OVSTEST_REGISTER("test-netdev-marks", test_netdev_marks_main);
