/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller's eyes and voice, in lock step with the program that started this one.
 *
 * Each T_i a step is written to standard output and answered on standard input:
 *
 *   step T_NS
 *   port LINK NODE MARKS PACKETS BYTES DROPS BACKLOG_BYTES BACKLOG_PACKETS    if it marked since
 *   parts LINK NODE VM PART VM PART ...     of what each VM sends, of ports that marked lately
 *   vm NUMBER WEIGHT ACTIVE RATE SHARE SENT_RATE TX_BYTES TX_PACKETS DROPS    that ever sent
 *   go
 *                                           tell VM MESSAGE_IN_HEX ...; done
 *
 * Messages arrive a delay later.  The simulator stands still meanwhile, so that what the
 * controller costs is not simulated.
 */
#ifndef SIMULATION_CONTROL_H
#define SIMULATION_CONTROL_H

#include <string>
#include <vector>

#include "network.h"
#include "plan.h"

class Control {
    public:
	Control(const Plan &plan, Network &network);

    private:
	/* Tells what happened in a period, and takes the answer. */
	void step();
	/* Writes what a port counted, if it marked since the last step. */
	void write_port(Port &port);
	/* Writes which part of what VMs send goes through a port. */
	void write_parts(const Port &port, const std::vector<double> &all) const;
	/* Writes the state of VMs' limiters. */
	void write_vms() const;
	/* Reads what VMs are told. */
	void read_answer();

	const Plan &plan_;
	Network &network_;
};

#endif
