/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's uplink: what its VMs send is judged by the shim and waits for its departure time.
 *
 *   departure' = max(departure + U, last departure of the pair + 1 ns),  U uniform in [0, jitter)
 *
 * Hosts' clocks are not one clock: without U, senders of equal rates would meet a full queue in
 * the same order each time.  Packets from one VM to another never overtake each other.
 */
#ifndef SIMULATION_DISC_H
#define SIMULATION_DISC_H

#include <list>
#include <unordered_map>

#include "ns3/queue-disc.h"
#include "ns3/queue.h"
#include "ns3/random-variable-stream.h"

#include "shim.h"

/* Packets in the order of their departure times. */
class DepartureQueue : public ns3::Queue<ns3::QueueDiscItem> {
    public:
	static ns3::TypeId GetTypeId();

	bool Enqueue(ns3::Ptr<ns3::QueueDiscItem> item) override;
	ns3::Ptr<ns3::QueueDiscItem> Dequeue() override;
	ns3::Ptr<ns3::QueueDiscItem> Remove() override;
	ns3::Ptr<const ns3::QueueDiscItem> Peek() const override;

	uint64_t next_ns = 0;		/* departure time of the packet that comes next */
	std::list<uint64_t> times;	/* of those within */
};

class ShimDisc : public ns3::QueueDisc {
    public:
	static ns3::TypeId GetTypeId();

	ShimDisc();

	/* Sets the shim, NULL: none, and the most that a packet is late, ns. */
	void set(Shim *shim, uint64_t jitter_ns);

    private:
	bool DoEnqueue(ns3::Ptr<ns3::QueueDiscItem> item) override;
	ns3::Ptr<ns3::QueueDiscItem> DoDequeue() override;
	bool CheckConfig() override;
	void InitializeParams() override;

	/* Returns when a packet leaves that may at a time, ns. */
	uint64_t late(uint64_t departure_ns);

	Shim *shim_ = nullptr;
	ns3::Ptr<DepartureQueue> queue_;
	uint64_t jitter_ns_ = 0;
	std::unordered_map<uint64_t, uint64_t> last_;	/* departure, by source and destination */
	ns3::Ptr<ns3::UniformRandomVariable> random_;
	ns3::EventId event_;		/* the next departure */
};

#endif
