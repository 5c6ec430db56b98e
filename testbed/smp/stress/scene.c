// SPDX-License-Identifier: Apache-2.0
/*
 * The two sides and what joins them; stress.h has the picture.
 */
#include "stress.h"

#include <linux/netlink.h>
#include <string.h>

#include "ovs_shim.h"

/* Ceiling of a VM and speed of an uplink where nothing else is asked for, bytes/s. */
#define MAX_RATE 1000000
#define CAPACITY 10000000

/* Makes the namespaces and links of both sides. */
void scene_links(struct side *sides)
{
	uint8_t mac[6] = { 2 }, peer_mac[6] = { 2, 0, 0, 0, 1 };

	for (int i = 0; i < 2; i++) {
		sides[i].letter = (char)('a' + i);
		sides[i].guest_ns = namespace_new();
		sides[i].host_ns = namespace_new();
		mac[5] = (uint8_t)(0x0a + i);
		peer_mac[5] = mac[5];
		link_pair(sides[i].guest_ns, GUEST_DEVICE, sides[i].host_ns, VM_DEVICE, mac,
			  peer_mac);
	}
	mac[4] = 2;
	peer_mac[4] = 3;
	link_pair(sides[0].host_ns, UPLINK_DEVICE, sides[1].host_ns, UPLINK_DEVICE, mac, peer_mac);
	for (int i = 0; i < 2; i++)
		link_fq(sides[i].host_ns, UPLINK_DEVICE);
}

/* Makes one hypervisor's datapath with ports and flows; returns 0 or a negative errno value. */
int scene_datapath(struct netlink *nl)
{
	int error = datapath_new(nl);

	if (!error)
		error = datapath_port_new(nl, VM_DEVICE, VM_PORT);
	if (!error)
		error = datapath_port_new(nl, UPLINK_DEVICE, UPLINK_PORT);
	if (!error)
		error = datapath_flows(nl);
	return error;
}

/*
 * Gives a hypervisor's ports their roles, the VM a ceiling in bytes/s; returns 0 or a negative
 * errno value.
 */
int scene_roles(struct netlink *nl, uint64_t max_rate)
{
	struct message message;
	int error;

	shim_port_begin(nl, &message, VM_DEVICE);
	if (message.bytes) {
		message_put_u32(&message, OVS_SHIM_PORT_ROLE, OVS_SHIM_ROLE_VM);
		message_put_u64(&message, OVS_SHIM_PORT_MAX_RATE, max_rate);
	}
	error = shim_settings(nl, &message);
	if (error)
		return error;
	shim_port_begin(nl, &message, UPLINK_DEVICE);
	if (message.bytes) {
		message_put_u32(&message, OVS_SHIM_PORT_ROLE, OVS_SHIM_ROLE_UPLINK);
		message_put_u64(&message, OVS_SHIM_PORT_CAPACITY, CAPACITY);
	}
	return shim_settings(nl, &message);
}

/* Makes the datapaths of both sides and gives their ports roles. */
void scene_datapaths(struct side *sides)
{
	for (int i = 0; i < 2; i++) {
		struct netlink nl;
		int error;

		netlink_open(&nl, NETLINK_GENERIC, sides[i].host_ns);
		error = scene_datapath(&nl);
		if (!error)
			error = scene_roles(&nl, MAX_RATE);
		netlink_close(&nl);
		if (error)
			die(false, "datapath of %c: %s", sides[i].letter, strerror(-error));
	}
}

/* Removes the datapaths. */
void scene_clear(struct side *sides)
{
	for (int i = 0; i < 2; i++) {
		struct netlink nl;
		int error;

		netlink_open(&nl, NETLINK_GENERIC, sides[i].host_ns);
		error = datapath_delete(&nl);
		netlink_close(&nl);
		if (error)
			die(false, "removing the datapath of %c: %s", sides[i].letter,
			    strerror(-error));
	}
}
