// SPDX-License-Identifier: Apache-2.0
/*
 * Server: answers the requests of clients.
 *
 * A port has requests of one size and answers of one size.  Requests of size 0 end where their sender closes; such
 * a connection is closed behind the answer.
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

/* Most ports of one server. */
#define PORTS_MAX 1024

/* Sockets served between two waits. */
#define EVENTS 64

/* Connections that may wait to be accepted. */
#define BACKLOG 1024

/* Bytes handed to the kernel at once. */
#define PIECE_BYTES (1 << 20)

/* A port served. */
struct port {
	int listener;		/* listening socket */
	int64_t size;		/* bytes of a request; 0: to its end */
	int64_t reply;		/* bytes of an answer */
};

/* A listener or a connection, as epoll names it. */
struct socket {
	const struct port *port;	/* whose it is */
	int fd;			/* the socket */
	bool listens;		/* a listener */
	bool ended;		/* the client sends no more */
	bool blocked;		/* waits for room in the socket */
	int64_t to_read;	/* bytes of the request still to come */
	int64_t to_send;	/* bytes of answers not yet handed to the kernel */
	int lowat;		/* bytes that wake us */
};

/* Bytes of answers. */
static char piece[PIECE_BYTES];

/* Watches a new socket for input. */
static void add(int epoll, const struct port *port, int fd, bool listens)
{
	struct socket *one = alloc(1, sizeof(*one));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = one };

	*one = (struct socket){ .port = port, .fd = fd, .listens = listens, .lowat = 1,
				.to_read = port->size };
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		die(true, "epoll_ctl");
	if (!listens)
		wake_at(fd, port->size ? port->size : INT64_MAX, &one->lowat);
}

/* Opens the port that text "PORT:CC:REQUEST_BYTES:REPLY_BYTES" names. */
static void open_port(int epoll, struct port *port, char *text)
{
	char *number = strtok(text, ":"), *cc = strtok(NULL, ":");
	char *size = strtok(NULL, ":"), *reply = strtok(NULL, "");
	struct sockaddr_in any = { .sin_family = AF_INET };
	int on = 1;

	if (!number || !cc || !size || !reply)
		die(false, "--port: want PORT:CC:REQUEST_BYTES:REPLY_BYTES");
	any.sin_port = htons(parse_number("port", number, 1, 65535));
	port->size = parse_number("port", size, 0, INT64_MAX >> 1);
	port->reply = parse_number("port", reply, 1, INT64_MAX >> 1);
	port->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (port->listener < 0)
		die(true, "socket");
	if (setsockopt(port->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		die(true, "SO_REUSEADDR");
	if (setsockopt(port->listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		die(true, "TCP_NODELAY");
	if (setsockopt(port->listener, IPPROTO_TCP, TCP_CONGESTION, cc, strlen(cc)))
		die(true, "--port: congestion control '%s'", cc);
	if (bind(port->listener, (struct sockaddr *)&any, sizeof(any)))
		die(true, "bind to port %s", number);
	if (listen(port->listener, BACKLOG))
		die(true, "listen");
	add(epoll, port, port->listener, true);
}

/* Hands the kernel what it has room for; false when the connection is over. */
static bool feed(int epoll, struct socket *one)
{
	bool before = one->blocked;

	one->blocked = false;
	while (one->to_send && !one->blocked) {
		int64_t size = one->to_send < PIECE_BYTES ? one->to_send : PIECE_BYTES;
		ssize_t sent = send(one->fd, piece, size, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN)
			return false;
		one->to_send -= sent > 0 ? sent : 0;
		one->blocked = sent < size;
	}
	if (one->blocked != before) {
		struct epoll_event event = { .events = EPOLLIN | (one->blocked ? EPOLLOUT : 0u),
					     .data.ptr = one };

		/* Who has ended is always readable. */
		event.events &= one->ended ? ~(uint32_t)EPOLLIN : ~0u;
		if (epoll_ctl(epoll, EPOLL_CTL_MOD, one->fd, &event))
			die(true, "epoll_ctl");
	}
	return one->to_send || !one->ended;
}

/* Reads what has come, and answers what is complete; false when the connection is over. */
static bool take(int epoll, struct socket *one)
{
	ssize_t got = recv(one->fd, NULL, 1 << 24, MSG_TRUNC);

	if (got < 0)
		return errno == EAGAIN;
	if (!one->port->size) {
		one->ended = !got;
		one->to_send = one->ended ? one->port->reply : 0;
		return !one->ended || feed(epoll, one);
	}
	if (!got)
		return false;
	for (one->to_read -= got; one->to_read <= 0; one->to_read += one->port->size)
		one->to_send += one->port->reply;
	wake_at(one->fd, one->to_read, &one->lowat);
	return feed(epoll, one);
}

/* Serves all sockets until at_ns. */
static void serve_until(int epoll, int64_t at_ns)
{
	struct epoll_event events[EVENTS];
	int64_t left;

	while ((left = at_ns - now_ns()) > 0) {
		struct timespec wait = { left / NSEC_PER_SEC, left % NSEC_PER_SEC };
		int n = epoll_pwait2(epoll, events, EVENTS, &wait, NULL);

		if (n < 0 && errno != EINTR)
			die(true, "epoll_pwait2");
		for (int i = 0; i < n; i++) {
			struct socket *one = events[i].data.ptr;
			bool lives = true;
			int fd;

			if (one->listens) {
				fd = accept4(one->fd, NULL, NULL, SOCK_NONBLOCK);
				if (fd >= 0)
					add(epoll, one->port, fd, false);
				continue;
			}
			if (events[i].events & ~EPOLLOUT)
				lives = take(epoll, one);
			if (lives && one->blocked && (events[i].events & EPOLLOUT))
				lives = feed(epoll, one);
			if (!lives) {
				close(one->fd);
				free(one);
			}
		}
	}
}

int server_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "port", required_argument, NULL, 'p' }, { "stop", required_argument, NULL, 'e' }, { 0 }
	};
	struct port *ports = alloc(PORTS_MAX, sizeof(*ports));
	int epoll = epoll_create1(0);
	int64_t stop_ns = -1;
	int n = 0, option;

	if (epoll < 0)
		die(true, "epoll_create1");
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'p':
			if (n == PORTS_MAX)
				die(false, "--port: more than %d", PORTS_MAX);
			open_port(epoll, &ports[n++], optarg);
			break;
		case 'e':
			stop_ns = parse_number("stop", optarg, 0, INT64_MAX);
			break;
		default:
			return EXIT_FAILURE;
		}
	}
	if (optind < argc)
		die(false, "server: unexpected argument '%s'", argv[optind]);
	if (!n || stop_ns < 0)
		die(false, "server: --port and --stop are required");
	serve_until(epoll, stop_ns);
	return EXIT_SUCCESS;
}
