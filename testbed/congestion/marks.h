/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What D2TCP and L2DCT share in the kernel: DCTCP's estimate of marks, and what a loss does.
 */
#ifndef CONGESTION_MARKS_H
#define CONGESTION_MARKS_H

#include <net/tcp.h>

/* The estimate of a connection; its private state. */
struct cc_marks {
	u32 alpha;		/* part of segments that is marked, CC_ONE: all */
	u32 end;		/* sequence number with which the present window ends */
	u32 delivered;		/* tp->delivered when it began */
	u32 marked;		/* tp->delivered_ce when it began */
};

/* Both algorithms. */
extern struct tcp_congestion_ops cc_d2tcp, cc_l2dct;

/* Begins the estimate of a connection; one without ECN sends Not-ECT and behaves as Reno. */
void cc_init(struct sock *sk);

/* Takes an ACK into the estimate. */
void cc_ack(struct sock *sk, u32 flags);

/* Halves the window as fast recovery begins, as Reno does (RFC 8257, section 3.5). */
void cc_set_state(struct sock *sk, u8 state);

/* Halves the window after a retransmission timeout. */
void cc_event(struct sock *sk, enum tcp_ca_event event);

/* Returns the threshold after marks, segments, with p = alpha^exponent. */
u32 cc_threshold(const struct sock *sk, u32 exponent);

#endif
