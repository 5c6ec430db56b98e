# SPDX-License-Identifier: Apache-2.0
"""/metrics for Prometheus: names by its conventions, base units (bytes, seconds), one family a counter.

Families are made and written one after the other with a pause between, so that a scrape of thousands of machines
delays no poll by more than one family.
"""

from typing import Callable, Iterable, Iterator, NamedTuple

import falcon
import prometheus_client
from prometheus_client import core, exposition

from sdngcc import __version__
from sdngcc.controller.databases.health import STATES
from sdngcc.controller.framework.admission import Reason
from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.rates.effect import shown
from sdngcc.controller.rest import models, tenants
from sdngcc.controller.rest.control import show_reload
from sdngcc.controller.rest.readiness import databases, hindrances
from sdngcc.controller.rest.resource import Operation, Resource, RestContext, Route, dpid_text, read_query
from sdngcc.controller.rest.switches import show_poll
from sdngcc.controller.wire.experimenter import VmReading
from sdngcc.text import shown as printable

# Counters of the engine that an alert may name: there from the start, or the first increase would not be seen.
EVENTS = (
    "audit_lost", "cloud_ports_refused", "cloud_readers_ended",
    "epoch_raised", "event_clients_cut", "event_clients_refused", "internal_errors", "lldp_foreign",
    "log_lost", "marks", "marks_refused", "marks_stale", "marks_without_source", "messages_accepted",
    "messages_refused", "notices", "notices_without_address", "openflow_errors",
    "path_requests", "reply_malformed", "reply_unasked",
    "rest_answer_timeouts", "rest_body_timeouts", "rest_connections_displaced", "rest_connections_refused",
    "rest_forbidden", "rest_foreign_host", "rest_foreign_site", "rest_head_timeouts", "rest_idle_timeouts",
    "rest_unauthorized",
    "round_deadlines", "rounds", "send_failed", "stalls", "tenant_changes_refused", "tenant_names_refused",
    "trace_lost", "vm_state_requests",
)  # fmt: skip


class Of(NamedTuple):
    """A metric of a reading."""

    name: str
    help: str
    read: Callable
    counter: bool = False


def _bit(number: int) -> Callable[[VmReading], int]:
    return lambda reading: reading.flags >> number & 1


VM_METRICS = (
    Of("vm_rate_bytes_per_second", "What a VM may send now.", lambda reading: reading.rate),
    Of("vm_share_bytes_per_second", "A VM's part of its uplink.", lambda reading: reading.share),
    Of("vm_sent_bytes_per_second", "What a VM sent over the shim's last period.", lambda reading: reading.sent_rate),
    Of("vm_guarantee_bytes_per_second", "A VM's minimum; 0: none.", lambda reading: reading.min_rate),
    Of("vm_ceiling_bytes_per_second", "A VM's maximum; 0: none.", lambda reading: reading.max_rate),
    Of("vm_weight_ratio", "A VM's weight beside its competitors'.", lambda reading: reading.weight),
    Of("vm_active", "Whether the shim holds a share for a VM.", _bit(0)),
    Of("vm_congested", "Whether the fabric's congestion limits a VM.", _bit(1)),
    Of("vm_transmitted_bytes", "What a VM sent.", lambda reading: reading.tx_bytes, True),
    Of("vm_transmitted_packets", "What a VM sent.", lambda reading: reading.tx_packets, True),
    Of("vm_dropped_packets", "What a VM's limiter dropped.", lambda reading: reading.drops, True),
    Of("vm_messages_accepted", "Control messages a VM's shim took.", lambda reading: reading.messages, True),
    Of("vm_messages_refused", "Control messages a VM's shim refused.", lambda reading: reading.refused, True),
    Of("vm_marks_accepted", "Marks in the messages a VM's shim took.", lambda reading: reading.message_marks, True),
)

PORT_METRICS = (
    Of("port_marks", "Marks a port's queues set; absent without a mark counter.", lambda reading: reading.marks, True),
    Of("port_ce_arrived_packets", "Packets that came in with CE.", lambda reading: reading.ce_arrived, True),
    Of("port_transmitted_bytes", "What a port sent.", lambda reading: reading.bytes, True),
    Of("port_transmitted_packets", "What a port sent.", lambda reading: reading.packets, True),
    Of("port_dropped_packets", "What a port's queues dropped.", lambda reading: reading.drops, True),
    Of("port_backlog_bytes", "What waits in a port's queues.", lambda reading: reading.backlog_bytes),
    Of("port_backlog_packets", "What waits in a port's queues.", lambda reading: reading.backlog_packets),
)

