// SPDX-License-Identifier: GPL-2.0-only
/*
 * congestion.ko: the congestion controls of SCC's guests that Linux does not have, for the
 * laboratory's kernel only.
 */
#include <linux/module.h>

#include "marks.h"

/* Registers both algorithms. */
static int __init congestion_init(void)
{
	int error;

	BUILD_BUG_ON(sizeof(struct cc_marks) > ICSK_CA_PRIV_SIZE);
	error = tcp_register_congestion_control(&cc_d2tcp);
	if (error)
		return error;
	error = tcp_register_congestion_control(&cc_l2dct);
	if (error)
		tcp_unregister_congestion_control(&cc_d2tcp);
	return error;
}

/* Takes both back; no connection uses them any more. */
static void __exit congestion_exit(void)
{
	tcp_unregister_congestion_control(&cc_l2dct);
	tcp_unregister_congestion_control(&cc_d2tcp);
}

module_init(congestion_init);
module_exit(congestion_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("D2TCP and L2DCT");
