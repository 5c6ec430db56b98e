/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A VLAN tag in one word, as struct shim_network has it.
 */
#ifndef OVS_SHIM_VLAN_H
#define OVS_SHIM_VLAN_H

#include <linux/if_vlan.h>
#include <linux/types.h>

/* What a packet's outermost tag is where nobody saw it come. */
#define OVS_SHIM_VLAN_UNKNOWN (~0U)

/* Returns a tag as protocol << 16 | id; 0 for one of priority alone. */
static inline u32 ovs_shim_vlan(__be16 protocol, u16 tci)
{
	tci &= VLAN_VID_MASK;
	return tci ? (u32)ntohs(protocol) << 16 | tci : 0;
}

#endif
