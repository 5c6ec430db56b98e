// SPDX-License-Identifier: Apache-2.0
/*
 * Builds the network of a plan.
 */
#include "network.h"

#include <algorithm>
#include <map>
#include <set>

#include "ns3/boolean.h"
#include "ns3/data-rate.h"
#include "ns3/double.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/ipv4-queue-disc-item.h"
#include "ns3/ipv4-routing-helper.h"
#include "ns3/point-to-point-helper.h"
#include "ns3/point-to-point-net-device.h"
#include "ns3/red-queue-disc.h"
#include "ns3/simulator.h"
#include "ns3/tcp-header.h"
#include "ns3/traffic-control-helper.h"
#include "ns3/traffic-control-layer.h"
#include "ns3/uinteger.h"

using namespace ns3;

constexpr uint64_t FRAME_BYTES = MTU_BYTES + ETHERNET_BYTES;
constexpr uint64_t LINK_BYTES = MTU_BYTES + 2;

/* VMs that meet do so within that time, so that clocks of a T up to it have any phase. */
constexpr uint64_t MEET_WITHIN_NS = 10000000;

/* So long before the simulator begins VMs hear a broadcast. */
constexpr uint64_t HEARD_NS = 20000000;

/* Returns bytes of IPv4 packets for bytes of full frames. */
static uint64_t network_inner(uint64_t frames)
{
	return frames * MTU_BYTES / FRAME_BYTES;
}

uint64_t Port::marks() const
{
	return queue->GetStats().nTotalMarkedPackets;
}

uint64_t Port::packets() const
{
	return queue->GetStats().nTotalDequeuedPackets;
}

uint64_t Port::bytes() const
{
	const QueueDisc::Stats &stats = queue->GetStats();

	return stats.nTotalDequeuedBytes + ETHERNET_BYTES * stats.nTotalDequeuedPackets;
}

uint64_t Port::backlog() const
{
	return queue->GetNBytes() + ETHERNET_BYTES * queue->GetNPackets();
}

uint64_t Port::drops(bool full) const
{
	const QueueDisc::Stats &stats = queue->GetStats();
	uint64_t limit = stats.GetNDroppedPackets(RedQueueDisc::INTERNAL_QUEUE_DROP);

	return full ? limit : stats.nTotalDroppedPackets - limit;
}

/* Counts what comes to a port, by sender. */
static void network_count(Port *port, Ptr<const QueueDiscItem> item)
{
	auto packet = StaticCast<const Ipv4QueueDiscItem>(item);
	uint32_t vm = plan_vm(packet->GetHeader().GetSource().Get());

	port->sent[vm] += item->GetSize() + ETHERNET_BYTES;
}

NS_OBJECT_ENSURE_REGISTERED(Routes);

TypeId Routes::GetTypeId()
{
	static TypeId id =
		TypeId("Routes").SetParent<Ipv4RoutingProtocol>().AddConstructor<Routes>();
	return id;
}

Ptr<Ipv4Route> Routes::RouteOutput(Ptr<Packet>, const Ipv4Header &header, Ptr<NetDevice>,
				   Socket::SocketErrno &error)
{
	Ptr<Ipv4Route> route = Create<Ipv4Route>(*out[0]);

	error = Socket::ERROR_NOTERROR;
	route->SetDestination(header.GetDestination());
	route->SetGateway(header.GetDestination());
	/* Who connects asks for a route before it has an address. */
	route->SetSource(speaker ? Ipv4Address(speaker) : header.GetSource());
	return route;
}

bool Routes::RouteInput(Ptr<const Packet> packet, const Ipv4Header &header, Ptr<const NetDevice>,
			const UnicastForwardCallback &unicast, const MulticastForwardCallback &,
			const LocalDeliverCallback &local, const ErrorCallback &)
{
	if (host) {
		Ipv4Header given = header;

		if (shim)
			packet = shim->receive(packet, given);
		if (packet && plan->delivery_ns)
			Simulator::Schedule(NanoSeconds(plan->delivery_ns),
					    [local, packet, given] { local(packet, given, 1); });
		else if (packet)
			local(packet, given, 1);
		return true;
	}
	uint32_t to = plan->vms[plan_vm(header.GetDestination().Get())].host;

	unicast(out[choose(ways[to], *packet, header)], packet, header);
	return true;
}

