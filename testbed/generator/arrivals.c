// SPDX-License-Identifier: Apache-2.0
/*
 * Arrivals: when each flow of a workload (workload.c) had arrived whole.
 *
 * A flow that has its connection is whole when the connection ends: SO_RCVLOWAT lets nothing wake us before.  Messages
 * on persistent connections are all of --message bytes.  Sender and receiver share one clock, as all virtual machines
 * of the testbed do.
 */
#define _GNU_SOURCE
#include "util.h"

#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Most flows that are told of. */
#define ARRIVALS_MAX 1000000

/* Connections that may wait to be accepted, and the largest number of a socket. */
#define BACKLOG 4096
#define SOCKETS_MAX 65536

/* Sockets served between two waits. */
#define EVENTS 64

/* Bytes in a socket that wake us where a flow has its connection: more than a flow has. */
#define LOWAT_BYTES (1 << 20)

/* Bytes read at once. */
#define READ_BYTES (1 << 20)

/* A flow that has arrived. */
struct arrival {
	int64_t at_ns;		/* absolute */
	uint64_t id;		/* its number in the schedule */
};

/* The receiver. */
struct arrivals {
	struct arrival *list;	/* n of them, in order of time */
	char *buffer;		/* READ_BYTES */
	char **rests;		/* by socket: begin of a message whose end is not here yet */
	int *rest_bytes;	/* by socket: how many bytes of it */
	int message;		/* bytes of a message; 0: a flow is a connection */
	int listener;		/* listening socket */
	int epoll;		/* watches all sockets */
	int n;			/* number of arrivals */
};

/* Watches a socket for input. */
static void watch(struct arrivals *arrivals, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(arrivals->epoll, EPOLL_CTL_ADD, fd, &event))
		die(true, "epoll_ctl");
}

/* Remembers that the flow whose first bytes are at head has arrived. */
static void note(struct arrivals *arrivals, const char *head)
{
	struct flow_head flow;

	if (arrivals->n == ARRIVALS_MAX)
		die(false, "more than %d arrivals", ARRIVALS_MAX);
	memcpy(&flow, head, sizeof(flow));
	arrivals->list[arrivals->n++] = (struct arrival){ now_ns(), flow.id };
}

/* Reads the messages that a persistent connection brought; false when it has ended. */
static bool read_messages(struct arrivals *arrivals, int fd)
{
	int have = arrivals->rest_bytes[fd], at = 0;
	ssize_t got;

	if (!arrivals->rests[fd])
		arrivals->rests[fd] = alloc(1, arrivals->message);
	memcpy(arrivals->buffer, arrivals->rests[fd], have);
	got = recv(fd, arrivals->buffer + have, READ_BYTES - have, 0);
	if (got <= 0)
		return got < 0 && errno == EAGAIN;
	for (have += got; have - at >= arrivals->message; at += arrivals->message)
		note(arrivals, arrivals->buffer + at);
	arrivals->rest_bytes[fd] = have - at;
	memcpy(arrivals->rests[fd], arrivals->buffer + at, have - at);
	return true;
}

/* Reads a flow that has its connection, which is all here; false. */
static bool read_flow(struct arrivals *arrivals, int fd)
{
	ssize_t got = recv(fd, arrivals->buffer, READ_BYTES, 0);
	struct flow_head head;

	if (got < (ssize_t)sizeof(head))
		return got < 0 && errno == EAGAIN;
	memcpy(&head, arrivals->buffer, sizeof(head));
	if ((uint64_t)got == head.size)
		note(arrivals, arrivals->buffer);
	else
		fprintf(stderr, "generator: flow %llu ended after %zd of %llu bytes\n", (unsigned long long)head.id,
			got, (unsigned long long)head.size);
	return false;
}

