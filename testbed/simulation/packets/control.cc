// SPDX-License-Identifier: Apache-2.0
/*
 * Lock step with the controller's decisions.
 */
#include "control.h"

#include <iostream>
#include <sstream>

#include "ns3/simulator.h"

using namespace ns3;

/* Part of what was counted that is kept each step: what VMs did some steps ago says little. */
constexpr double KEPT = 0.8;
/* Steps for which a port's parts are told after its last marks. */
constexpr uint64_t RECENT = 60;

Control::Control(const Plan &plan, Network &network) : plan_(plan), network_(network)
{
	for (auto &port : network.ports)
		port->heard = RECENT;
	Simulator::Schedule(NanoSeconds(BEFORE_NS), &Control::step, this);
}

void Control::write_port(Port &port)
{
	uint64_t marks = port.marks();

	port.heard++;
	if (marks == port.told_marks)
		return;
	port.told_marks = marks;
	port.heard = 0;
	std::cout << "port " << port.link << ' ' << port.node << ' ' << marks << ' '
		  << port.packets() << ' ' << port.bytes() << ' '
		  << port.drops(false) + port.drops(true) << ' ' << port.backlog() << ' '
		  << port.queue->GetNPackets() << '\n';
}

void Control::write_parts(const Port &port, const std::vector<double> &all) const
{
	std::cout << "parts " << port.link << ' ' << port.node;
	for (const auto &[vm, bytes] : port.sent)
		if (bytes >= 1 && all[vm] > 0)
			std::cout << ' ' << vm << ' ' << std::min(1.0, bytes / all[vm]);
	std::cout << '\n';
}

void Control::write_vms() const
{
	struct shim_lab_limiter one;

	for (uint32_t i = 0; i < plan_.vms.size(); i++) {
		const Shim *shim = network_.shim(i);

		if (!shim || !shim->read(i, one))
			continue;
		std::cout << "vm " << i << ' ' << plan_.vms[i].weight << ' ' << one.active << ' '
			  << one.rate << ' ' << one.share << ' ' << one.sent_rate << ' '
			  << one.bytes << ' ' << one.packets << ' '
			  << one.drop_police + one.drop_horizon + one.drop_waiting
			  << '\n';
	}
}

void Control::step()
{
	std::vector<double> all(plan_.vms.size());

	/* What a VM sends passes one last port. */
	for (auto &port : network_.ports)
		for (auto &[vm, bytes] : port->sent)
			if (port->last)
				all[vm] += bytes;
	std::cout << "step " << Simulator::Now().GetNanoSeconds() << '\n';
	for (auto &port : network_.ports)
		write_port(*port);
	for (auto &port : network_.ports) {
		if (port->heard < RECENT)
			write_parts(*port, all);
		for (auto &[vm, bytes] : port->sent)
			bytes *= KEPT;
	}
	write_vms();
	std::cout << "go" << std::endl;
	read_answer();
	Simulator::Schedule(NanoSeconds(plan_.control_ns), &Control::step, this);
}

void Control::read_answer()
{
	std::string line, kind, text;
	uint32_t vm;

	while (std::getline(std::cin, line) && line != "done") {
		std::istringstream words(line);
		std::vector<uint8_t> data;

		words >> kind >> vm >> text;
		for (size_t i = 0; i + 1 < text.size(); i += 2)
			data.push_back(std::stoul(text.substr(i, 2), nullptr, 16));
		Simulator::Schedule(NanoSeconds(plan_.control_delay_ns), [this, vm, data]() {
			network_.shim(vm)->tell(vm, data.data(), data.size());
		});
	}
	if (line != "done")
		Simulator::Stop();
}
