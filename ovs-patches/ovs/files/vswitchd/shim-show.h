/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VSWITCHD_SHIM_SHOW_H
#define VSWITCHD_SHIM_SHOW_H 1

#include <stdbool.h>

struct ds;
struct smap;

/* The tables of "ovs-appctl shim/show". */
void shim_show(struct ds *, bool json, const struct smap *complaints);

#endif /* vswitchd/shim-show.h */
