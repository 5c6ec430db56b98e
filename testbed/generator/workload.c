// SPDX-License-Identifier: Apache-2.0
/*
 * Workload: short TCP flows to one receiver at the times a schedule says, whatever became of earlier ones.
 *
 * A line of the schedule is a flow: due time (ns from start), bytes, deadline (ns from its due time, 0: none).  Each
 * flow begins with struct flow_head, which tells the receiver (arrivals.c) which one it is.  A flow has a connection
 * of its own and ends with it; with --connections flows are messages that go round persistent connections.  --early
 * opens the connections of flows before the start, as in a simulator whose TCP has no handshake.
 *
 * --order is what SCC calls in-tunnel scheduling: of the flows that are connected only the first may hand bytes to
 * the kernel (--turns: the first few), 16 KiB at a time; first is the one with the least left to send (size), or the
 * one whose deadline is next (deadline).  Flows that would miss theirs at the rate all get together come last, those
 * with the least left first: they are the ones that Algorithm 1 of SCC leaves out.  It sends the others at what is left
 * by the time left; in the order of deadlines they meet them as well (Liu and Layland, J. ACM 20, 1973), and none is
 * held back.
 *
 * A flow's socket carries its deadline as SO_MARK, for D2TCP (testbed/congestion/d2tcp.c): microseconds of
 * CLOCK_MONOTONIC modulo 2^32, made odd as 0 means none.
 *
 * --register tells the division's agent on the host every few ms what is left of each flow; docs/tracker.md has the
 * form of the datagram.
 */
#define _GNU_SOURCE
#include "util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Most flows in a schedule, and of persistent connections. */
#define FLOWS_MAX 1000000
#define CONNECTIONS_MAX 64

/* Sockets served between two waits. */
#define EVENTS 64

/* Bytes handed over at a time with --order, and what a socket may hold unsent before it asks for more. */
#define CHUNK_BYTES 16384

/* Send buffer of a flow without --order: it takes the whole flow. */
#define SNDBUF_BYTES (1 << 20)

/* Time between two datagrams to the agent. */
#define REGISTER_NS 5000000LL

/* The agent and persistent connections are reached so long before the start, when receivers stand. */
#define PREPARE_NS (NSEC_PER_SEC / 2)

/* Longest datagram to the agent. */
#define REGISTER_BYTES 60000

/* Time over which the rate that flows get is measured. */
#define BUSY_NS 10000000LL

/* How flows of one sender take turns. */
enum order { ORDER_NONE, ORDER_SIZE, ORDER_DEADLINE };

/* A flow. */
struct flow {
	int64_t due_ns;		/* begins; absolute */
	int64_t deadline_ns;	/* absolute; 0: none */
	int64_t size;		/* bytes, head included */
	int64_t sent;		/* bytes handed to the kernel */
	int fd;			/* its connection */
	bool connected;		/* the connection stands */
	bool turn;		/* it may send */
};

/* The sender. */
struct workload {
	struct sockaddr_in to;	/* receiver */
	struct flow *flows;	/* n of them, by due time */
	int *open;		/* indices of n_open flows that have a connection */
	char *piece;		/* bytes to send, as many as the largest flow has */
	const char *cc;		/* congestion control */
	const char *agent;	/* path of the agent's socket, NULL if there is none */
	int64_t start_ns;	/* times in the schedule count from here */
	int64_t end_ns;		/* nothing is sent any more */
	int64_t registered_ns;	/* last datagram to the agent */
	int64_t busy_ns;	/* flows have been waiting since then without a break; 0: none waits */
	int64_t busy_bytes;	/* handed to the kernel since then */
	double rate;		/* of the last BUSY_NS in which flows always waited, bytes/s; 0: not known */
	int agent_fd;		/* socket to the agent */
	int epoll;		/* watches the flows that may send */
	int n;			/* number of flows */
	int n_open;		/* number of open flows */
	int next;		/* first flow not yet begun */
	int turns;		/* flows that may send at a time */
	int connections;	/* persistent ones; 0: one a flow */
	bool early;		/* flows have their connections before the start */
	enum order order;	/* of flows that wait to send */
};

