// SPDX-License-Identifier: Apache-2.0
/*
 * Sampler: backlog, marks and drops of one RED queue at a fixed interval, and every so often the shim's limiters, or
 * one of the two alone.
 *
 * Both come over netlink sockets opened once; samples stay in memory until the end, so a sample costs one request,
 * one answer and one sleep.
 */
#include "util.h"

#include <errno.h>
#include <getopt.h>
#include <linux/gen_stats.h>
#include <linux/genetlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ovs_shim.h"

/* Bytes of a netlink answer taken at once; the kernel sends no larger ones than it was offered. */
#define ANSWER_BYTES 32768

/* Attribute i of a message that starts at base, and whether it lies before end. */
#define ATTR_NEXT(attr) ((const struct nlattr *)((const char *)(attr) + NLA_ALIGN((attr)->nla_len)))

/* One reading of the queue. */
struct queue_sample {
	int64_t t_ns;		/* CLOCK_MONOTONIC of the reading */
	uint64_t bytes;		/* sent since the queue was made */
	uint32_t backlog;	/* bytes waiting */
	uint32_t marks;		/* since the queue was made, as the three below */
	uint32_t early;		/* dropped by RED */
	uint32_t pdrop;		/* dropped because the queue was full */
	uint32_t other;		/* dropped by other means */
};

/* One reading of one limiter. */
struct limiter_sample {
	int64_t t_ns;			/* CLOCK_MONOTONIC of the reading */
	uint32_t vm;			/* ifindex */
	uint32_t uplink;		/* ifindex */
	uint64_t rate;			/* bytes/s */
	uint64_t share;			/* bytes/s */
	uint64_t sent_rate;		/* bytes/s */
	uint64_t drops;			/* packets, police and horizon */
	uint8_t active;			/* sent within the last T_o */
	uint8_t congested;		/* told of congestion within the last T_c */
};

/* The sampler. */
struct sampler {
	int rtnl;			/* rtnetlink socket */
	int genl;			/* generic netlink socket, -1 without limiters */
	uint16_t family;		/* of ovs_shim */
	uint32_t sequence;		/* of the last request */
	int ifindex;			/* device of the queue */
	uint32_t handle;		/* of the queue */
	struct queue_sample *queue;	/* samples taken */
	struct limiter_sample *limiters;	/* samples taken, n_limiters of room_limiters */
	size_t n_limiters;
	size_t room_limiters;
	char answer[ANSWER_BYTES];	/* last datagram received */
};

/* Returns a netlink socket of that protocol. */
static int open_netlink(int protocol)
{
	struct sockaddr_nl local = { .nl_family = AF_NETLINK };
	int fd = socket(AF_NETLINK, SOCK_RAW, protocol);

	if (fd < 0 || bind(fd, (struct sockaddr *)&local, sizeof(local)))
		die(true, "netlink socket");
	return fd;
}

/* Sends a request; the header's sequence is filled in. */
static void request(struct sampler *sampler, int fd, struct nlmsghdr *header)
{
	header->nlmsg_seq = ++sampler->sequence;
	if (send(fd, header, header->nlmsg_len, 0) < 0)
		die(true, "netlink send");
}

/* Receives one datagram of answers; returns its length. */
static int receive(struct sampler *sampler, int fd)
{
	ssize_t len = recv(fd, sampler->answer, sizeof(sampler->answer), 0);

	if (len < 0)
		die(true, "netlink receive");
	return len;
}

/* Ends the program if header is an error answer; what names the request. */
static void refuse_error(const struct nlmsghdr *header, const char *what)
{
	if (header->nlmsg_type == NLMSG_ERROR) {
		errno = -((const struct nlmsgerr *)NLMSG_DATA(header))->error;
		die(true, "%s", what);
	}
}

