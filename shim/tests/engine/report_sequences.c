// SPDX-License-Identifier: Apache-2.0
/*
 * How reports are numbered: one count for all peers, anew when it is used up and from time to time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/engine/decide.h"
#include "../../core/engine/engine.h"

#define EPOCH 1000			/* of the engine, at its begin */
#define PERIOD_NS 50000000ULL		/* longer than that of any law that reports */

#define HOUR_NS 3600000000000ULL

static struct shim_engine engine;
static struct shim_vm *vm;
static struct shim_uplink *uplink;

/* Ends the program if a condition does not hold. */
static void expect(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "report_sequences: %s\n", what);
	exit(1);
}

/* Returns an address of a number. */
static struct shim_address number_address(u8 number)
{
	struct shim_address address = { { 0 } };

	address.bytes[10] = 0xff;
	address.bytes[11] = 0xff;
	address.bytes[12] = 10;
	address.bytes[15] = number;
	return address;
}

/* Returns the VM's peer of a number, NULL if there is none. */
static struct shim_peer *find(u8 number)
{
	struct shim_peer_key key = { .vm = vm, .address = number_address(number) };

	return shim_peer_find(&engine, &key);
}

/* Brings a packet of a peer to the VM, and ticks until the VM reports; returns that report. */
static struct shim_message report_to(u8 number)
{
	struct shim_packet packet = {
		.now_ns = shim_host_clock_ns,
		.source = number_address(number),
		.destination = number_address(1),
		.bytes = 1514,
		.packets = 1,
		.version = 4,
		.protocol = 17,
		.plain = true,
		.ecn = SHIM_ECT_ZERO,
	};
	struct shim_reports reports = { 0 };
	struct shim_host_report *built;
	struct shim_message report = { 0 };
	struct shim_action action;
	u32 i;

	shim_action_init(&action, &packet);
	shim_decide_received(vm, uplink, &packet, NULL, &action);
	shim_host_clock_ns += PERIOD_NS;
	for (i = 0; i < SHIM_LAW_SLOTS; i++)
		if (engine.clocks[i].timer.started)
			shim_clock_tick(&engine.clocks[i], shim_host_clock_ns, &reports);
	while ((built = shim_host_report_take(&reports))) {
		if (!memcmp(built->destination, packet.source.bytes, sizeof(built->destination)))
			report = built->message;
		shim_free(built);
	}
	expect(report.type == SHIM_MESSAGE_REPORT, "no report was built");
	return report;
}

/* Forgets a peer. */
static void forget(u8 number)
{
	spin_lock_bh(&vm->lock);
	shim_peer_remove(find(number));
	spin_unlock_bh(&vm->lock);
}

/* Expects a report to a peer to bear an epoch and a sequence. */
static void expect_report(u8 number, u32 epoch, u32 sequence, const char *what)
{
	struct shim_message report = report_to(number);

	if (report.epoch != epoch || report.sequence != sequence)
		fprintf(stderr, "epoch %u sequence %u, expected %u and %u\n", report.epoch,
			report.sequence, epoch, sequence);
	expect(report.epoch == epoch && report.sequence == sequence, what);
}

/* Prepares engine, VM and uplink under a law whose receivers report. */
static void prepare(void)
{
	struct shim_vm_config config = { .weight = 1, .law = SHIM_LAW_DEFAULT };
	struct shim_settings *settings = shim_alloc_wait(sizeof(*settings));

	shim_host_clock_ns = SHIM_NSEC_PER_SEC;
	expect(settings && !shim_engine_init(&engine, 1, EPOCH), "no engine");
	shim_settings_default(settings);
	for (settings->law = 0; shim_law_at((u32)settings->law); settings->law++)
		if (!strcmp(shim_law_at((u32)settings->law)->name, "seawall"))
			break;
	settings->key_set = true;
	shim_engine_set(&engine, settings);
	uplink = shim_uplink_create(&engine, NULL);
	vm = shim_vm_create(&engine, NULL);
	expect(uplink && vm, "no uplink and VM");
	shim_uplink_configure(uplink, 125000000, 0);
	shim_vm_configure(vm, &config);
}

int main(void)
{
	prepare();
	expect_report(2, EPOCH, 1, "the first report of all");
	expect_report(2, EPOCH, 2, "the next");
	expect_report(3, EPOCH, 3, "another peer has a count of its own");
	forget(2);
	expect_report(2, EPOCH, 4, "a peer made again repeats what was said");
	expect_report(4, EPOCH, 5, "a peer made later begins below others");

	engine.sequence = ~0U - 1;
	expect_report(2, EPOCH, ~0U, "the last sequence is not used");
	engine.epoch_ns = shim_host_clock_ns;
	expect_report(3, EPOCH + 1, 1, "no new epoch after the last sequence");
	expect_report(2, EPOCH + 1, 2, "others do not go on in the new epoch");

	shim_host_clock_ns = engine.epoch_ns + HOUR_NS - 2 * PERIOD_NS;
	expect_report(2, EPOCH + 1, 3, "an epoch ends too early");
	expect_report(2, EPOCH + 3601, 1, "an epoch does not end after an hour");

	shim_vm_remove(vm);
	shim_uplink_remove(uplink);
	shim_engine_exit(&engine);
	shim_host_quiesce();
	expect(!shim_host_allocated && !shim_host_warnings, "something leaked");
	return 0;
}
