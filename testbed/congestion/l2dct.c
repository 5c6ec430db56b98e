// SPDX-License-Identifier: GPL-2.0-only
/*
 * L2DCT (Munir et al., INFOCOM 2013): DCTCP whose growth and cuts follow a weight that falls with
 * the bytes sent, so that short flows go before long ones; algebra.c has the formulas.  Slow start
 * is TCP's.
 */
#include "algebra.h"
#include "marks.h"

/* Returns the weight of a connection. */
static u32 weight_of(const struct tcp_sock *tp)
{
	return cc_weight(tp->bytes_sent - tp->bytes_retrans);
}

/* Returns the threshold after marks, segments. */
static u32 l2dct_threshold(struct sock *sk)
{
	return cc_threshold(sk, weight_of(tcp_sk(sk)));
}

/* Lets the window grow for acked segments. */
static void l2dct_grow(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, cc_patience(tcp_snd_cwnd(tp), weight_of(tp)), acked);
}

struct tcp_congestion_ops cc_l2dct __read_mostly = {
	.init		= cc_init,
	.in_ack_event	= cc_ack,
	.cwnd_event	= cc_event,
	.ssthresh	= l2dct_threshold,
	.cong_avoid	= l2dct_grow,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.set_state	= cc_set_state,
	.flags		= TCP_CONG_NEEDS_ECN,
	.owner		= THIS_MODULE,
	.name		= "l2dct",
};
