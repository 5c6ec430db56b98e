// SPDX-License-Identifier: Apache-2.0
/*
 * Source: one flow from start to stop.
 *
 * TCP sends as fast as its congestion control lets it and ends with a reset, so that nothing queued in the
 * socket leaves after stop.  UDP sends at a constant bit rate counted in Ethernet frames without FCS: a train of
 * n datagrams of f bytes on the wire is due every 8 * n * f / rate seconds from start, and a train the kernel has
 * no room for is lost, as it would be with a sender that cannot wait.
 */
#define _GNU_SOURCE
#include "util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bytes of one TCP send. */
#define TCP_PIECE_BYTES (1 << 20)

/* Send buffer asked for: several TCP pieces or UDP trains. */
#define SNDBUF_BYTES (4 << 20)

/* Ethernet, IPv4 and UDP headers of a datagram. */
#define UDP_HEADER_BYTES 42

/* Largest payload of one UDP_SEGMENT send. */
#define UDP_TRAIN_BYTES 65507

/* Most datagrams in a UDP_SEGMENT send (UDP_MAX_SEGMENTS of the kernel). */
#define UDP_TRAIN_DATAGRAMS 64

/* Trains are made short enough to leave at least every so many ns. */
#define UDP_TRAIN_NS 500000LL

/* What the command line asked for. */
struct source {
	struct sockaddr_in to;	/* sink */
	int64_t connect_ns;	/* TCP: first attempt to connect; -1: at start_ns */
	int64_t start_ns;	/* first byte leaves */
	int64_t stop_ns;	/* nothing leaves any more */
	int64_t rate;		/* UDP: bit/s of Ethernet frames */
	int64_t payload;	/* UDP: bytes in a datagram */
	const char *cc;		/* TCP: congestion control */
	bool tcp;		/* else UDP */
};

/* Returns a socket of that type with a large send buffer (as far as net.core.wmem_max allows). */
static int open_socket(int type)
{
	int bytes = SNDBUF_BYTES;
	int fd = socket(AF_INET, type, 0);

	if (fd < 0)
		die(true, "socket");
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)))
		die(true, "SO_SNDBUF");
	return fd;
}

/* Waits until fd is writable; false when stop came first. */
static bool wait_writable(int fd, int64_t stop_ns)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	int64_t left = stop_ns - now_ns();

	if (left <= 0)
		return false;
	return ppoll(&pfd, 1, &(struct timespec){ left / NSEC_PER_SEC, left % NSEC_PER_SEC },
		     NULL) > 0;
}

/* Connects, waits for start and sends until stop; returns early when the connection breaks. */
static void tcp_flow(const struct source *source, const char *piece)
{
	struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	int fd = open_socket(SOCK_STREAM | SOCK_NONBLOCK);

	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)))
		die(true, "SO_LINGER");
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, source->cc, strlen(source->cc)))
		die(true, "--cc: congestion control '%s'", source->cc);
	if (connect(fd, (const struct sockaddr *)&source->to, sizeof(source->to)) &&
	    errno != EINPROGRESS)
		die(true, "connect to %s", inet_ntoa(source->to.sin_addr));
	if (wait_writable(fd, source->stop_ns))
		sleep_until(source->start_ns);
	while (wait_writable(fd, source->stop_ns)) {
		ssize_t sent = send(fd, piece, TCP_PIECE_BYTES, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN) {
			fprintf(stderr, "generator: connection lost: %s\n", strerror(errno));
			break;
		}
	}
	close(fd);
}

/* Keeps a TCP flow going until stop, connecting anew when the connection breaks. */
static void run_tcp(const struct source *source)
{
	char *piece = alloc(1, TCP_PIECE_BYTES);

	sleep_until(source->connect_ns < 0 ? source->start_ns : source->connect_ns);
	while (now_ns() < source->stop_ns) {
		tcp_flow(source, piece);
		sleep_until(now_ns() + NSEC_PER_SEC / 10);
	}
	free(piece);
}

