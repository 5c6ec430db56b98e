// SPDX-License-Identifier: GPL-2.0-only
/*
 * The shim's life with the module and with each network namespace.
 *
 * The namespace operations are registered before the datapath's, so they are undone after them: by
 * then every vport has gone and has taken its port along.
 */
#include <linux/kernel.h>
#include <linux/netdevice.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <net/genetlink.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "internal.h"

/* Index of struct ovs_shim_net among a namespace's generic pointers. */
static unsigned int net_id;

/* Returns a namespace's part of the shim. */
struct ovs_shim_net *ovs_shim_net(const struct net *net)
{
	return net_generic(net, net_id);
}

/* Starts the shim in a new namespace. */
static int __net_init net_init(struct net *net)
{
	struct ovs_shim_net *shim = ovs_shim_net(net);
	int err;

	spin_lock_init(&shim->lock);
	INIT_LIST_HEAD(&shim->ports);
	INIT_LIST_HEAD(&shim->uplinks);
	ovs_shim_settings_default(&shim->settings);
	shim->sender = get_random_u32();
	shim->epoch = max_t(u32, ktime_get_real_seconds(), 1);
	ovs_shim_clocks_init(shim);
	err = ovs_shim_peers_start(shim);
	if (err)
		return err;
	err = ovs_shim_flows_start(shim);
	if (err)
		ovs_shim_peers_stop(shim);
	return err;
}

/* Ends the shim in a namespace. */
static void __net_exit net_exit(struct net *net)
{
	struct ovs_shim_net *shim = ovs_shim_net(net);

	WARN_ON_ONCE(!list_empty(&shim->ports));
	ovs_shim_clocks_stop(shim);
	ovs_shim_peers_stop(shim);
	ovs_shim_flows_stop(shim);
	kvfree(shim->claims);
	memzero_explicit(shim->settings.key, sizeof(shim->settings.key));
}

/* Life with namespaces. */
static struct pernet_operations net_ops = {
	.init = net_init,
	.exit = net_exit,
	.id = &net_id,
	.size = sizeof(struct ovs_shim_net),
};

int ovs_shim_init(void)
{
	int err;

	if (WARN_ON(shim_law_at(OVS_SHIM_LAW_SLOTS)))
		return -ENOSPC;
	err = ovs_shim_ecn_init();
	if (err)
		return err;
	err = ovs_shim_peer_init();
	if (err)
		goto error_ecn;
	err = register_pernet_device(&net_ops);
	if (err)
		goto error_peer;
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
	unregister_pernet_device(&net_ops);
error_peer:
	ovs_shim_peer_exit();
error_ecn:
	ovs_shim_ecn_exit();
	return err;
}

void ovs_shim_exit(void)
{
	genl_unregister_family(&ovs_shim_family);
	unregister_netdevice_notifier(&ovs_shim_device_notifier);
	unregister_pernet_device(&net_ops);
	ovs_shim_peer_exit();
	ovs_shim_ecn_exit();
}
