# SPDX-License-Identifier: Apache-2.0
"""/metrics for Prometheus: names by its conventions, base units (bytes, seconds), one family a counter.

Families of VMs, ports, switches and tenants are written some rows at a time with others' work between, so that a scrape
of thousands of machines delays no poll. One text is written at a time, for all who asked before it was begun.
What more than SAMPLES_MAX samples would tell of VMs and ports is left out, and a metric says so.
"""

import weakref
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, NamedTuple, Union

import falcon
import prometheus_client
from prometheus_client import core, exposition
from prometheus_client.utils import floatToGoString

from sdngcc import __version__
from sdngcc.controller.databases.health import STATES
from sdngcc.controller.framework.admission import Reason
from sdngcc.controller.rates.effect import shown
from sdngcc.controller.rest import models, tenants
from sdngcc.controller.rest.control import show_reload
from sdngcc.controller.rest.readiness import databases, hindrances
from sdngcc.controller.rest.resource import Operation, Resource, RestContext, Route, dpid_text, read_query, refuse
from sdngcc.controller.rest.switches import show_poll
from sdngcc.controller.wire.experimenter import VmReading
from sdngcc.text import shown as printable

if TYPE_CHECKING:
    from sdngcc.controller.rest.reporter import Reporter

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

SAMPLES_MAX = 1_000_000  # of VMs and ports: some 120 MB
TEXTS_MAX = 4  # at a time: those that are written, and those that somebody still reads
WAIT_S = 50.0  # for a text that is being written
_PIECE_ROWS = 32
_LOCK = -1  # the one of this resource among those of bridges

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


class Large(NamedTuple):
    """A family of many rows, each with its labels as they are written."""

    of: Of
    rows: list[tuple[str, object]]

    def pieces(self) -> Iterator[str]:
        """Yield the family's text, some rows at a time."""
        of, kind = self.of, "counter" if self.of.counter else "gauge"
        name = f"sdngcc_{of.name}{'_total' if of.counter else ''}"
        yield f"# HELP {name} {of.help}\n# TYPE {name} {kind}\n"
        for place in range(0, len(self.rows), _PIECE_ROWS):
            values = [(labels, of.read(row)) for labels, row in self.rows[place : place + _PIECE_ROWS]]
            yield "".join([
                f"{name}{labels} {floatToGoString(value)}\n" for labels, value in values if value is not None
            ])  # fmt: skip


