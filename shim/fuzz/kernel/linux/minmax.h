/* SPDX-License-Identifier: Apache-2.0 */
/* What is wanted of <linux/minmax.h> is in <linux/skbuff.h>. */
#include <linux/skbuff.h>
