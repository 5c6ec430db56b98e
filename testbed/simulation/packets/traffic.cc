// SPDX-License-Identifier: Apache-2.0
/*
 * Guests' sockets.
 */
#include "traffic.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "ns3/boolean.h"
#include "ns3/inet-socket-address.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-cubic.h"
#include "ns3/tcp-dctcp.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/tcp-linux-reno.h"
#include "ns3/tcp-socket-base.h"
#include "ns3/udp-socket-factory.h"
#include "ns3/uinteger.h"

#include "congestion.h"

using namespace ns3;

/* Ports: receivers of each congestion control, without and with ECN, and of UDP. */
constexpr uint16_t SINK_PORT = 5001;
constexpr uint16_t SINK_UDP = 5100;

/* Congestion controls, by their place. */
static const char *const traffic_names[] = { "reno", "cubic", "dctcp" };

/* Returns the type of a congestion control. */
static TypeId traffic_type(int place)
{
	static const TypeId types[] = { TcpLinuxReno::GetTypeId(), TcpCubic::GetTypeId(),
					TcpDctcp::GetTypeId() };

	return types[place];
}

/* Returns the place of a congestion control; ends the program if there is none of that name. */
static int traffic_place(const std::string &name)
{
	/* Who receives is DCTCP's or Reno's. */
	if (name == "d2tcp" || name == "l2dct")
		return 2;
	if (name == "pfabric")
		return 0;
	for (int i = 0; i < 3; i++)
		if (name == traffic_names[i])
			return i;
	std::cerr << "there is no congestion control " << name << "\n";
	std::exit(2);
}

/* Makes a TCP socket of a guest; both ends of a connection are of one kind. */
static Ptr<Socket> traffic_tcp(Ptr<Node> node, int place, bool ecn)
{
	auto socket = node->GetObject<TcpL4Protocol>()->CreateSocket(traffic_type(place));

	socket->SetAttribute("UseEcn", StringValue(ecn ? "On" : "Off"));
	return socket;
}

/* Tells whether a flow takes turns. */
static bool traffic_ordered(const PlanFlow &flow)
{
	return flow.bytes && !flow.order.empty() && flow.order != "none";
}

/* Returns what flows of one tunnel have in common. */
static uint64_t traffic_tunnel(const PlanFlow &flow)
{
	return (uint64_t)flow.vm << 32 | flow.to;
}

/* Counts a round trip. */
static void traffic_time(std::map<uint32_t, uint64_t> *times, Time, Time took)
{
	double us = took.GetNanoSeconds() / 1e3;

	(*times)[us > 1 ? std::lround(std::log2(us) * STEPS) : 0]++;
}

/* Gives a flow's socket the congestion control that the plan has for it. */
static void traffic_set_up(const Flow &flow)
{
	const PlanFlow &one = *flow.plan;
	uint64_t deadline_ns = one.deadline_ns ? BEFORE_NS + one.start_ns + one.deadline_ns : 0;
	auto ops = congestion_make(one.cc, one.bytes, deadline_ns);

	if (!ops)
		return;
	DynamicCast<TcpSocketBase>(flow.socket)->SetCongestionControlAlgorithm(ops);
	if (one.cc == "pfabric")
		flow.socket->SetAttribute("InitialCwnd", UintegerValue(PFABRIC_WINDOW));
}

Traffic::Traffic(const Plan &plan, Network &network)
	: bins(plan.vms.size(), std::vector<uint64_t>(plan.duration_ns / plan.bin_ns + 1)),
	  plan_(plan), network_(network), random_(CreateObject<UniformRandomVariable>()),
	  gaps_(CreateObject<ExponentialRandomVariable>())
{
	times.resize(plan.vms.size());
	for (uint32_t i = 0; i < plan.vms.size(); i++)
		listen(i);
	flows.resize(plan.flows.size());
	for (uint32_t i = 0; i < plan.flows.size(); i++) {
		const PlanFlow &one = plan.flows[i];
		uint64_t start_ns = BEFORE_NS + one.start_ns;

		flows[i].plan = &one;
		flows[i].port = one.port;
		if (one.udp)
			Simulator::Schedule(NanoSeconds(start_ns), &Traffic::stream, this, i);
		else
			Simulator::Schedule(NanoSeconds(one.early ? 0 : start_ns),
					    &Traffic::connect, this, i);
		Simulator::Schedule(NanoSeconds(BEFORE_NS + one.stop_ns), &Traffic::stop, this, i);
	}
}

