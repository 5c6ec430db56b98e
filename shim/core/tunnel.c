// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The marks of tunnels; tunnel.h has the algebra.
 */
#include "arith.h"
#include "tunnel.h"

void shim_tunnel_enter(struct shim_law_packet *packet, u64 rate, u64 mark_bytes)
{
	if (!packet->echo_free)
		return;
	packet->echo = mark_bytes && packet->wait_ns &&
		(shim_mul_div(packet->wait_ns, rate, SHIM_NSEC_PER_SEC) > mark_bytes ||
		 packet->wait_ns > packet->room_ns / 2);
}

void shim_tunnel_leave(struct shim_law_packet *packet, bool reported, u64 mark_bytes)
{
	if (!packet->echo_free || !mark_bytes)
		return;
	if (packet->echo)
		packet->told = SHIM_TOLD_CE;
	else if (reported)
		packet->told = SHIM_TOLD_NOTHING;
	packet->echo = false;
}
