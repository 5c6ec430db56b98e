/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fuzzer's bytes mean: a list of operations, each a byte and what it takes.  Bytes that are
 * missing at the end are 0.
 */
#ifndef SHIM_FUZZ_INPUT_H
#define SHIM_FUZZ_INPUT_H

#include <stdio.h>
#include <stdlib.h>

#include "../core/engine/engine.h"

/* Numbers of 128 bits. */
__extension__ typedef __int128 fuzz_wide;
__extension__ typedef unsigned __int128 fuzz_uwide;

/* The bytes that are left. */
struct fuzz_input {
	const u8 *data;			/* the next one */
	size_t left;			/* how many */
};

/* Runs what the bytes say; called by libFuzzer.  Returns 0. */
int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

/* Ends the program with a finding unless a condition holds; what: printf's words. */
#define fuzz_expect(condition, ...) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "fuzz: %s:%d: %s: ", __FILE__, __LINE__, #condition); \
			fprintf(stderr, __VA_ARGS__); \
			fprintf(stderr, "\n"); \
			abort(); \
		} \
	} while (0)

/* Takes n bytes. */
static inline void fuzz_bytes(struct fuzz_input *input, void *to, size_t n)
{
	size_t some = n < input->left ? n : input->left;

	memset(to, 0, n);
	if (some)
		memcpy(to, input->data, some);
	input->data += some;
	input->left -= some;
}

/* Takes a byte. */
static inline u8 fuzz_u8(struct fuzz_input *input)
{
	u8 value;

	fuzz_bytes(input, &value, sizeof(value));
	return value;
}

/* Takes a number of 16 bits. */
static inline u16 fuzz_u16(struct fuzz_input *input)
{
	u16 value;

	fuzz_bytes(input, &value, sizeof(value));
	return value;
}

/* Takes a number of 32 bits. */
static inline u32 fuzz_u32(struct fuzz_input *input)
{
	u32 value;

	fuzz_bytes(input, &value, sizeof(value));
	return value;
}

/*
 * Takes a number of 64 bits, of any size: three bytes, of which the first says how far the other
 * two are shifted and, by its bit 6, that all bits are turned.
 */
static inline u64 fuzz_u64(struct fuzz_input *input)
{
	u8 shape = fuzz_u8(input);
	u64 value = (u64)fuzz_u16(input) << (shape & 63);

	return shape & 64 ? ~value : value;
}

/* Takes a number of a range: itself if it is within, or else one that it stands for. */
static inline u64 fuzz_within(struct fuzz_input *input, u64 least, u64 most)
{
	u64 value = fuzz_u64(input);

	if ((value >= least && value <= most) || (!least && !~most))
		return value;
	return least + value % (most - least + 1);
}

#endif
