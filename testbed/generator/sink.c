// SPDX-License-Identifier: Apache-2.0
/*
 * Sink: payload bytes received by each flow in each time bin.
 *
 * A flow has a port of its own, which names it, and any number of connections.  TCP wakes the sink once per MiB (SO_RCVLOWAT, which also keeps
 * ACKs prompt while nobody reads) and is emptied at the end of each bin; MSG_TRUNC takes bytes without copying them.
 * UDP is not read at all: a filter refuses each datagram at the socket, whose drop counter times the
 * fixed payload is then what was received.
 */
#define _GNU_SOURCE
#include "util.h"

#include <errno.h>
#include <getopt.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Most flows in one sink. */
#define FLOWS_MAX 4096

/* Bytes in a socket that wake the sink. */
#define LOWAT_BYTES (1 << 20)

/* Sockets served between two waits. */
#define EVENTS 64

/* Connections that may wait to be accepted. */
#define BACKLOG 1024

/* Largest single read; bytes are discarded, so it is only a number. */
#define READ_BYTES (1 << 24)

/* A flow received. */
struct flow {
	int64_t *bins;		/* payload bytes in each bin */
	const char *cc;		/* TCP: congestion control of the listener (DCTCP needs it for its ACKs) */
	int payload;		/* UDP: bytes in a datagram */
	int port;		/* local port, the flow's name */
	int listener;		/* TCP: listening socket */
	int *fds;		/* TCP: n accepted connections; UDP: one socket */
	int n;			/* number of fds */
	uint32_t drops;		/* UDP: socket's drop counter when last read; wraps */
	bool tcp;		/* else UDP */
};

/* The sink. */
struct sink {
	struct flow *flows;	/* n of them */
	int n;			/* number of flows */
	int epoll;		/* watches listeners and connections; data is flow << 32 | socket */
	int64_t start_ns;	/* bin 0 begins */
	int64_t bin_ns;		/* length of a bin */
	int bins;		/* number of bins */
	int bin;		/* the one being filled; -1 before start */
};

/* Splits "tcp:PORT:CC" or "udp:PORT:PAYLOAD" into *flow. */
static void parse_flow(struct flow *flow, char *text)
{
	char *proto = strtok(text, ":"), *port = strtok(NULL, ":"), *rest = strtok(NULL, "");

	if (!proto || !port || !rest || (strcmp(proto, "tcp") && strcmp(proto, "udp")))
		die(false, "--flow: want tcp:PORT:CC or udp:PORT:PAYLOAD_BYTES");
	flow->tcp = !strcmp(proto, "tcp");
	flow->port = parse_number("flow", port, 1, 65535);
	if (flow->tcp)
		flow->cc = rest;
	else
		flow->payload = parse_number("flow", rest, 1, 65507);
}

/* Watches a socket of flow i for input. */
static void watch(struct sink *sink, int i, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = (uint64_t)i << 32 | (uint32_t)fd };

	if (epoll_ctl(sink->epoll, EPOLL_CTL_ADD, fd, &event))
		die(true, "epoll_ctl");
}

/* Adds a socket to those that flow counts. */
static void add_socket(struct flow *flow, int fd)
{
	flow->fds = realloc(flow->fds, (flow->n + 1) * sizeof(*flow->fds));
	if (!flow->fds)
		die(false, "no memory for %d sockets", flow->n + 1);
	flow->fds[flow->n++] = fd;
}

/* Opens the socket of flow i. */
static void open_flow(struct sink *sink, int i)
{
	struct flow *flow = &sink->flows[i];
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(flow->port) };
	struct sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog filter = { .len = 1, .filter = &refuse };
	int lowat = LOWAT_BYTES, on = 1;
	int fd = socket(AF_INET, (flow->tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK, 0);

	if (fd < 0)
		die(true, "socket");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		die(true, "SO_REUSEADDR");
	if (!flow->tcp && setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)))
		die(true, "SO_ATTACH_FILTER");
	if (bind(fd, (struct sockaddr *)&any, sizeof(any)))
		die(true, "bind to port %d", flow->port);
	if (!flow->tcp) {
		add_socket(flow, fd);
		return;
	}
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, flow->cc, strlen(flow->cc)))
		die(true, "--flow: congestion control '%s'", flow->cc);
	if (listen(fd, BACKLOG))
		die(true, "listen");
	flow->listener = fd;
	watch(sink, i, fd);
	/* Connections inherit it. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat)))
		die(true, "SO_RCVLOWAT");
}

/* Takes what the connection has received, or closes it when it has ended; returns the bytes. */
static int64_t read_tcp(struct flow *flow, int fd)
{
	ssize_t got = recv(fd, NULL, READ_BYTES, MSG_TRUNC);

	if (got > 0 || (got < 0 && errno == EAGAIN))
		return got > 0 ? got : 0;
	close(fd);
	for (int i = 0; i < flow->n; i++) {
		if (flow->fds[i] == fd) {
			flow->fds[i] = flow->fds[--flow->n];
			break;
		}
	}
	return 0;
}

