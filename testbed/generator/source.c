// SPDX-License-Identifier: Apache-2.0
/*
 * Source: one flow from start to stop.
 *
 * TCP sends as fast as its congestion control lets it, over one connection or several, and ends with a reset, so
 * that nothing queued in the socket leaves after stop.  UDP sends at a constant bit rate counted in Ethernet frames
 * without FCS: a train of n datagrams of f bytes on the wire is due every 8 * n * f / rate seconds from start, and a
 * train the kernel has no room for is lost, as it would be with a sender that cannot wait.  With --on and --off the
 * rate is that of the on times.  The kernel cuts trains only for a device that checksums are left to; for others the
 * datagrams leave one by one, at the same times.
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

/* Most connections of a flow. */
#define CONNECTIONS_MAX 4096

/* A connection that broke, or was refused, is tried again after so many ns. */
#define RETRY_NS (NSEC_PER_SEC / 10)

/* What the command line asked for. */
struct source {
	struct sockaddr_in to;	/* sink */
	int64_t connect_ns;	/* TCP: first attempt to connect; -1: at start_ns */
	int64_t start_ns;	/* first byte leaves */
	int64_t stop_ns;	/* nothing leaves any more */
	int64_t rate;		/* UDP: bit/s of Ethernet frames */
	int64_t payload;	/* UDP: bytes in a datagram */
	int64_t on_ns;		/* UDP: sends so long, */
	int64_t off_ns;		/* is silent so long, and so on; 0: never silent */
	int count;		/* TCP: connections */
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

/* Returns a socket that connects to the sink and ends with a reset. */
static int open_tcp(const struct source *source)
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
	return fd;
}

/* Waits until a connection is writable, or until at_ns. */
static void wait_writable(struct pollfd *fds, int count, int64_t at_ns)
{
	int64_t left = at_ns - now_ns();

	if (left > 0)
		ppoll(fds, count, &(struct timespec){ left / NSEC_PER_SEC, left % NSEC_PER_SEC },
		      NULL);
}

/* Sends on a writable connection; false when it is broken. */
static bool feed(int fd, const char *piece)
{
	if (send(fd, piece, TCP_PIECE_BYTES, MSG_NOSIGNAL) >= 0 || errno == EAGAIN)
		return true;
	fprintf(stderr, "generator: connection lost: %s\n", strerror(errno));
	return false;
}

/* Keeps the connections of a TCP flow going until stop, opening anew those that break. */
static void run_tcp(const struct source *source)
{
	struct pollfd *fds = alloc(source->count, sizeof(*fds));
	char *piece = alloc(1, TCP_PIECE_BYTES);
	int64_t retry_ns = INT64_MAX;

	sleep_until(source->connect_ns < 0 ? source->start_ns : source->connect_ns);
	for (int i = 0; i < source->count; i++)
		fds[i] = (struct pollfd){ .fd = open_tcp(source), .events = POLLOUT };
	sleep_until(source->start_ns);
	while (now_ns() < source->stop_ns) {
		bool retry = now_ns() >= retry_ns;

		if (retry)
			retry_ns = INT64_MAX;
		for (int i = 0; i < source->count; i++) {
			if (retry && fds[i].fd < 0) {
				fds[i].fd = open_tcp(source);
			} else if (fds[i].revents && !feed(fds[i].fd, piece)) {
				close(fds[i].fd);
				fds[i].fd = -1;
				retry_ns = now_ns() + RETRY_NS;
			}
			fds[i].revents = 0;
		}
		wait_writable(fds, source->count,
			      retry_ns < source->stop_ns ? retry_ns : source->stop_ns);
	}
	for (int i = 0; i < source->count; i++)
		if (fds[i].fd >= 0)
			close(fds[i].fd);
	free(fds);
	free(piece);
}

/* Returns when the i-th train of the given length leaves, ns from start. */
static int64_t train_due(const struct source *source, int64_t i, int64_t train_bits)
{
	/* In long double: i * bits of a train * 1e9 passes 2^63 within seconds. */
	int64_t sent_ns = (int64_t)((long double)i * train_bits * NSEC_PER_SEC / source->rate);

	if (!source->off_ns)
		return sent_ns;
	return sent_ns / source->on_ns * (source->on_ns + source->off_ns) + sent_ns % source->on_ns;
}

/* Has the kernel cut what is sent into datagrams of that many bytes; 0: not any more. */
static void cut_into(int fd, int size)
{
	if (setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)))
		die(true, "UDP_SEGMENT of %d bytes", size);
}

/* Tells whether a send failed as a constant rate may: no room, or nobody listens yet. */
static bool lost_only(void)
{
	return errno == EAGAIN || errno == ECONNREFUSED || errno == ENOBUFS;
}

/* Sends a train in one piece; false if the kernel does not cut for this device. */
static bool send_train(int fd, const char *train, int64_t bytes)
{
	if (send(fd, train, bytes, MSG_DONTWAIT) >= 0 || lost_only())
		return true;
	if (errno != EIO)
		die(true, "send");
	return false;
}

