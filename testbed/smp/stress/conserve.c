// SPDX-License-Identifier: Apache-2.0
/*
 * What a limiter lets pass while all CPUs hammer it.
 *
 * A ring of the other uplink's packet socket keeps the time at which each packet left the limiter:
 * the stamp is taken by the CPU that carried it, before the packet waits in any queue. So in each
 * interval [t_i, t_j] of packets of length L
 *
 *     s_i + ... + s_j <= B + R*(t_j - t_i) + cpus * L
 *
 * where the last term is what each CPU may have between the limiter's clock and the stamp. The
 * uplink has no queue then: one CPU would send what others queued while it was away. A pacing
 * limiter gives packets departure times, and fq does just that: for it only intervals that begin
 * with the run are judged, which lateness cannot make worse.
 */
#define _GNU_SOURCE
#include "stress.h"

#include <arpa/inet.h>
#include <limits.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ovs_shim.h"

/* The ring: packets it holds, bytes of a slot, bytes of a block of slots. */
#define RING_PACKETS 65536
#define RING_SLOT 128
#define RING_BLOCK 65536

/* Time for what is under way to arrive. */
#define DRAIN_NS (300 * NSEC_PER_MSEC)

/*
 * Time for which all CPUs send to see how fast they are; the rate is a quarter of that, between
 * these, bytes/s.
 */
#define PROBE_NS (700 * NSEC_PER_MSEC)
#define RATE_MIN 2000
#define RATE_MAX 400000

/* B where packets wait, at such rates: two full packets, and what needs no look at the clock. */
#define PACED_BURST (3028 + 3028 / 8)

/* One experiment. */
struct trial {
	const char *name;	/* for the report */
	const char *law;	/* of the VM; NULL: all there are, in turn */
	uint32_t limiter;	/* enum ovs_shim_limiter */
	uint32_t burst;		/* B, bytes */
	uint32_t bytes;		/* L, of a packet */
	bool rounds;		/* each CPU sends twice what the bucket holds, once it is full */
	bool change;		/* ceiling and weight change meanwhile */
};

/*
 * The trials. A full bucket is what two CPUs may spend twice, so one trial lets it fill again and
 * again.
 */
static const struct trial trials[] = {
	{ "steady", "static", OVS_SHIM_LIMITER_POLICE, 20000, 600, false, false },
	{ "full-bucket", "static", OVS_SHIM_LIMITER_POLICE, 12000, 600, true, false },
	{ "small-packets", "static", OVS_SHIM_LIMITER_POLICE, 3028, 100, true, false },
	{ "rates-change", "static", OVS_SHIM_LIMITER_POLICE, 12000, 600, false, true },
	{ "laws-change", NULL, OVS_SHIM_LIMITER_POLICE, 12000, 600, false, true },
	{ "paced", "static", OVS_SHIM_LIMITER_PACE, PACED_BURST, 600, false, false },
};

/* A packet that arrived. */
struct arrival {
	int64_t at_ns;		/* CLOCK_REALTIME */
	uint32_t bytes;		/* with the Ethernet header */
};

/* The ring. */
struct ring {
	int fd;			/* packet socket */
	char *slots;		/* mapped */
};

/* Opens a ring on a device. */
static void ring_open(struct ring *ring, int ns, const char *device)
{
	struct tpacket_req request = {
		.tp_block_size = RING_BLOCK, .tp_block_nr = RING_PACKETS * RING_SLOT / RING_BLOCK,
		.tp_frame_size = RING_SLOT, .tp_frame_nr = RING_PACKETS,
	};
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	int version = TPACKET_V2, one = 1;

	namespace_enter(ns);
	address.sll_ifindex = (int)if_nametoindex(device);
	ring->fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (ring->fd < 0 ||
	    setsockopt(ring->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
	    setsockopt(ring->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)) ||
	    setsockopt(ring->fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one)))
		die(true, "ring");
	ring->slots = mmap(NULL, (size_t)RING_PACKETS * RING_SLOT, PROT_READ | PROT_WRITE,
			   MAP_SHARED, ring->fd, 0);
	if (ring->slots == MAP_FAILED ||
	    bind(ring->fd, (struct sockaddr *)&address, sizeof(address)))
		die(true, "ring");
}

/* Closes a ring. */
static void ring_close(struct ring *ring)
{
	munmap(ring->slots, (size_t)RING_PACKETS * RING_SLOT);
	close(ring->fd);
}

/* Compares two arrivals by time. */
static int by_time(const void *a, const void *b)
{
	int64_t first = ((const struct arrival *)a)->at_ns,
		second = ((const struct arrival *)b)->at_ns;

	return (first > second) - (first < second);
}

/*
 * Takes the datagrams that arrived, all stamped if that is asked for, out of the ring, in order of
 * time; returns how many.
 */