/* Returns the bytes of the datagrams received since the last call. */
static int64_t read_udp(struct flow *flow)
{
	uint32_t info[SK_MEMINFO_VARS];
	socklen_t len = sizeof(info);
	uint32_t before = flow->drops;

	if (getsockopt(flow->fds[0], SOL_SOCKET, SO_MEMINFO, info, &len))
		die(true, "SO_MEMINFO");
	flow->drops = info[SK_MEMINFO_DROPS];
	return (int64_t)(uint32_t)(flow->drops - before) * flow->payload;
}

/* Counts bytes of flow into the current bin. */
static void count(struct sink *sink, struct flow *flow, int64_t bytes)
{
	if (sink->bin >= 0)
		flow->bins[sink->bin] += bytes;
}

/* Counts what flow has received since the last call. */
static void drain(struct sink *sink, struct flow *flow)
{
	if (!flow->tcp)
		count(sink, flow, read_udp(flow));
	/* Backwards: a connection that ended gives its place to the last one. */
	for (int i = flow->n - 1; flow->tcp && i >= 0; i--)
		count(sink, flow, read_tcp(flow, flow->fds[i]));
}

/* Takes a connection waiting at flow i's listener. */
static void take(struct sink *sink, int i)
{
	struct flow *flow = &sink->flows[i];
	int fd = accept4(flow->listener, NULL, NULL, SOCK_NONBLOCK);

	if (fd < 0)
		return;
	add_socket(flow, fd);
	watch(sink, i, fd);
}

/* Serves sockets until at_ns. */
static void serve_until(struct sink *sink, int64_t at_ns)
{
	struct epoll_event events[EVENTS];
	int64_t left;

	while ((left = at_ns - now_ns()) > 0) {
		struct timespec wait = { left / NSEC_PER_SEC, left % NSEC_PER_SEC };
		int n = epoll_pwait2(sink->epoll, events, EVENTS, &wait, NULL);

		if (n < 0 && errno != EINTR)
			die(true, "epoll_pwait2");
		for (int i = 0; i < n; i++) {
			struct flow *flow = &sink->flows[events[i].data.u64 >> 32];
			int fd = (uint32_t)events[i].data.u64;

			if (fd == flow->listener)
				take(sink, flow - sink->flows);
			else
				count(sink, flow, read_tcp(flow, fd));
		}
	}
}

/* Writes one line a flow: its port, then the bytes of each bin. */
static void write_bins(const struct sink *sink, const char *path)
{
	FILE *out = open_output(path);

	for (int i = 0; i < sink->n; i++) {
		fprintf(out, "%d", sink->flows[i].port);
		for (int j = 0; j < sink->bins; j++)
			fprintf(out, " %lld", (long long)sink->flows[i].bins[j]);
		fputc('\n', out);
	}
	close_output(out, path);
}

int sink_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "flow", required_argument, NULL, 'f' }, { "start", required_argument, NULL, 's' },
		{ "bin", required_argument, NULL, 'b' },  { "bins", required_argument, NULL, 'n' },
		{ "out", required_argument, NULL, 'o' },  { 0 }
	};
	struct sink sink = { .flows = alloc(FLOWS_MAX, sizeof(struct flow)), .bin = -1 };
	const char *path = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'f':
			if (sink.n == FLOWS_MAX)
				die(false, "--flow: more than %d", FLOWS_MAX);
			parse_flow(&sink.flows[sink.n++], optarg);
			break;
		case 's':
			sink.start_ns = parse_number("start", optarg, 0, INT64_MAX);
			break;
		case 'b':
			sink.bin_ns = parse_number("bin", optarg, 1000, 3600 * NSEC_PER_SEC);
			break;
		case 'n':
			sink.bins = parse_number("bins", optarg, 1, 1000000);
			break;
		case 'o':
			path = optarg;
			break;
		default:
			return EXIT_FAILURE;
		}
	}
	if (optind < argc)
		die(false, "sink: unexpected argument '%s'", argv[optind]);
	if (!sink.n || !sink.bin_ns || !sink.bins || !path)
		die(false, "sink: --flow, --bin, --bins and --out are required");
	sink.epoll = epoll_create1(0);
	if (sink.epoll < 0)
		die(true, "epoll_create1");
	for (int i = 0; i < sink.n; i++) {
		sink.flows[i].bins = alloc(sink.bins, sizeof(int64_t));
		open_flow(&sink, i);
	}
	for (; sink.bin < sink.bins; sink.bin++) {
		serve_until(&sink, sink.start_ns + (sink.bin + 1) * sink.bin_ns);
		for (int i = 0; i < sink.n; i++)
			drain(&sink, &sink.flows[i]);
	}
	write_bins(&sink, path);
	return EXIT_SUCCESS;
}
