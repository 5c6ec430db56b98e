// SPDX-License-Identifier: GPL-2.0-only
/*
 * sdngcc.ko: the shim as a module of its own, beside an openvswitch.ko that knows nothing of it.
 */
#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/module.h>

#include "../ovs_shim.h"
#include "netdev.h"

#if !IS_ENABLED(CONFIG_NETFILTER_INGRESS) || !IS_ENABLED(CONFIG_NETFILTER_EGRESS)
#error "sdngcc needs a kernel with CONFIG_NETFILTER_INGRESS and CONFIG_NETFILTER_EGRESS"
#endif

/* Bits that the mask may have: room for some hundred ports, and no table of megabytes. */
#define MARK_BITS_MIN 8
#define MARK_BITS_MAX 16

/* The module parameter: which bits of skb->mark are the shim's. */
static unsigned int mark_mask = GENMASK(31, 20);
module_param(mark_mask, uint, 0444);
MODULE_PARM_DESC(mark_mask, "bits of skb->mark that tell where a packet is from (0xfff00000)");

struct ovs_shim_mark ovs_shim_mark __ro_after_init;

/* Reads the mask; 0 or a negative error number, and the reason in the log. */
static int __init main_read_mask(void)
{
	unsigned int bits = hweight32(mark_mask);

	if (bits < MARK_BITS_MIN || bits > MARK_BITS_MAX ||
	    mark_mask >> __ffs(mark_mask) != GENMASK(bits - 1, 0)) {
		pr_err("sdngcc: mark_mask: 0x%x has %u bits, allowed are %u to %u in a row\n",
		       mark_mask, bits, MARK_BITS_MIN, MARK_BITS_MAX);
		return -EINVAL;
	}
	ovs_shim_mark = (struct ovs_shim_mark){
		.mask = mark_mask,
		.shift = __ffs(mark_mask),
		.tunnelled = BIT(fls(mark_mask) - 1),
		.n_ids = BIT(bits - 1),
	};
	return 0;
}

/* Starts the shim. */
static int __init main_start(void)
{
	int err;

	err = main_read_mask();
	if (err)
		return err;
	err = ovs_shim_devices_init();
	if (err)
		return err;
	err = ovs_shim_init();
	if (err) {
		ovs_shim_devices_stop();
		ovs_shim_devices_exit();
	}
	return err;
}

/* Stops the shim; ports without their roles are only hooks, which go last. */
static void __exit main_stop(void)
{
	ovs_shim_devices_stop();
	ovs_shim_exit();
	ovs_shim_devices_exit();
}

module_init(main_start);
module_exit(main_stop);
MODULE_DESCRIPTION("Bandwidth isolation of VMs beside Open vSwitch");
MODULE_LICENSE("GPL");
