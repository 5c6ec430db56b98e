/* SPDX-License-Identifier: Apache-2.0 */
/* What is wanted of <net/ip.h> is in <linux/skbuff.h>. */
#include <linux/skbuff.h>