uint32_t Routes::choose(const std::vector<uint32_t> &equal, const Packet &packet,
			const Ipv4Header &header)
{
	uint8_t ports[4] = { 0 };
	uint64_t hash;

	if (equal.size() == 1)
		return equal[0];
	if (plan->spray)
		return equal[turn_++ % equal.size()];
	packet.CopyData(ports, 4);
	hash = (uint64_t)header.GetSource().Get() << 32 | header.GetDestination().Get();
	hash = (hash ^ salt) * 0xff51afd7ed558ccdULL;
	hash ^= hash >> 33 ^ (ports[0] << 24 | ports[1] << 16 | ports[2] << 8 | ports[3]);
	hash *= 0xc4ceb9fe1a85ec53ULL;
	return equal[(hash >> 33) % equal.size()];
}

void Routes::NotifyInterfaceUp(uint32_t)
{
}

void Routes::NotifyInterfaceDown(uint32_t)
{
}

void Routes::NotifyAddAddress(uint32_t, Ipv4InterfaceAddress)
{
}

void Routes::NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress)
{
}

void Routes::SetIpv4(Ptr<Ipv4> ipv4)
{
	ipv4_ = ipv4;
}

void Routes::PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const
{
}

/* Gives each node routes of ours. */
class RoutesHelper : public Ipv4RoutingHelper {
    public:
	RoutesHelper *Copy() const override
	{
		return new RoutesHelper(*this);
	}

	Ptr<Ipv4RoutingProtocol> Create(Ptr<Node>) const override
	{
		return CreateObject<Routes>();
	}
};

Network::Network(const Plan &plan) : plan_(plan)
{
	InternetStackHelper stack;
	uint32_t n = plan.hosts + plan.switches;

	for (const PlanFlow &flow : plan.flows)
		bytes_of_[(uint64_t)flow.vm << 16 | flow.port] = flow.bytes;
	nodes_.Create(n);
	links_of_.resize(n);
	stack.SetIpv6StackInstall(false);
	stack.SetRoutingHelper(RoutesHelper());
	stack.Install(nodes_);
	for (uint32_t i = 0; i < n; i++) {
		auto ipv4 = nodes_.Get(i)->GetObject<Ipv4>();
		auto routes = DynamicCast<Routes>(ipv4->GetRoutingProtocol());

		routes->plan = &plan;
		routes->host = i < plan.hosts;
		routes->salt = (plan.seed * 2654435761u + i) * 40503u;
		routes->ways.resize(routes->host ? 0 : plan.hosts);
		routes_.push_back(routes);
	}
	shims_.resize(plan.hosts);
	for (const PlanShim &shim : plan.shims)
		shims_[shim.host] = std::make_unique<Shim>(
			plan, shim,
			[this, host = shim.host](uint32_t source, uint32_t destination,
						 const uint8_t *data) {
				report(host, source, destination, data);
			});
	for (uint32_t i = 0; i < plan.links.size(); i++)
		add_link(i);
	add_hosts();
	if (plan.warm)
		meet();
	for (const PlanRoute &route : plan.routes) {
		const std::vector<uint32_t> &links = links_of_[route.at];

		for (uint32_t link : route.links)
			routes_[route.at]->ways[route.host].push_back(
				std::find(links.begin(), links.end(), link) - links.begin());
	}
}

bool Network::is_edge(uint32_t node) const
{
	return std::any_of(plan_.links.begin(), plan_.links.end(), [&](const PlanLink &link) {
		return link.node[1] == node && link.node[0] < plan_.hosts;
	});
}

