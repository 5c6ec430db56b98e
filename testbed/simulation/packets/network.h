/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated network: hosts with their VMs' addresses, switches, links, queues, routes.
 *
 * A port of a switch has ns-3's RED as a threshold: from `mark` bytes on each packet is marked
 * (ECT) or dropped (Not-ECT), as the testbed has it.  Its bytes are those of IPv4 packets, so that
 * limits and thresholds of frames are scaled by 1500 / 1514; links are slowed by (1500 + 2) /
 * 1514, for ns-3's point-to-point devices put 2 bytes before a packet where Ethernet has 14.
 */
#ifndef SIMULATION_NETWORK_H
#define SIMULATION_NETWORK_H

#include <memory>
#include <unordered_map>
#include <vector>

#include "ns3/ipv4-route.h"
#include "ns3/ipv4-routing-protocol.h"
#include "ns3/node-container.h"
#include "ns3/queue-disc.h"

#include "disc.h"
#include "plan.h"
#include "rank.h"
#include "shim.h"

/* A port of a switch with a queue of the fabric. */
struct Port {
	uint32_t link;			/* which link it leads to ... */
	uint32_t node;			/* ... from this switch */
	bool last;			/* it leads to a host */
	uint32_t kind;			/* 0: to a host; 1: from a switch with hosts; 2: others */
	ns3::Ptr<ns3::QueueDisc> queue;
	std::unordered_map<uint32_t, double> sent;	/* bytes by sending VM, forgotten slowly */
	uint64_t told_marks = 0;	/* marks when the controller last heard of it */
	uint64_t heard = 0;		/* steps of the controller since it had marks */

	/* Returns the packets it marked so far. */
	uint64_t marks() const;
	/* Returns the bytes of frames that left so far. */
	uint64_t bytes() const;
	/* Returns the packets that left so far. */
	uint64_t packets() const;
	/* Returns the bytes of frames that wait. */
	uint64_t backlog() const;
	/* Returns packets dropped for the threshold, or as the queue was full. */
	uint64_t drops(bool full) const;
};

/* Routes of one node, and at a host the shim that packets pass. */
class Routes : public ns3::Ipv4RoutingProtocol {
    public:
	static ns3::TypeId GetTypeId();

	ns3::Ptr<ns3::Ipv4Route> RouteOutput(ns3::Ptr<ns3::Packet> packet,
					     const ns3::Ipv4Header &header,
					     ns3::Ptr<ns3::NetDevice> out,
					     ns3::Socket::SocketErrno &error) override;
	bool RouteInput(ns3::Ptr<const ns3::Packet> packet, const ns3::Ipv4Header &header,
			ns3::Ptr<const ns3::NetDevice> in, const UnicastForwardCallback &unicast,
			const MulticastForwardCallback &multicast,
			const LocalDeliverCallback &local, const ErrorCallback &error) override;
	void NotifyInterfaceUp(uint32_t) override;
	void NotifyInterfaceDown(uint32_t) override;
	void NotifyAddAddress(uint32_t, ns3::Ipv4InterfaceAddress) override;
	void NotifyRemoveAddress(uint32_t, ns3::Ipv4InterfaceAddress) override;
	void SetIpv4(ns3::Ptr<ns3::Ipv4> ipv4) override;
	void PrintRoutingTable(ns3::Ptr<ns3::OutputStreamWrapper>, ns3::Time::Unit) const override;

	const Plan *plan = nullptr;
	bool host = false;
	Shim *shim = nullptr;		/* of a host; NULL: none */
	uint32_t salt = 0;		/* of a switch's hash */
	uint32_t speaker = 0;		/* VM that is about to connect, an address */
	std::vector<ns3::Ptr<ns3::Ipv4Route>> out;	/* by place among the node's links */
	std::vector<std::vector<uint32_t>> ways;	/* of a switch: by host, places in out */

    private:
	/* Chooses among equal ways. */
	uint32_t choose(const std::vector<uint32_t> &equal, const ns3::Packet &packet,
			const ns3::Ipv4Header &header);

	ns3::Ptr<ns3::Ipv4> ipv4_;
	uint32_t turn_ = 0;		/* with sprayed packets: how many went */
};

/*
 * In a warm plan flows' ends have met as the testbed's VMs do, which ping each other: some 1 s
 * before the run, at a time drawn at random.  Clocks of hosts go since then, each in a phase of its
 * own, and as senders VMs count as idle again.  A broadcast that all hear shortly before the run has
 * receivers be metered, as those that come now and then do anywhere.
 */
class Network {
    public:
	explicit Network(const Plan &plan);

	/* Returns the node of a VM's host. */
	ns3::Ptr<ns3::Node> node(uint32_t vm) const;
	/* Returns the routes of a VM's host. */
	Routes &routes(uint32_t vm) const;
	/* Returns the shim of a VM's host, NULL: none. */
	Shim *shim(uint32_t vm) const;
	/* Returns the port at a node's end of a link, NULL: it has no queue of the fabric. */
	Port *port(uint32_t link, uint32_t node);

	std::vector<std::unique_ptr<Port>> ports;	/* all with a queue of the fabric */

    private:
	/* Tells whether a switch has hosts. */
	bool is_edge(uint32_t node) const;
	/* Makes the shims of hosts and the addresses of VMs. */
	void add_hosts();
	/* Lets VMs that will talk meet before the simulator begins. */
	void meet();
	/* Makes a link with the queues at its ends. */
	void add_link(uint32_t number);
	/* Returns what a port sends a packet by. */
	Rank rank(const ns3::Ipv4QueueDiscItem &item) const;
	/* Makes a queue that sends by rank; mark 0: pFabric's.  Bytes of frames. */
	ns3::Ptr<ns3::QueueDisc> rank_queue(ns3::Ptr<ns3::NetDevice> device, uint64_t limit,
					    uint64_t mark) const;
	/* Makes the port at the end of a link. */
	void add_end(uint32_t number, int end, ns3::Ptr<ns3::NetDevice> device);
	/* Sends a report of a host's shim into the network. */
	void report(uint32_t host, uint32_t source, uint32_t destination, const uint8_t *data);

	const Plan &plan_;
	ns3::NodeContainer nodes_;
	std::vector<ns3::Ptr<Routes>> routes_;		/* by node */
	std::vector<std::unique_ptr<Shim>> shims_;	/* by host; NULL: none */
	std::unordered_map<uint64_t, uint64_t> bytes_of_;	/* flows' bytes by VM and port */
	std::vector<std::vector<uint32_t>> links_of_;	/* by node: links in the order of out */
};

#endif
