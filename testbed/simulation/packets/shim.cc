// SPDX-License-Identifier: Apache-2.0
/*
 * What lies between ns-3's packets and the engine: a packet is described to it, and what it
 * decides is written back.  The reserved bit of the IPv4 header, which ns-3's header lacks,
 * travels as a tag.
 */
#include "shim.h"

#include <algorithm>
#include <cstring>
#include <iostream>

#include "ns3/simulator.h"
#include "ns3/tag.h"
#include "ns3/tcp-header.h"
#include "ns3/tcp-option-winscale.h"

extern "C" {
#include "account.h"
}

using namespace ns3;

/* Key that all messages are signed by. */
static const uint8_t shim_key[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };

constexpr uint8_t PROTOCOL_ICMP = 1;
constexpr uint8_t PROTOCOL_TCP = 6;

/* Frame of ping's echo, as of its answer. */
constexpr uint32_t ECHO_BYTES = 98;

/* Frame of a broadcast, as of ARP's. */
constexpr uint32_t BROADCAST_BYTES = 42;

/* Address that the controller's messages come from. */
constexpr uint32_t CONTROLLER = 0x7f000001;

/* The reserved bit of the IPv4 header; a packet has the tag if it is set. */
class EchoTag : public Tag {
    public:
	static TypeId GetTypeId()
	{
		static TypeId id =
			TypeId("EchoTag").SetParent<Tag>().AddConstructor<EchoTag>();
		return id;
	}

	TypeId GetInstanceTypeId() const override
	{
		return GetTypeId();
	}

	uint32_t GetSerializedSize() const override
	{
		return 0;
	}

	void Serialize(TagBuffer) const override
	{
	}

	void Deserialize(TagBuffer) override
	{
	}

	void Print(std::ostream &) const override
	{
	}
};

/* Sets the engine's clock. */
static void shim_set_clock()
{
	shim_host_clock_ns = EPOCH_NS + Simulator::Now().GetNanoSeconds();
}

/* Ends the program for a setting that the engine does not take. */
static void shim_check(int error, const std::string &what)
{
	if (!error)
		return;
	std::cerr << "the shim refuses " << what << "\n";
	std::exit(2);
}

/* Fills an IPv4-mapped address. */
static void shim_map(uint8_t to[16], uint32_t address)
{
	memset(to, 0, 10);
	to[10] = to[11] = 0xff;
	for (int i = 0; i < 4; i++)
		to[12 + i] = address >> (24 - 8 * i);
}

Shim::Shim(const Plan &plan, const PlanShim &shim, Send send) : send_(std::move(send))
{
	shim_host_clock_ns = plan.warm ? MEET_NS : EPOCH_NS;
	lab_ = shim_lab_create(shim.host + 1, 1000);
	for (const auto &[name, value] : plan.settings)
		shim_check(shim_lab_set(lab_, name.c_str(), value), "setting " + name);
	for (const auto &[name, value] : plan.knobs)
		shim_check(shim_lab_set_knob(lab_, shim.law.c_str(), name.c_str(), value),
			   "knob " + name + " of law " + shim.law);
	shim_lab_set_key(lab_, shim_key, false);
	uplink_ = shim_lab_add_uplink(lab_, shim.capacity);
	shim_check(shim_lab_set_law(lab_, shim.law.c_str()), "law " + shim.law);
}

Shim::~Shim()
{
	shim_lab_remove(lab_);
}

void Shim::add(const Plan &plan, uint32_t number)
{
	struct shim_vm *vm = shim_lab_add_vm(lab_);
	const PlanVm &wanted = plan.vms[number];

	shim_lab_configure_vm(vm, wanted.weight, wanted.min, wanted.max, nullptr);
	vms_[number] = vm;
}

