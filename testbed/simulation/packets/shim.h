/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shim of a simulated host: an engine of shim/core, its VMs and its one uplink.
 *
 * The engine's clock is the simulator's, begun late enough that no time is 0.  Its timers are
 * events; they are looked at again after whatever may have started one.
 */
#ifndef SIMULATION_SHIM_H
#define SIMULATION_SHIM_H

#include <functional>
#include <unordered_map>
#include <vector>

#include "ns3/event-id.h"
#include "ns3/ipv4-header.h"
#include "ns3/packet.h"

#include "plan.h"

extern "C" {
#include "../core/message.h"
#include "lab.h"
}

/* Engine's time when the simulator begins. */
constexpr uint64_t EPOCH_NS = 1000000000;

/* Engine's time from which on VMs may meet before that: T_o has passed when the run begins. */
constexpr uint64_t MEET_NS = 1000000;

/* IP protocol of control messages and reports. */
constexpr uint8_t MESSAGE_PROTOCOL = 253;

/* What became of a packet that a VM sent. */
struct ShimVerdict {
	bool passes;
	uint64_t departure_ns;		/* earliest, simulator's time; 0: at once */
};

class Shim {
    public:
	/* Has `send` called for each report, with its source, destination and bytes. */
	using Send = std::function<void(uint32_t, uint32_t, const uint8_t *)>;

	Shim(const Plan &plan, const PlanShim &shim, Send send);
	~Shim();

	/* Adds the VM of that number. */
	void add(const Plan &plan, uint32_t number);

	/* Judges a packet of a VM, of which the IPv4 header stands apart; both may be written. */
	ShimVerdict send(ns3::Ptr<ns3::Packet> packet, ns3::Ipv4Header &header);

	/* Takes a packet for a VM, or a message; returns what the VM gets, NULL: nothing. */
	ns3::Ptr<const ns3::Packet> receive(ns3::Ptr<const ns3::Packet> packet,
					    ns3::Ipv4Header &header);

	/*
	 * Lets a VM and another one meet at an engine's time, before the simulator begins: a small
	 * packet passes each way.  Of several, times never fall.
	 */
	void meet(uint32_t number, uint32_t other, uint64_t at_ns);

	/* Lets a VM hear a broadcast at an engine's time, before the simulator begins. */
	void hear(uint32_t number, uint64_t at_ns);

	/* Lets the clocks tick up to an engine's time, before the simulator begins. */
	void pass(uint64_t until_ns);

	/* Has the clocks tick when they are due. */
	void arm();

	/* Brings a message of the controller to a VM. */
	void tell(uint32_t number, const uint8_t *data, uint32_t bytes);

	/* Reads the limiter of a VM; false: it never sent. */
	bool read(uint32_t number, struct shim_lab_limiter &limiter) const;

	/* Gives what a VM sends to another one a weight. */
	void weigh(uint32_t number, uint32_t to, uint32_t weight);

	/* Returns the rate of what a VM sends to another one, bytes/s; 0: it has none. */
	uint64_t rate(uint32_t number, uint32_t to) const;

	/* Reads a counter of a VM. */
	uint64_t counter(uint32_t number, uint32_t counter) const;

    private:
	/* Fills what the engine is told of a packet. */
	void describe(const ns3::Packet &packet, const ns3::Ipv4Header &header,
		      struct shim_lab_packet &told) const;

	/* Lets the clocks tick and sends what they have to say. */
	void tick();

	struct shim_lab *lab_;
	struct shim_uplink *uplink_;
	std::unordered_map<uint32_t, struct shim_vm *> vms_;	/* by number */
	Send send_;
	ns3::EventId event_;		/* of the next tick */
	uint64_t armed_ns_ = 0;		/* engine's time of it; 0: none */
};

#endif
