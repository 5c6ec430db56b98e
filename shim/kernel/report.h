/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reports to the shims of peers.
 */
#ifndef OVS_SHIM_REPORT_H
#define OVS_SHIM_REPORT_H

struct shim_reports;

/* Sends all reports of a tick, in the RCU read section of that tick and without a lock. */
void ovs_shim_reports_send(struct shim_reports *reports);

#endif
