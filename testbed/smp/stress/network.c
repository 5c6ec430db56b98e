// SPDX-License-Identifier: Apache-2.0
/*
 * Namespaces, links and queues, by rtnetlink.  What fails here ends the machine, except where it is
 * told.
 */
#define _GNU_SOURCE
#include "stress.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Packets that fq may hold, of all flows and of one. */
#define FQ_PACKETS 100000

/* Makes a network namespace and returns its file; the calling thread stays in it. */
int namespace_new(void)
{
	int fd;

	if (unshare(CLONE_NEWNET))
		die(true, "unshare");
	fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die(true, "/proc/thread-self/ns/net");
	return fd;
}

/* Moves the calling thread to a network namespace. */
void namespace_enter(int ns)
{
	if (setns(ns, CLONE_NEWNET))
		die(true, "setns");
}

/* Sends a request of rtnetlink in a namespace and returns 0 or a negative errno value. */
static int request(int ns, struct message *message)
{
	struct netlink nl;
	int error;

	netlink_open(&nl, NETLINK_ROUTE, ns);
	error = netlink_call(&nl, message, NULL, NULL);
	netlink_close(&nl);
	return error;
}

/* Sends a request that must not fail. */
static void demand(int ns, struct message *message, const char *what, const char *name)
{
	int error = request(ns, message);

	if (error)
		die(false, "%s %s: %s", what, name, strerror(-error));
}

/* Makes a pair of linked devices in two namespaces. */
void link_pair(int ns, const char *name, int peer_ns, const char *peer, const uint8_t *mac,
	       const uint8_t *peer_mac)
{
	struct ifinfomsg info = { .ifi_family = AF_UNSPEC };
	uint32_t nest, data, other;
	struct message message;

	message_begin(&message, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
	message_append(&message, &info, sizeof(info));
	message_put_string(&message, IFLA_IFNAME, name);
	message_put(&message, IFLA_ADDRESS, mac, 6);
	nest = message_nest(&message, IFLA_LINKINFO);
	message_put_string(&message, IFLA_INFO_KIND, "veth");
	data = message_nest(&message, IFLA_INFO_DATA);
	other = message_nest(&message, VETH_INFO_PEER);
	message_append(&message, &info, sizeof(info));
	message_put_string(&message, IFLA_IFNAME, peer);
	message_put(&message, IFLA_ADDRESS, peer_mac, 6);
	message_put_u32(&message, IFLA_NET_NS_FD, (uint32_t)peer_ns);
	message_end(&message, other);
	message_end(&message, data);
	message_end(&message, nest);
	demand(ns, &message, "link", name);
	link_up(ns, name, true);
	link_up(peer_ns, peer, true);
}

/* Removes a device; returns 0 or a negative errno value. */
int link_delete(int ns, const char *name)
{
	struct ifinfomsg info = { .ifi_family = AF_UNSPEC };
	struct message message;

	message_begin(&message, RTM_DELLINK, 0);
	message_append(&message, &info, sizeof(info));
	message_put_string(&message, IFLA_IFNAME, name);
	return request(ns, &message);
}

/* Switches a device on or off. */
void link_up(int ns, const char *name, bool up)
{
	struct ifinfomsg info = {
		.ifi_family = AF_UNSPEC, .ifi_flags = up ? IFF_UP : 0, .ifi_change = IFF_UP,
	};
	struct message message;

	message_begin(&message, RTM_NEWLINK, 0);
	message_append(&message, &info, sizeof(info));
	message_put_string(&message, IFLA_IFNAME, name);
	demand(ns, &message, "up", name);
}

/* Returns a device's index, 0 without it. */
uint32_t link_index(int ns, const char *name)
{
	namespace_enter(ns);
	return if_nametoindex(name);
}

/* Puts fq, which obeys departure times, on a device. */
void link_fq(int ns, const char *name)
{
	struct tcmsg info = { .tcm_family = AF_UNSPEC, .tcm_parent = TC_H_ROOT };
	struct message message;
	uint32_t nest;

	info.tcm_ifindex = (int)link_index(ns, name);
	message_begin(&message, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE);
	message_append(&message, &info, sizeof(info));
	message_put_string(&message, TCA_KIND, "fq");
	nest = message_nest(&message, TCA_OPTIONS);
	message_put_u32(&message, TCA_FQ_PLIMIT, FQ_PACKETS);
	message_put_u32(&message, TCA_FQ_FLOW_PLIMIT, FQ_PACKETS);
	message_end(&message, nest);
	demand(ns, &message, "fq", name);
}

/* Takes the queue off a device: what is sent leaves it at once. */
void link_no_queue(int ns, const char *name)
{
	struct tcmsg info = { .tcm_family = AF_UNSPEC, .tcm_parent = TC_H_ROOT };
	struct message message;

	info.tcm_ifindex = (int)link_index(ns, name);
	message_begin(&message, RTM_DELQDISC, 0);
	message_append(&message, &info, sizeof(info));
	demand(ns, &message, "no queue", name);
}
