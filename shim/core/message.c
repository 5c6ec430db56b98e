// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Control messages: bytes to struct shim_message and back.
 *
 * v0 is the paper's form (SDN-GCC section VII.B): a 2-byte payload with the number of marks, from
 * the destination's address to the source VM's.  Anyone can forge it; only the laboratory build
 * knows it.
 *
 * v1 is ours, 96 bytes in network order behind the IP header:
 *
 *    0 magic 0x5347    2 version 1      3 type          4 flags 0        6 length 96
 *    8 epoch          12 sequence      16 vm[16]       32 peer[16]      48 point_datapath (8)
 *   56 point_port     60 marks         64 interval_ns (8)               72 rate (8)
 *   80 weight_total   84 sender        88 tag (8)
 *
 * A report (type 3) has at 48 the bytes received, at 56 the packets lost, at 80 those received.
 *
 * v2 tells of parts of what a VM sends, each by an entry of 40 bytes:
 *
 *    0 to 15 as v1, version 2          16 vm[16]       32 sender        36 entries
 *   37 zero[3]        40 rate (8)      48 entries      48 + 40 n tag (8)
 *
 *    0 teller (8)      8 prefix[16]    24 bits         25 scope         26 zero[2]
 *   28 weight_total   32 rate (8); of marks: 32 marks, 36 interval_ns
 *
 * tag = SipHash-2-4(key, the bytes before it) as a big-endian number.  The form is checked before
 * the tag, which is the dearer of the two, and the tag before anything is believed.
 */
#include "message.h"

/* Bytes of a tag: the bytes before it are signed. */
#define TAG_BYTES 8

/* Offset of a v1 message's tag. */
#define TAG_OFFSET (SHIM_MESSAGE_V1_BYTES - TAG_BYTES)

/* Offset of a v2 message's entries. */
#define ENTRIES_OFFSET (SHIM_MESSAGE_V2_BYTES - TAG_BYTES)

/* Writes the lowest bytes of value at p in network order. */
static void put(u8 *p, u64 value, int bytes)
{
	while (bytes--) {
		p[bytes] = (u8)value;
		value >>= 8;
	}
}

/* Returns the number of some bytes at p in network order. */
static u64 get(const u8 *p, int bytes)
{
	u64 value = 0;

	while (bytes--)
		value = value << 8 | *p++;
	return value;
}

/* Copies an address. */
static void copy_address(u8 to[16], const u8 from[16])
{
	int i;

	for (i = 0; i < 16; i++)
		to[i] = from[i];
}

void shim_message_encode(u8 out[SHIM_MESSAGE_V1_BYTES], const struct shim_message *message,
			 const u8 key[SHIM_KEY_BYTES])
{
	put(out, SHIM_MESSAGE_MAGIC, 2);
	put(out + 2, 1, 1);
	put(out + 3, message->type, 1);
	put(out + 4, message->flags, 2);
	put(out + 6, SHIM_MESSAGE_V1_BYTES, 2);
	put(out + 8, message->epoch, 4);
	put(out + 12, message->sequence, 4);
	copy_address(out + SHIM_MESSAGE_VM_AT, message->vm);
	copy_address(out + 32, message->peer);
	put(out + 48, message->point_datapath, 8);
	put(out + 56, message->point_port, 4);
	put(out + 60, message->marks, 4);
	put(out + 64, message->interval_ns, 8);
	put(out + 72, message->rate, 8);
	put(out + 80, message->weight_total, 4);
	put(out + 84, message->sender, 4);
	put(out + TAG_OFFSET, shim_siphash(key, out, TAG_OFFSET), 8);
}

/* Tells whether a read v1 message keeps the rules that its fields have. */
static bool fields_valid(const struct shim_message *message)
{
	if (message->flags || !message->epoch || !message->sequence)
		return false;
	if (message->type == SHIM_MESSAGE_RATE || message->type == SHIM_MESSAGE_LEVEL)
		return message->rate >= SHIM_RATE_MIN && message->rate <= SHIM_RATE_MAX;
	if (message->type == SHIM_MESSAGE_REPORT)
		return message->marks <= message->packets;
	return message->type == SHIM_MESSAGE_MARKS;
}

/* Reads what v1 and v2 have at the same places. */
static void read_head(struct shim_message *message, const u8 *data)
{
	message->version = data[2];
	message->type = data[3];
	message->flags = (u16)get(data + 4, 2);
	message->epoch = (u32)get(data + 8, 4);
	message->sequence = (u32)get(data + 12, 4);
	copy_address(message->vm, data + SHIM_MESSAGE_VM_AT);
}

/* Reads a v1 message; false if its form is wrong. */
static bool read_v1(struct shim_message *message, const u8 *data, size_t len)
{
	if (len != SHIM_MESSAGE_V1_BYTES)
		return false;
	read_head(message, data);
	copy_address(message->peer, data + 32);
	message->point_datapath = get(data + 48, 8);
	message->point_port = (u32)get(data + 56, 4);
	message->marks = (u32)get(data + 60, 4);
	message->interval_ns = get(data + 64, 8);
	message->rate = get(data + 72, 8);
	message->weight_total = (u32)get(data + 80, 4);
	message->sender = (u32)get(data + 84, 4);
	return fields_valid(message);
}

