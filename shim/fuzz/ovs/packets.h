/* SPDX-License-Identifier: Apache-2.0 */
/* What headers look like. */
#ifndef FUZZ_PACKETS_H
#define FUZZ_PACKETS_H

#include "util.h"

#define ETH_ADDR_LEN 6
#define ETH_HEADER_LEN 14
#define ETH_TYPE_IP 0x0800
#define ETH_TYPE_ARP 0x0806
#define ETH_TYPE_IPV6 0x86dd
#define ETH_TYPE_VLAN_8021Q 0x8100
#define ETH_TYPE_VLAN_8021AD 0x88a8
#define PT_ETH 0
#define VLAN_HEADER_LEN 4
#define VLAN_VID_MASK 0x0fff
#define IP_HEADER_LEN 20
#define IP_VER(ver_ihl) ((ver_ihl) >> 4)
#define IP_IHL(ver_ihl) ((ver_ihl) & 15)
#define IP_ECN_MASK 3
#define IP_DONT_FRAGMENT 0x4000
#define IP_MORE_FRAGMENTS 0x2000
#define IP_FRAG_OFF_MASK 0x1fff
#define IPV6_HEADER_LEN 40
#define TCP_HEADER_LEN 20
#define ARP_ETH_HEADER_LEN 28
#define ARP_HRD_ETHERNET 1
#define ARP_PRO_IP 0x0800
#define ND_MSG_LEN 24

/* Tells whether a type of Ethernet is that of a VLAN tag. */
static inline bool eth_type_vlan(ovs_be16 type)
{
	return type == htons(ETH_TYPE_VLAN_8021Q) || type == htons(ETH_TYPE_VLAN_8021AD);
}

#endif