/* Sends trains of datagrams at the rate asked for until stop. */
static void run_udp(const struct source *source)
{
	int64_t frame_bits = 8 * (source->payload + UDP_HEADER_BYTES);
	int64_t datagrams = source->rate / frame_bits * UDP_TRAIN_NS / NSEC_PER_SEC;
	int size = source->payload;
	int fd = open_socket(SOCK_DGRAM);
	char *train;

	if (datagrams > UDP_TRAIN_DATAGRAMS)
		datagrams = UDP_TRAIN_DATAGRAMS;
	if (datagrams > UDP_TRAIN_BYTES / source->payload)
		datagrams = UDP_TRAIN_BYTES / source->payload;
	if (datagrams < 1)
		datagrams = 1;
	train = alloc(datagrams, source->payload);
	if (setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)))
		die(true, "UDP_SEGMENT of %d bytes", size);
	if (connect(fd, (const struct sockaddr *)&source->to, sizeof(source->to)))
		die(true, "connect to %s", inet_ntoa(source->to.sin_addr));
	for (int64_t i = 0;; i++) {
		/* In long double: i * bits of a train * 1e9 passes 2^63 within seconds. */
		int64_t due = source->start_ns + (int64_t)((long double)i * datagrams * frame_bits *
							   NSEC_PER_SEC / source->rate);

		if (due >= source->stop_ns)
			break;
		sleep_until(due);
		/* A refusal (no room, nobody listens yet) loses the train; the rate is constant. */
		if (send(fd, train, datagrams * source->payload, MSG_DONTWAIT) < 0 &&
		    errno != EAGAIN && errno != ECONNREFUSED && errno != ENOBUFS)
			die(true, "send");
	}
	free(train);
	close(fd);
}

int source_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "proto", required_argument, NULL, 'P' }, { "to", required_argument, NULL, 't' },
		{ "port", required_argument, NULL, 'p' },  { "start", required_argument, NULL, 's' },
		{ "stop", required_argument, NULL, 'e' },  { "cc", required_argument, NULL, 'c' },
		{ "connect", required_argument, NULL, 'C' },
		{ "rate", required_argument, NULL, 'r' },  { "payload", required_argument, NULL, 'b' },
		{ 0 }
	};
	struct source source = { .cc = "reno", .payload = 1472, .tcp = true, .stop_ns = -1,
				 .connect_ns = -1 };
	int option;

	source.to.sin_family = AF_INET;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'P':
			source.tcp = !strcmp(optarg, "tcp");
			if (!source.tcp && strcmp(optarg, "udp"))
				die(false, "--proto: '%s' is neither tcp nor udp", optarg);
			break;
		case 't':
			if (!inet_aton(optarg, &source.to.sin_addr))
				die(false, "--to: '%s' is not an IPv4 address", optarg);
			break;
		case 'p':
			source.to.sin_port = htons(parse_number("port", optarg, 1, 65535));
			break;
		case 's':
			source.start_ns = parse_number("start", optarg, 0, INT64_MAX);
			break;
		case 'e':
			source.stop_ns = parse_number("stop", optarg, 0, INT64_MAX);
			break;
		case 'C':
			source.connect_ns = parse_number("connect", optarg, 0, INT64_MAX);
			break;
		case 'c':
			source.cc = optarg;
			break;
		case 'r':
			source.rate = parse_number("rate", optarg, 1000, 800000000000LL);
			break;
		case 'b':
			source.payload = parse_number("payload", optarg, 1, UDP_TRAIN_BYTES);
			break;
		default:
			return EXIT_FAILURE;
		}
	}
	if (optind < argc)
		die(false, "source: unexpected argument '%s'", argv[optind]);
	if (!source.to.sin_addr.s_addr || !source.to.sin_port || source.stop_ns < 0)
		die(false, "source: --to, --port and --stop are required");
	if (!source.tcp && !source.rate)
		die(false, "source: --rate is required with --proto udp");
	if (source.tcp)
		run_tcp(&source);
	else
		run_udp(&source);
	return EXIT_SUCCESS;
}
