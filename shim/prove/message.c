// SPDX-License-Identifier: Apache-2.0
/*
 * What is proved of core/message.c and core/siphash.c by Frama-C's Eva: no bytes of whatever
 * length, under no key, lead to an operation that is undefined; nothing is read beyond them.
 */
#include "any.h"

#include "../core/message.c"
#include "../core/siphash.c"

/* Longest message. */
#define MOST 128

/* Reads any bytes as either form of a message, and writes what was read. */
int main(void)
{
	u8 key[SHIM_KEY_BYTES], data[MOST], out[SHIM_MESSAGE_V1_BYTES];
	struct shim_message message, old;
	u32 len = any_u8() % (MOST + 1), i;

	for (i = 0; i < SHIM_KEY_BYTES; i++)
		key[i] = any_u8();
	for (i = 0; i < MOST; i++)
		data[i] = any_u8();
	/* The last byte of the message is the last one that there is. */
	if (shim_message_decode(&message, data + MOST - len, len, key) == SHIM_MESSAGE_OK)
		shim_message_encode(out, &message, key);
	shim_message_decode_v0(&old, data + MOST - len, len);
	return 0;
}
