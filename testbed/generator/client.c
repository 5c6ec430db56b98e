// SPDX-License-Identifier: Apache-2.0
/*
 * Client: requests to a server over TCP, and how long each took.
 *
 * A request is so many bytes, its answer so many.  Requests either go over connections that stay (calls), or each
 * over one of its own, closed on our side behind the request and on the server's behind the answer (short flows).
 * With an interval they are due at times of their own, whether earlier ones ended or not: a request waits for a
 * free connection, and its time counts from when it was due.  Without one, each connection begins its next request
 * as soon as the last has ended.  Sizes and times follow from the seed alone.  The client ends at stop, or when
 * as many requests as it was told have ended.
 *
 * With a schedule each of its lines is a request: when it is due (ns from start, in order), and its bytes.
 * With contents requests are the pieces of a file, one after the other and from the beginning again, so that servers
 * of a protocol can be asked; else they are zeros.
 */
#define _GNU_SOURCE
#include "util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Most connections at a time. */
#define CONNECTIONS_MAX 4096

/* Connections served between two waits. */
#define EVENTS 64

/* A connection that broke, or was refused, is tried again after so many ns. */
#define RETRY_NS (NSEC_PER_SEC / 10)

/* Bytes handed to the kernel at once. */
#define PIECE_BYTES (1 << 20)

/* Most requests in a schedule. */
#define SCHEDULE_MAX 1000000

/* A line of the schedule. */
struct due {
	int64_t at_ns;		/* from start */
	int64_t size;		/* bytes of the request */
};

/* A request that has ended, or was not over at stop. */
struct record {
	int64_t due_ns;		/* when it should have left */
	int64_t size;		/* bytes of the request */
	int64_t took_ns;	/* from then to the last byte of the answer; -1: not over */
};

/* A connection and the request it carries. */
struct slot {
	int fd;			/* -1: closed */
	bool busy;		/* carries a request */
	bool blocked;		/* waits for room in the socket, or for the handshake */
	int64_t due_ns;		/* of the request */
	int64_t size;		/* bytes of the request */
	int64_t to_send;	/* of them not yet handed to the kernel */
	const char *bytes;	/* size of them, where there are contents; else NULL */
	int64_t to_read;	/* bytes of the answer still to come */
	int64_t retry_ns;	/* opened again then; 0: not waiting for that */
	int lowat;		/* bytes that wake us */
};

/* What the command line asked for, and what became of it. */
struct client {
	struct sockaddr_in to;	/* server */
	int64_t connect_ns;	/* connections that stay are opened then; -1: at start */
	int64_t start_ns;	/* first request is due */
	int64_t stop_ns;	/* nothing is sent or read any more */
	int64_t size;		/* smallest request, bytes */
	int64_t size_max;	/* largest request, bytes; evenly distributed between the two */
	int64_t reply;		/* bytes of an answer */
	int64_t left;		/* requests still to begin */
	int64_t interval_ns;	/* mean time from one request to the next; 0: see above */
	const char *cc;		/* congestion control */
	struct due *schedule;	/* n_scheduled requests to make; NULL: by size and interval_ns */
	int64_t n_scheduled;	/* number of them */
	int64_t n_begun;	/* of the schedule, those that have begun */
	bool poisson;		/* times between requests are exponential, else equal */
	bool anew;		/* each request has a connection of its own */
	uint64_t random;	/* state of the random numbers */
	int64_t next_ns;	/* the next request is due; INT64_MAX: none */
	int epoll;		/* watches the slots; data is the slot's number */
	struct slot *slots;	/* count of them */
	int count;		/* connections at a time */
	struct record *records;	/* n of room */
	size_t n;		/* records taken */
	size_t room;		/* records there is memory for */
	char *piece;		/* PIECE_BYTES to send */
	char *contents;		/* of n_contents requests, one after the other; NULL: of none */
	int64_t n_contents;	/* number of them */
	int64_t n_given;	/* requests that have been given theirs */
};