/* Fills the TCP part of what the engine is told. */
static void shim_describe_tcp(const Packet &packet, struct shim_lab_packet &told)
{
	TcpHeader tcp;
	uint32_t header = packet.PeekHeader(tcp);

	told.is_tcp = true;
	told.port_source = tcp.GetSourcePort();
	told.port_destination = tcp.GetDestinationPort();
	told.seq = tcp.GetSequenceNumber().GetValue();
	told.ack = tcp.GetAckNumber().GetValue();
	told.window = tcp.GetWindowSize();
	told.flags = tcp.GetFlags();
	told.payload = packet.GetSize() - header;
	told.size = told.payload;
	told.scale = 0xff;
	if (!(tcp.GetFlags() & TcpHeader::SYN))
		return;
	told.mss = MTU_BYTES - 40;
	if (tcp.HasOption(TcpOption::WINSCALE))
		told.scale = DynamicCast<const TcpOptionWinScale>(
				     tcp.GetOption(TcpOption::WINSCALE))->GetScale();
}

void Shim::describe(const Packet &packet, const Ipv4Header &header,
		    struct shim_lab_packet &told) const
{
	EchoTag echo;

	told = {};
	shim_map(told.source, header.GetSource().Get());
	shim_map(told.destination, header.GetDestination().Get());
	told.bytes = packet.GetSize() + header.GetSerializedSize() + ETHERNET_BYTES;
	told.packets = 1;
	told.id = header.GetIdentification();
	told.version = 4;
	told.protocol = header.GetProtocol();
	told.ecn = header.GetEcn();
	told.echo = packet.PeekPacketTag(echo);
	if (told.protocol == PROTOCOL_TCP)
		shim_describe_tcp(packet, told);
}

/* Writes into a packet and its header what the engine decided. */
static Ptr<Packet> shim_write(Ptr<Packet> packet, Ipv4Header &header,
			      const struct shim_lab_packet &told,
			      const struct shim_lab_result &result)
{
	EchoTag echo;

	header.SetEcn((Ipv4Header::EcnType)result.ecn);
	header.SetIdentification(result.id);
	if (result.echo && !told.echo)
		packet->AddPacketTag(echo);
	else if (!result.echo && told.echo)
		packet->RemovePacketTag(echo);
	if (told.is_tcp &&
	    (told.flags != result.tcp_flags || told.window != result.tcp_window)) {
		TcpHeader tcp;

		packet->RemoveHeader(tcp);
		tcp.SetFlags(result.tcp_flags);
		tcp.SetWindowSize(result.tcp_window);
		packet->AddHeader(tcp);
	}
	return packet;
}

ShimVerdict Shim::send(Ptr<Packet> packet, Ipv4Header &header)
{
	auto found = vms_.find(plan_vm(header.GetSource().Get()));
	struct shim_lab_result result;
	struct shim_lab_packet told;
	bool passes;

	if (found == vms_.end() || header.GetProtocol() == MESSAGE_PROTOCOL)
		return { true, 0 };
	shim_set_clock();
	describe(*packet, header, told);
	passes = shim_lab_send(found->second, uplink_, &told, &result);
	arm();
	if (!passes)
		return { false, 0 };
	shim_write(packet, header, told, result);
	return { true, result.departure_ns > EPOCH_NS ? result.departure_ns - EPOCH_NS : 0 };
}

Ptr<const Packet> Shim::receive(Ptr<const Packet> packet, Ipv4Header &header)
{
	auto found = vms_.find(plan_vm(header.GetDestination().Get()));
	struct shim_lab_result result;
	struct shim_lab_packet told;
	bool passes;

	if (found == vms_.end())
		return packet;
	shim_set_clock();
	if (header.GetProtocol() == MESSAGE_PROTOCOL) {
		std::vector<uint8_t> data(packet->GetSize());
		uint8_t source[16], destination[16];

		packet->CopyData(data.data(), data.size());
		shim_map(source, header.GetSource().Get());
		shim_map(destination, header.GetDestination().Get());
		shim_lab_message(found->second, uplink_, source, destination, data.data(),
				 data.size());
		arm();
		return nullptr;
	}
	describe(*packet, header, told);
	passes = shim_lab_receive(found->second, uplink_, &told, &result);
	arm();
	return passes ? shim_write(packet->Copy(), header, told, result) : nullptr;
}

