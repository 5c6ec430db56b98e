// SPDX-License-Identifier: Apache-2.0
/*
 * Simulates a plan and leaves what was seen in a folder:
 *
 *   packets PLAN FOLDER
 *
 *   received.txt   VM, then payload bytes that came of its flows in each bin
 *   queue.txt      the watched queue, in the testbed's form
 *   limiters.txt   t_ns vm rate share active, bytes/s
 *   flows.txt      of each TCP flow with an end: flow start_ns bytes took_ns; -1: it has not ended
 *   calls.txt      of each call: flow begin_ns took_ns; -1: it has not been answered
 *   counters.txt   sums over all VMs: the engine's counters by number, then limiters' drops
 *   queues.txt     of all readings of queues: kind, bytes in full packets, how many such readings;
 *                  kinds: to a host, up, down
 *   times.txt      if round trips are counted: VM, step (traffic.h), how many
 *   totals.txt     of all ports: packets marks early full; events; packets lost by kind of port
 *
 * Standard output has the controller's steps (control.h), and `at NS` now and then.
 */
#include <fstream>
#include <iostream>
#include <map>

#include "ns3/boolean.h"
#include "ns3/config.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"
#include "ns3/uinteger.h"

#include "control.h"
#include "network.h"
#include "plan.h"
#include "tracker.h"
#include "traffic.h"

extern "C" {
#include "counters.h"
}

using namespace ns3;

/* Progress is told so many times. */
constexpr uint64_t TOLD = 50;

/* Samples of a run. */
class Samples {
    public:
	Samples(const Plan &plan, Network &network, const std::string &folder)
		: plan_(plan), network_(network), queue_(folder + "/queue.txt"),
		  limiters_(folder + "/limiters.txt")
	{
		queue_ << "t_ns bytes backlog marks early pdrop other\n";
		limiters_ << "t_ns vm rate share active\n";
		if (plan.watch_link >= 0)
			watched_ = network.port(plan.watch_link, plan.watch_node);
		Simulator::Schedule(NanoSeconds(BEFORE_NS), &Samples::sample, this);
		Simulator::Schedule(NanoSeconds(BEFORE_NS), &Samples::read_limiters, this);
		Simulator::Schedule(NanoSeconds(BEFORE_NS), &Samples::tell, this);
		if (plan.queues_ns)
			Simulator::Schedule(NanoSeconds(BEFORE_NS + plan.duration_ns / 5),
					    &Samples::read_queues, this);
	}

	/* Writes how often queues of each kind had how many packets. */
	void write_queues(const std::string &folder) const
	{
		std::ofstream file(folder + "/queues.txt");

		file << "kind packets count\n";
		for (const auto &[place, count] : lengths_)
			file << place.first << ' ' << place.second << ' ' << count << '\n';
	}

    private:
	/* Returns the time of the run. */
	static uint64_t now()
	{
		return Simulator::Now().GetNanoSeconds() - BEFORE_NS;
	}

	/* Reads the watched queue. */
	void sample()
	{
		if (!watched_)
			return;
		queue_ << now() << ' ' << watched_->bytes() << ' ' << watched_->backlog() << ' '
		       << watched_->marks() << ' ' << watched_->drops(false) << ' '
		       << watched_->drops(true) << " 0\n";
		Simulator::Schedule(NanoSeconds(plan_.sample_ns), &Samples::sample, this);
	}

	/* Reads all limiters. */
	void read_limiters()
	{
		struct shim_lab_limiter one;

		for (uint32_t i = 0; i < plan_.vms.size(); i++)
			if (network_.shim(i) && network_.shim(i)->read(i, one))
				limiters_ << now() << ' ' << i << ' ' << one.rate << ' '
					  << one.share << ' ' << one.active << '\n';
		Simulator::Schedule(NanoSeconds(plan_.limits_ns), &Samples::read_limiters, this);
	}

	/* Reads all queues. */
	void read_queues()
	{
		for (const auto &port : network_.ports)
			lengths_[{ port->kind, (port->queue->GetNBytes() + MTU_BYTES - 1) /
						       MTU_BYTES }]++;
		Simulator::Schedule(NanoSeconds(plan_.queues_ns), &Samples::read_queues, this);
	}

	/* Tells how far the run is. */
	void tell()
	{
		std::cout << "at " << now() << std::endl;
		Simulator::Schedule(NanoSeconds(plan_.duration_ns / TOLD), &Samples::tell, this);
	}

	const Plan &plan_;
	Network &network_;
	Port *watched_ = nullptr;
	std::map<std::pair<uint32_t, uint32_t>, uint64_t> lengths_;	/* by kind and packets */
	std::ofstream queue_;
	std::ofstream limiters_;
};

/* Sets what all guests have. */
static void main_set_guests(const Plan &plan)
{
	Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(MTU_BYTES - 52));
	Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(plan.buffer_bytes));
	Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(plan.buffer_bytes));
	Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
	/* As long as the least timeout, or longer, a sender gets one segment through in each. */
	Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MicroSeconds(500)));
	Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(1)));
	/* Six, its own, end a connection after 0.6 s of the timeouts that guests have here. */
	Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(1000000));
	Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(NanoSeconds(plan.min_rto_ns)));
	Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(100)));
	Config::SetDefault("ns3::TcpSocketBase::ReTxThreshold", UintegerValue(plan.dupacks));
	/* Timestamps count milliseconds, which is too coarse to see round trips by. */
	Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(!plan.times));
	Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(plan.sack));
}