static int ring_take(struct ring *ring, struct arrival *arrivals, bool stamped)
{
	struct tpacket_stats stats;
	socklen_t bytes = sizeof(stats);
	int n = 0;

	for (int i = 0; i < RING_PACKETS; i++) {
		struct tpacket2_hdr *head =
			(struct tpacket2_hdr *)(ring->slots + (size_t)i * RING_SLOT);
		const struct sockaddr_ll *from =
			(const void *)((char *)head + TPACKET_ALIGN(sizeof(*head)));
		const uint8_t *frame = (const uint8_t *)head + head->tp_mac;

		if (stamped && !(head->tp_status & TP_STATUS_USER))
			break;
		if (from->sll_pkttype == PACKET_OUTGOING || from->sll_protocol != htons(ETH_P_IP) ||
		    frame[ETH_HLEN + 9] != IPPROTO_UDP)
			continue;
		if (stamped && !(head->tp_status & TP_STATUS_TS_SOFTWARE))
			die(false, "a packet bears no stamp of its arrival");
		arrivals[n++] = (struct arrival){ head->tp_sec * NSEC_PER_SEC + head->tp_nsec,
						  head->tp_len };
	}
	if (getsockopt(ring->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes) || stats.tp_drops)
		die(false, "the ring of %d packets was too small", RING_PACKETS);
	qsort(arrivals, (size_t)n, sizeof(*arrivals), by_time);
	return n;
}

/* Changes of a trial that changes. */
struct changer {
	const struct trial *trial;	/* what stays */
	uint64_t rate;			/* R, bytes/s */
	const struct side *side;	/* whose hypervisor */
	const struct laws *laws;	/* the laws there are */
	atomic_bool stop;		/* ends it */
	unsigned long changes;		/* that the kernel took */
};

/*
 * Changes the ceiling between R and R/2, the weight, and with several laws the law; a thread's main
 * function.
 */
static void *change_run(void *data)
{
	struct changer *changer = data;
	uint64_t state = 1;
	struct netlink nl;
	int law;

	netlink_open(&nl, NETLINK_GENERIC, changer->side->host_ns);
	while (!changer->stop) {
		struct message message;

		shim_port_begin(&nl, &message, VM_DEVICE);
		message_put_u64(&message, OVS_SHIM_PORT_MAX_RATE,
				changer->rate / (1 + draw(&state, 2)));
		message_put_u32(&message, OVS_SHIM_PORT_WEIGHT, 1 + draw(&state, 9));
		changer->changes += !shim_settings(&nl, &message);
		if (!changer->trial->law && draw(&state, 8) == 0) {
			shim_settings_begin(&nl, &message);
			law = (int)draw(&state, (uint32_t)changer->laws->n);
			message_put_string(&message, OVS_SHIM_SETTINGS_LAW,
					   changer->laws->names[law]);
			changer->changes += !shim_settings(&nl, &message);
		}
		nap_ns(NSEC_PER_MSEC);
	}
	netlink_close(&nl);
	return NULL;
}

/* Lets each CPU send for some time as the trial says; returns the packets of all. */
static unsigned long hammer_all(const struct trial *trial, const struct side *side, uint64_t rate,
				int64_t time_ns, unsigned long *least)
{
	struct hammer hammers[CPUS_MAX] = { 0 };
	pthread_t threads[CPUS_MAX];
	unsigned long sent = 0;

	for (int i = 0; i < cpus; i++) {
		hammers[i] = (struct hammer){
			.cpu = i,
			.ns = side->guest_ns,
			.device = GUEST_DEVICE,
			.addresses = 4,
			.bytes = trial->bytes,
		};
		if (trial->rounds && rate) {
			/* Each sends 2B, two within B / R, and the bucket takes B / R to fill. */
			hammers[i].round = 2 * trial->burst / trial->bytes;
			hammers[i].round_ns =
				(int64_t)(5 * trial->burst * (uint64_t)NSEC_PER_SEC / (2 * rate));
		}
		pthread_create(&threads[i], NULL, hammer_run, &hammers[i]);
	}
	nap_ns(time_ns);
	for (int i = 0; i < cpus; i++)
		hammers[i].stop = true;
	*least = ULONG_MAX;
	for (int i = 0; i < cpus; i++) {
		pthread_join(threads[i], NULL);
		sent += hammers[i].sent;
		*least = hammers[i].sent < *least ? hammers[i].sent : *least;
	}
	return sent;
}

/* Puts a trial's rules in force in its hypervisor with the VM's ceiling. */
static void trial_prepare(const struct trial *trial, struct netlink *nl, uint64_t rate)
{
	struct message message;
	int error;

	shim_settings_begin(nl, &message);
	message_put_string(&message, OVS_SHIM_SETTINGS_LAW, trial->law ? trial->law : "static");
	message_put_u32(&message, OVS_SHIM_SETTINGS_LIMITER, trial->limiter);
	message_put_u32(&message, OVS_SHIM_SETTINGS_BURST, trial->burst);
	message_put_u8(&message, OVS_SHIM_SETTINGS_ECN, 1);
	error = shim_settings(nl, &message);
	if (!error)
		error = scene_roles(nl, rate);
	if (error)
		die(false, "trial %s: %s", trial->name, strerror(-error));
	/* Whatever debt or credit an earlier trial left is gone, and the bucket is full. */
	nap_ns((int64_t)trial->burst * NSEC_PER_SEC / (int64_t)rate + 50 * NSEC_PER_MSEC);
}