void Traffic::listen(uint32_t vm)
{
	Ipv4Address address(plan_address(vm));
	auto node = network_.node(vm);

	for (int place = 0; place < 3; place++)
		for (int ecn = 0; ecn < 2; ecn++) {
			auto socket = traffic_tcp(node, place, ecn);
			uint16_t port = SINK_PORT + 2 * place + ecn;

			socket->Bind(InetSocketAddress(address, port));
			socket->Listen();
			socket->SetAcceptCallback(
				MakeNullCallback<bool, Ptr<Socket>, const Address &>(),
				MakeCallback(&Traffic::accepted, this));
			listening_.push_back(socket);
		}
	auto udp = Socket::CreateSocket(node, UdpSocketFactory::GetTypeId());

	udp->Bind(InetSocketAddress(address, SINK_UDP));
	udp->SetRecvCallback(MakeCallback(&Traffic::take, this));
	listening_.push_back(udp);
}

void Traffic::accepted(Ptr<Socket> socket, const Address &)
{
	socket->SetRecvCallback(MakeCallback(&Traffic::take, this));
	socket->SetCloseCallbacks(
		MakeCallback(+[](Ptr<Socket> one) { one->Close(); }),
		MakeNullCallback<void, Ptr<Socket>>());
}

void Traffic::take(Ptr<Socket> socket)
{
	Ptr<Packet> packet;
	Address from;

	while ((packet = socket->RecvFrom(from)) && packet->GetSize()) {
		InetSocketAddress sender = InetSocketAddress::ConvertFrom(from);

		Flow *flow = count(sender.GetIpv4().Get(), sender.GetPort(), packet->GetSize());

		if (flow && flow->plan->gap_ns)
			answer(*flow, socket);
	}
}

Flow *Traffic::count(uint32_t from, uint16_t port, uint32_t bytes)
{
	uint64_t now_ns = Simulator::Now().GetNanoSeconds(), bin;
	auto found = by_port_.find((uint64_t)from << 16 | port);

	if (found == by_port_.end())
		return nullptr;
	Flow &flow = flows[found->second];

	flow.received += bytes;
	if (!flow.plan->udp && flow.plan->bytes && flow.received >= flow.plan->bytes)
		flow.done_ns = now_ns;
	if (now_ns < BEFORE_NS)
		return &flow;
	bin = (now_ns - BEFORE_NS) / plan_.bin_ns;
	if (bin < bins[flow.plan->vm].size())
		bins[flow.plan->vm][bin] += bytes;
	return &flow;
}

void Traffic::ask(uint32_t number)
{
	Flow &flow = flows[number];
	uint64_t now_ns = Simulator::Now().GetNanoSeconds();

	if (now_ns >= BEFORE_NS + flow.plan->stop_ns)
		return;
	flow.asked_ns.push_back(now_ns);
	flow.wanted += flow.plan->request;
	fill(number);
	Simulator::Schedule(NanoSeconds((uint64_t)gaps_->GetValue(flow.plan->gap_ns, 0)), &Traffic::ask,
			    this, number);
}

void Traffic::answer(Flow &flow, Ptr<Socket> socket)
{
	while ((flow.answered + 1) * flow.plan->request <= flow.received) {
		flow.answered++;
		socket->Send(Create<Packet>(flow.plan->response));
	}
}

void Traffic::hear(uint32_t number)
{
	uint64_t now_ns = Simulator::Now().GetNanoSeconds();
	Flow &flow = flows[number];
	Ptr<Packet> packet;

	while ((packet = flow.socket->Recv()) && packet->GetSize())
		flow.heard += packet->GetSize();
	for (; flow.heard >= flow.plan->response; flow.heard -= flow.plan->response) {
		flow.calls.emplace_back(flow.asked_ns.front(), now_ns - flow.asked_ns.front());
		flow.asked_ns.pop_front();
	}
}