/* Writes what VMs received. */
static void main_write_received(const Traffic &traffic, const std::string &folder)
{
	std::ofstream file(folder + "/received.txt");

	for (size_t i = 0; i < traffic.bins.size(); i++) {
		file << i;
		for (uint64_t bytes : traffic.bins[i])
			file << ' ' << bytes;
		file << '\n';
	}
}

/* Writes how long flows took. */
static void main_write_flows(const Traffic &traffic, const std::string &folder)
{
	std::ofstream file(folder + "/flows.txt");

	file << "flow start_ns bytes took_ns\n";
	for (size_t i = 0; i < traffic.flows.size(); i++) {
		const Flow &flow = traffic.flows[i];

		if (flow.plan->udp || !flow.plan->bytes)
			continue;
		file << i << ' ' << flow.plan->start_ns << ' ' << flow.plan->bytes << ' ';
		if (flow.done_ns)
			file << flow.done_ns - BEFORE_NS - flow.plan->start_ns << '\n';
		else
			file << "-1\n";
	}
}

/* Writes how long calls took. */
static void main_write_calls(const Traffic &traffic, const std::string &folder)
{
	std::ofstream file(folder + "/calls.txt");

	file << "flow begin_ns took_ns\n";
	for (size_t i = 0; i < traffic.flows.size(); i++) {
		const Flow &flow = traffic.flows[i];

		for (const auto &[begin_ns, took_ns] : flow.calls)
			file << i << ' ' << begin_ns - BEFORE_NS << ' ' << took_ns << '\n';
		for (uint64_t begin_ns : flow.asked_ns)
			file << i << ' ' << begin_ns - BEFORE_NS << " -1\n";
	}
}

/* Writes round trips of VMs' flows. */
static void main_write_times(const Traffic &traffic, const std::string &folder)
{
	std::ofstream file(folder + "/times.txt");

	file << "vm step count\n";
	for (size_t i = 0; i < traffic.times.size(); i++)
		for (const auto &[step, count] : traffic.times[i])
			file << i << ' ' << step << ' ' << count << '\n';
}

/* Writes the sums of what shims counted, and of what ports did. */
static void main_write_counters(const Plan &plan, Network &network, const std::string &folder)
{
	std::ofstream file(folder + "/counters.txt"), totals(folder + "/totals.txt");
	uint64_t packets = 0, marks = 0, early = 0, full = 0, lost[3] = { 0 };
	uint64_t police = 0, horizon = 0, waiting = 0;
	struct shim_lab_limiter one;

	for (uint32_t k = 1; k < SHIM_N_COUNTERS; k++) {
		uint64_t sum = 0;

		for (uint32_t i = 0; i < plan.vms.size(); i++)
			if (network.shim(i))
				sum += network.shim(i)->counter(i, k);
		file << k << ' ' << sum << '\n';
	}
	for (uint32_t i = 0; i < plan.vms.size(); i++)
		if (network.shim(i) && network.shim(i)->read(i, one)) {
			police += one.drop_police;
			horizon += one.drop_horizon;
			waiting += one.drop_waiting;
		}
	file << SHIM_DROP_POLICE << ' ' << police << '\n' << SHIM_DROP_HORIZON << ' ' << horizon
	     << '\n' << SHIM_DROP_WAITING << ' ' << waiting << '\n';
	for (const auto &port : network.ports) {
		packets += port->packets();
		marks += port->marks();
		early += port->drops(false);
		full += port->drops(true);
		lost[port->kind] += port->drops(true) + port->drops(false);
	}
	totals << "packets marks early full events to_hosts up down\n"
	       << packets << ' ' << marks << ' ' << early << ' ' << full << ' '
	       << Simulator::GetEventCount() << ' ' << lost[0] << ' ' << lost[1] << ' ' << lost[2]
	       << '\n';
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		std::cerr << "packets PLAN FOLDER\n";
		return 2;
	}
	const Plan plan = plan_read(argv[1]);
	const std::string folder = argv[2];

	std::ios::sync_with_stdio(false);
	RngSeedManager::SetSeed(plan.seed);
	main_set_guests(plan);
	Network network(plan);
	Traffic traffic(plan, network);
	Samples samples(plan, network, folder);
	std::unique_ptr<Control> control;
	std::unique_ptr<Tracker> tracker;

	if (plan.control_ns)
		control = std::make_unique<Control>(plan, network);
	if (plan.tracker_ns)
		tracker = std::make_unique<Tracker>(plan, network, traffic);
	Simulator::Stop(NanoSeconds(BEFORE_NS + plan.duration_ns + 1));
	Simulator::Run();
	samples.write_queues(folder);
	main_write_received(traffic, folder);
	main_write_flows(traffic, folder);
	main_write_calls(traffic, folder);
	if (plan.times)
		main_write_times(traffic, folder);
	main_write_counters(plan, network, folder);
	return 0;
}
