// SPDX-License-Identifier: Apache-2.0
/*
 * Control messages of many machines, one behind the other, as docs/protocol.md has them.
 *
 * A front is a packet-out (OpenFlow 1.3) of a frame whose IP header has an empty payload.  Three
 * lengths in it grow with the message: of the packet-out, of the IPv4 packet or the IPv6 payload;
 * and IPv4's checksum is computed anew. No length overflows: a front has less than 200 bytes and
 * a message at most 1336.
 */
#include "native.h"
#include "siphash.h"

#define MAGIC 0x5347
#define V1_BYTES 96
#define V2_BYTES 56	/* without entries */
#define TAG_BYTES 8
#define ETHERTYPE_IPV4 0x0800
#define IPV4_BYTES 20
#define PACKET_OUT_BYTES 24	/* in front of actions */

/* Writes a number of 8 bits at p; returns what is behind it, as do the others. */
static u8 *put8(u8 *p, u8 value)
{
	*p = value;
	return p + 1;
}

/* Writes a number of 16 bits. */
static u8 *put16(u8 *p, u32 value)
{
	p[0] = (u8)(value >> 8);
	p[1] = (u8)value;
	return p + 2;
}

/* Writes a number of 32 bits. */
static u8 *put32(u8 *p, u32 value)
{
	return put16(put16(p, value >> 16), value & 0xffff);
}

/* Writes a number of 64 bits. */
static u8 *put64(u8 *p, u64 value)
{
	return put32(put32(p, (u32)(value >> 32)), (u32)value);
}

/* Writes some bytes. */
static u8 *put_bytes(u8 *p, const u8 *from, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		p[i] = from[i];
	return p + count;
}

/* Returns the number of 16 bits at p. */
static u32 get16(const u8 *p)
{
	return (u32)p[0] << 8 | p[1];
}

/* Adds so many bytes to the number of 16 bits at p. */
static void grow(u8 *p, u32 bytes)
{
	put16(p, get16(p) + bytes);
}

/* Writes the checksum of an IPv4 header without options. */
static void put_checksum(u8 *header)
{
	u32 sum = 0;
	int i;

	put16(header + 10, 0);
	for (i = 0; i < IPV4_BYTES; i += 2)
		sum += get16(header + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	put16(header + 10, ~sum & 0xffff);
}

/* Fits a packet-out to a message of so many bytes. */
static void fit_front(u8 *front, u32 bytes)
{
	u8 *frame = front + PACKET_OUT_BYTES + get16(front + 16);

	grow(front + 2, bytes);
	if (get16(frame + 12) == ETHERTYPE_IPV4) {
		grow(frame + 16, bytes);
		put_checksum(frame + 14);
	} else {
		grow(frame + 18, bytes);
	}
}

/* Writes what versions 1 and 2 begin with, for a message of so many bytes. */
static u8 *put_head(u8 *p, const struct native_notice *notice, u32 bytes, u32 sequence)
{
	p = put16(p, MAGIC);
	p = put8(p, notice->version);
	p = put8(p, notice->type);
	p = put16(p, 0);
	p = put16(p, bytes);
	p = put32(p, notice->epoch);
	p = put32(p, sequence);
	return put_bytes(p, notice->vm, sizeof(notice->vm));
}

/* Writes a message of version 1 without its tag. */
static u8 *put_v1(u8 *p, const struct native_notice *notice, u32 sender, u32 sequence)
{
	p = put_head(p, notice, V1_BYTES, sequence);
	p = put_bytes(p, notice->peer, sizeof(notice->peer));
	p = put64(p, notice->datapath);
	p = put32(p, notice->port);
	p = put32(p, notice->marks);
	p = put64(p, notice->interval_ns);
	p = put64(p, notice->rate);
	p = put32(p, notice->weight_total);
	return put32(p, sender);
}

/*
 * Writes a message of version 2 without its tag, with so many entries; rate 0 tells nothing of
 * all that is sent.
 */
static u8 *put_v2(u8 *p, const struct native_notice *notice, const u8 *entries, u32 count,
		  u64 rate, u32 sender, u32 sequence)
{
	p = put_head(p, notice, V2_BYTES + count * NATIVE_ENTRY_BYTES, sequence);
	p = put32(p, sender);
	p = put32(p, count << 24);
	p = put64(p, rate);
	return put_bytes(p, entries, (size_t)count * NATIVE_ENTRY_BYTES);
}

/* Returns how many entries of a notice the message has that begins with its entry number first. */
static u32 entries_of(const struct native_notice *notice, u32 first)
{
	u32 left = notice->end - first;

	return left < NATIVE_ENTRIES_MAX ? left : NATIVE_ENTRIES_MAX;
}

/*
 * Writes a message of a notice, without its front; its entries are those from first on.  Returns
 * what is behind it.
 */
static u8 *put_message(u8 *begin, const struct native_notice *notice, u32 first,
		       const u8 *entries, const u8 *key, u32 sender, u32 sequence)
{
	u8 *p;

	if (!notice->version)
		return put16(begin, notice->marks < 0xffff ? notice->marks : 0xffff);
	if (notice->version == 1)
		p = put_v1(begin, notice, sender, sequence);
	else
		p = put_v2(begin, notice, entries + (size_t)first * NATIVE_ENTRY_BYTES,
			   entries_of(notice, first), first == notice->first ? notice->rate : 0,
			   sender, sequence);
	return put64(p, shim_siphash(key, begin, (size_t)(p - begin)));
}

void native_tags(const u8 *key, const u8 *texts, const u64 *ends, size_t count, u64 *tags)
{
	u64 begin = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		tags[i] = shim_siphash(key, texts + begin, (size_t)(ends[i] - begin));
		begin = ends[i];
	}
}

size_t native_compose(const struct native_notice *notices, size_t count, const u8 *fronts,
		      const u8 *entries, const u8 *key, u32 sender, u32 sequence, u8 *out,
		      u64 *ends)
{
	size_t i, messages = 0;
	u8 *p = out;

	for (i = 0; i < count; i++) {
		const struct native_notice *notice = &notices[i];
		u32 first = notice->first;

		do {
			u8 *front = p;

			p = put_bytes(p, fronts + notice->front, notice->front_bytes);
			p = put_message(p, notice, first, entries, key, sender, sequence);
			if (notice->version)
				sequence++;
			if (notice->front_bytes)
				fit_front(front, (u32)(p - front) - notice->front_bytes);
			first += NATIVE_ENTRIES_MAX;
			ends[messages++] = (u64)(p - out);
		} while (notice->version == 2 && first < notice->end);
	}
	return messages;
}