/* Takes a connection that waits. */
static void take(struct arrivals *arrivals)
{
	int lowat = arrivals->message ? arrivals->message : LOWAT_BYTES;
	int fd = accept4(arrivals->listener, NULL, NULL, SOCK_NONBLOCK);

	if (fd < 0)
		return;
	if (fd >= SOCKETS_MAX)
		die(false, "more than %d sockets", SOCKETS_MAX);
	/* Flows inherit it from the listener; messages would wait for each other. */
	if (arrivals->message && setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat)))
		die(true, "SO_RCVLOWAT");
	watch(arrivals, fd);
}

/* Serves sockets until at_ns. */
static void serve_until(struct arrivals *arrivals, int64_t at_ns)
{
	struct epoll_event events[EVENTS];
	int64_t left;

	while ((left = at_ns - now_ns()) > 0) {
		struct timespec wait = { left / NSEC_PER_SEC, left % NSEC_PER_SEC };
		int n = epoll_pwait2(arrivals->epoll, events, EVENTS, &wait, NULL);

		if (n < 0 && errno != EINTR)
			die(true, "epoll_pwait2");
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (fd == arrivals->listener)
				take(arrivals);
			else if (!(arrivals->message ? read_messages(arrivals, fd) : read_flow(arrivals, fd)))
				close(fd);
		}
	}
}

/* Opens the listening socket. */
static void open_listener(struct arrivals *arrivals, int port, const char *cc)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
	int lowat = LOWAT_BYTES, on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (fd < 0)
		die(true, "socket");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		die(true, "SO_REUSEADDR");
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, strlen(cc)))
		die(true, "--cc: congestion control '%s'", cc);
	if (bind(fd, (struct sockaddr *)&any, sizeof(any)))
		die(true, "bind to port %d", port);
	if (listen(fd, BACKLOG))
		die(true, "listen");
	arrivals->listener = fd;
	watch(arrivals, fd);
	if (!arrivals->message && setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat)))
		die(true, "SO_RCVLOWAT");
}

int arrivals_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "port", required_argument, NULL, 'p' },    { "cc", required_argument, NULL, 'c' },
		{ "start", required_argument, NULL, 's' },   { "end", required_argument, NULL, 'e' },
		{ "message", required_argument, NULL, 'm' }, { "out", required_argument, NULL, 'o' },
		{ 0 }
	};
	struct arrivals arrivals = { .list = alloc(ARRIVALS_MAX, sizeof(struct arrival)),
				     .buffer = alloc(1, READ_BYTES),
				     .rests = alloc(SOCKETS_MAX, sizeof(char *)),
				     .rest_bytes = alloc(SOCKETS_MAX, sizeof(int)) };
	const char *path = NULL, *cc = "dctcp";
	int64_t start_ns = -1, end_ns = -1;
	int option, port = 0;
	FILE *out;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'p':
			port = parse_number("port", optarg, 1, 65535);
			break;
		case 'c':
			cc = optarg;
			break;
		case 's':
			start_ns = parse_number("start", optarg, 0, INT64_MAX);
			break;
		case 'e':
			end_ns = parse_number("end", optarg, 0, INT64_MAX);
			break;
		case 'm':
			arrivals.message = parse_number("message", optarg, sizeof(struct flow_head), READ_BYTES / 2);
			break;
		case 'o':
			path = optarg;
			break;
		default:
			return EXIT_FAILURE;
		}
	}
	if (optind < argc)
		die(false, "arrivals: unexpected argument '%s'", argv[optind]);
	if (!port || start_ns < 0 || end_ns < 0 || !path)
		die(false, "arrivals: --port, --start, --end and --out are required");
	allow_files();
	arrivals.epoll = epoll_create1(0);
	if (arrivals.epoll < 0)
		die(true, "epoll_create1");
	open_listener(&arrivals, port, cc);
	serve_until(&arrivals, end_ns);
	out = open_output(path);
	for (int i = 0; i < arrivals.n; i++)
		fprintf(out, "%llu %lld\n", (unsigned long long)arrivals.list[i].id,
			(long long)(arrivals.list[i].at_ns - start_ns));
	close_output(out, path);
	return EXIT_SUCCESS;
}