void Network::add_hosts()
{
	for (uint32_t i = 0; i < plan_.vms.size(); i++) {
		uint32_t host = plan_.vms[i].host;
		auto ipv4 = nodes_.Get(host)->GetObject<Ipv4>();

		ipv4->AddAddress(1, Ipv4InterfaceAddress(Ipv4Address(plan_address(i)),
							 Ipv4Mask("255.255.255.255")));
		if (shims_[host])
			shims_[host]->add(plan_, i);
		routes_[host]->shim = shims_[host].get();
	}
}

void Network::meet()
{
	auto random = CreateObject<UniformRandomVariable>();
	std::set<std::pair<uint32_t, uint32_t>> pairs;
	std::multimap<uint64_t, std::pair<uint32_t, uint32_t>> times;

	for (const PlanFlow &flow : plan_.flows)
		pairs.emplace(flow.vm, flow.to);
	for (const auto &pair : pairs)
		times.emplace(MEET_NS + random->GetInteger(0, MEET_WITHIN_NS), pair);
	for (const auto &shim : shims_) {
		if (!shim)
			continue;
		for (const auto &[at_ns, pair] : times) {
			if (this->shim(pair.first) == shim.get())
				shim->meet(pair.first, pair.second, at_ns);
			if (this->shim(pair.second) == shim.get())
				shim->meet(pair.second, pair.first, at_ns);
		}
		for (uint32_t i = 0; i < plan_.vms.size(); i++)
			if (this->shim(i) == shim.get())
				shim->hear(i, EPOCH_NS - HEARD_NS);
		shim->pass(EPOCH_NS);
		shim->arm();
	}
}

/* Makes RED with these thresholds, bytes of frames, the queue of a device. */
static Ptr<QueueDisc> network_mark(Ptr<NetDevice> device, uint64_t limit, uint64_t mark,
				   uint64_t rate_bps)
{
	TrafficControlHelper red;

	red.SetRootQueueDisc(
		"ns3::RedQueueDisc", "UseEcn", BooleanValue(true), "UseHardDrop",
		BooleanValue(false), "Gentle", BooleanValue(false), "QW", DoubleValue(1.0),
		"LInterm", DoubleValue(1.0), "MeanPktSize", UintegerValue(MTU_BYTES), "MinTh",
		DoubleValue(network_inner(mark)), "MaxTh",
		DoubleValue(network_inner(mark) + MTU_BYTES), "MaxSize",
		QueueSizeValue(QueueSize(QueueSizeUnit::BYTES, network_inner(limit))),
		"LinkBandwidth", DataRateValue(DataRate(rate_bps)));
	return red.Install(device).Get(0);
}

Rank Network::rank(const Ipv4QueueDiscItem &item) const
{
	const Ipv4Header &header = item.GetHeader();
	uint32_t vm = plan_vm(header.GetSource().Get());
	Rank rank = { plan_.rank_of[vm], 0, 0 };

	if (plan_.ranks != "pfabric" || header.GetProtocol() != 6)
		return rank;
	TcpHeader tcp;

	item.GetPacket()->PeekHeader(tcp);
	rank.flow = (uint64_t)vm << 32 | (uint64_t)tcp.GetSourcePort() << 16 |
		    tcp.GetDestinationPort();
	auto found = bytes_of_.find((uint64_t)vm << 16 | tcp.GetSourcePort());

	/* What is not a flow's is acknowledgements, which go first. */
	if (found == bytes_of_.end())
		rank.rank = 0;
	else if (found->second >= tcp.GetSequenceNumber().GetValue())
		rank.left = found->second - tcp.GetSequenceNumber().GetValue() + 1;
	return rank;
}

Ptr<QueueDisc> Network::rank_queue(Ptr<NetDevice> device, uint64_t limit, uint64_t mark) const
{
	TrafficControlHelper helper;

	helper.SetRootQueueDisc("RankDisc");
	auto disc = DynamicCast<RankDisc>(helper.Install(device).Get(0));

	disc->set([this](const Ipv4QueueDiscItem &item) { return rank(item); },
		  network_inner(limit), plan_.ranks == "pfabric" ? 0 : network_inner(mark));
	return disc;
}

