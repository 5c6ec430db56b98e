/* SPDX-License-Identifier: Apache-2.0 */
/* What is wanted of <net/dst_metadata.h> is in <linux/skbuff.h>. */
#include <linux/skbuff.h>
