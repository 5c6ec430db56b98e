/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames for fuzzers: built from a few choices, so that they are nearly right, or bytes as they
 * come.
 */
#ifndef SHIM_FUZZ_FRAMES_H
#define SHIM_FUZZ_FRAMES_H

#include "input.h"

/* Bytes of the largest frame. */
#define FUZZ_FRAME_MOST 2048

/* Whether the checksums of a frame are right; false where there is none. */
struct fuzz_sums {
	bool ip;			/* of the IPv4 header */
	bool tcp;			/* of the TCP segment */
};

/* Where the headers of a frame are, as a parser found them. */
struct fuzz_places {
	size_t ip;			/* of the IP header */
	size_t payload;			/* of what follows it */
	u8 version;			/* 4, 6; 0: no IP */
	bool is_tcp;			/* a TCP header is at payload */
};

/* Builds a frame between two addresses into FUZZ_FRAME_MOST bytes; returns how many it has. */
size_t fuzz_frame_build(struct fuzz_input *input, const struct shim_address *source,
			const struct shim_address *destination, u8 *frame);

/* Tells which checksums of a frame are right. */
struct fuzz_sums fuzz_frame_sums(const u8 *frame, size_t size, const struct fuzz_places *places);

#endif