/*
 * Returns the most by which bytes of an interval exceed R times its length; from_start: of those
 * that begin with start.
 */
static double excess(uint64_t rate, const struct arrival *arrivals, int n, int64_t start_ns,
		     bool from_start)
{
	double sum = 0, low = 0, most = 0, per_ns = (double)rate / NSEC_PER_SEC;

	for (int i = 0; i < n; i++) {
		double line = per_ns * (double)(arrivals[i].at_ns - start_ns);

		/* The interval that begins with this packet; sum does not hold it yet. */
		if (!from_start && (i == 0 || sum - line < low))
			low = sum - line;
		sum += arrivals[i].bytes;
		if (sum - line - low > most)
			most = sum - line - low;
	}
	return most;
}

/* Returns the rate at which all CPUs keep a limiter busy: a quarter of what they can send. */
static uint64_t trial_rate(const struct trial *trial, const struct side *side)
{
	unsigned long least, sent = hammer_all(trial, side, 0, PROBE_NS, &least);
	uint64_t rate = (uint64_t)sent * trial->bytes * NSEC_PER_SEC / PROBE_NS / 4;

	return rate < RATE_MIN ? RATE_MIN : rate > RATE_MAX ? RATE_MAX : rate;
}

/* Runs one trial for some seconds and tells what came of it; returns whether the bound held. */
static bool trial_run(const struct trial *trial, struct side *sides, struct arrival *arrivals,
		      int seconds)
{
	bool paced = trial->limiter == OVS_SHIM_LIMITER_PACE, bound, busy;
	uint64_t rate = trial_rate(trial, &sides[0]);
	struct changer changer = { .trial = trial, .side = &sides[0], .rate = rate };
	double worst, allowed, passed = 0, offered, could;
	static struct laws laws;
	unsigned long sent, least;
	char settings[80];
	struct timespec started;
	struct netlink nl;
	pthread_t change;
	struct ring ring;
	int64_t start_ns;
	int n;

	netlink_open(&nl, NETLINK_GENERIC, sides[0].host_ns);
	if (!paced)
		link_no_queue(sides[0].host_ns, UPLINK_DEVICE);
	trial_prepare(trial, &nl, rate);
	if (shim_laws(&nl, NULL, &laws))
		die(false, "the laws are not told");
	netlink_close(&nl);
	changer.laws = &laws;
	ring_open(&ring, sides[1].host_ns, UPLINK_DEVICE);
	nap_ns(50 * NSEC_PER_MSEC);
	clock_gettime(CLOCK_REALTIME, &started);
	start_ns = started.tv_sec * NSEC_PER_SEC + started.tv_nsec;
	if (trial->change)
		pthread_create(&change, NULL, change_run, &changer);
	sent = hammer_all(trial, &sides[0], rate, seconds * NSEC_PER_SEC, &least);
	changer.stop = true;
	if (trial->change)
		pthread_join(change, NULL);
	nap_ns(DRAIN_NS);
	if (!paced)
		link_fq(sides[0].host_ns, UPLINK_DEVICE);
	n = ring_take(&ring, arrivals, !paced);
	ring_close(&ring);

	for (int i = 0; i < n; i++)
		passed += arrivals[i].bytes;
	offered = (double)sent * trial->bytes;
	worst = excess(rate, arrivals, n, start_ns, paced);
	allowed = (double)trial->burst + (double)cpus * trial->bytes;
	could = trial->burst + (double)rate * seconds;
	snprintf(settings, sizeof(settings), "B %u, %d packets of %u, changes %lu", trial->burst,
		 cpus, trial->bytes, changer.changes);
	bound = worst <= allowed;
	/* The limiter dropped and each CPU sent, so it was hammered; it let pass what it should. */
	busy = offered > passed * 1.1 && (double)least > (double)sent / (8 * cpus) &&
	       passed > could * (trial->change || trial->rounds ? 0.1 : 0.5);
	say("conserve %s %s R %llu passed %.0f of %.0f bytes, %.0f over R*t, allowed %.0f%s; %s",
	    bound && busy ? "ok" : "FAILED", trial->name, (unsigned long long)rate, passed, offered,
	    worst, allowed, busy ? "" : ", not hammered enough to tell", settings);
	return bound && busy;
}

/* Runs all trials, each some seconds; returns whether the bound held in all. */
bool conserve_all(struct side *sides, int seconds)
{
	static struct arrival arrivals[RING_PACKETS];
	bool good = true;

	for (size_t i = 0; i < sizeof(trials) / sizeof(*trials); i++) {
		say("progress conservation: %s", trials[i].name);
		good &= trial_run(&trials[i], sides, arrivals, seconds);
	}
	return good;
}
