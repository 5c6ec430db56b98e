// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generic netlink family "ovs_shim": control messages that come by another way than an uplink.
 *
 * A controller that forwards nothing cannot put a packet on a VM's bridge without flows of that
 * bridge's owner.  It hands the message to ovs-vswitchd, which hands it to us.  It is checked as
 * one that a packet brought: form, tag, whose address it is for, whether it was seen before.  Who
 * may ask netlink is no proof of anything.  Reports are refused, for they come from a peer's
 * address.
 */
#include <linux/err.h>
#include <linux/rcupdate.h>
#include <net/genetlink.h>

#include "../hook.h"
#include "netlink.h"

/* Lets the engine obey or refuse a message for a VM; returns what became of it.  Configuration. */
static enum shim_counter nl_message_take(struct shim_vm *vm, const struct nlattr *attr)
{
	struct shim_packet packet = { .plain = true, .timed = true };
	struct shim_message message;
	enum shim_counter outcome;

	/* No header names a destination: the message says whom it is for. */
	if (nla_len(attr) >= SHIM_MESSAGE_V1_BYTES)
		memcpy(&packet.destination, nla_data(attr) + SHIM_MESSAGE_VM_AT,
		       sizeof(packet.destination));
	packet.version = shim_address_ipv4(&packet.destination) ? 4 : 6;
	packet.bytes = nla_len(attr);
	rcu_read_lock_bh();
	rcu_read_lock();
	packet.now_ns = ktime_get_ns();
	outcome = shim_engine_message(vm, NULL, &packet, nla_data(attr), nla_len(attr), &message);
	rcu_read_unlock();
	rcu_read_unlock_bh();
	return outcome;
}

/* OVS_SHIM_CMD_MESSAGE. */
int ovs_shim_nl_message(struct sk_buff *skb, struct genl_info *info)
{
	const struct nlattr *attr = info->attrs[OVS_SHIM_PORT_MESSAGE];
	enum shim_counter outcome;
	struct ovs_shim_port *port;
	int err;

	ovs_shim_lock();
	port = ovs_shim_nl_port(genl_info_net(info), info->attrs[OVS_SHIM_PORT_IFINDEX],
				info->attrs[OVS_SHIM_PORT_NAME], info->extack);
	err = PTR_ERR_OR_ZERO(port);
	if (err)
		goto out;
	err = -EINVAL;
	if (!attr) {
		ovs_shim_say(info->extack, "message: needed");
		goto out;
	}
	if (port->role != OVS_SHIM_ROLE_VM) {
		ovs_shim_say(info->extack, "message: an uplink obeys none");
		goto out;
	}
	outcome = SHIM_REFUSED_LAW;
	if (READ_ONCE(port->vm->mode.ruled))
		outcome = nl_message_take(port->vm, attr);
	else
		shim_vm_count(port->vm, outcome, 1);
	if (outcome == SHIM_MESSAGES) {
		err = 0;
		goto out;
	}
	ovs_shim_say(info->extack, "message: refused and counted: %s", shim_counter_name(outcome));
	err = -EACCES;
out:
	ovs_shim_unlock();
	return err;
}
