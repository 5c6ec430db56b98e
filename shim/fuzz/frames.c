// SPDX-License-Identifier: Apache-2.0
/*
 * Builds frames.  Choices are bits of the first two bytes of what the input says of a frame:
 *
 *   first:   0x03 VLAN tags (3: three)    0x04 IPv6         0x08 IPv4 options or extension headers
 *            0x10 a fragment              0x20 checksums are wrong        0x40 bytes are changed
 *            0x80 all of it is bytes as they come
 *   second:  0x03 TCP, UDP, a tunnel in UDP, a control message            0x04 options of TCP
 *            0x08 DF                      0x10 the reserved bit           0x60 the ECN field
 *            0x80 lengths in headers are other than they are
 */
#include "frames.h"

/* A frame that is being built. */
struct builder {
	struct fuzz_input *input;	/* what says how */
	u8 *frame;			/* FUZZ_FRAME_MOST bytes */
	size_t size;			/* bytes that are there */
	u8 first;			/* choices */
	u8 second;			/* more of them */
};

/* Adds n bytes of the input. */
static void add_bytes(struct builder *builder, size_t n)
{
	if (n > FUZZ_FRAME_MOST - builder->size)
		n = FUZZ_FRAME_MOST - builder->size;
	fuzz_bytes(builder->input, builder->frame + builder->size, n);
	builder->size += n;
}

/* Adds n bytes of payload, which nobody reads. */
static void add_filling(struct builder *builder, size_t n)
{
	if (n > FUZZ_FRAME_MOST - builder->size)
		n = FUZZ_FRAME_MOST - builder->size;
	memset(builder->frame + builder->size, 0x5a, n);
	builder->size += n;
}

/* Adds a number in network order. */
static void add(struct builder *builder, u64 value, u32 bytes)
{
	while (bytes-- && builder->size < FUZZ_FRAME_MOST)
		builder->frame[builder->size++] = (u8)(value >> (8 * bytes));
}

/* Writes 16 bits in network order. */
static void put(u8 *frame, size_t at, u32 value)
{
	frame[at] = (u8)(value >> 8);
	frame[at + 1] = (u8)value;
}

/* Adds bytes to a sum of 16-bit words in network order. */
static u32 sum(const u8 *bytes, size_t n, u32 total)
{
	size_t i;

	for (i = 0; i < n; i++)
		total += i & 1 ? bytes[i] : (u32)bytes[i] << 8;
	while (total >> 16)
		total = (total & 0xffff) + (total >> 16);
	return total;
}

/* Returns the sum of a TCP segment with its pseudo header; 0xffff is right. */
static u32 sum_tcp(const u8 *frame, const struct fuzz_places *places, size_t end)
{
	size_t len = end - places->payload;
	u32 total = (u32)len + 6;

	total = (total & 0xffff) + (total >> 16);
	if (places->version == 4)
		total = sum(frame + places->ip + 12, 8, total);
	else
		total = sum(frame + places->ip + 8, 32, total);
	return sum(frame + places->payload, len, total);
}

/* Returns where an IP packet ends by its header. */
static size_t ip_end(const u8 *frame, const struct fuzz_places *places)
{
	const u8 *ip = frame + places->ip;

	if (places->version == 4)
		return places->ip + ((size_t)ip[2] << 8 | ip[3]);
	return places->ip + 40 + ((size_t)ip[4] << 8 | ip[5]);
}

struct fuzz_sums fuzz_frame_sums(const u8 *frame, size_t size, const struct fuzz_places *places)
{
	struct fuzz_sums sums = { false, false };
	size_t end, header;

	if (!places->version)
		return sums;
	header = (size_t)(frame[places->ip] & 15) * 4;
	if (places->version == 4 && places->ip + header <= size)
		sums.ip = sum(frame + places->ip, header, 0) == 0xffff;
	end = ip_end(frame, places);
	if (places->is_tcp && end <= size)
		sums.tcp = sum_tcp(frame, places, end) == 0xffff;
	return sums;
}

/* Adds Ethernet and VLAN tags. */
static void add_link(struct builder *builder)
{
	u32 tags = builder->first & 3;
	u8 mac = fuzz_u8(builder->input);

	add(builder, 0x020000000000ULL, 6);
	add(builder, 0x020000000100ULL | (mac & 3), 6);
	while (tags--) {
		add(builder, mac & 4 ? 0x88a8 : 0x8100, 2);
		add(builder, fuzz_u8(builder->input) & 0x0f, 2);
	}
	add(builder, builder->first & 4 ? 0x86dd : 0x0800, 2);
}

/* Adds an IPv4 header; its length and checksum come last. */
static void add_ipv4(struct builder *builder, const struct shim_address *source,
		     const struct shim_address *destination, u8 protocol)
{
	u32 options = builder->first & 8 ? fuzz_u8(builder->input) % 11 : 0;
	u16 word = builder->second & 8 ? 0x4000 : 0;
	size_t at = builder->size, i;

	if (builder->second & 0x10)
		word |= 0x8000;
	if (builder->first & 0x10)
		word |= fuzz_u8(builder->input) & 1 ? 0x2000 : 7;
	add(builder, 0x40 | (5 + options), 1);
	add(builder, 0xb8 | (builder->second >> 5 & 3), 1);
	add(builder, 0, 2);
	add(builder, fuzz_u16(builder->input), 2);
	add(builder, word, 2);
	add(builder, 64, 1);
	add(builder, protocol, 1);
	add(builder, 0, 2);
	for (i = 0; i < 4; i++)
		add(builder, source->bytes[12 + i], 1);
	for (i = 0; i < 4; i++)
		add(builder, destination->bytes[12 + i], 1);
	add_bytes(builder, (at + 20 + options * 4) - builder->size);
}

