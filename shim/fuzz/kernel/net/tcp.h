/* SPDX-License-Identifier: Apache-2.0 */
/* What is wanted of <net/tcp.h> is in <linux/skbuff.h>. */
#include <linux/skbuff.h>
