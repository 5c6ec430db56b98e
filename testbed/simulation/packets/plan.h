/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan: all that is simulated, as packets.py writes it, a line an item and words with blanks.
 *
 *   run       SEED DURATION_NS BIN_NS SAMPLE_NS LIMITS_NS JITTER_NS SPRAY
 *   tcp       MIN_RTO_NS BUFFER_BYTES DUPACKS SACK        of all guests
 *   queues    NS                       all ports are read so often, from a fifth of the run on
 *   nodes     HOSTS SWITCHES                              hosts are numbered first
 *   link      A B RATE_BPS DELAY_NS LIMIT_A MARK_A LIMIT_B MARK_B
 *   route     SWITCH HOST LINK...                         equal ways
 *   shim      HOST CAPACITY LAW                           bytes/s
 *   setting   NAME VALUE                                  of all shims
 *   knob      NAME VALUE                                  of the law, of all shims
 *   vm        HOST WEIGHT MIN MAX                         bytes/s
 *   bulk      VM TO START_NS STOP_NS CC ECN BYTES EARLY [DEADLINE_NS ORDER]   TCP; BYTES 0:
 *             without end; DEADLINE from START; ORDER among the VM's flows to TO (traffic.h)
 *   calls     VM TO START_NS STOP_NS CC ECN REQUEST RESPONSE GAP_NS   TCP, connected before the run
 *   stream    VM TO START_NS STOP_NS RATE_BPS ON_NS OFF_NS PAYLOAD TRAIN   UDP; ON 0: always;
 *             TRAIN datagrams at a time
 *   control   PERIOD_NS DELAY_NS                          a controller, 0 0: none
 *   watch     LINK NODE                                   whose queue there is sampled
 *   tracker   PERIOD_NS DELAY_NS                          of divisions (tracker.h)
 *   rank      VM RANK                                     ports send by rank (rank.h)
 *   ranks     KIND                                        strict or pfabric
 *   times                                                 round trips of TCP are counted
 *   delivery  NS                                          from a host to its VM
 *   warm                                                  who will talk has met before (network.h)
 *
 * Limits and thresholds are bytes of frames with Ethernet headers; limit 0: a port without a queue
 * of the fabric, as hosts' are.  Times count from the run's start.
 */
#ifndef SIMULATION_PLAN_H
#define SIMULATION_PLAN_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/* A link between two nodes. */
struct PlanLink {
	uint32_t node[2];		/* its ends */
	uint64_t rate_bps;		/* each way */
	uint64_t delay_ns;		/* each way */
	uint64_t limit[2];		/* queue at that end, bytes; 0: none of the fabric */
	uint64_t mark[2];		/* threshold there, bytes */
};

/* Equal ways from a switch to a host. */
struct PlanRoute {
	uint32_t at;			/* switch, as a node */
	uint32_t host;
	std::vector<uint32_t> links;
};

/* A virtual machine; its address follows from its number. */
struct PlanVm {
	uint32_t host;
	uint32_t weight;
	uint64_t min;			/* guarantee, bytes/s */
	uint64_t max;			/* ceiling, bytes/s; 0: none */
};

/* What one virtual machine sends to another. */
struct PlanFlow {
	uint32_t vm;			/* who sends */
	uint32_t to;			/* who receives */
	uint64_t start_ns;
	uint64_t stop_ns;
	bool udp;
	bool ecn;			/* TCP: guests negotiate it */
	bool early;			/* TCP: connects before the run */
	std::string cc;			/* TCP: reno, cubic, dctcp or one of congestion.h */
	uint64_t bytes;			/* TCP: to be sent; 0: without end */
	uint64_t request = 0;		/* calls: bytes that each sends ... */
	uint64_t response = 0;		/* ... and gets */
	uint64_t gap_ns = 0;		/* calls: mean time between two, exponential; 0: none */
	uint64_t deadline_ns;		/* TCP: from its start; 0: none */
	std::string order;		/* TCP: none, size or deadline */
	uint16_t port;			/* of the sender */
	uint64_t rate_bps;		/* UDP: of frames */
	uint64_t on_ns;			/* UDP: sends for so long ... */
	uint64_t off_ns;		/* ... and then not; 0: always sends */
	uint32_t payload;		/* UDP: bytes of a datagram */
	uint32_t train;			/* UDP: datagrams that are sent at a time */
};

/* A shim of a host. */
struct PlanShim {
	uint32_t host;
	uint64_t capacity;		/* of its uplink, bytes/s */
	std::string law;
};

struct Plan {
	uint32_t seed = 1;
	uint64_t duration_ns = 0;
	uint64_t bin_ns = 0;		/* what is received is counted in such bins */
	uint64_t sample_ns = 0;		/* between two readings of the watched queue */
	uint64_t limits_ns = 0;		/* between two readings of limiters */
	uint64_t jitter_ns = 0;		/* most that a frame leaves a host late */
	bool spray = false;		/* equal ways are chosen a packet, not a flow */
	uint64_t min_rto_ns = 0;
	uint64_t buffer_bytes = 0;	/* of sockets, each way */
	uint32_t dupacks = 3;		/* that mean a loss */
	bool sack = true;
	uint64_t queues_ns = 0;		/* between two readings of all queues; 0: none */
	uint32_t hosts = 0;
	uint32_t switches = 0;
	std::vector<PlanLink> links;
	std::vector<PlanRoute> routes;
	std::vector<PlanShim> shims;
	std::vector<std::pair<std::string, uint64_t>> settings;
	std::vector<std::pair<std::string, uint64_t>> knobs;
	std::vector<PlanVm> vms;
	std::vector<PlanFlow> flows;
	uint64_t control_ns = 0;	/* T_i; 0: no controller */
	uint64_t control_delay_ns = 0;	/* from the reading of marks to messages' arrival */
	uint64_t tracker_ns = 0;	/* 0: no tracker */
	uint64_t tracker_delay_ns = 0;	/* from what waits to weights in force */
	std::string ranks;		/* kind of ports; none: they mark */
	std::vector<uint32_t> rank_of;	/* by VM */
	bool times = false;
	bool warm = false;
	uint64_t delivery_ns = 0;	/* from a host to its VM */
	int watch_link = -1;
	uint32_t watch_node = 0;
};

/* Bytes of a frame's Ethernet header, which ns-3 does not count. */
constexpr uint32_t ETHERNET_BYTES = 14;

/* Largest IPv4 packet. */
constexpr uint32_t MTU_BYTES = 1500;

/* Time before the run, in which TCP may connect. */
constexpr uint64_t BEFORE_NS = 20000000;

/* Senders' ports; a virtual machine with more flows than these begins again. */
constexpr uint16_t FIRST_PORT = 10000;
constexpr uint32_t N_PORTS = 50000;

/* Reads a plan; ends the program, naming file and line, if it cannot be read. */
Plan plan_read(const std::string &path);

/* Returns the IPv4 address of a virtual machine. */
inline uint32_t plan_address(uint32_t vm)
{
	return 0x0a000001 + vm;
}

/* Returns the virtual machine of an address; one that is out of range belongs to none. */
inline uint32_t plan_vm(uint32_t address)
{
	return address - 0x0a000001;
}

#endif