/* Returns the attribute of that type among len bytes at first, NULL if it is not there. */
static const struct nlattr *find_attr(const void *first, int len, int type)
{
	const struct nlattr *attr = first;

	while (len >= (int)sizeof(*attr) && attr->nla_len >= sizeof(*attr) && attr->nla_len <= len) {
		if ((attr->nla_type & NLA_TYPE_MASK) == type)
			return attr;
		len -= NLA_ALIGN(attr->nla_len);
		attr = ATTR_NEXT(attr);
	}
	return NULL;
}

/* Copies an attribute's value into *value of size bytes; what is missing stays 0. */
static void copy_attr(void *value, size_t size, const void *first, int len, int type)
{
	const struct nlattr *attr = find_attr(first, len, type);

	memset(value, 0, size);
	if (attr && attr->nla_len - NLA_HDRLEN < (int)size)
		size = attr->nla_len - NLA_HDRLEN;
	if (attr)
		memcpy(value, (const char *)attr + NLA_HDRLEN, size);
}

/* Reads the queue once. */
static void sample_queue(struct sampler *sampler, struct queue_sample *sample)
{
	struct {
		struct nlmsghdr header;
		struct tcmsg tc;
	} get = {
		.header = { .nlmsg_len = sizeof(get), .nlmsg_type = RTM_GETQDISC,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_ECHO },
		.tc = { .tcm_ifindex = sampler->ifindex, .tcm_handle = sampler->handle },
	};
	const struct nlmsghdr *header = (const void *)sampler->answer;
	struct gnet_stats_basic basic;
	struct gnet_stats_queue queue;
	struct tc_red_xstats red;
	const struct nlattr *stats;
	const char *first;
	int len;

	request(sampler, sampler->rtnl, &get.header);
	receive(sampler, sampler->rtnl);
	refuse_error(header, "the queue named by --dev and --handle");
	first = (const char *)NLMSG_DATA(header) + NLMSG_ALIGN(sizeof(struct tcmsg));
	len = header->nlmsg_len - NLMSG_LENGTH(NLMSG_ALIGN(sizeof(struct tcmsg)));
	stats = find_attr(first, len, TCA_STATS2);
	if (!stats)
		die(false, "the queue has no statistics");
	first = (const char *)stats + NLA_HDRLEN;
	len = stats->nla_len - NLA_HDRLEN;
	copy_attr(&basic, sizeof(basic), first, len, TCA_STATS_BASIC);
	copy_attr(&queue, sizeof(queue), first, len, TCA_STATS_QUEUE);
	copy_attr(&red, sizeof(red), first, len, TCA_STATS_APP);
	*sample = (struct queue_sample){
		.t_ns = now_ns(), .bytes = basic.bytes, .backlog = queue.backlog, .marks = red.marked,
		.early = red.early, .pdrop = red.pdrop, .other = red.other,
	};
}

/* Returns the id of generic netlink family name. */
static uint16_t find_family(struct sampler *sampler, const char *name)
{
	struct {
		struct nlmsghdr header;
		struct genlmsghdr genl;
		struct nlattr attr;
		char name[GENL_NAMSIZ];
	} get = {
		.header = { .nlmsg_len = sizeof(get), .nlmsg_type = GENL_ID_CTRL,
			    .nlmsg_flags = NLM_F_REQUEST },
		.genl = { .cmd = CTRL_CMD_GETFAMILY, .version = 1 },
		.attr = { .nla_len = sizeof(get.attr) + sizeof(get.name),
			  .nla_type = CTRL_ATTR_FAMILY_NAME },
	};
	const struct nlmsghdr *header = (const void *)sampler->answer;
	uint16_t id;

	strncpy(get.name, name, sizeof(get.name) - 1);
	request(sampler, sampler->genl, &get.header);
	receive(sampler, sampler->genl);
	refuse_error(header, "generic netlink family of the shim");
	copy_attr(&id, sizeof(id), (const char *)NLMSG_DATA(header) + GENL_HDRLEN,
		  header->nlmsg_len - NLMSG_LENGTH(GENL_HDRLEN), CTRL_ATTR_FAMILY_ID);
	return id;
}

