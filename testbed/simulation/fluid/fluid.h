/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates alone: flows through queues, with an engine on each host.
 *
 * Time goes in steps of dt.  In each, a VM i sends what its limiter, and to a peer what the peer's
 * limiter, lets through, but no more than it wants; it wants all or a given rate.  Of several flows
 * each has its part of the VM's rate:
 *
 *   x_f = min(want_f, part_f * R_i, R_ij)
 *   a_p = sum of what comes of all f to p         o_p = min(c_p, q_p / dt + a_p)
 *   q_p' = min(limit, q_p + (a_p - o_p) * dt)     s_p = o_p / a_p
 *   m_p = part of the step in which the queue, linear between q_p and q_p', is above the threshold
 *
 * Of flow f x_f * s_p leaves port p: what waited leaves in the proportion of what comes now.  Ports
 * stand in layers, of which a way crosses some, each once; one layer after the other is computed.
 * A flow's packets are marked by the most of its ports.  The engines are told of packets in whole
 * numbers, what is left is carried to the next step.
 *
 * There is no congestion control but the law's: TCP is taken to fill its limiter.
 */
#ifndef SIMULATION_FLUID_H
#define SIMULATION_FLUID_H

#include "types.h"
#include "lab.h"

/* Layers of ports. */
#define FLUID_LAYERS 6

/* No port of a layer is on the way. */
#define FLUID_NONE (~0ULL)

/* A virtual machine. */
struct fluid_vm {
	struct shim_lab *lab;		/* of its host */
	struct shim_vm *vm;
	struct shim_uplink *uplink;	/* of its host */
	u8 address[16];
	double rate;			/* its limiter's, bytes/s, as of this step */
	u64 receives;			/* the law is to be told of what it receives */
};

/* What one VM sends to another. */
struct fluid_flow {
	u64 from;			/* number of the VM that sends */
	u64 to;				/* and of the one that receives */
	u64 ports[FLUID_LAYERS];	/* on its way: numbers, or FLUID_NONE */
	u64 start_ns;			/* engine's time */
	u64 stop_ns;
	u64 peers;			/* it has a peer's limiter */
	double want;			/* bytes/s */
	double part;			/* of the VM's rate */
	double sent;			/* in this step, bytes/s */
	double left;			/* of it, behind the ports passed so far */
	double received;		/* since the start, bytes */
	double carried;			/* bytes that make no whole packet; below 0: owed */
	double carried_received;	/* received bytes that make no whole packet yet */
	double carried_marks;		/* marks that make no whole one yet */
};

/* A port. */
struct fluid_port {
	u64 layer;			/* that it stands in */
	double capacity;		/* bytes/s */
	double limit;			/* bytes */
	double mark;			/* threshold, bytes; 0: it marks nothing */
	double queue;			/* bytes */
	double offered;			/* in this step, bytes/s */
	double passes;			/* what leaves as a part of it */
	double marked;			/* part of it that is marked */
	double bytes;			/* left since the start */
	double marks;			/* packets marked since the start */
	double lost;			/* bytes lost since the start */
};

/* A network. */
struct fluid {
	struct shim_lab **labs;		/* by host */
	struct fluid_vm *vms;
	struct fluid_flow *flows;
	struct fluid_port *ports;
	u64 n_labs;
	u64 n_vms;
	u64 n_flows;
	u64 n_ports;
	u64 n_layers;			/* that have ports */
	u64 step_ns;			/* dt */
	u64 messages;			/* reports delivered */
};

/* Lets time go by, in whole steps, up to a time of the engine. */
void fluid_run(struct fluid *fluid, u64 until_ns);

/* Brings a message of the controller, 96 bytes, to a VM; returns what became of it. */
u32 fluid_tell(struct fluid *fluid, u64 vm, const u8 *data);

/* Sets the engine's clock, ns. */
void fluid_set_clock(u64 now_ns);

#endif
