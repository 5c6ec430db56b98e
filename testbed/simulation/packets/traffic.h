/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What guests do: TCP and UDP flows of the plan, and who receives them.
 *
 * Every flow has a port of its sender by which its receiver knows it.  A TCP flow that has bytes
 * to send ends when its receiver has them all; one without end is closed at its stop.  Calls are
 * requests on one connection, begun whether or not earlier ones were answered; the receiver
 * answers each as soon as it has it whole, in the order in which they came.
 *
 * Flows with an order take turns in a tunnel, which is what one VM sends to another: only the first
 * of those that are connected may hand bytes to its socket, CHUNK ahead of what was sent.
 *
 *   size       first is the one with the least left
 *   deadline   first is the one whose deadline is next; those that would miss theirs at the
 *              tunnel's rate come last, the one with the least left first
 */
#ifndef SIMULATION_TRAFFIC_H
#define SIMULATION_TRAFFIC_H

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ns3/random-variable-stream.h"
#include "ns3/socket.h"

#include "network.h"
#include "plan.h"

/* Bytes handed to a socket ahead of what was sent, of flows with an order. */
constexpr uint32_t CHUNK = 16384;

/* Round trips are counted in steps of a factor 2^(1/STEPS) from 1 us on. */
constexpr uint32_t STEPS = 8;

/* One flow while it lives. */
struct Flow {
	const PlanFlow *plan;
	uint16_t port;			/* of the sender */
	ns3::Ptr<ns3::Socket> socket;	/* the sender's */
	uint64_t sent = 0;		/* bytes given to the socket; UDP: datagrams */
	uint64_t passed = 0;		/* bytes that the socket sent for the first time */
	uint64_t received = 0;		/* bytes */
	uint64_t done_ns = 0;		/* when the last byte came, simulator's time; 0: not yet */
	uint64_t phase_ns = 0;		/* UDP: since when it sends */
	uint64_t wanted = 0;		/* calls: bytes of requests so far */
	uint64_t answered = 0;		/* calls: answers sent */
	uint64_t heard = 0;		/* calls: bytes of answers that came, of those not whole */
	std::deque<uint64_t> asked_ns;	/* calls: when those without answer began */
	std::vector<std::pair<uint64_t, uint64_t>> calls;	/* over: begin and length, ns */
	bool connected = false;
	bool closed = false;
};

class Traffic {
    public:
	Traffic(const Plan &plan, Network &network);

	std::vector<Flow> flows;	/* as the plan has them */
	std::vector<std::map<uint32_t, uint64_t>> times;	/* round trips by VM and step */
	std::vector<std::vector<uint64_t>> bins;	/* received of each VM's flows, bytes */

    private:
	/* Makes the sockets that receive for a VM. */
	void listen(uint32_t vm);
	/* Begins to connect. */
	void connect(uint32_t number);
	/* Gives a TCP flow's socket all that it takes. */
	void fill(uint32_t number);
	/* Begins a call, and the next one when it is time to. */
	void ask(uint32_t number);
	/* Answers the calls that came whole. */
	void answer(Flow &flow, ns3::Ptr<ns3::Socket> socket);
	/* Takes what came of answers. */
	void hear(uint32_t number);
	/* Gives a socket so many bytes at most; returns whether it took any. */
	bool give(uint32_t number, uint64_t bytes);
	/* Closes a flow that was given whole. */
	void finish(uint32_t number);
	/* Lets the flow whose turn it is in a tunnel send. */
	void turn(uint64_t tunnel);
	/* Tells whether one flow of a tunnel goes before another one. */
	bool before(uint32_t one, uint32_t other, uint64_t rate) const;
	/* Ends what a flow sends. */
	void stop(uint32_t number);
	/* Begins a UDP flow. */
	void stream(uint32_t number);
	/* Sends a train of datagrams, and the next one when it is time to. */
	void datagram(uint32_t number);
	/* Takes what came at a socket. */
	void take(ns3::Ptr<ns3::Socket> socket);
	/* Takes a connection that was accepted. */
	void accepted(ns3::Ptr<ns3::Socket> socket, const ns3::Address &from);
	/* Counts what came of a flow; returns it, NULL: it is none. */
	Flow *count(uint32_t from, uint16_t port, uint32_t bytes);

	const Plan &plan_;
	Network &network_;
	std::unordered_map<uint64_t, uint32_t> by_port_;	/* flow, by VM and port */
	std::unordered_map<uint64_t, std::vector<uint32_t>> turns_;	/* flows by tunnel */
	std::vector<ns3::Ptr<ns3::Socket>> listening_;
	ns3::Ptr<ns3::UniformRandomVariable> random_;
	ns3::Ptr<ns3::ExponentialRandomVariable> gaps_;
};

#endif
