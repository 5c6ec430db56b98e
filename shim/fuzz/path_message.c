// SPDX-License-Identifier: Apache-2.0
/*
 * Messages that make paths; paths.h has what must hold for these.
 */
#include "world.h"

/* Bytes of a message before its entries, and of its tag. */
#define HEAD_BYTES 48
#define TAG_BYTES 8

/* Writes the lowest bytes of value at p in network order. */
static void put(u8 *p, u64 value, int bytes)
{
	for (; bytes--; value >>= 8)
		p[bytes] = (u8)value;
}

/* Reads an entry from an input, of a message of a type. */
static void entry_fill(struct fuzz_input *input, u32 vm, u8 type, struct shim_message_entry *entry)
{
	struct shim_address address;
	u8 kind = fuzz_u8(input), bits;
	u32 i;

	*entry = (struct shim_message_entry){ .teller = 1 + (kind & 7) };
	if (type == SHIM_MESSAGE_RATE) {
		entry->rate = fuzz_within(input, SHIM_RATE_MIN, SHIM_RATE_MAX);
	} else {
		entry->marks = (u32)fuzz_u64(input);
		entry->interval_ns = (u32)fuzz_u64(input);
	}
	entry->weight_total = fuzz_u8(input);
	if (!(kind & 0x10)) {
		fuzz_address(input, vm + 1, &address);
		bits = kind & 0x20 ? 128 : fuzz_u8(input);
		entry->bits = bits & 0x80 ? (u8)(bits % 129) : (u8)(96 + bits % 33);
		entry->scope = kind & 8 && entry->bits ? SHIM_SCOPE_TUNNEL : SHIM_SCOPE_DESTINATION;
		for (i = 0; i < entry->bits; i++)
			entry->prefix[i / 8] |= address.bytes[i / 8] & 0x80 >> i % 8;
	}
	/* One of the rules is broken, or a field is anything. */
	if (kind & 0x40 && kind & 0x80) {
		bits = fuzz_u8(input);
		entry->teller = fuzz_u64(input);
		entry->scope = bits & 3;
		entry->bits ^= bits >> 2;
		entry->rate ^= type == SHIM_MESSAGE_RATE ? fuzz_u64(input) : 0;
	}
}

/* Tells whether two entries say the same. */
static bool entry_same(const struct shim_message_entry *one, const struct shim_message_entry *other)
{
	return one->teller == other->teller && one->rate == other->rate &&
	       !memcmp(one->prefix, other->prefix, 16) &&
	       one->weight_total == other->weight_total && one->marks == other->marks &&
	       one->interval_ns == other->interval_ns && one->bits == other->bits &&
	       one->scope == other->scope;
}

/* Writes an entry at p. */
static void entry_write(u8 *p, u8 type, const struct shim_message_entry *entry)
{
	put(p, entry->teller, 8);
	memcpy(p + 8, entry->prefix, 16);
	put(p + 24, entry->bits, 1);
	put(p + 25, entry->scope, 1);
	put(p + 26, 0, 2);
	put(p + 28, entry->weight_total, 4);
	if (type == SHIM_MESSAGE_RATE) {
		put(p + 32, entry->rate, 8);
	} else {
		put(p + 32, entry->marks, 4);
		put(p + 36, entry->interval_ns, 4);
	}
}

u32 fuzz_paths_build(struct fuzz_input *input, u32 vm, const struct shim_message *head,
		     const u8 *key, u8 data[FUZZ_PATHS_BYTES])
{
	struct shim_message_entry entries[SHIM_MESSAGE_ENTRIES], read;
	u32 n = 1 + fuzz_u8(input) % SHIM_MESSAGE_ENTRIES, i, len;
	enum shim_message_error error;
	struct shim_message message;

	len = SHIM_MESSAGE_V2_BYTES + n * SHIM_MESSAGE_ENTRY_BYTES;
	memset(data, 0, len);
	put(data, SHIM_MESSAGE_MAGIC, 2);
	put(data + 2, 2, 1);
	put(data + 3, head->type, 1);
	put(data + 4, head->flags, 2);
	put(data + 6, len, 2);
	put(data + 8, head->epoch, 4);
	put(data + 12, head->sequence, 4);
	memcpy(data + SHIM_MESSAGE_VM_AT, head->vm, 16);
	put(data + 32, head->sender, 4);
	put(data + 36, n, 1);
	put(data + 40, head->rate, 8);
	for (i = 0; i < n; i++) {
		entry_fill(input, vm, head->type, &entries[i]);
		entry_write(data + HEAD_BYTES + i * SHIM_MESSAGE_ENTRY_BYTES, head->type,
			    &entries[i]);
	}
	put(data + len - TAG_BYTES, shim_siphash(key, data, len - TAG_BYTES), TAG_BYTES);
	error = shim_message_decode(&message, data, len, key);
	fuzz_expect(error == SHIM_MESSAGE_OK || error == SHIM_MESSAGE_FORM, "error %d", error);
	for (i = 0; i < n && !error; i++) {
		shim_message_entry(&read, data, i);
		fuzz_expect(entry_same(&read, &entries[i]), "entry %u is read otherwise", i);
	}
	fuzz_expect(error || (message.version == 2 && message.entries == n &&
			      message.rate == head->rate && message.sender == head->sender),
		    "read otherwise");
	return len;
}