/* Returns the next random number (xorshift64*). */
static uint64_t draw(struct client *client)
{
	client->random ^= client->random >> 12;
	client->random ^= client->random << 25;
	client->random ^= client->random >> 27;
	return client->random * 0x2545f4914f6cdd1dULL;
}

/* Returns whether a connection begins its next request when the last has ended. */
static bool closed_loop(const struct client *client)
{
	return !client->interval_ns && !client->schedule;
}

/* Returns the size of the next request. */
static int64_t draw_size(struct client *client)
{
	uint64_t range = client->size_max - client->size + 1;

	if (client->schedule)
		return client->schedule[client->n_begun++].size;
	return client->size + (range > 1 ? draw(client) % range : 0);
}

/* Returns what the next request consists of; NULL: zeros. */
static const char *draw_bytes(struct client *client)
{
	if (!client->contents)
		return NULL;
	return client->contents + client->n_given++ % client->n_contents * client->size;
}

/* Moves on to when the next request is due. */
static void draw_due(struct client *client)
{
	double part = 1;

	if (client->schedule) {
		if (client->left)
			client->next_ns = client->start_ns + client->schedule[client->n_begun].at_ns;
		return;
	}
	if (client->poisson)
		part = -log(((double)(draw(client) >> 11) + 1) / 9007199254740993.0);
	if (client->left)
		client->next_ns += (int64_t)(client->interval_ns * part);
}

/* Notes what became of a slot's request. */
static void note(struct client *client, const struct slot *slot, int64_t took_ns)
{
	if (client->n == client->room) {
		client->room = client->room * 2 + 1024;
		client->records = realloc(client->records, client->room * sizeof(struct record));
		if (!client->records)
			die(false, "no memory for %zu requests", client->room);
	}
	client->records[client->n++] = (struct record){ slot->due_ns, slot->size, took_ns };
}

/* Watches a slot's connection for input, and for room when it is blocked. */
static void watch(struct client *client, struct slot *slot, int operation)
{
	struct epoll_event event = { .events = EPOLLIN | (slot->blocked ? EPOLLOUT : 0u),
				     .data.u32 = slot - client->slots };

	if (epoll_ctl(client->epoll, operation, slot->fd, &event))
		die(true, "epoll_ctl");
}