/* Returns a packet of so many bytes of frame that says nothing but that it came. */
static struct shim_lab_packet shim_bare(uint32_t bytes)
{
	struct shim_lab_packet told = {};

	told.bytes = bytes;
	told.packets = 1;
	told.scale = 0xff;
	return told;
}

void Shim::meet(uint32_t number, uint32_t other, uint64_t at_ns)
{
	struct shim_lab_packet told = shim_bare(ECHO_BYTES);
	struct shim_lab_result result;

	pass(at_ns);
	told.version = 4;
	told.protocol = PROTOCOL_ICMP;
	shim_map(told.source, plan_address(number));
	shim_map(told.destination, plan_address(other));
	shim_lab_send(vms_.at(number), uplink_, &told, &result);
	std::swap(told.source, told.destination);
	shim_lab_receive(vms_.at(number), uplink_, &told, &result);
	shim_host_quiesce();
}

void Shim::hear(uint32_t number, uint64_t at_ns)
{
	struct shim_lab_packet told = shim_bare(BROADCAST_BYTES);
	struct shim_lab_result result;

	pass(at_ns);
	shim_lab_receive(vms_.at(number), uplink_, &told, &result);
	shim_host_quiesce();
}

void Shim::pass(uint64_t until_ns)
{
	struct shim_lab_report report;
	uint64_t due_ns;

	while ((due_ns = shim_lab_due(lab_)) && due_ns <= until_ns) {
		shim_host_clock_ns = due_ns;
		shim_lab_tick(lab_);
		while (shim_lab_report(lab_, &report))
			;
		shim_host_quiesce();
	}
	shim_host_clock_ns = until_ns;
}

void Shim::tell(uint32_t number, const uint8_t *data, uint32_t bytes)
{
	uint8_t source[16], destination[16];

	shim_set_clock();
	shim_map(source, CONTROLLER);
	shim_map(destination, plan_address(number));
	shim_lab_message(vms_.at(number), nullptr, source, destination, data, bytes);
	arm();
}

bool Shim::read(uint32_t number, struct shim_lab_limiter &limiter) const
{
	return shim_lab_read_limiter(vms_.at(number), uplink_, &limiter);
}

void Shim::weigh(uint32_t number, uint32_t to, uint32_t weight)
{
	uint8_t address[16];

	shim_set_clock();
	shim_map(address, plan_address(to));
	shim_check(shim_lab_weigh_peer(vms_.at(number), address, weight), "a weight");
	arm();
}

uint64_t Shim::rate(uint32_t number, uint32_t to) const
{
	struct shim_lab_peer peer;
	uint8_t address[16];

	shim_map(address, plan_address(to));
	return shim_lab_read_peer(vms_.at(number), address, &peer) ? peer.rate : 0;
}

uint64_t Shim::counter(uint32_t number, uint32_t counter) const
{
	return shim_lab_counter(vms_.at(number), counter);
}

void Shim::arm()
{
	uint64_t due_ns = shim_lab_due(lab_), now_ns = shim_host_clock_ns;

	shim_host_quiesce();
	if (due_ns == armed_ns_)
		return;
	event_.Cancel();
	armed_ns_ = due_ns;
	if (due_ns)
		event_ = Simulator::Schedule(NanoSeconds(due_ns > now_ns ? due_ns - now_ns : 0),
					     &Shim::tick, this);
}

void Shim::tick()
{
	struct shim_lab_report report;

	shim_set_clock();
	armed_ns_ = 0;
	shim_lab_tick(lab_);
	while (shim_lab_report(lab_, &report)) {
		uint32_t source = 0, destination = 0;

		for (int i = 12; i < 16; i++) {
			source = source << 8 | report.source[i];
			destination = destination << 8 | report.destination[i];
		}
		send_(source, destination, report.data);
	}
	arm();
}
