/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports that send by rank: LS in a priority queue above the others, or pFabric's switches.
 *
 *   strict     the lowest rank goes first, first come first served within one; each rank marks
 *              from its own `mark` bytes on (Not-ECT: drops), all share the limit
 *   pfabric    the key is (rank, bytes left of the flow); the flow of the lowest key goes first,
 *              by its earliest packet; a packet that comes to a full queue takes the place of
 *              those with the highest key, if its own is lower
 */
#ifndef SIMULATION_RANK_H
#define SIMULATION_RANK_H

#include <functional>
#include <list>

#include "ns3/ipv4-queue-disc-item.h"
#include "ns3/queue-disc.h"
#include "ns3/queue.h"

/* What a packet is sent by. */
struct Rank {
	uint32_t rank;			/* of its VM; the lowest goes first */
	uint64_t left;			/* bytes left of its flow with this packet; strict: 0 */
	uint64_t flow;			/* flows differ in it */
};

/* Packets in the order of their ranks. */
class RankQueue : public ns3::Queue<ns3::QueueDiscItem> {
    public:
	static ns3::TypeId GetTypeId();

	bool Enqueue(ns3::Ptr<ns3::QueueDiscItem> item) override;
	ns3::Ptr<ns3::QueueDiscItem> Dequeue() override;
	ns3::Ptr<ns3::QueueDiscItem> Remove() override;
	ns3::Ptr<const ns3::QueueDiscItem> Peek() const override;

	/* Returns the bytes of a rank. */
	uint64_t bytes(uint32_t rank) const;
	/* Returns whether the last packet has a higher key than one that comes. */
	bool yields(const Rank &to) const;

	Rank next;			/* of the packet that comes next */

    private:
	/* A packet's rank, and which one it is of those that came. */
	struct Place {
		Rank rank;
		uint64_t arrival;
		uint32_t bytes;
	};

	std::list<Place> places_;	/* as the container has the packets */
	uint64_t arrivals_ = 0;
};

class RankDisc : public ns3::QueueDisc {
    public:
	using Ranks = std::function<Rank(const ns3::Ipv4QueueDiscItem &)>;

	static ns3::TypeId GetTypeId();

	RankDisc();

	/* Sets who says ranks, and thresholds in bytes; mark 0: it is pFabric's. */
	void set(Ranks ranks, uint64_t limit, uint64_t mark);

    private:
	bool DoEnqueue(ns3::Ptr<ns3::QueueDiscItem> item) override;
	ns3::Ptr<ns3::QueueDiscItem> DoDequeue() override;
	bool CheckConfig() override;
	void InitializeParams() override;

	Ranks ranks_;
	uint64_t limit_ = 0;
	uint64_t mark_ = 0;
	ns3::Ptr<RankQueue> queue_;
};

#endif