/* Reads the schedule at path. */
static void read_schedule(struct workload *load, const char *path)
{
	FILE *file = fopen(path, "r");
	long long due, size, deadline, largest = 0;

	if (!file)
		die(true, "--schedule %s", path);
	load->flows = alloc(FLOWS_MAX, sizeof(*load->flows));
	while (load->n < FLOWS_MAX && fscanf(file, "%lld %lld %lld", &due, &size, &deadline) == 3) {
		struct flow *flow = &load->flows[load->n++];

		if (due < 0 || size < (long long)sizeof(struct flow_head) || deadline < 0)
			die(false, "--schedule %s, line %d: want a time, at least %zu bytes, and a deadline or 0",
			    path, load->n, sizeof(struct flow_head));
		flow->due_ns = load->start_ns + due;
		flow->deadline_ns = deadline ? flow->due_ns + deadline : 0;
		flow->size = size;
		flow->fd = -1;
		if (size > largest)
			largest = size;
	}
	if (!feof(file))
		die(false, "--schedule %s, line %d: want three numbers, and at most %d lines", path, load->n + 1,
		    FLOWS_MAX);
	fclose(file);
	load->open = alloc(load->n + 1, sizeof(*load->open));
	load->piece = alloc(1, largest + 1);
}

/* Returns a socket for a connection to the receiver. */
static int open_socket(const struct workload *load, int type)
{
	int bytes = SNDBUF_BYTES, chunk = CHUNK_BYTES, on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | type, 0);

	if (fd < 0)
		die(true, "socket");
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, load->cc, strlen(load->cc)))
		die(true, "--cc: congestion control '%s'", load->cc);
	if (load->connections && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		die(true, "TCP_NODELAY");
	if (load->order && setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &chunk, sizeof(chunk)))
		die(true, "TCP_NOTSENT_LOWAT");
	if (!load->order && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)))
		die(true, "SO_SNDBUF");
	return fd;
}

/* Marks a flow's socket with its deadline. */
static void mark_deadline(const struct flow *flow)
{
	uint32_t mark = flow->deadline_ns / 1000 | 1;

	if (flow->deadline_ns && setsockopt(flow->fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)))
		die(true, "SO_MARK");
}

/* Sets whether the flow at index is asked when its socket has room. */
static void watch(struct workload *load, int index, int operation, bool wanted)
{
	struct epoll_event event = { .events = wanted ? EPOLLOUT : 0, .data.u32 = index };

	if (epoll_ctl(load->epoll, operation, load->flows[index].fd, &event))
		die(true, "epoll_ctl");
	load->flows[index].turn = wanted;
}

/* Asks for the connection of a flow. */
static void open_flow(const struct workload *load, struct flow *flow)
{
	flow->fd = open_socket(load, SOCK_NONBLOCK);
	mark_deadline(flow);
	if (connect(flow->fd, (const struct sockaddr *)&load->to, sizeof(load->to)) && errno != EINPROGRESS)
		die(true, "connect to %s", inet_ntoa(load->to.sin_addr));
}

/* Asks for the connections of all flows, evenly over what is left until the start. */
static void open_early(const struct workload *load)
{
	int64_t from_ns = now_ns();

	for (int i = 0; i < load->n; i++) {
		sleep_until(from_ns + (load->start_ns - from_ns) * i / load->n);
		open_flow(load, &load->flows[i]);
	}
}

/* Begins the next flow. */
static void begin_flow(struct workload *load)
{
	int index = load->next++;

	if (!load->early)
		open_flow(load, &load->flows[index]);
	watch(load, index, EPOLL_CTL_ADD, true);
	load->open[load->n_open++] = index;
}

/* Closes the flow at index; what the kernel still holds of it is sent. */
static void end_flow(struct workload *load, int index)
{
	close(load->flows[index].fd);
	load->flows[index].fd = -1;
	for (int i = 0; i < load->n_open; i++) {
		if (load->open[i] == index) {
			load->open[i] = load->open[--load->n_open];
			break;
		}
	}
}

/* Puts the head of the flow at index before the bytes to send. */
static void put_head(struct workload *load, int index)
{
	struct flow_head head = { .size = load->flows[index].size, .id = index };

	memcpy(load->piece, &head, sizeof(head));
}

/* Hands bytes of the flow at index to the kernel; true when it needs the connection no more. */
static bool feed(struct workload *load, int index)
{
	struct flow *flow = &load->flows[index];
	int64_t want = flow->size - flow->sent;
	ssize_t sent;

	if (load->order && want > CHUNK_BYTES)
		want = CHUNK_BYTES;
	if (!flow->sent)
		put_head(load, index);
	/* A head is always sent whole: an empty send buffer has room for it. */
	sent = send(flow->fd, load->piece + (flow->sent ? sizeof(struct flow_head) : 0), want, MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN) {
		fprintf(stderr, "generator: flow %d: %s\n", index, strerror(errno));
		return true;
	}
	if (sent > 0) {
		flow->sent += sent;
		load->busy_bytes += sent;
	}
	return flow->sent == flow->size;
}

