/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Drops of the shim among openvswitch's drop reasons, for kernels whose openvswitch has its own: in
 * the order of the engine's counters of drops, from SHIM_DROP_SEGMENT to SHIM_DROP_WAITING.
 */
#ifndef OVS_SHIM_REASONS_H
#define OVS_SHIM_REASONS_H

#define OVS_SHIM_DROP_REASONS(R)		\
	R(OVS_DROP_SHIM_SEGMENT)		\
	R(OVS_DROP_SHIM_MEMORY)			\
	R(OVS_DROP_SHIM_FORGED)			\
	R(OVS_DROP_SHIM_SOURCE)			\
	R(OVS_DROP_SHIM_SPOOFED)		\
	R(OVS_DROP_SHIM_PEER)			\
	R(OVS_DROP_SHIM_SHARED)			\
	R(OVS_DROP_SHIM_UNANSWERED)		\
	R(OVS_DROP_SHIM_SIZE)			\
	R(OVS_DROP_SHIM_PATH)			\
	R(OVS_DROP_SHIM_POLICE)			\
	R(OVS_DROP_SHIM_HORIZON)		\
	R(OVS_DROP_SHIM_WAITING)

#endif