/* Stores one limiter of a dump. */
static void store_limiter(struct sampler *sampler, const struct nlmsghdr *header, int64_t t_ns)
{
	const char *first = (const char *)NLMSG_DATA(header) + GENL_HDRLEN;
	int len = header->nlmsg_len - NLMSG_LENGTH(GENL_HDRLEN);
	struct limiter_sample *sample;

	if (sampler->n_limiters == sampler->room_limiters) {
		sampler->room_limiters = sampler->room_limiters * 2 + 1024;
		sampler->limiters = realloc(sampler->limiters,
					    sampler->room_limiters * sizeof(*sampler->limiters));
		if (!sampler->limiters)
			die(false, "no memory for %zu samples", sampler->room_limiters);
	}
	sample = &sampler->limiters[sampler->n_limiters++];
	sample->t_ns = t_ns;
	copy_attr(&sample->vm, sizeof(sample->vm), first, len, OVS_SHIM_LIMITER_VM);
	copy_attr(&sample->uplink, sizeof(sample->uplink), first, len, OVS_SHIM_LIMITER_UPLINK);
	copy_attr(&sample->rate, sizeof(sample->rate), first, len, OVS_SHIM_LIMITER_RATE);
	copy_attr(&sample->share, sizeof(sample->share), first, len, OVS_SHIM_LIMITER_SHARE);
	copy_attr(&sample->sent_rate, sizeof(sample->sent_rate), first, len,
		  OVS_SHIM_LIMITER_SENT_RATE);
	copy_attr(&sample->drops, sizeof(sample->drops), first, len, OVS_SHIM_LIMITER_DROPS);
	copy_attr(&sample->active, sizeof(sample->active), first, len, OVS_SHIM_LIMITER_ACTIVE);
	copy_attr(&sample->congested, sizeof(sample->congested), first, len,
		  OVS_SHIM_LIMITER_CONGESTED);
}

