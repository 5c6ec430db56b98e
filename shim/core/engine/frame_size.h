/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The size of a full packet: the largest of those that were seen lately.  A VM's packets say it
 * better than a device's MTU, which may be larger than the VM's, and they follow when either is
 * changed.
 */
#ifndef SHIM_CORE_ENGINE_FRAME_SIZE_H
#define SHIM_CORE_ENGINE_FRAME_SIZE_H

#include "../arith.h"
#include "../host.h"

/* Time after which packets are forgotten that were larger than those since, ns. */
#define SHIM_FRAME_NS SHIM_NSEC_PER_SEC

/* Sizes seen; written by any CPU without a lock: one that is lost is seen again soon. */
struct shim_frame_size {
	u32 bytes;			/* of a full packet, headers included */
	u32 next;			/* largest since since_ns; 0: none was seen */
	u64 since_ns;			/* only for shim_frame_size_follow(), under a lock */
};

/* Makes a size Ethernet's, until packets are seen. */
static inline void shim_frame_size_init(struct shim_frame_size *frame)
{
	*frame = (struct shim_frame_size){ .bytes = SHIM_FRAME_DEFAULT };
}

/* Returns the bytes of a full packet. */
static inline u32 shim_frame_size_bytes(const struct shim_frame_size *frame)
{
	return READ_ONCE(frame->bytes);
}

/* Takes in the size of packets of so many bytes together; packets is not 0. */
static inline void shim_frame_size_note(struct shim_frame_size *frame, u64 bytes, u64 packets)
{
	if (likely(bytes <= READ_ONCE(frame->next) * packets))
		return;
	bytes = min_t(u64, shim_div(bytes, packets), SHIM_FRAME_MAX);
	WRITE_ONCE(frame->next, (u32)bytes);
	if (bytes > READ_ONCE(frame->bytes))
		WRITE_ONCE(frame->bytes, (u32)bytes);
}

/* Forgets packets larger than those since, once some were seen for long enough. */
static inline void shim_frame_size_follow(struct shim_frame_size *frame, u64 now_ns)
{
	u32 next = READ_ONCE(frame->next);

	if (!next || shim_sub_sat(now_ns, frame->since_ns) < SHIM_FRAME_NS)
		return;
	frame->since_ns = now_ns;
	WRITE_ONCE(frame->bytes, next);
	WRITE_ONCE(frame->next, 0);
}

#endif