void Network::add_end(uint32_t number, int end, Ptr<NetDevice> device)
{
	const PlanLink &link = plan_.links[number];
	uint32_t node = link.node[end];
	auto ipv4 = nodes_.Get(node)->GetObject<Ipv4>();
	uint32_t interface = ipv4->AddInterface(device);
	auto route = Create<Ipv4Route>();

	/* A switch's ports need an address each, which nobody sends to. */
	if (node >= plan_.hosts)
		ipv4->AddAddress(interface, Ipv4InterfaceAddress(
			Ipv4Address(0xc0000000 + 2 * number + end), Ipv4Mask("255.255.255.255")));
	ipv4->SetUp(interface);
	route->SetOutputDevice(device);
	route->SetGateway(Ipv4Address(0xc0000000));
	routes_[node]->out.push_back(route);
	links_of_[node].push_back(number);
	if (link.limit[end]) {
		auto port = std::make_unique<Port>();

		port->link = number;
		port->node = node;
		port->last = link.node[!end] < plan_.hosts;
		port->kind = port->last ? 0 : is_edge(node) ? 1 : 2;
		port->queue = plan_.ranks.empty() ?
			network_mark(device, link.limit[end], link.mark[end], link.rate_bps) :
			rank_queue(device, link.limit[end], link.mark[end]);
		if (plan_.control_ns)
			port->queue->TraceConnectWithoutContext(
				"Enqueue", MakeBoundCallback(&network_count, port.get()));
		ports.push_back(std::move(port));
	} else if (plan_.ranks == "pfabric") {
		/* pFabric's hosts send by rank, too. */
		rank_queue(device, UINT32_MAX, 0);
	} else {
		TrafficControlHelper queue;

		queue.SetRootQueueDisc("ShimDisc");
		DynamicCast<ShimDisc>(queue.Install(device).Get(0))
			->set(node < plan_.hosts ? shims_[node].get() : nullptr,
			      node < plan_.hosts ? plan_.jitter_ns : 0);
	}
}

void Network::add_link(uint32_t number)
{
	const PlanLink &link = plan_.links[number];
	PointToPointHelper helper;

	helper.SetChannelAttribute("Delay", TimeValue(NanoSeconds(link.delay_ns)));
	helper.SetDeviceAttribute("DataRate",
				  DataRateValue(DataRate(link.rate_bps * LINK_BYTES / FRAME_BYTES)));
	/* What waits in a device is hidden from the queue above it. */
	helper.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize("1p")));
	auto devices = helper.Install(nodes_.Get(link.node[0]), nodes_.Get(link.node[1]));

	for (int end = 0; end < 2; end++)
		add_end(number, end, devices.Get(end));
}

void Network::report(uint32_t host, uint32_t source, uint32_t destination, const uint8_t *data)
{
	auto ipv4 = nodes_.Get(host)->GetObject<Ipv4L3Protocol>();
	Ipv4Header header;

	header.SetSource(Ipv4Address(source));
	header.SetDestination(Ipv4Address(destination));
	header.SetProtocol(MESSAGE_PROTOCOL);
	header.SetTtl(64);
	header.SetEcn(Ipv4Header::ECN_ECT1);
	header.SetPayloadSize(SHIM_MESSAGE_V1_BYTES);

	auto item = Create<Ipv4QueueDiscItem>(Create<Packet>(data, SHIM_MESSAGE_V1_BYTES),
					      Address(), 0x0800, header);

	nodes_.Get(host)->GetObject<TrafficControlLayer>()->Send(ipv4->GetNetDevice(1), item);
}

Ptr<Node> Network::node(uint32_t vm) const
{
	return nodes_.Get(plan_.vms[vm].host);
}

Routes &Network::routes(uint32_t vm) const
{
	return *routes_[plan_.vms[vm].host];
}

Shim *Network::shim(uint32_t vm) const
{
	return shims_[plan_.vms[vm].host].get();
}

Port *Network::port(uint32_t link, uint32_t node)
{
	for (const auto &port : ports)
		if (port->link == link && port->node == node)
			return port.get();
	return nullptr;
}
