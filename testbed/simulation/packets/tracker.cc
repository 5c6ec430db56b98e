// SPDX-License-Identifier: Apache-2.0
/*
 * Lock step with the tracker's decisions.
 */
#include "tracker.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <sstream>

#include "ns3/simulator.h"

using namespace ns3;

Tracker::Tracker(const Plan &plan, Network &network, const Traffic &traffic)
	: plan_(plan), network_(network), traffic_(traffic)
{
	for (uint32_t i = 0; i < plan.flows.size(); i++)
		if (plan.flows[i].bytes)
			order_.push_back(i);
	std::stable_sort(order_.begin(), order_.end(), [&plan](uint32_t one, uint32_t other) {
		return plan.flows[one].start_ns < plan.flows[other].start_ns;
	});
	Simulator::Schedule(NanoSeconds(BEFORE_NS), &Tracker::step, this);
}

void Tracker::step()
{
	uint64_t now_ns = Simulator::Now().GetNanoSeconds() - BEFORE_NS;
	std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> tunnels;

	while (begun_ < order_.size() && plan_.flows[order_[begun_]].start_ns <= now_ns)
		open_.push_back(order_[begun_++]);
	std::erase_if(open_, [this](uint32_t i) { return traffic_.flows[i].done_ns; });
	for (uint32_t i : open_)
		tunnels[{ plan_.flows[i].vm, plan_.flows[i].to }].push_back(i);
	std::cout << "flows " << now_ns << '\n';
	for (const auto &[ends, flows] : tunnels) {
		std::cout << "tunnel " << ends.first << ' ' << ends.second;
		for (uint32_t i : flows) {
			const PlanFlow &one = plan_.flows[i];
			uint64_t until_ns = one.start_ns + one.deadline_ns;

			std::cout << ' ' << one.bytes - traffic_.flows[i].received << ' '
				  << (one.deadline_ns && until_ns > now_ns ?
					      (until_ns - now_ns) / 1000 : 0);
		}
		std::cout << '\n';
	}
	std::cout << "weigh" << std::endl;
	read_answer();
	Simulator::Schedule(NanoSeconds(plan_.tracker_ns), &Tracker::step, this);
}

void Tracker::read_answer()
{
	std::string line, kind;
	uint32_t vm, to, weight;

	while (std::getline(std::cin, line) && line != "done") {
		std::istringstream words(line);

		words >> kind >> vm >> to >> weight;
		Simulator::Schedule(NanoSeconds(plan_.tracker_delay_ns), [this, vm, to, weight]() {
			network_.shim(vm)->weigh(vm, to, weight);
		});
	}
	if (line != "done")
		Simulator::Stop();
}