void shim_message_entry(struct shim_message_entry *entry, const u8 *data, u32 i)
{
	const u8 *p = data + ENTRIES_OFFSET + (size_t)i * SHIM_MESSAGE_ENTRY_BYTES;
	bool rate = data[3] == SHIM_MESSAGE_RATE;

	entry->teller = get(p, 8);
	copy_address(entry->prefix, p + 8);
	entry->bits = p[24];
	entry->scope = p[25];
	entry->weight_total = (u32)get(p + 28, 4);
	entry->rate = rate ? get(p + 32, 8) : 0;
	entry->marks = rate ? 0 : (u32)get(p + 32, 4);
	entry->interval_ns = rate ? 0 : (u32)get(p + 36, 4);
}

/* Tells whether a prefix has no bit behind those that count. */
static bool prefix_valid(const struct shim_message_entry *entry)
{
	u32 i = entry->bits / 8;

	if (entry->bits > 128)
		return false;
	if (entry->bits % 8 && entry->prefix[i++] & 0xff >> entry->bits % 8)
		return false;
	while (i < 16)
		if (entry->prefix[i++])
			return false;
	return true;
}

/* Tells whether an entry at p keeps the rules that its fields have. */
static bool entry_valid(const struct shim_message_entry *entry, const u8 *p, u8 type)
{
	if (!entry->teller || entry->scope > SHIM_SCOPE_TUNNEL || p[26] || p[27])
		return false;
	if (entry->scope && !entry->bits)
		return false;
	if (type == SHIM_MESSAGE_RATE &&
	    (entry->rate < SHIM_RATE_MIN || entry->rate > SHIM_RATE_MAX))
		return false;
	return prefix_valid(entry);
}

/* Reads a v2 message; false if its form is wrong, that of its entries included. */
static bool read_v2(struct shim_message *message, const u8 *data, size_t len)
{
	struct shim_message_entry entry;
	u64 marks = 0;
	u32 i;

	read_head(message, data);
	message->sender = (u32)get(data + 32, 4);
	message->entries = data[36];
	message->rate = get(data + 40, 8);
	if (!message->entries || message->entries > SHIM_MESSAGE_ENTRIES || get(data + 37, 3) ||
	    len != SHIM_MESSAGE_V2_BYTES + (size_t)message->entries * SHIM_MESSAGE_ENTRY_BYTES)
		return false;
	if (message->flags || !message->epoch || !message->sequence)
		return false;
	if (message->type != SHIM_MESSAGE_MARKS && message->type != SHIM_MESSAGE_RATE)
		return false;
	if (message->rate && (message->type == SHIM_MESSAGE_MARKS ||
			      message->rate < SHIM_RATE_MIN || message->rate > SHIM_RATE_MAX))
		return false;
	for (i = 0; i < message->entries; i++) {
		shim_message_entry(&entry, data, i);
		if (!entry_valid(&entry, data + ENTRIES_OFFSET + i * SHIM_MESSAGE_ENTRY_BYTES,
				 message->type))
			return false;
		marks += entry.marks;
	}
	message->marks = marks < ~0U ? (u32)marks : ~0U;
	return true;
}

enum shim_message_error shim_message_decode(struct shim_message *message, const u8 *data,
					    size_t len, const u8 key[SHIM_KEY_BYTES])
{
	static const struct shim_message empty;
	bool good;

	if (len < SHIM_MESSAGE_V1_BYTES)
		return SHIM_MESSAGE_SHORT;
	if (get(data, 2) != SHIM_MESSAGE_MAGIC || get(data + 6, 2) != len)
		return SHIM_MESSAGE_FORM;
	*message = empty;
	good = data[2] == 1 ? read_v1(message, data, len) :
	       data[2] == 2 && read_v2(message, data, len);
	if (!good)
		return SHIM_MESSAGE_FORM;
	if (get(data + len - TAG_BYTES, TAG_BYTES) != shim_siphash(key, data, len - TAG_BYTES))
		return SHIM_MESSAGE_TAG;
	return SHIM_MESSAGE_OK;
}

#ifdef SHIM_LABORATORY
enum shim_message_error shim_message_decode_v0(struct shim_message *message, const u8 *data,
					       size_t len)
{
	static const struct shim_message empty;

	if (len < SHIM_MESSAGE_V0_BYTES)
		return SHIM_MESSAGE_SHORT;
	if (len > SHIM_MESSAGE_V0_BYTES)
		return SHIM_MESSAGE_FORM;
	*message = empty;
	message->type = SHIM_MESSAGE_MARKS;
	message->marks = (u32)get(data, 2);
	return SHIM_MESSAGE_OK;
}
#endif