/* Adds an IPv6 header, with extension headers if that was chosen. */
static void add_ipv6(struct builder *builder, const struct shim_address *source,
		     const struct shim_address *destination, u8 protocol)
{
	static const u8 kinds[] = { 0, 43, 60, 51, 44 };
	u32 n = builder->first & 8 ? 1 + fuzz_u8(builder->input) % 3 : 0, i;
	bool fragment = builder->first & 0x10;
	u8 chain[4], len;

	for (i = 0; i < n; i++)
		chain[i] = kinds[fuzz_u8(builder->input) % 5];
	if (fragment)
		chain[n++] = 44;
	add(builder, 0x60000000 | (u32)(builder->second >> 5 & 3) << 20, 4);
	add(builder, 0, 2);
	add(builder, n ? chain[0] : protocol, 1);
	add(builder, 64, 1);
	for (i = 0; i < 16; i++)
		add(builder, source->bytes[i], 1);
	for (i = 0; i < 16; i++)
		add(builder, destination->bytes[i], 1);
	for (i = 0; i < n; i++) {
		add(builder, i + 1 < n ? chain[i + 1] : protocol, 1);
		if (chain[i] == 44) {
			add(builder, 0, 1);
			add(builder, fuzz_u8(builder->input) & 1 ? 8 : 1, 2);
			add(builder, 0, 4);
			continue;
		}
		len = fuzz_u8(builder->input) & 3;
		add(builder, len, 1);
		add_bytes(builder, chain[i] == 51 ? (len + 2) * 4 - 2 : (len + 1) * 8 - 2);
	}
}

/* Adds a TCP header with its options, and payload. */
static void add_tcp(struct builder *builder)
{
	u32 options = builder->second & 4 ? fuzz_u8(builder->input) % 11 : 0;
	u8 ports = fuzz_u8(builder->input), flags = fuzz_u8(builder->input);
	size_t end;

	add(builder, 1000 + (ports & 7), 2);
	add(builder, 1000 + (ports >> 4 & 7), 2);
	add(builder, fuzz_u32(builder->input), 4);
	add(builder, fuzz_u32(builder->input), 4);
	add(builder, (5 + options) << 12 | (ports & 0x80 ? 0x100 : 0) | flags, 2);
	add(builder, fuzz_u16(builder->input), 2);
	add(builder, 0, 4);
	end = builder->size + options * 4;
	if (options >= 3 && ports & 8) {
		/* MSS, a scale, and SACK permitted, as a SYN has them. */
		add(builder, 0x020405b4, 4);
		add(builder, 0x01030307, 4);
		add(builder, 0x04020101, 4);
	}
	add_bytes(builder, end - builder->size);
	add_filling(builder, fuzz_u16(builder->input) % 1500);
}

/* Adds what follows an IP header. */
static void add_payload(struct builder *builder, u8 kind)
{
	switch (kind) {
	case 0:
		add_tcp(builder);
		break;
	case 1:
		add(builder, 5000, 2);
		add(builder, 53, 2);
		add_filling(builder, 4 + fuzz_u16(builder->input) % 1500);
		break;
	case 2:
		/* VXLAN: what is inside is another frame, and none of the shim's business. */
		add(builder, 50000, 2);
		add(builder, 4789, 2);
		add(builder, 0, 4);
		add(builder, 0x0800000000000500ULL, 8);
		add_bytes(builder, fuzz_u16(builder->input) % 200);
		break;
	default:
		add_bytes(builder, fuzz_u8(builder->input) % 100);
	}
}

/* Writes lengths and checksums. */
static void finish(struct builder *builder, const struct fuzz_places *places, bool tcp)
{
	u8 *ip = builder->frame + places->ip;
	size_t end = builder->size;

	if (builder->second & 0x80)
		end -= min_t(size_t, end - places->payload, fuzz_u8(builder->input) % 64);
	if (places->version == 4)
		put(ip, 2, (u32)(end - places->ip));
	else
		put(ip, 4, (u32)(end - places->ip - 40));
	if (builder->first & 0x20)
		return;
	if (places->version == 4)
		put(ip, 10, ~sum(ip, (size_t)(ip[0] & 15) * 4, 0));
	if (tcp && end >= places->payload + 20)
		put(builder->frame, places->payload + 16, ~sum_tcp(builder->frame, places, end));
}

size_t fuzz_frame_build(struct fuzz_input *input, const struct shim_address *source,
			const struct shim_address *destination, u8 *frame)
{
	static const u8 protocols[] = { 6, 17, 17, SHIM_MESSAGE_PROTOCOL };
	struct builder builder = { .input = input, .frame = frame, .first = fuzz_u8(input) };
	struct fuzz_places places = { 0 };
	u8 kind;

	if (builder.first & 0x80) {
		add_bytes(&builder, fuzz_u16(input) % FUZZ_FRAME_MOST);
		return builder.size;
	}
	builder.second = fuzz_u8(input);
	kind = builder.second & 3;
	add_link(&builder);
	places.ip = builder.size;
	places.version = builder.first & 4 ? 6 : 4;
	if (places.version == 4)
		add_ipv4(&builder, source, destination, protocols[kind]);
	else
		add_ipv6(&builder, source, destination, protocols[kind]);
	places.payload = builder.size;
	add_payload(&builder, kind);
	finish(&builder, &places, !kind);
	if (builder.first & 0x40)
		frame[fuzz_u16(input) % builder.size] ^= fuzz_u8(input);
	return builder.size;
}
