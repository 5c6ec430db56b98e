// SPDX-License-Identifier: GPL-2.0-only
/*
 * Does wrong on purpose, for each packet of each device: a kernel that looks for such mistakes
 * must say so, or what it does not say of the shim proves nothing.
 *
 *     what=race    CPUs count packets in one variable without an atomic access (KCSAN)
 *     what=order   packets take two locks the other way round than its start did (lockdep)
 *
 * It is no part of the shim and is never installed.
 */
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/spinlock.h>

/* Times a packet is counted: it takes the CPU some while, as the shim does. */
#define COUNTS 200

/* What to do wrong. */
static char *what = "race";
module_param(what, charp, 0444);
MODULE_PARM_DESC(what, "race or order");

/* Counted by all CPUs at once; the mistake. */
static unsigned long planted_packets;

/* Taken by packets in this order, before them the other way round; the mistake. */
static DEFINE_SPINLOCK(planted_first);
static DEFINE_SPINLOCK(planted_second);

/* Counts without an atomic access; in softirq context. */
static noinline void planted_race(void)
{
	int i;

	for (i = 0; i < COUNTS; i++) {
		planted_packets++;
		barrier();
	}
}

/* Takes the locks in the right order; in softirq context. */
static noinline void planted_order(void)
{
	spin_lock(&planted_first);
	spin_lock(&planted_second);
	planted_packets++;
	spin_unlock(&planted_second);
	spin_unlock(&planted_first);
}

/*
 * Takes the locks in the wrong order, once and before any packet comes: lockdep remembers, and no
 * CPU waits for ever.
 */
static void planted_reverse(void)
{
	spin_lock_bh(&planted_second);
	spin_lock(&planted_first);
	planted_packets++;
	spin_unlock(&planted_first);
	spin_unlock_bh(&planted_second);
}

/* Called for each packet of each device; takes the packet. */
static int planted_packet(struct sk_buff *skb, struct net_device *dev, struct packet_type *type,
			  struct net_device *orig_dev)
{
	if (!strcmp(what, "race"))
		planted_race();
	else
		planted_order();
	consume_skb(skb);
	return NET_RX_SUCCESS;
}

/* Sees all packets of all namespaces. */
static struct packet_type planted_type = {
	.type = cpu_to_be16(ETH_P_ALL),
	.func = planted_packet,
};

/* Begins to do wrong. */
static int __init planted_init(void)
{
	planted_reverse();
	dev_add_pack(&planted_type);
	return 0;
}

/* Ends it. */
static void __exit planted_exit(void)
{
	dev_remove_pack(&planted_type);
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_DESCRIPTION("Mistakes on purpose, to see that a kernel tells of them");
MODULE_LICENSE("GPL");