def _written(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Return labels as the text has them."""
    escaped = (printable(text).replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"") for text in values)
    return "{" + ",".join(f'{name}="{text}"' for name, text in sorted(zip(names, escaped))) + "}"


class Families:
    """All families of a context, made one at a time."""

    def __init__(self, context: RestContext, event_clients: int) -> None:
        self._context = context
        self._event_clients = event_clients

    def __iter__(self) -> Iterator[Union[core.Metric, Large]]:
        """Yield one family after the other; others run while their rows are gathered."""
        yield from self._controller()
        yield from self._connections()
        engine = self._context.engine
        samples = sum((len(VM_METRICS) + 2) * len(switch.vms) for switch in engine.switches.values())
        samples += sum((len(PORT_METRICS) + 1) * len(ports) for ports in engine.topology.ports.values())
        left_out = samples > SAMPLES_MAX
        yield _gauge("metrics_left_out", "Samples of VMs and ports that are too many to be told.", left_out * samples)
        if not left_out:
            yield from self._vms()
            yield from self._ports()
        yield from self._tenants()
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

    def _vms(self) -> Iterator[Large]:
        told: list[tuple[str, object]] = []
        read: list[tuple[str, object]] = []
        for vm in self._context.vms_in_turns():
            labels = _written(VM_LABELS, (vm.id, dpid_text(vm.place[0]), vm.name))
            told.append((labels, vm))
            reading = vm.reading
            if reading is not None:
                read.append((labels, reading))
        for one in VM_METRICS:
            yield Large(one, read)
        for name, text, get in (
            ("vm_messages_sent", "Notices this controller sent a VM.", lambda vm: vm.notices),
            ("vm_marks_sent", "Marks in the notices this controller sent a VM.", lambda vm: vm.marks),
        ):
            yield Large(Of(name, text, get, True), told)

    def _tenants(self) -> Iterator[Large]:
        context = self._context
        found = context.engine.tenants.by_tenant(context.vms_in_turns())
        rows: list[tuple[str, object]] = [
            (_written(("tenant",), (name,)), tenants.show(context, name, found[name]))
            for name in context.in_turns(found)
        ]
        for one in TENANT_METRICS:
            yield Large(one, rows)

    def _ports(self) -> Iterator[Large]:
        readings, of = self._context.engine.source.readings, None
        read: list[tuple[str, object]] = []
        up: list[tuple[str, object]] = []
        for (dpid, number), port in self._context.ports_in_turns():
            if of is None or of[0] != dpid:
                of = dpid, readings(dpid)
            labels = _written(PORT_LABELS, (dpid_text(dpid), str(number), port.name))
            up.append((labels, port))
            if number in of[1]:
                read.append((labels, of[1][number]))
        yield Large(Of("port_up", "Whether a port is up.", lambda port: port.up), up)
        for one in PORT_METRICS:
            yield Large(one, read)

    def _switches(self) -> Iterator[Large]:
        polls: list[tuple[str, object]] = []
        connected: list[tuple[str, object]] = []
        for dpid in self._context.in_turns(sorted(self._context.engine.switches)):
            labels, poll = _written(("switch",), (dpid_text(dpid),)), show_poll(self._context, dpid)
            connected.append((labels, 1))
            if poll:
                polls.append((labels, poll))
        yield Large(Of("switch_connected", "Switches connected.", lambda one: one), connected)
        for one in POLL_METRICS:
            yield Large(one, polls)


class _One:
    """A registry of one family, for prometheus_client's writer."""

    def __init__(self, family: core.Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[core.Metric]:
        """Yield the family."""
        yield self._family


class Text(list[bytes]):
    """What was written at a time, in pieces."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # of which one it is


class Metrics(Resource):
    """/metrics."""

    def __init__(self, context: RestContext, reporter: "Reporter") -> None:
        super().__init__(context, reporter)
        self._text = Text()
        self._begun = 0  # texts so far
        self._texts: weakref.WeakSet[Text] = weakref.WeakSet()

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Write all metrics in Prometheus' text format."""
        read_query(request, models.Query)
        before = self._begun
        with self._context.locks.hold(_LOCK, WAIT_S) as held:
            if not held:
                raise refuse(503, f"the metrics took more than {WAIT_S:g} s to write")
            if self._begun == before:
                self._text = Text()
                if len(self._texts) >= TEXTS_MAX:
                    raise refuse(503, f"{TEXTS_MAX} earlier answers are still being read, which is the limit")
                self._begun += 1
                self._text = self._write()
            text = self._text
        response.content_type = prometheus_client.CONTENT_TYPE_LATEST
        response.content_length = sum(map(len, text))
        response.stream = self._send(text)

    def _write(self) -> Text:
        """Return the text of all metrics; others run meanwhile."""
        text, pause = Text(), self._context.pause
        self._texts.add(text)
        for family in Families(self._context, len(self._reporter.broker.clients)):
            if isinstance(family, Large):
                for piece in family.pieces():
                    text.append(piece.encode())
                    pause()
            else:
                text.append(exposition.generate_latest(_One(family)))  # type: ignore[arg-type]
                pause()
        return text

    def _send(self, text: Text) -> Iterator[bytes]:
        """Yield a text in larger pieces; others run between them."""
        for place in range(0, len(text), _PIECE_ROWS):
            yield b"".join(text[place : place + _PIECE_ROWS])
            self._context.pause()


ROUTES = (
    Route("/metrics", Metrics, {"get": Operation("Metrics for Prometheus.", None, media="text/plain")}),
)
