// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Control messages: bytes to struct shim_message and back.
 *
 * v0 is the paper's form (SDN-GCC section VII.B): a 2-byte payload with the number of marks, from
 * the destination's address to the source VM's.  Anyone can forge it.
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
 * tag = SipHash-2-4(key, bytes 0..87) as a big-endian number.  The form is checked before the tag,
 * which is the dearer of the two, and the tag before anything is believed.
 */
#include "message.h"

/* Offset of the tag: the bytes before it are signed. */
#define TAG_OFFSET 88

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
	if (message->type == SHIM_MESSAGE_RATE)
		return message->rate >= SHIM_RATE_MIN && message->rate <= SHIM_RATE_MAX;
	if (message->type == SHIM_MESSAGE_REPORT)
		return message->marks <= message->packets;
	return message->type == SHIM_MESSAGE_MARKS;
}

enum shim_message_error shim_message_decode(struct shim_message *message, const u8 *data,
					    size_t len, const u8 key[SHIM_KEY_BYTES])
{
	if (len < SHIM_MESSAGE_V1_BYTES)
		return SHIM_MESSAGE_SHORT;
	if (len > SHIM_MESSAGE_V1_BYTES || get(data, 2) != SHIM_MESSAGE_MAGIC ||
	    data[2] != 1 || get(data + 6, 2) != SHIM_MESSAGE_V1_BYTES)
		return SHIM_MESSAGE_FORM;
	message->version = 1;
	message->type = data[3];
	message->flags = (u16)get(data + 4, 2);
	message->epoch = (u32)get(data + 8, 4);
	message->sequence = (u32)get(data + 12, 4);
	copy_address(message->vm, data + SHIM_MESSAGE_VM_AT);
	copy_address(message->peer, data + 32);
	message->point_datapath = get(data + 48, 8);
	message->point_port = (u32)get(data + 56, 4);
	message->marks = (u32)get(data + 60, 4);
	message->interval_ns = get(data + 64, 8);
	message->rate = get(data + 72, 8);
	message->weight_total = (u32)get(data + 80, 4);
	message->sender = (u32)get(data + 84, 4);
	if (!fields_valid(message))
		return SHIM_MESSAGE_FORM;
	if (get(data + TAG_OFFSET, 8) != shim_siphash(key, data, TAG_OFFSET))
		return SHIM_MESSAGE_TAG;
	return SHIM_MESSAGE_OK;
}

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
