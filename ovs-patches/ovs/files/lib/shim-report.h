/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_REPORT_H
#define SHIM_REPORT_H 1

/* Reports: control messages that a VM's shim sends to those of its peers. */

struct shim_reports;

void shim_reports_send(struct shim_reports *);

#endif /* shim-report.h */
