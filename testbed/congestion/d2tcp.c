// SPDX-License-Identifier: GPL-2.0-only
/*
 * D2TCP (Vamanan, Hasan, Vijaykumar, SIGCOMM 2012): DCTCP that cuts by alpha^d / 2, with d the
 * urgency; algebra.c has the formulas.
 *
 * The application says a connection's deadline with SO_MARK: CLOCK_MONOTONIC in microseconds modulo
 * 2^32, 0 for none, less than 2^31 us (35 minutes) away.  What is left to send is what it wrote and
 * nobody acknowledged yet, so it should write all at once.
 */
#include "algebra.h"
#include "marks.h"

/* Returns the threshold after marks, segments. */
static u32 d2tcp_threshold(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 deadline_us = READ_ONCE(sk->sk_mark), urgency = CC_EXPONENT_ONE;

	if (deadline_us)
		urgency = cc_urgency(tp->write_seq - tp->snd_una, tp->srtt_us,
				     tcp_snd_cwnd(tp), tp->mss_cache,
				     (s32)(deadline_us - (u32)tp->tcp_mstamp));
	return cc_threshold(sk, urgency);
}

struct tcp_congestion_ops cc_d2tcp __read_mostly = {
	.init		= cc_init,
	.in_ack_event	= cc_ack,
	.cwnd_event	= cc_event,
	.ssthresh	= d2tcp_threshold,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.set_state	= cc_set_state,
	.flags		= TCP_CONG_NEEDS_ECN,
	.owner		= THIS_MODULE,
	.name		= "d2tcp",
};
