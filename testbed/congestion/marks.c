// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sender of DCTCP (RFC 8257, sections 3.3 to 3.5) as far as D2TCP and L2DCT have it too;
 * algebra.c has the formulas.
 *
 * alpha begins at 1, as in RFC 8257 and in Linux' DCTCP, so all three cut alike at first.  The
 * receiver's half, an echo of each mark, is DCTCP's: the receiving socket uses dctcp.
 */
#include "algebra.h"
#include "marks.h"

/* Tells whether a connection has agreed on ECN, of one kind where the kernel knows several. */
static bool has_ecn(const struct tcp_sock *tp)
{
#ifdef TCP_ECN_OK
	return tp->ecn_flags & TCP_ECN_OK;
#else
	return tcp_ecn_mode_any(tp);
#endif
}

/* Begins a new window. */
static void begin_window(struct cc_marks *marks, const struct tcp_sock *tp)
{
	marks->end = tp->snd_nxt;
	marks->delivered = tp->delivered;
	marks->marked = tp->delivered_ce;
}

void cc_init(struct sock *sk)
{
	struct cc_marks *marks = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	marks->alpha = CC_ONE;
	begin_window(marks, tp);
	if (!has_ecn(tp) && sk->sk_state != TCP_LISTEN && sk->sk_state != TCP_CLOSE)
		INET_ECN_dontxmit(sk);
}

void cc_ack(struct sock *sk, u32 flags)
{
	struct cc_marks *marks = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (before(tp->snd_una, marks->end))
		return;
	marks->alpha = cc_estimate(marks->alpha, tp->delivered_ce - marks->marked,
				   tp->delivered - marks->delivered);
	begin_window(marks, tp);
}

/* Sets the threshold to half of the window. */
static void halve(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_ssthresh = max(tcp_snd_cwnd(tp) / 2, CC_WINDOW_MIN);
}

void cc_set_state(struct sock *sk, u8 state)
{
	if (state == TCP_CA_Recovery && inet_csk(sk)->icsk_ca_state != state)
		halve(sk);
}

void cc_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_LOSS)
		halve(sk);
}

u32 cc_threshold(const struct sock *sk, u32 exponent)
{
	const struct cc_marks *marks = inet_csk_ca(sk);

	return cc_cut(tcp_snd_cwnd(tcp_sk(sk)), cc_power(marks->alpha, exponent));
}