/* Reads all limiters once. */
static void sample_limiters(struct sampler *sampler)
{
	struct {
		struct nlmsghdr header;
		struct genlmsghdr genl;
	} dump = {
		.header = { .nlmsg_len = sizeof(dump), .nlmsg_type = sampler->family,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.genl = { .cmd = OVS_SHIM_CMD_LIMITER_GET, .version = OVS_SHIM_VERSION },
	};
	int64_t t_ns = now_ns();

	request(sampler, sampler->genl, &dump.header);
	for (;;) {
		int len = receive(sampler, sampler->genl);

		for (const struct nlmsghdr *header = (const void *)sampler->answer;
		     NLMSG_OK(header, (unsigned int)len); header = NLMSG_NEXT(header, len)) {
			if (header->nlmsg_type == NLMSG_DONE)
				return;
			refuse_error(header, "dump of limiters");
			store_limiter(sampler, header, t_ns);
		}
	}
}

/* Writes the n queue samples, one a line. */
static void write_queue(const struct sampler *sampler, int n, const char *path)
{
	FILE *out = open_output(path);

	fputs("t_ns bytes backlog marks early pdrop other\n", out);
	for (int i = 0; i < n; i++) {
		const struct queue_sample *sample = &sampler->queue[i];

		fprintf(out, "%lld %llu %u %u %u %u %u\n", (long long)sample->t_ns,
			(unsigned long long)sample->bytes, sample->backlog, sample->marks,
			sample->early, sample->pdrop, sample->other);
	}
	close_output(out, path);
}

/* Writes the limiter samples, one a line. */
static void write_limiters(const struct sampler *sampler, const char *path)
{
	FILE *out = open_output(path);

	fputs("t_ns vm uplink rate share sent_rate drops active congested\n", out);
	for (size_t i = 0; i < sampler->n_limiters; i++) {
		const struct limiter_sample *sample = &sampler->limiters[i];

		fprintf(out, "%lld %u %u %llu %llu %llu %llu %u %u\n", (long long)sample->t_ns,
			sample->vm, sample->uplink, (unsigned long long)sample->rate,
			(unsigned long long)sample->share, (unsigned long long)sample->sent_rate,
			(unsigned long long)sample->drops, sample->active, sample->congested);
	}
	close_output(out, path);
}

/* Options of the command line, as getopt_long() wants them. */
static const struct option options[] = {
	{ "dev", required_argument, NULL, 'd' },      { "handle", required_argument, NULL, 'h' },
	{ "start", required_argument, NULL, 's' },    { "interval", required_argument, NULL, 'i' },
	{ "count", required_argument, NULL, 'n' },    { "out", required_argument, NULL, 'o' },
	{ "limiters", required_argument, NULL, 'l' }, { "limiters-every", required_argument, NULL, 'e' },
	{ 0 }
};

/* What a sampler is asked for. */
struct sampling {
	const char *queue_path;		/* file for samples of the queue; NULL: none are taken */
	const char *limiters_path;	/* file for samples of limiters; NULL: none are taken */
	int64_t start_ns;		/* time of the first sample */
	int64_t interval_ns;		/* time between two samples of the queue */
	int count;			/* samples of the queue */
	int every;			/* limiters are sampled with each every-th of these */
};

/* Takes the options of the command line into *sampler and *work; returns false when one is unknown. */
static bool parse_options(struct sampler *sampler, struct sampling *work, int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'd':
			sampler->ifindex = if_nametoindex(optarg);
			if (!sampler->ifindex)
				die(true, "--dev: '%s'", optarg);
			break;
		case 'h':
			sampler->handle = parse_number("handle", optarg, 1, 65535) << 16;
			break;
		case 's':
			work->start_ns = parse_number("start", optarg, 0, INT64_MAX);
			break;
		case 'i':
			work->interval_ns = parse_number("interval", optarg, 1000, 3600 * NSEC_PER_SEC);
			break;
		case 'n':
			work->count = parse_number("count", optarg, 1, 100000000);
			break;
		case 'o':
			work->queue_path = optarg;
			break;
		case 'l':
			work->limiters_path = optarg;
			break;
		case 'e':
			work->every = parse_number("limiters-every", optarg, 1, 1000000);
			break;
		default:
			return false;
		}
	}
	if (optind < argc)
		die(false, "sampler: unexpected argument '%s'", argv[optind]);
	if (!work->interval_ns || !work->count)
		die(false, "sampler: --interval and --count are required");
	if ((sampler->ifindex || sampler->handle || work->queue_path || !work->limiters_path) &&
	    (!sampler->ifindex || !sampler->handle || !work->queue_path))
		die(false, "sampler: without --limiters --dev, --handle and --out are required, and "
			   "with it all three or none");
	return true;
}

int sampler_main(int argc, char **argv)
{
	struct sampler *sampler = alloc(1, sizeof(*sampler));
	struct sampling work = { .every = 1 };

	if (!parse_options(sampler, &work, argc, argv))
		return EXIT_FAILURE;
	if (work.queue_path) {
		sampler->queue = alloc(work.count, sizeof(*sampler->queue));
		sampler->rtnl = open_netlink(NETLINK_ROUTE);
	}
	sampler->genl = -1;
	if (work.limiters_path) {
		sampler->genl = open_netlink(NETLINK_GENERIC);
		sampler->family = find_family(sampler, OVS_SHIM_FAMILY);
	}
	for (int i = 0; i < work.count; i++) {
		sleep_until(work.start_ns + i * work.interval_ns);
		if (work.queue_path)
			sample_queue(sampler, &sampler->queue[i]);
		if (work.limiters_path && i % work.every == 0)
			sample_limiters(sampler);
	}
	if (work.queue_path)
		write_queue(sampler, work.count, work.queue_path);
	if (work.limiters_path)
		write_limiters(sampler, work.limiters_path);
	return EXIT_SUCCESS;
}