POLL_METRICS = (
    Of("switch_poll_period_seconds", "Time between two polls of a switch.", lambda poll: poll.period_ms / 1e3),
    Of("switch_poll_reply_max_seconds", "Longest wait for a switch's answer.", lambda poll: poll.reply_max_us / 1e6),
    Of("switch_polls", "Polls sent to a switch.", lambda poll: poll.polls, True),
    Of("switch_poll_replies", "Polls a switch answered.", lambda poll: poll.replies, True),
    Of("switch_polls_skipped", "Turns left out because an answer was owed.", lambda poll: poll.skipped, True),
    Of("switch_polls_lost", "Polls a switch never answered.", lambda poll: poll.lost, True),
)

TENANT_METRICS = (
    Of("tenant_vms", "A tenant's VMs.", lambda tenant: tenant.vms),
    Of("tenant_active_vms", "A tenant's VMs that send.", lambda tenant: tenant.active),
    Of("tenant_rate_bytes_per_second", "What a tenant's active VMs may send now.", lambda tenant: tenant.rate_bps / 8),
    Of("tenant_sent_bytes_per_second", "What a tenant's VMs sent last.", lambda tenant: tenant.sent_bps / 8),
    Of("tenant_guarantee_bytes_per_second", "A tenant's minimum; 0: none.", lambda tenant: tenant.min_bps / 8),
    Of("tenant_cap_bytes_per_second", "A tenant's maximum; 0: none.", lambda tenant: tenant.max_bps / 8),
    Of("tenant_weight_ratio", "A tenant's weight beside others; absent: it has none.", lambda tenant: tenant.weight),
)

VM_LABELS = ("vm", "switch", "port")
PORT_LABELS = ("switch", "port", "name")

Rows = list[tuple[tuple[str, ...], object]]


def _family(one: Of, labels: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], object]]) -> core.Metric:
    """Return a metric of all rows."""
    kind = core.CounterMetricFamily if one.counter else core.GaugeMetricFamily
    family: core.Metric = kind(f"sdngcc_{one.name}", one.help, labels=labels)
    for values, reading in rows:
        value = one.read(reading)
        if value is not None:  # no such counter
            family.add_metric([printable(text) for text in values], value)  # type: ignore[attr-defined]
    return family


def _gauge(name: str, text: str, value: float) -> core.Metric:
    return core.GaugeMetricFamily(f"sdngcc_{name}", text, value=value)