void Traffic::connect(uint32_t number)
{
	Flow &flow = flows[number];
	const PlanFlow &one = *flow.plan;
	int place = traffic_place(one.cc);
	uint64_t now_ns = Simulator::Now().GetNanoSeconds();

	flow.socket = traffic_tcp(network_.node(one.vm), place, one.ecn);
	traffic_set_up(flow);
	if (plan_.times)
		flow.socket->TraceConnectWithoutContext(
			"LastRTT", MakeBoundCallback(&traffic_time, &times[one.vm]));
	if (traffic_ordered(one))
		flow.socket->TraceConnectWithoutContext(
			"HighestSequence",
			Callback<void, SequenceNumber32, SequenceNumber32>(
				[this, number](SequenceNumber32, SequenceNumber32 next) {
					flows[number].passed = next.GetValue();
				}));
	by_port_[(uint64_t)plan_address(one.vm) << 16 | flow.port] = number;
	flow.socket->Bind(InetSocketAddress(Ipv4Address(plan_address(one.vm)), flow.port));
	flow.socket->SetConnectCallback(
		Callback<void, Ptr<Socket>>([this, number](Ptr<Socket>) {
			flows[number].connected = true;
			if (traffic_ordered(*flows[number].plan))
				turns_[traffic_tunnel(*flows[number].plan)].push_back(number);
			fill(number);
		}),
		MakeNullCallback<void, Ptr<Socket>>());
	flow.socket->SetSendCallback(Callback<void, Ptr<Socket>, uint32_t>(
		[this, number](Ptr<Socket>, uint32_t) { fill(number); }));
	if (one.gap_ns) {
		flow.socket->SetRecvCallback(
			Callback<void, Ptr<Socket>>([this, number](Ptr<Socket>) { hear(number); }));
		Simulator::Schedule(NanoSeconds(BEFORE_NS + one.start_ns - now_ns +
						(uint64_t)gaps_->GetValue(one.gap_ns, 0)),
				    &Traffic::ask, this, number);
	}
	network_.routes(one.vm).speaker = plan_address(one.vm);
	flow.socket->Connect(InetSocketAddress(Ipv4Address(plan_address(one.to)),
					       SINK_PORT + 2 * place + one.ecn));
	network_.routes(one.vm).speaker = 0;
	if (now_ns < BEFORE_NS + one.start_ns)
		Simulator::Schedule(NanoSeconds(BEFORE_NS + one.start_ns - now_ns), &Traffic::fill,
				    this, number);
}

void Traffic::fill(uint32_t number)
{
	Flow &flow = flows[number];
	uint64_t now_ns = Simulator::Now().GetNanoSeconds();

	if (!flow.connected || flow.closed || now_ns < BEFORE_NS + flow.plan->start_ns)
		return;
	if (traffic_ordered(*flow.plan)) {
		turn(traffic_tunnel(*flow.plan));
		return;
	}
	while (give(number, UINT32_MAX))
		;
	finish(number);
}

bool Traffic::give(uint32_t number, uint64_t bytes)
{
	Flow &flow = flows[number];
	uint64_t room = flow.socket->GetTxAvailable();
	uint64_t end = flow.plan->gap_ns ? flow.wanted : flow.plan->bytes;
	uint64_t left = flow.plan->gap_ns || end ? end - flow.sent : room;

	bytes = std::min({ bytes, left, room });
	if (!bytes || flow.socket->Send(Create<Packet>(bytes)) < 0)
		return false;
	flow.sent += bytes;
	return true;
}

void Traffic::finish(uint32_t number)
{
	Flow &flow = flows[number];

	if (flow.plan->bytes && flow.sent == flow.plan->bytes) {
		flow.closed = true;
		flow.socket->Close();
	}
}

