// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a plan, each line by its first word.
 */
#include "plan.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

/* Reads the ways behind `route`. */
static void plan_read_route(std::istringstream &words, Plan &plan)
{
	PlanRoute route;
	uint32_t link;

	words >> route.at >> route.host;
	while (words >> link)
		route.links.push_back(link);
	if (words.eof())
		words.clear();
	plan.routes.push_back(route);
}

/* Reads a link. */
static void plan_read_link(std::istringstream &words, Plan &plan)
{
	PlanLink link;

	words >> link.node[0] >> link.node[1] >> link.rate_bps >> link.delay_ns >> link.limit[0] >>
		link.mark[0] >> link.limit[1] >> link.mark[1];
	plan.links.push_back(link);
}

/* Reads a flow. */
static void plan_read_flow(const std::string &kind, std::istringstream &words, Plan &plan)
{
	PlanFlow flow = {};

	flow.udp = kind == "stream";
	flow.early = kind == "calls";
	words >> flow.vm >> flow.to >> flow.start_ns >> flow.stop_ns;
	if (flow.udp)
		words >> flow.rate_bps >> flow.on_ns >> flow.off_ns >> flow.payload >> flow.train;
	else if (kind == "calls")
		words >> flow.cc >> flow.ecn >> flow.request >> flow.response >> flow.gap_ns;
	else
		words >> flow.cc >> flow.ecn >> flow.bytes >> flow.early;
	if (kind == "bulk" && words && !(words >> std::ws).eof())
		words >> flow.deadline_ns >> flow.order;
	plan.flows.push_back(flow);
}

/* Reads what is said of the whole run; false: it is something else. */
static bool plan_read_whole(const std::string &kind, std::istringstream &words, Plan &plan)
{
	if (kind == "run")
		words >> plan.seed >> plan.duration_ns >> plan.bin_ns >> plan.sample_ns >>
			plan.limits_ns >> plan.jitter_ns >> plan.spray;
	else if (kind == "tcp")
		words >> plan.min_rto_ns >> plan.buffer_bytes >> plan.dupacks >>
			plan.sack;
	else if (kind == "queues")
		words >> plan.queues_ns;
	else if (kind == "nodes")
		words >> plan.hosts >> plan.switches;
	else if (kind == "control")
		words >> plan.control_ns >> plan.control_delay_ns;
	else if (kind == "tracker")
		words >> plan.tracker_ns >> plan.tracker_delay_ns;
	else if (kind == "ranks")
		words >> plan.ranks;
	else if (kind == "times")
		plan.times = true;
	else if (kind == "delivery")
		words >> plan.delivery_ns;
	else if (kind == "warm")
		plan.warm = true;
	else if (kind == "watch")
		words >> plan.watch_link >> plan.watch_node;
	else
		return false;
	return true;
}

/* Reads one of several; false: there is no such kind. */
static bool plan_read_item(const std::string &kind, std::istringstream &words, Plan &plan)
{
	if (kind == "link") {
		plan_read_link(words, plan);
	} else if (kind == "route") {
		plan_read_route(words, plan);
	} else if (kind == "shim") {
		PlanShim shim;

		words >> shim.host >> shim.capacity >> shim.law;
		plan.shims.push_back(shim);
	} else if (kind == "setting" || kind == "knob") {
		std::pair<std::string, uint64_t> one;

		words >> one.first >> one.second;
		(kind == "knob" ? plan.knobs : plan.settings).push_back(one);
	} else if (kind == "vm") {
		PlanVm vm;

		words >> vm.host >> vm.weight >> vm.min >> vm.max;
		plan.vms.push_back(vm);
	} else if (kind == "rank") {
		uint32_t vm, rank;

		words >> vm >> rank;
		plan.rank_of.resize(std::max<size_t>(plan.rank_of.size(), vm + 1));
		plan.rank_of[vm] = rank;
	} else if (kind == "bulk" || kind == "calls" || kind == "stream") {
		plan_read_flow(kind, words, plan);
	} else {
		return false;
	}
	return true;
}

/* Gives each flow a port of its sender. */
static void plan_give_ports(Plan &plan)
{
	std::vector<uint32_t> used(plan.vms.size());

	plan.rank_of.resize(std::max(plan.rank_of.size(), plan.vms.size()));
	for (PlanFlow &flow : plan.flows)
		flow.port = FIRST_PORT + used[flow.vm]++ % N_PORTS;
}

Plan plan_read(const std::string &path)
{
	std::ifstream file(path);
	std::string line, kind;
	uint32_t number = 0;
	Plan plan;

	while (std::getline(file, line)) {
		std::istringstream words(line);

		number++;
		words >> kind;
		if ((!plan_read_whole(kind, words, plan) && !plan_read_item(kind, words, plan)) ||
		    words.fail()) {
			std::cerr << path << ":" << number << ": cannot read: " << line << "\n";
			std::exit(2);
		}
	}
	if (!plan.duration_ns) {
		std::cerr << path << ": no plan\n";
		std::exit(2);
	}
	plan_give_ports(plan);
	return plan;
}