/* Opens a slot's connection. */
static void open_slot(struct client *client, struct slot *slot)
{
	int on = 1;

	slot->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (slot->fd < 0)
		die(true, "socket");
	if (setsockopt(slot->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		die(true, "TCP_NODELAY");
	if (setsockopt(slot->fd, IPPROTO_TCP, TCP_CONGESTION, client->cc, strlen(client->cc)))
		die(true, "--cc: congestion control '%s'", client->cc);
	if (connect(slot->fd, (const struct sockaddr *)&client->to, sizeof(client->to)) &&
	    errno != EINPROGRESS)
		die(true, "connect to %s", inet_ntoa(client->to.sin_addr));
	slot->retry_ns = 0;
	slot->lowat = 1;
	slot->blocked = true;
	watch(client, slot, EPOLL_CTL_ADD);
}

/* Closes a slot's connection with a reset. */
static void close_slot(struct slot *slot)
{
	struct linger reset = { .l_onoff = 1, .l_linger = 0 };

	if (slot->fd < 0)
		return;
	setsockopt(slot->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(slot->fd);
	slot->fd = -1;
}

/* Prepares a slot's connection for the request it carries, from the first byte on. */
static void begin(struct client *client, struct slot *slot)
{
	slot->to_send = slot->size;
	slot->to_read = client->reply;
	if (slot->fd < 0)
		open_slot(client, slot);
}

/* Closes a broken connection, to open it again later; its request, if any, begins anew then. */
static void mend(struct slot *slot)
{
	fprintf(stderr, "generator: connection lost: %s\n", strerror(errno));
	close_slot(slot);
	slot->retry_ns = now_ns() + RETRY_NS;
}

/* Hands the kernel what it has room for. */
static void feed(struct client *client, struct slot *slot)
{
	bool before = slot->blocked;

	slot->blocked = false;
	while (slot->busy && slot->to_send && !slot->blocked) {
		int64_t size = slot->to_send < PIECE_BYTES ? slot->to_send : PIECE_BYTES;
		const char *from = slot->bytes ? slot->bytes + slot->size - slot->to_send : client->piece;
		ssize_t sent = send(slot->fd, from, size, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN) {
			mend(slot);
			return;
		}
		slot->to_send -= sent > 0 ? sent : 0;
		slot->blocked = slot->to_send > 0;
		if (!slot->to_send && client->anew && shutdown(slot->fd, SHUT_WR)) {
			mend(slot);
			return;
		}
	}
	if (slot->blocked != before)
		watch(client, slot, EPOLL_CTL_MOD);
	if (slot->busy && !slot->to_send)
		wake_at(slot->fd, slot->to_read, &slot->lowat);
}

/* Gives a free slot a request, while there are any left. */
static void start(struct client *client, struct slot *slot, int64_t due_ns)
{
	if (!client->left)
		return;
	if (!--client->left)
		client->next_ns = INT64_MAX;
	slot->busy = true;
	slot->due_ns = due_ns;
	slot->size = draw_size(client);
	slot->bytes = draw_bytes(client);
	begin(client, slot);
	/* A connection under way is fed when it stands. */
	if (!slot->blocked && !slot->retry_ns)
		feed(client, slot);
}

/* Reads what has come of an answer. */
static void take(struct client *client, struct slot *slot)
{
	ssize_t got = recv(slot->fd, NULL, 1 << 24, MSG_TRUNC);

	if (got < 0 && errno == EAGAIN)
		return;
	if (got <= 0 || !slot->busy || got > slot->to_read) {
		mend(slot);
		return;
	}
	slot->to_read -= got;
	if (slot->to_read) {
		wake_at(slot->fd, slot->to_read, &slot->lowat);
		return;
	}
	note(client, slot, now_ns() - slot->due_ns);
	slot->busy = false;
	if (client->anew)
		close_slot(slot);
	if (closed_loop(client))
		start(client, slot, now_ns());
}

/* Gives requests that are due to free slots, in order. */
static void assign(struct client *client)
{
	for (int i = 0; i < client->count && client->next_ns <= now_ns(); i++) {
		if (client->slots[i].busy || client->slots[i].retry_ns)
			continue;
		start(client, &client->slots[i], client->next_ns);
		draw_due(client);
	}
}

/* Opens again the connections whose time has come; returns when the next one's comes. */
static int64_t reopen(struct client *client)
{
	int64_t next_ns = INT64_MAX;

	for (int i = 0; i < client->count; i++) {
		struct slot *slot = &client->slots[i];

		if (slot->retry_ns && slot->retry_ns <= now_ns())
			begin(client, slot);
		if (slot->retry_ns && slot->retry_ns < next_ns)
			next_ns = slot->retry_ns;
	}
	return next_ns;
}

/* Returns whether a slot is free for a request. */
static bool any_free(const struct client *client)
{
	for (int i = 0; i < client->count; i++)
		if (!client->slots[i].busy && !client->slots[i].retry_ns)
			return true;
	return false;
}

/* Returns whether nothing is under way nor will be. */
static bool all_done(const struct client *client)
{
	if (client->left)
		return false;
	for (int i = 0; i < client->count; i++)
		if (client->slots[i].busy)
			return false;
	return true;
}

/* Serves the connections until something is due. */
static void serve(struct client *client, int64_t until_ns)
{
	struct epoll_event events[EVENTS];
	int64_t left = until_ns - now_ns();
	struct timespec wait = { left / NSEC_PER_SEC, left % NSEC_PER_SEC };
	int n;

	if (left < 0)
		wait = (struct timespec){ 0, 0 };
	n = epoll_pwait2(client->epoll, events, EVENTS, &wait, NULL);
	if (n < 0 && errno != EINTR)
		die(true, "epoll_pwait2");
	for (int i = 0; i < n; i++) {
		struct slot *slot = &client->slots[events[i].data.u32];

		if (slot->fd >= 0 && (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)))
			take(client, slot);
		if (slot->fd >= 0 && slot->blocked && (events[i].events & EPOLLOUT))
			feed(client, slot);
	}
}

/* Sends requests from start to stop. */
static void run(struct client *client)
{
	if (!client->anew && client->connect_ns >= 0) {
		sleep_until(client->connect_ns);
		for (int i = 0; i < client->count; i++)
			open_slot(client, &client->slots[i]);
		while (now_ns() < client->start_ns)
			serve(client, client->start_ns);
	}
	sleep_until(client->start_ns);
	client->next_ns = client->start_ns + (client->schedule ? client->schedule[0].at_ns : 0);
	if (closed_loop(client)) {
		client->next_ns = INT64_MAX;
		for (int i = 0; i < client->count; i++)
			start(client, &client->slots[i], client->start_ns);
	}
	while (now_ns() < client->stop_ns && !all_done(client)) {
		int64_t until_ns = reopen(client);

		assign(client);
		if (client->next_ns < until_ns && any_free(client))
			until_ns = client->next_ns;
		serve(client, until_ns < client->stop_ns ? until_ns : client->stop_ns);
	}
	for (int i = 0; i < client->count; i++)
		if (client->slots[i].busy)
			note(client, &client->slots[i], -1);
}

/* Reads the schedule at path. */
static void read_schedule(struct client *client, const char *path)
{
	FILE *file = fopen(path, "r");
	long long at, size;

	if (!file)
		die(true, "--schedule %s", path);
	client->schedule = alloc(SCHEDULE_MAX, sizeof(*client->schedule));
	while (client->n_scheduled < SCHEDULE_MAX && fscanf(file, "%lld %lld", &at, &size) == 2) {
		int64_t n = client->n_scheduled++;

		if (at < (n ? client->schedule[n - 1].at_ns : 0) || size < 1)
			die(false, "--schedule %s, line %lld: want a time no earlier than the last, and 1 byte or more",
			    path, (long long)n + 1);
		client->schedule[n] = (struct due){ at, size };
	}
	if (!feof(file) || !client->n_scheduled)
		die(false, "--schedule %s, line %lld: want two numbers, and 1 to %d lines", path,
		    (long long)client->n_scheduled + 1, SCHEDULE_MAX);
	fclose(file);
	client->left = client->n_scheduled;
}

/* Reads contents of requests, of size bytes each, from path. */
static void read_contents(struct client *client, const char *path)
{
	FILE *file = fopen(path, "r");
	long bytes;

	if (!file || fseek(file, 0, SEEK_END))
		die(true, "--contents %s", path);
	bytes = ftell(file);
	if (bytes < 1 || bytes % client->size || client->size_max != client->size || client->schedule)
		die(false, "--contents %s: want requests of --size bytes each, and no --size-max or --schedule",
		    path);
	rewind(file);
	client->contents = alloc(1, bytes);
	client->n_contents = bytes / client->size;
	if (fread(client->contents, 1, bytes, file) != (size_t)bytes)
		die(true, "--contents %s", path);
	fclose(file);
}

/* Writes one line a request. */
static void write_records(const struct client *client, const char *path)
{
	FILE *out = open_output(path);

	fputs("due_ns size took_ns\n", out);
	for (size_t i = 0; i < client->n; i++)
		fprintf(out, "%lld %lld %lld\n", (long long)client->records[i].due_ns,
			(long long)client->records[i].size, (long long)client->records[i].took_ns);
	close_output(out, path);
}

/* Options of the command line, as getopt_long() wants them. */
static const struct option options[] = {
	{ "to", required_argument, NULL, 't' },       { "port", required_argument, NULL, 'p' },
	{ "start", required_argument, NULL, 's' },    { "stop", required_argument, NULL, 'e' },
	{ "connect", required_argument, NULL, 'C' },  { "cc", required_argument, NULL, 'c' },
	{ "size", required_argument, NULL, 'z' },     { "size-max", required_argument, NULL, 'Z' },
	{ "reply", required_argument, NULL, 'r' },    { "interval", required_argument, NULL, 'i' },
	{ "count", required_argument, NULL, 'n' },    { "seed", required_argument, NULL, 'S' },
	{ "out", required_argument, NULL, 'o' },      { "poisson", no_argument, NULL, 'P' },
	{ "anew", no_argument, NULL, 'a' },	      { "requests", required_argument, NULL, 'R' },
	{ "schedule", required_argument, NULL, 'd' }, { "contents", required_argument, NULL, 'b' },
	{ 0 }
};

/* Paths of the files that a client reads and writes. */
struct client_files {
	const char *records;	/* what is written: a line a request */
	const char *schedule;	/* --schedule; NULL: none */
	const char *contents;	/* --contents; NULL: none */
};

/* Takes the options of the command line into *client and *files; returns false when one is unknown. */
static bool parse_options(struct client *client, struct client_files *files, int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 't':
			if (!inet_aton(optarg, &client->to.sin_addr))
				die(false, "--to: '%s' is not an IPv4 address", optarg);
			break;
		case 'p':
			client->to.sin_port = htons(parse_number("port", optarg, 1, 65535));
			break;
		case 's':
			client->start_ns = parse_number("start", optarg, 0, INT64_MAX);
			break;
		case 'e':
			client->stop_ns = parse_number("stop", optarg, 0, INT64_MAX);
			break;
		case 'C':
			client->connect_ns = parse_number("connect", optarg, 0, INT64_MAX);
			break;
		case 'c':
			client->cc = optarg;
			break;
		case 'z':
			client->size = parse_number("size", optarg, 1, INT64_MAX >> 1);
			break;
		case 'Z':
			client->size_max = parse_number("size-max", optarg, 1, INT64_MAX >> 1);
			break;
		case 'r':
			client->reply = parse_number("reply", optarg, 1, INT64_MAX >> 1);
			break;
		case 'i':
			client->interval_ns = parse_number("interval", optarg, 0, 3600 * NSEC_PER_SEC);
			break;
		case 'n':
			client->count = parse_number("count", optarg, 1, CONNECTIONS_MAX);
			break;
		case 'R':
			client->left = parse_number("requests", optarg, 1, INT64_MAX);
			break;
		case 'S':
			/* The state must never be 0. */
			client->random = (uint64_t)parse_number("seed", optarg, 0, INT64_MAX) * 2 + 1;
			break;
		case 'o':
			files->records = optarg;
			break;
		case 'd':
			files->schedule = optarg;
			break;
		case 'b':
			files->contents = optarg;
			break;
		case 'P':
			client->poisson = true;
			break;
		case 'a':
			client->anew = true;
			break;
		default:
			return false;
		}
	}
	if (optind < argc)
		die(false, "client: unexpected argument '%s'", argv[optind]);
	return true;
}

int client_main(int argc, char **argv)
{
	struct client client = { .cc = "reno", .stop_ns = -1, .connect_ns = -1, .size = 1, .reply = 1,
				 .count = 1, .random = 1, .left = INT64_MAX };
	struct client_files files = { 0 };

	client.to.sin_family = AF_INET;
	if (!parse_options(&client, &files, argc, argv))
		return EXIT_FAILURE;
	if (!client.to.sin_addr.s_addr || !client.to.sin_port || client.stop_ns < 0 || !files.records)
		die(false, "client: --to, --port, --stop and --out are required");
	if (files.schedule)
		read_schedule(&client, files.schedule);
	if (client.size_max < client.size)
		client.size_max = client.size;
	if (files.contents)
		read_contents(&client, files.contents);
	client.epoll = epoll_create1(0);
	if (client.epoll < 0)
		die(true, "epoll_create1");
	client.piece = alloc(1, PIECE_BYTES);
	client.slots = alloc(client.count, sizeof(struct slot));
	for (int i = 0; i < client.count; i++)
		client.slots[i].fd = -1;
	for (int i = 0; i < 8; i++)
		draw(&client);
	run(&client);
	write_records(&client, files.records);
	return EXIT_SUCCESS;
}