bool Traffic::before(uint32_t one, uint32_t other, uint64_t rate) const
{
	int64_t left[2], until_ns[2];
	uint32_t numbers[2] = { one, other };
	bool late[2];

	for (int i = 0; i < 2; i++) {
		const Flow &flow = flows[numbers[i]];

		left[i] = flow.plan->bytes - flow.sent;
		until_ns[i] = BEFORE_NS + flow.plan->start_ns + flow.plan->deadline_ns -
			      Simulator::Now().GetNanoSeconds();
		late[i] = !flow.plan->deadline_ns || until_ns[i] <= 0 ||
			  (rate && left[i] * 1e9 / rate > until_ns[i]);
	}
	if (flows[one].plan->order == "size" || (late[0] && late[1]))
		return left[0] < left[1];
	return late[0] != late[1] ? late[1] : until_ns[0] < until_ns[1];
}

void Traffic::turn(uint64_t tunnel)
{
	std::vector<uint32_t> &waiting = turns_[tunnel];

	while (!waiting.empty()) {
		const PlanFlow &any = *flows[waiting[0]].plan;
		const Shim *shim = network_.shim(any.vm);
		uint64_t rate = shim ? shim->rate(any.vm, any.to) : 0;
		auto first = std::min_element(waiting.begin(), waiting.end(),
					      [this, rate](uint32_t one, uint32_t other) {
						      return before(one, other, rate);
					      });
		Flow &flow = flows[*first];
		uint64_t ahead = flow.sent > flow.passed ? flow.sent - flow.passed : 0;

		if (flow.sent < flow.plan->bytes &&
		    (ahead >= CHUNK || !give(*first, CHUNK - ahead)))
			return;
		if (flow.sent < flow.plan->bytes)
			continue;
		finish(*first);
		waiting.erase(first);
	}
}

void Traffic::stop(uint32_t number)
{
	Flow &flow = flows[number];

	if (flow.closed || ((flow.plan->bytes || flow.plan->gap_ns) && !flow.plan->udp))
		return;
	flow.closed = true;
	if (flow.socket)
		flow.socket->Close();
}

void Traffic::stream(uint32_t number)
{
	Flow &flow = flows[number];
	const PlanFlow &one = *flow.plan;
	uint64_t frame_ns = (one.payload + 42ull) * 8000000000ull / one.rate_bps;

	flow.socket = Socket::CreateSocket(network_.node(one.vm), UdpSocketFactory::GetTypeId());
	by_port_[(uint64_t)plan_address(one.vm) << 16 | flow.port] = number;
	flow.socket->Bind(InetSocketAddress(Ipv4Address(plan_address(one.vm)), flow.port));
	network_.routes(one.vm).speaker = plan_address(one.vm);
	flow.socket->Connect(InetSocketAddress(Ipv4Address(plan_address(one.to)), SINK_UDP));
	network_.routes(one.vm).speaker = 0;
	/* The first frame of each is somewhere within its time, unless frames leave in step. */
	flow.phase_ns = Simulator::Now().GetNanoSeconds();
	if (plan_.jitter_ns)
		flow.phase_ns += random_->GetInteger(0, frame_ns);
	Simulator::Schedule(NanoSeconds(flow.phase_ns - Simulator::Now().GetNanoSeconds()),
			    &Traffic::datagram, this, number);
}

void Traffic::datagram(uint32_t number)
{
	Flow &flow = flows[number];
	const PlanFlow &one = *flow.plan;
	uint64_t now_ns = Simulator::Now().GetNanoSeconds(), next_ns;

	if (flow.closed)
		return;
	for (uint32_t i = 0; i < one.train; i++)
		flow.socket->Send(Create<Packet>(one.payload));
	flow.sent += one.train;
	next_ns = flow.phase_ns +
		  flow.sent * (one.payload + 42ull) * 8000000000ull / one.rate_bps;
	if (one.on_ns && next_ns >= flow.phase_ns + one.on_ns) {
		flow.phase_ns += one.on_ns + one.off_ns;
		flow.sent = 0;
		next_ns = flow.phase_ns;
	}
	Simulator::Schedule(NanoSeconds(next_ns - now_ns), &Traffic::datagram, this, number);
}