/* Returns what orders a flow among those that wait: the least is first. */
static double key(const struct workload *load, const struct flow *flow, int64_t now)
{
	double left = flow->size - flow->sent;
	int64_t time_left = flow->deadline_ns - now;
	bool late = load->rate ? left * NSEC_PER_SEC > load->rate * time_left : time_left <= 0;

	if (load->order == ORDER_SIZE || !flow->deadline_ns)
		return left;
	return late ? left * NSEC_PER_SEC : time_left;
}

/* Measures what flows get while there are always some that wait; true when there is a new rate to order them by. */
static bool follow_rate(struct workload *load)
{
	int64_t now = now_ns();

	if (!load->n_open) {
		load->busy_ns = 0;
		load->rate = 0;
		return false;
	}
	if (!load->busy_ns || now >= load->busy_ns + BUSY_NS) {
		load->rate = load->busy_ns ? (double)load->busy_bytes * NSEC_PER_SEC / (now - load->busy_ns) : 0;
		load->busy_ns = now;
		load->busy_bytes = 0;
		return true;
	}
	return false;
}

/* Lets the first flows in order send, and no others. */
static void give_turns(struct workload *load)
{
	int64_t now = now_ns();

	for (int i = 0; i < load->n_open; i++) {
		struct flow *flow = &load->flows[load->open[i]];
		int before = 0;

		if (!flow->connected)
			continue;
		for (int j = 0; j < load->n_open && before < load->turns; j++) {
			const struct flow *other = &load->flows[load->open[j]];

			if (other->connected && key(load, other, now) < key(load, flow, now))
				before++;
		}
		if (flow->turn != (before < load->turns))
			watch(load, load->open[i], EPOLL_CTL_MOD, !flow->turn);
	}
}

/* Tells the agent what is left of each flow, unless it was told a moment ago. */
static void tell_agent(struct workload *load, const int *persistent)
{
	static char text[REGISTER_BYTES + 64];
	int64_t now = now_ns();
	const char *comma = "";
	int at;

	if (!load->agent || now < load->registered_ns + REGISTER_NS)
		return;
	load->registered_ns = now;
	at = snprintf(text, sizeof(text), "{\"peer\":\"%s\",\"flows\":[", inet_ntoa(load->to.sin_addr));
	for (int i = 0; i < load->connections; i++, comma = ",") {
		int queued = 0;

		if (ioctl(persistent[i], SIOCOUTQ, &queued))
			die(true, "SIOCOUTQ");
		at += snprintf(text + at, sizeof(text) - at, "%s[%d,0]", comma, queued);
	}
	for (int i = 0; i < load->n_open && at < REGISTER_BYTES; i++, comma = ",") {
		const struct flow *flow = &load->flows[load->open[i]];

		at += snprintf(text + at, sizeof(text) - at, "%s[%lld,%lld]", comma,
			       (long long)(flow->size - flow->sent),
			       flow->deadline_ns ? (long long)(flow->deadline_ns - now) / 1000 : 0LL);
	}
	at += snprintf(text + at, sizeof(text) - at, "]}");
	/* An agent that is not there is none of the workload's business. */
	send(load->agent_fd, text, at, MSG_DONTWAIT);
}

/* Waits for room in sockets until at_ns and feeds the flows that have it. */
static void serve_until(struct workload *load, int64_t at_ns)
{
	struct epoll_event events[EVENTS];
	int64_t left = at_ns - now_ns();
	struct timespec wait = { left / NSEC_PER_SEC, left % NSEC_PER_SEC };
	bool changed = false;
	int n;

	if (left <= 0)
		return;
	n = epoll_pwait2(load->epoll, events, EVENTS, &wait, NULL);
	if (n < 0 && errno != EINTR)
		die(true, "epoll_pwait2");
	for (int i = 0; i < n; i++) {
		struct flow *flow = &load->flows[events[i].data.u32];

		changed |= !flow->connected;
		if (!flow->connected && load->order) {
			flow->connected = true;
			continue;
		}
		if (feed(load, events[i].data.u32)) {
			end_flow(load, events[i].data.u32);
			changed = true;
		}
	}
	changed |= follow_rate(load);
	if (changed && load->order)
		give_turns(load);
}

/* Runs a schedule with a connection for each flow. */
static void run_flows(struct workload *load)
{
	while (now_ns() < load->end_ns && (load->next < load->n || load->n_open)) {
		int64_t until = load->next < load->n ? load->flows[load->next].due_ns : load->end_ns;

		if (load->agent && load->n_open && until > load->registered_ns + REGISTER_NS)
			until = load->registered_ns + REGISTER_NS;
		serve_until(load, until < load->end_ns ? until : load->end_ns);
		while (load->next < load->n && load->flows[load->next].due_ns <= now_ns())
			begin_flow(load);
		tell_agent(load, NULL);
	}
	load->registered_ns = 0;
	tell_agent(load, NULL);
}

