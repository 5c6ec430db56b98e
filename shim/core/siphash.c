// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012).
 *
 * Four 64-bit words start as the key mixed with constants.  Each 8 bytes m of the input, read
 * little-endian, are added as v3 ^= m; 2 rounds; v0 ^= m.  The last word holds the bytes that
 * are left and the length modulo 256 in its top byte.  Then v2 ^= 0xff; 4 rounds; and the result is
 * v0 ^ v1 ^ v2 ^ v3.  The kernel's own siphash() is not used: it wants an aligned key and is
 * missing outside the kernel.
 */
#include "siphash.h"

/* Returns x rotated left by n bits, 0 < n < 64. */
static u64 rotate(u64 x, unsigned int n)
{
	return x << n | x >> (64 - n);
}

/* Returns the 8 bytes at p as a little-endian number. */
static u64 load(const u8 *p)
{
	u64 word = 0;
	int i;

	for (i = 7; i >= 0; i--)
		word = word << 8 | p[i];
	return word;
}

/* Applies n SipRounds to the state. */
static void rounds(u64 v[4], int n)
{
	while (n--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32) + v[3];
		v[2] += v[1];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[2] = rotate(v[2], 32);
	}
}

u64 shim_siphash(const u8 key[SHIM_KEY_BYTES], const u8 *data, size_t len)
{
	u64 k0 = load(key), k1 = load(key + 8);
	u64 v[4] = {
		k0 ^ 0x736f6d6570736575ULL,
		k1 ^ 0x646f72616e646f6dULL,
		k0 ^ 0x6c7967656e657261ULL,
		k1 ^ 0x7465646279746573ULL,
	};
	u64 last = (u64)len << 56;
	size_t i, whole = len - len % 8;

	for (i = 0; i < whole; i += 8) {
		u64 m = load(data + i);

		v[3] ^= m;
		rounds(v, 2);
		v[0] ^= m;
	}
	for (i = whole; i < len; i++)
		last |= (u64)data[i] << (8 * (i - whole));
	v[3] ^= last;
	rounds(v, 2);
	v[0] ^= last;
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