/* Sends a train one datagram after the other. */
static void send_datagrams(int fd, const char *train, int64_t datagrams, int64_t bytes)
{
	for (int64_t i = 0; i < datagrams; i++)
		if (send(fd, train + i * bytes, bytes, MSG_DONTWAIT) < 0 && !lost_only())
			die(true, "send");
}

/* Sends trains of datagrams at the rate asked for until stop. */
static void run_udp(const struct source *source)
{
	int64_t frame_bits = 8 * (source->payload + UDP_HEADER_BYTES);
	int64_t datagrams = source->rate / frame_bits * UDP_TRAIN_NS / NSEC_PER_SEC;
	int fd = open_socket(SOCK_DGRAM);
	bool cut = true;
	char *train;

	if (datagrams > UDP_TRAIN_DATAGRAMS)
		datagrams = UDP_TRAIN_DATAGRAMS;
	if (datagrams > UDP_TRAIN_BYTES / source->payload)
		datagrams = UDP_TRAIN_BYTES / source->payload;
	if (datagrams < 1)
		datagrams = 1;
	train = alloc(datagrams, source->payload);
	cut_into(fd, source->payload);
	if (connect(fd, (const struct sockaddr *)&source->to, sizeof(source->to)))
		die(true, "connect to %s", inet_ntoa(source->to.sin_addr));
	for (int64_t i = 0;; i++) {
		int64_t due = source->start_ns + train_due(source, i, datagrams * frame_bits);

		if (due >= source->stop_ns)
			break;
		sleep_until(due);
		/* A refusal loses the train; the rate is constant. */
		if (cut && !send_train(fd, train, datagrams * source->payload)) {
			cut = false;
			cut_into(fd, 0);
		}
		if (!cut)
			send_datagrams(fd, train, datagrams, source->payload);
	}
	free(train);
	close(fd);
}

/* Options of the command line, as getopt_long() wants them. */
static const struct option options[] = {
	{ "proto", required_argument, NULL, 'P' }, { "to", required_argument, NULL, 't' },
	{ "port", required_argument, NULL, 'p' },  { "start", required_argument, NULL, 's' },
	{ "stop", required_argument, NULL, 'e' },  { "cc", required_argument, NULL, 'c' },
	{ "connect", required_argument, NULL, 'C' },
	{ "rate", required_argument, NULL, 'r' },  { "payload", required_argument, NULL, 'b' },
	{ "on", required_argument, NULL, 'o' },    { "off", required_argument, NULL, 'O' },
	{ "count", required_argument, NULL, 'n' },
	{ 0 }
};

/* Takes the options of the command line into *source; returns false when one is unknown. */
static bool parse_options(struct source *source, int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'P':
			source->tcp = !strcmp(optarg, "tcp");
			if (!source->tcp && strcmp(optarg, "udp"))
				die(false, "--proto: '%s' is neither tcp nor udp", optarg);
			break;
		case 't':
			if (!inet_aton(optarg, &source->to.sin_addr))
				die(false, "--to: '%s' is not an IPv4 address", optarg);
			break;
		case 'p':
			source->to.sin_port = htons(parse_number("port", optarg, 1, 65535));
			break;
		case 's':
			source->start_ns = parse_number("start", optarg, 0, INT64_MAX);
			break;
		case 'e':
			source->stop_ns = parse_number("stop", optarg, 0, INT64_MAX);
			break;
		case 'C':
			source->connect_ns = parse_number("connect", optarg, 0, INT64_MAX);
			break;
		case 'c':
			source->cc = optarg;
			break;
		case 'r':
			source->rate = parse_number("rate", optarg, 1000, 800000000000LL);
			break;
		case 'b':
			source->payload = parse_number("payload", optarg, 1, UDP_TRAIN_BYTES);
			break;
		case 'o':
			source->on_ns = parse_number("on", optarg, 1000, 3600 * NSEC_PER_SEC);
			break;
		case 'O':
			source->off_ns = parse_number("off", optarg, 0, 3600 * NSEC_PER_SEC);
			break;
		case 'n':
			source->count = parse_number("count", optarg, 1, CONNECTIONS_MAX);
			break;
		default:
			return false;
		}
	}
	if (optind < argc)
		die(false, "source: unexpected argument '%s'", argv[optind]);
	if (!source->to.sin_addr.s_addr || !source->to.sin_port || source->stop_ns < 0)
		die(false, "source: --to, --port and --stop are required");
	if (!source->tcp && !source->rate)
		die(false, "source: --rate is required with --proto udp");
	if (source->off_ns && !source->on_ns)
		die(false, "source: --off needs --on");
	return true;
}

int source_main(int argc, char **argv)
{
	struct source source = { .cc = "reno", .payload = 1472, .tcp = true, .stop_ns = -1,
				 .connect_ns = -1, .count = 1 };

	source.to.sin_family = AF_INET;
	if (!parse_options(&source, argc, argv))
		return EXIT_FAILURE;
	if (source.tcp)
		run_tcp(&source);
	else
		run_udp(&source);
	return EXIT_SUCCESS;
}