class Families:
    """All families of a context, made one at a time."""

    def __init__(self, context: RestContext, event_clients: int) -> None:
        self._context = context
        self._event_clients = event_clients

    def __iter__(self) -> Iterator[core.Metric]:
        """Yield one family after the other."""
        yield from self._controller()
        yield from self._connections()
        yield from self._vms(self._context.vms())
        yield from self._tenants()
        yield from self._ports()
        yield from self._switches()
        yield from prometheus_client.ProcessCollector(registry=None).collect()

    def _controller(self) -> Iterator[core.Metric]:
        engine = self._context.engine
        build = core.GaugeMetricFamily("sdngcc_build_info", "The program.", labels=("version",))
        build.add_metric((__version__,), 1)
        yield build
        yield _gauge("uptime_seconds", "Since the controller's start.", (engine.clock() - engine.started_ns) / 1e9)
        yield _gauge("ready", "Whether the controller can do its work; /v1/status says why not.",
                     not hindrances(self._context))  # fmt: skip
        effect: Rows = list(shown(engine.effect.faults).items())
        yield _family(Of("control_fault", "1 where marks, their sources or shims' obedience lack, all or some.", int),
                      ("cause", "extent"), effect)  # fmt: skip
        yield from self._databases()
        yield from self._reload()
        drain = self._context.drain
        draining = drain is not None and drain.draining
        yield _gauge("draining", "Whether the controller hands its switches over.", draining)
        yield _gauge("hosts", "Ethernet addresses known.", len(engine.relations.hosts))
        yield _gauge("pairs", "Pairs of source and destination that talk.", engine.relations.pair_count())
        yield _gauge("links", "Links between switches.", len(engine.topology.links()))
        yield _gauge("event_clients", "Clients of the event stream.", self._event_clients)
        connections = core.GaugeMetricFamily(
            "sdngcc_rest_connections", "Connections of REST by what they wait for.", labels=("phase",)
        )
        for phase, count in self._context.rest_connections().items():
            connections.add_metric((phase,), count)
        yield connections
        epoch = engine.notifier.numbering.epoch
        yield _gauge("message_epoch_timestamp_seconds", "Epoch of control messages, since 1970.", epoch)
        late = engine.poll_counts()["late_max_us"] / 1e6
        yield _gauge("poll_late_max_seconds", "Longest a poll was sent after its time.", late)
        for name, text, counters, known in (
            ("controller_events", "What the controller counted.", engine.counters, EVENTS),
            ("forwarding_events", "What forwarding counted.", engine.forwarder.counters, ()),
        ):
            family = core.CounterMetricFamily(f"sdngcc_{name}", text, labels=("event",))
            for event in sorted({*counters, *known}):
                family.add_metric((event,), counters[event])
            yield family
        source = core.CounterMetricFamily("sdngcc_mark_source_resets", "Counters that went back.", labels=("source",))
        source.add_metric((engine.source.name,), engine.source.resets)
        yield source
        yield from self._marks()
        latency = engine.rounds.latency
        yield core.HistogramMetricFamily(
            "sdngcc_notification_latency_seconds",
            "From the reply that shows marks to the messages about them.",
            buckets=[(f"{bound / 1e9:g}" if bound else "+Inf", count) for bound, count in latency.cumulated()],
            sum_value=latency.sum_ns / 1e9,
        )

    def _marks(self) -> Iterator[core.Metric]:
        engine = self._context.engine
        now, source = engine.clock(), engine.source
        faults = core.CounterMetricFamily(
            "sdngcc_mark_source_faults", "What was refused or missing.", labels=("source", "kind")
        )
        for kind, count in sorted(source.faults.items()):
            faults.add_metric((source.name, kind), count)
        yield faults
        yield _gauge("mark_source_interval_seconds", "Time between news of a switch's marks, of the slowest; 0: none.",
                     engine.staleness.measured_ns(now) / 1e9)  # fmt: skip
        yield _gauge("mark_source_usable_interval_seconds", "The same beyond which the decision should not be used.",
                     engine.staleness.usable_ns / 1e9)  # fmt: skip
        yield _gauge("mark_source_stale_switches", "Switches beyond it.", len(engine.staleness.stale(now)))

    def _databases(self) -> Iterator[core.Metric]:
        family = core.GaugeMetricFamily(
            "sdngcc_database_state", "1 for the state a database is in.", labels=("database", "kind", "state")
        )
        for one in databases(self._context):
            for state in STATES:
                family.add_metric((one.remote, one.kind, state), one.state == state)
        yield family
        faults = core.GaugeMetricFamily(
            "sdngcc_database_fault", "1 where a database, or its node, is at fault.", labels=("database", "kind")
        )
        for one in databases(self._context):
            faults.add_metric((one.remote, one.kind), one.fault is not None)
        yield faults
        ports = core.GaugeMetricFamily(
            "sdngcc_cloud_ports", "Ports known of a database of the cloud.", labels=("database", "kind")
        )
        for cloud in self._context.clouds:
            ports.add_metric((cloud.health.remote, cloud.source), self._context.engine.directory.count(cloud.source))
        yield ports
        if self._context.cluster:
            yield _gauge("lease_held", "Whether this controller may act for switches.", self._context.cluster.is_live())

    def _reload(self) -> Iterator[core.Metric]:
        state = show_reload(self._context)
        rows: Rows = [(("done",), state.done), (("failed",), state.failed)]
        yield _family(Of("reloads", "Times settings and files were read again.", int, True), ("result",), rows)
        failed = state.last is not None and state.last.result == "failed"
        yield _gauge("last_reload_successful", "Whether the last reading of settings and files was.", not failed)
        yield _gauge("settings_restart_needed", "Settings that change with a restart only.", len(state.restart_needed))

    def _connections(self) -> Iterator[core.Metric]:
        admission = self._context.admission
        yield _gauge("openflow_connections", "Connections of switches.", admission.open)
        yield _gauge("openflow_connections_limit", "Most connections of switches at a time.", admission.limit)
        refused: Rows = [((reason.value,), admission.refused[reason]) for reason in Reason]
        conflicts: Rows = [((dpid_text(key[0]), *key[1:]), one.count) for key, one in admission.conflicts.items()]
        unserved: Rows = [((), admission.unserved)]
        for name, text, labels, rows in (
            ("openflow_connections_refused", "Connections of switches refused or ended.", ("reason",), refused),
            ("openflow_messages_unserved", "Messages of switches that nobody asked for.", (), unserved),
            ("switch_id_conflicts", "Connections with one datapath id.", ("switch", "kept", "refused"), conflicts),
        ):
            yield _family(Of(name, text, lambda count: count, True), labels, rows)

        fault = self._context.allowed.fault
        yield _gauge("admit_file_fault", "Whether admit_file as it is now is not in force.", fault is not None)
        yield from self._underlay()
        managers = self._context.managers
        if managers is None:
            return
        admission = managers.admission
        yield _gauge("ovsdb_connections", "Connections of databases.", admission.open)
        yield _gauge("ovsdb_connections_limit", "Most connections of databases at a time.", admission.limit)
        yield _gauge("nodes", "Compute nodes known whose databases connect.", len(managers.nodes.by_name))
        turned_away: Rows = [((reason.value,), admission.refused[reason]) for reason in Reason]
        conflicts = [((), managers.nodes.conflicts)]
        for name, text, labels, rows in (
            ("ovsdb_connections_refused", "Connections of databases refused or ended.", ("reason",), turned_away),
            ("node_conflicts", "Claims of a node's name or bridge that somebody else has.", (), conflicts),
        ):
            yield _family(Of(name, text, lambda count: count, True), labels, rows)

    def _underlay(self) -> Iterator[core.Metric]:
        file = self._context.underlay
        fault = file.fault is not None
        yield _gauge("underlay_file_fault", "Whether underlay_file as it is now is not in force.", fault)
        rows: Rows = [(("done",), file.changes), (("refused",), file.refused)]
        yield _family(Of("underlay_changes", "Changes of underlay_file.", int, True), ("result",), rows)

    def _vms(self, vms: list[VmRecord]) -> Iterator[core.Metric]:
        told: list[tuple[tuple[str, ...], VmRecord]] = [
            ((vm.id, dpid_text(vm.place[0]), vm.name), vm) for vm in vms
        ]
        read: list[tuple[tuple[str, ...], object]] = [(labels, vm.reading) for labels, vm in told if vm.reading]
        for one in VM_METRICS:
            yield _family(one, VM_LABELS, read)
        for name, text, get in (
            ("vm_messages_sent", "Notices this controller sent a VM.", lambda vm: vm.notices),
            ("vm_marks_sent", "Marks in the notices this controller sent a VM.", lambda vm: vm.marks),
        ):
            yield _family(Of(name, text, get, True), VM_LABELS, told)

    def _tenants(self) -> Iterator[core.Metric]:
        found = self._context.engine.tenants.by_tenant(self._context.vms())
        rows: Rows = [((name,), tenants.show(self._context, name, vms)) for name, vms in found.items()]
        for one in TENANT_METRICS:
            yield _family(one, ("tenant",), rows)

    def _ports(self) -> Iterator[core.Metric]:
        engine = self._context.engine
        read: Rows = []
        up: Rows = []
        for dpid, ports in sorted(engine.topology.ports.items()):
            readings = engine.source.readings(dpid)
            for number, port in sorted(ports.items()):
                labels = (dpid_text(dpid), str(number), port.name)
                up.append((labels, port))
                if number in readings:
                    read.append((labels, readings[number]))
        yield _family(Of("port_up", "Whether a port is up.", lambda port: port.up), PORT_LABELS, up)
        for one in PORT_METRICS:
            yield _family(one, PORT_LABELS, read)

    def _switches(self) -> Iterator[core.Metric]:
        polls: Rows = []
        for dpid in sorted(self._context.engine.switches):
            poll = show_poll(self._context, dpid)
            if poll:
                polls.append(((dpid_text(dpid),), poll))
        connected: Rows = [((dpid_text(dpid),), 1) for dpid in sorted(self._context.engine.switches)]
        yield _family(Of("switch_connected", "Switches connected.", lambda one: one), ("switch",), connected)
        for one in POLL_METRICS:
            yield _family(one, ("switch",), polls)


class _One:
    """A registry of one family, for prometheus_client's writer."""

    def __init__(self, family: core.Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[core.Metric]:
        """Yield the family."""
        yield self._family


class Metrics(Resource):
    """/metrics."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Write all metrics in Prometheus' text format."""
        read_query(request, models.Query)
        text = []
        for family in Families(self._context, len(self._reporter.broker.clients)):
            text.append(exposition.generate_latest(_One(family)))  # type: ignore[arg-type]
            self._context.pause()
        response.content_type = prometheus_client.CONTENT_TYPE_LATEST
        response.data = b"".join(text)


ROUTES = (
    Route("/metrics", Metrics, {"get": Operation("Metrics for Prometheus.", None, media="text/plain")}),
)
