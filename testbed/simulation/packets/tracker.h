/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agents of SCC's divisions and their tracker, in lock step with the program that started this
 * one, which has the decisions (tracker/decision.py).
 *
 * Each period what waits is written to standard output, and weights of tunnels come back:
 *
 *   flows T_NS
 *   tunnel VM TO LEFT UNTIL_US ...      bytes that have not arrived of each flow, and time to its
 *                                       deadline, 0: none, or past
 *   weigh
 *                                       weight VM TO WEIGHT ...; done
 *
 * Weights are in force a delay later.
 */
#ifndef SIMULATION_TRACKER_H
#define SIMULATION_TRACKER_H

#include "network.h"
#include "plan.h"
#include "traffic.h"

class Tracker {
    public:
	Tracker(const Plan &plan, Network &network, const Traffic &traffic);

    private:
	/* Tells what waits, and takes the answer. */
	void step();
	/* Reads weights of tunnels. */
	void read_answer();

	const Plan &plan_;
	Network &network_;
	const Traffic &traffic_;
	std::vector<uint32_t> order_;	/* flows by their start */
	size_t begun_ = 0;		/* of these, how many have started */
	std::vector<uint32_t> open_;	/* flows that have started and not arrived */
};

#endif
