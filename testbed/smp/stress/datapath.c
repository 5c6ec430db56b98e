// SPDX-License-Identifier: Apache-2.0
/*
 * Datapaths of openvswitch, by its own netlink families: a bridge of two ports without
 * ovs-vswitchd.
 */
#include "stress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/netlink.h>
#include <linux/openvswitch.h>
#include <string.h>

/* Begins a request of one of openvswitch's families; returns 0 or a negative errno value. */
static int begin(struct netlink *nl, struct message *message, const char *name, uint8_t command,
		 uint32_t datapath)
{
	struct ovs_header head = { .dp_ifindex = (int)datapath };
	int family = netlink_family(nl, name);

	if (family < 0)
		return family;
	message_begin_generic(message, (uint16_t)family, command, 0);
	message_append(message, &head, sizeof(head));
	return 0;
}

/* Takes the datapath's index from an answer. */
static void take_index(const char *attributes, int bytes, void *data)
{
	if (bytes >= (int)sizeof(struct ovs_header))
		*(int *)data = ((const struct ovs_header *)attributes)->dp_ifindex;
}

/* Returns the index of the namespace's datapath, negative without one. */
static int datapath_index(struct netlink *nl)
{
	struct message message;
	int index = -ENODEV, error = begin(nl, &message, OVS_DATAPATH_FAMILY, OVS_DP_CMD_GET, 0);

	if (error)
		return error;
	message_put_string(&message, OVS_DP_ATTR_NAME, DATAPATH_DEVICE);
	error = netlink_call(nl, &message, take_index, &index);
	return error ? error : index;
}

/* Makes the namespace's datapath; returns 0 or a negative errno value. */
int datapath_new(struct netlink *nl)
{
	struct message message;
	int error = begin(nl, &message, OVS_DATAPATH_FAMILY, OVS_DP_CMD_NEW, 0);

	if (error)
		return error;
	message_put_string(&message, OVS_DP_ATTR_NAME, DATAPATH_DEVICE);
	message_put_u32(&message, OVS_DP_ATTR_UPCALL_PID, 0);
	return netlink_call(nl, &message, NULL, NULL);
}

/* Removes the namespace's datapath with its ports; returns 0 or a negative errno value. */
int datapath_delete(struct netlink *nl)
{
	struct message message;
	int error = begin(nl, &message, OVS_DATAPATH_FAMILY, OVS_DP_CMD_DEL, 0);

	if (error)
		return error;
	message_put_string(&message, OVS_DP_ATTR_NAME, DATAPATH_DEVICE);
	return netlink_call(nl, &message, NULL, NULL);
}

/* Makes a device a port; returns 0 or a negative errno value. */
int datapath_port_new(struct netlink *nl, const char *device, uint32_t number)
{
	int index = datapath_index(nl), error;
	struct message message;

	if (index < 0)
		return index;
	error = begin(nl, &message, OVS_VPORT_FAMILY, OVS_VPORT_CMD_NEW, (uint32_t)index);
	if (error)
		return error;
	message_put_u32(&message, OVS_VPORT_ATTR_PORT_NO, number);
	message_put_u32(&message, OVS_VPORT_ATTR_TYPE, OVS_VPORT_TYPE_NETDEV);
	message_put_string(&message, OVS_VPORT_ATTR_NAME, device);
	message_put_u32(&message, OVS_VPORT_ATTR_UPCALL_PID, 0);
	return netlink_call(nl, &message, NULL, NULL);
}

/* Takes a port out; returns 0 or a negative errno value. */
int datapath_port_delete(struct netlink *nl, uint32_t number)
{
	int index = datapath_index(nl), error;
	struct message message;

	if (index < 0)
		return index;
	error = begin(nl, &message, OVS_VPORT_FAMILY, OVS_VPORT_CMD_DEL, (uint32_t)index);
	if (error)
		return error;
	message_put_u32(&message, OVS_VPORT_ATTR_PORT_NO, number);
	return netlink_call(nl, &message, NULL, NULL);
}

/* Appends the match of a port and an Ethernet type: values of a key, ones of a mask. */
static void put_match(struct message *message, uint32_t port, uint16_t ethertype, bool mask)
{
	struct ovs_key_ethernet ethernet = { 0 };
	struct ovs_key_ipv4 ipv4 = { 0 };
	struct ovs_key_ipv6 ipv6 = { 0 };

	message_put_u32(message, OVS_KEY_ATTR_IN_PORT, mask ? UINT32_MAX : port);
	message_put(message, OVS_KEY_ATTR_ETHERNET, &ethernet, sizeof(ethernet));
	message_put_u16(message, OVS_KEY_ATTR_ETHERTYPE, mask ? UINT16_MAX : htons(ethertype));
	if (ethertype == ETH_P_IP)
		message_put(message, OVS_KEY_ATTR_IPV4, &ipv4, sizeof(ipv4));
	else
		message_put(message, OVS_KEY_ATTR_IPV6, &ipv6, sizeof(ipv6));
}

/*
 * Sends what comes in by one port with an Ethernet type out by the other; returns 0 or a negative
 * errno value.
 */
static int flow_new(struct netlink *nl, uint32_t datapath, uint32_t in, uint32_t out,
		    uint16_t ethertype)
{
	struct message message;
	uint32_t nest;
	int error;

	error = begin(nl, &message, OVS_FLOW_FAMILY, OVS_FLOW_CMD_NEW, datapath);
	if (error)
		return error;
	nest = message_nest(&message, OVS_FLOW_ATTR_KEY);
	put_match(&message, in, ethertype, false);
	message_end(&message, nest);
	nest = message_nest(&message, OVS_FLOW_ATTR_MASK);
	put_match(&message, in, ethertype, true);
	message_end(&message, nest);
	nest = message_nest(&message, OVS_FLOW_ATTR_ACTIONS);
	message_put_u32(&message, OVS_ACTION_ATTR_OUTPUT, out);
	message_end(&message, nest);
	return netlink_call(nl, &message, NULL, NULL);
}

/* Joins the two ports for IPv4 and IPv6; returns 0 or a negative errno value. */
int datapath_flows(struct netlink *nl)
{
	static const uint16_t types[] = { ETH_P_IP, ETH_P_IPV6 };
	int index = datapath_index(nl), error = 0;

	if (index < 0)
		return index;
	for (int i = 0; i < 2 && !error; i++) {
		error = flow_new(nl, (uint32_t)index, VM_PORT, UPLINK_PORT, types[i]);
		if (!error)
			error = flow_new(nl, (uint32_t)index, UPLINK_PORT, VM_PORT, types[i]);
	}
	return error;
}
