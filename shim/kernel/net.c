// SPDX-License-Identifier: GPL-2.0-only
/*
 * The shim's life with the module and with each network namespace.
 *
 * The namespace operations are registered before the datapath's, so they are undone after them.
 * Where the shim is part of the datapath every port has gone by then; where it stands beside it,
 * devices go later, and ports go now.
 */
#include <linux/kernel.h>
#include <linux/netdevice.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/timekeeping.h>
#include <net/genetlink.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "netlink/netlink.h"
#include "netlink/walk.h"
#include "ovs_shim.h"
#include "pass.h"
#include "port.h"

/* Index of struct ovs_shim_net among a namespace's generic pointers. */
static unsigned int net_id;

struct ovs_shim_net *ovs_shim_net(const struct net *net)
{
	return net_generic(net, net_id);
}

/* Starts the shim in a new namespace. */
static int __net_init net_start(struct net *ns)
{
	struct ovs_shim_net *net = ovs_shim_net(ns);
	int err;

	ovs_shim_walk_init(net);
	err = shim_engine_init(&net->engine, get_random_u32(),
			       max_t(u32, ktime_get_real_seconds(), 1));
	if (!err)
		ovs_shim_nl_settings_confine(ns, rcu_dereference_protected(net->engine.settings,
									   true));
	return err;
}

/* Ends the shim in a namespace. */
static void __net_exit net_end(struct net *ns)
{
	struct ovs_shim_net *net = ovs_shim_net(ns);

	ovs_shim_ports_flush(net);
	ovs_shim_walk_exit(net);
	shim_engine_exit(&net->engine);
}

/* Life with namespaces. */
static struct pernet_operations net_operations = {
	.init = net_start,
	.exit = net_end,
	.id = &net_id,
	.size = sizeof(struct ovs_shim_net),
};

int ovs_shim_init(void)
{
	int err;

	if (WARN_ON(shim_law_at(SHIM_LAW_SLOTS)))
		return -ENOSPC;
	err = ovs_shim_pass_init();
	if (err)
		return err;
	err = ovs_shim_ports_init();
	if (err)
		goto error_pass;
	err = register_pernet_device(&net_operations);
	if (err)
		goto error_ports;
	err = register_netdevice_notifier(&ovs_shim_device_notifier);
	if (err)
		goto error_net;
	err = genl_register_family(&ovs_shim_family);
	if (err)
		goto error_notifier;
	return 0;

error_notifier:
	unregister_netdevice_notifier(&ovs_shim_device_notifier);
error_net:
	unregister_pernet_device(&net_operations);
error_ports:
	ovs_shim_ports_exit();
error_pass:
	ovs_shim_pass_exit();
	return err;
}

void ovs_shim_exit(void)
{
	genl_unregister_family(&ovs_shim_family);
	unregister_netdevice_notifier(&ovs_shim_device_notifier);
	unregister_pernet_device(&net_operations);
	ovs_shim_ports_exit();
	/* Functions of this module free what packets may have held. */
	rcu_barrier();
	ovs_shim_pass_exit();
}