/* Runs a schedule over persistent connections, which stand before the start. */
static void run_messages(struct workload *load)
{
	int fds[CONNECTIONS_MAX];

	for (int i = 0; i < load->connections; i++) {
		fds[i] = open_socket(load, 0);
		if (connect(fds[i], (const struct sockaddr *)&load->to, sizeof(load->to)))
			die(true, "connect to %s", inet_ntoa(load->to.sin_addr));
	}
	for (int i = 0; i < load->n && load->flows[i].due_ns < load->end_ns; i++) {
		put_head(load, i);
		sleep_until(load->flows[i].due_ns);
		if (send(fds[i % load->connections], load->piece, load->flows[i].size, MSG_NOSIGNAL) !=
		    load->flows[i].size) {
			/* One that waited for room when the run ended finds its receiver gone. */
			if (now_ns() >= load->end_ns)
				return;
			die(true, "send");
		}
		tell_agent(load, fds);
	}
	sleep_until(load->end_ns);
}

/* Opens the socket to the agent. */
static void open_agent(struct workload *load)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	if (strlen(load->agent) >= sizeof(to.sun_path))
		die(false, "--register: '%s' is longer than %zu bytes", load->agent, sizeof(to.sun_path) - 1);
	strcpy(to.sun_path, load->agent);
	load->agent_fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	if (load->agent_fd < 0 || connect(load->agent_fd, (struct sockaddr *)&to, sizeof(to)))
		die(true, "--register %s", load->agent);
}

/* Returns the order of that name. */
static enum order parse_order(const char *name)
{
	static const char *const names[] = { "none", "size", "deadline" };

	for (int i = 0; i < 3; i++)
		if (!strcmp(name, names[i]))
			return i;
	die(false, "--order: '%s' is none of none, size, deadline", name);
}

/* Options of the command line, as getopt_long() wants them. */
static const struct option options[] = {
	{ "to", required_argument, NULL, 't' },	     { "port", required_argument, NULL, 'p' },
	{ "cc", required_argument, NULL, 'c' },	     { "start", required_argument, NULL, 's' },
	{ "end", required_argument, NULL, 'e' },     { "schedule", required_argument, NULL, 'f' },
	{ "order", required_argument, NULL, 'o' },   { "turns", required_argument, NULL, 'k' },
	{ "register", required_argument, NULL, 'r' }, { "connections", required_argument, NULL, 'n' },
	{ "early", no_argument, NULL, 'y' },	     { 0 }
};

/* Takes the options of the command line into *load, and the path of the schedule into *schedule; returns false when one
 * is unknown.
 */
static bool parse_options(struct workload *load, const char **schedule, int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 't':
			if (!inet_aton(optarg, &load->to.sin_addr))
				die(false, "--to: '%s' is not an IPv4 address", optarg);
			break;
		case 'p':
			load->to.sin_port = htons(parse_number("port", optarg, 1, 65535));
			break;
		case 'c':
			load->cc = optarg;
			break;
		case 's':
			load->start_ns = parse_number("start", optarg, 0, INT64_MAX);
			break;
		case 'e':
			load->end_ns = parse_number("end", optarg, 0, INT64_MAX);
			break;
		case 'f':
			*schedule = optarg;
			break;
		case 'o':
			load->order = parse_order(optarg);
			break;
		case 'k':
			load->turns = parse_number("turns", optarg, 1, 1000);
			break;
		case 'r':
			load->agent = optarg;
			break;
		case 'n':
			load->connections = parse_number("connections", optarg, 0, CONNECTIONS_MAX);
			break;
		case 'y':
			load->early = true;
			break;
		default:
			return false;
		}
	}
	if (optind < argc)
		die(false, "workload: unexpected argument '%s'", argv[optind]);
	if (!load->to.sin_addr.s_addr || !load->to.sin_port || load->start_ns < 0 || load->end_ns < 0 || !*schedule)
		die(false, "workload: --to, --port, --start, --end and --schedule are required");
	return true;
}

int workload_main(int argc, char **argv)
{
	struct workload load = { .cc = "dctcp", .turns = 1, .start_ns = -1, .end_ns = -1 };
	const char *schedule = NULL;

	load.to.sin_family = AF_INET;
	if (!parse_options(&load, &schedule, argc, argv))
		return EXIT_FAILURE;
	allow_files();
	read_schedule(&load, schedule);
	sleep_until(load.start_ns - PREPARE_NS);
	if (load.agent)
		open_agent(&load);
	load.epoll = epoll_create1(0);
	if (load.epoll < 0)
		die(true, "epoll_create1");
	if (load.early && !load.connections)
		open_early(&load);
	if (load.connections)
		run_messages(&load);
	else
		run_flows(&load);
	return EXIT_SUCCESS;
}
