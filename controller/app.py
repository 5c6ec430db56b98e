# SPDX-License-Identifier: Apache-2.0
"""The rim: the Ryu (or os-ken) application around the engine.

``sdngcc controller`` starts it; so does ``ryu-manager sdngcc.controller.app`` with settings from the
environment, where eventlet is old enough for Ryu's own launcher.
"""

import functools
import logging
import signal
import time
from typing import Any, Callable, Optional, TypeVar

from sdngcc import __version__, log, logs
from sdngcc.controller import settings
from sdngcc.controller.budget import Turns
from sdngcc.controller.cluster.drain import Drain
from sdngcc.controller.cluster.runner import PERIOD_S as CLUSTER_PERIOD_S
from sdngcc.controller.cluster.runner import Cluster
from sdngcc.controller.databases import cloud
from sdngcc.controller.databases.nodes import Holder, same
from sdngcc.controller.databases.ovsdb import Policy
from sdngcc.controller.databases.tenants import make_store
from sdngcc.controller.engine import Engine
from sdngcc.controller.framework import connections, launcher, names
from sdngcc.controller.framework.admission import Reason
from sdngcc.controller.framework.allowlist import AllowFile
from sdngcc.controller.framework.identities import Claim, Identities
from sdngcc.controller.framework.managers import ManagerListener
from sdngcc.controller.framework.reader import (
    FlowRemoved,
    Message,
    Multipart,
    PacketIn,
    PortChanged,
    PortRemoved,
    Refused,
    Role,
)
from sdngcc.controller.garbage import Collector
from sdngcc.controller.network import underlay_process
from sdngcc.controller.network.underlay import Underlay
from sdngcc.controller.network.underlay_file import UnderlayFile
from sdngcc.controller.reload import Reloader
from sdngcc.controller.rest.audit import AuditLog
from sdngcc.controller.rest.live import Live
from sdngcc.controller.rest.resource import RestContext
from sdngcc.controller.rest.server import SAMPLE_S, Server
from sdngcc.controller.settings.files import check_files
from sdngcc.controller.sources import PortMarks
from sdngcc.controller.wire import openflow
from sdngcc.supervisor import Supervisor

LOG = logging.getLogger(__name__)

_OVSDB_PERIOD_S = 0.5
_OVSDB_FIRST_S = 0.1  # while one was never connected: to read its tables takes several looks
_ADMITTED_PERIOD_S = 1.0
_UNDERLAY_PERIOD_S = 1.0
_SLICES_S = 0.01
_REST = 2.0  # how long others have their turn after a stretch of REST's, beside how long it lasted
_RETRY_NS = 1_000_000_000
# How long a connection may take to answer when another one says it is the same switch.
_PROBE_S = 2.0
_PROBE_STEP_S = 0.1
# How long the others of a cluster may take to take over the switches of a controller that ends.
_HAND_OVER_S = 3.0

Result = TypeVar("Result")

log.install()  # the framework has set up its own by now


class SdnGcc(names.App):
    """The application: passes events in and bytes out."""

    OFP_VERSIONS = [names.ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        with launcher.refusals():
            self._make(settings.current())

    def _make(self, chosen: settings.Settings) -> None:
        """Make all parts and listen; raises SettingsError."""
        self.settings = chosen
        self.identities: Identities[Any] = Identities()  # of the framework's datapaths
        self.workers: list[Any] = []  # our own threads; the framework's event loop is in self.threads
        self.cluster = self._make_cluster() if self.settings.cluster else None
        self.engine = Engine(self.settings, owner=self.cluster)
        self._collector = Collector()
        self.supervisor = Supervisor()
        self._beats = 0  # of the engine's clock
        self._sleep_ns = 0  # when _clock() calls the engine's clock next
        self._wake_ns = 0  # when it is called next at all
        self._prepare_log(chosen)()
        if self.cluster:
            self.cluster.attach(self.engine)
        self.drain = Drain(self.cluster, self.engine.steer, self.engine.clock)
        self.policy = Policy(self.settings.ovsdb, names.hub.sleep, self.settings.forwarding == "none")
        audit = AuditLog(self.settings.audit_file, self.engine.counters)
        self.tenants = make_store(self.settings, names.hub.sleep)
        engine = self.engine
        self.clouds = cloud.make(
            chosen, engine.directory, engine.counters, engine.clock, engine.tenants.directory_changed
        )
        turns = Turns(names.hub.sleep, _REST)
        context = RestContext(self.engine, self.policy, Live(self.engine), audit, turns.pause, cluster=self.cluster)
        context.drain = self.drain
        context.tenants = self.tenants
        context.clouds = self.clouds
        self.rest = Server(context, self.settings, turns)
        if self.settings.rest:
            self.rest.listen()
        self.allowed = AllowFile(self.settings.admit_file)
        self.listener = connections.Listener(self.settings, self.allowed)
        self.listener.open()
        context.admission, context.allowed = self.listener.admission, self.allowed
        self.underlay = context.underlay = UnderlayFile(chosen.underlay_file, underlay_process.read)
        self.managers = self._make_managers() if self.settings.ovsdb_listen else None
        context.managers = self.managers
        self._read_tenants()  # by TLS, if need be, which the listener has prepared
        parts = [self._prepare_log, self.engine.prepare, self.rest.prepare, self.listener.prepare, audit.prepare]
        parts.append(self.underlay.prepare)
        parts += [self.managers.prepare] if self.managers else []
        self.reloader = context.reloader = Reloader(
            chosen, settings.read_again, parts, self._check_files, names.hub.Semaphore()
        )

    def start(self) -> None:
        """Start the clock, the OVSDB clients and REST."""
        super().start()
        launcher.on_signal(signal.SIGHUP, self._reload)
        self.workers.append(names.hub.spawn(self._clock))
        if self.settings.ovsdb or self.managers:
            self.workers.append(names.hub.spawn(self._follow_ovsdb))
        if self.managers:
            self.workers.append(names.hub.spawn(self.managers.serve))
        if self.settings.admit_file:
            self.workers.append(names.hub.spawn(self._follow_admitted))
        if self.settings.underlay_file:
            self.workers.append(names.hub.spawn(self._follow_underlay))
        if self.cluster:
            self.workers.append(names.hub.spawn(self._follow_cluster, self.cluster))
            self.workers.append(names.hub.spawn(self._follow_tenants))
        if self.settings.rest:
            self.workers.append(names.hub.spawn(self.rest.serve))
            self.workers.append(names.hub.spawn(self._report))
        followers = [one.follow for one in self.clouds]
        for collect in [*self.engine.source.collectors(self._deliver, self.engine.clock), *followers]:
            self.workers.append(names.hub.spawn(self._collect, collect))
        if self.supervisor.watchdog_s is not None:
            self.workers.append(names.hub.spawn(self._show_life, self.supervisor.watchdog_s / 2))
        chosen = self.settings.model_dump(mode="json", exclude_defaults=True)  # of secrets, their files' names
        LOG.info(
            "sdn-gcc %s on %s has started; OpenFlow at %s, REST at %s; settings that are no defaults: %s",
            __version__, names.FRAMEWORK, self.settings.openflow, self.settings.rest or "no address",
            ", ".join(f"{key} {value}" for key, value in chosen.items()) or "none",
        )  # fmt: skip
        self.supervisor.ready(self._in_words())

    def stop(self) -> None:
        """Hand the switches over; end clock, OVSDB clients and REST; take what waits; write what is left of the trace.

        The framework ends its event loop by an event, and waits for room in the queue first: were the loop
        killed too, a full queue (switches that all disconnect at once) would never have any.
        """
        self.supervisor.stopping()
        if self.cluster:
            self._hand_over()
        self.rest.close()
        for worker in self.workers:
            names.hub.kill(worker)
        super().stop()
        self.engine.trace.flush()
        LOG.info(
            "sdn-gcc %s ends after %.0f s, as it was asked to: %s",
            __version__, (self.engine.clock() - self.engine.started_ns) / 1e9, self._in_words(),
        )  # fmt: skip

    def _in_words(self) -> str:
        """Return what the controller does, for whoever asks systemctl."""
        switches = self.engine.switches.values()
        return f"{len(switches)} switches, {sum(len(switch.vms) for switch in switches)} VMs"

    def _show_life(self, period_s: float) -> None:
        """Tell the supervisor that the engine's clock goes on; where it does not, nothing is told."""
        before = -1
        while self.is_active:
            if self._beats != before:
                before = self._beats
                self.supervisor.alive(self._in_words())
            names.hub.sleep(period_s)

    def _reload(self) -> None:
        self.supervisor.reloading()
        self._guarded(lambda: self.reloader.run("SIGHUP"), None)
        self.supervisor.ready(self._in_words())

    @staticmethod
    def _check_files(chosen: settings.Settings) -> None:
        """Raise SettingsError when a file that settings name cannot be used; others run meanwhile."""
        check_files(chosen, underlay_process.check, lambda: names.hub.sleep(0))

    def _hand_over(self) -> None:
        """Let the others of the cluster take the switches, as long as that takes; a second signal ends the waiting."""
        self.drain.set(True, "the end of the process")
        try:
            for _ in range(round(_HAND_OVER_S / CLUSTER_PERIOD_S)):
                if self.drain.state().done:
                    break
                names.hub.sleep(CLUSTER_PERIOD_S)
        except KeyboardInterrupt:
            LOG.warning("ended before all switches were handed over")

    def _prepare_log(self, chosen: settings.Settings) -> Callable[[], None]:
        """Return what lets the log go where settings say."""

        def count_lost() -> None:
            self.engine.counters["log_lost"] += 1

        return logs.prepare(chosen, count_lost)

    def _clock(self) -> None:
        while self.is_active:
            self._sleep_ns = self._wake_ns = self._beat()
            names.hub.sleep(max(self._sleep_ns - time.monotonic_ns(), 0) / 1e9)

    def _beat(self) -> int:
        """Call the engine's clock, and return when to do so again."""
        self._beats += 1
        ticked = self._guarded(self.engine.tick, 0)
        self._send_all()
        return self.engine.next_ns() if ticked else time.monotonic_ns() + _RETRY_NS

    def _flush(self) -> None:
        """After an event, send what the engine wants sent; call its clock earlier if it says so now."""
        self._send_all()
        self._wake_early(self.engine.next_ns())

    def _send_all(self) -> None:
        while waiting := self.engine.outbox.drain():
            for dpid, data in waiting:
                if not self._send(dpid, data):
                    self.engine.unsent(dpid, data)
        self._collector.run()

    def _wake_early(self, due_ns: int) -> None:
        if due_ns < self._wake_ns:
            self._wake_ns = due_ns
            names.hub.spawn_after(max(due_ns - time.monotonic_ns(), 0) / 1e9, self._beat_early, due_ns)

    def _beat_early(self, due_ns: int) -> None:
        """Call the engine's clock while _clock() sleeps, unless that, or an earlier call, came before."""
        if due_ns == self._wake_ns and self.is_active:
            self._wake_ns = self._sleep_ns
            self._wake_early(self._beat())

    def _make_cluster(self) -> Cluster:
        chosen = self.settings
        whole = chosen.forwarding == "none"
        return Cluster(chosen.cluster, chosen.sender_id, chosen.lease_ms, self._send, time.monotonic_ns, whole)

    def _follow_cluster(self, cluster: Cluster) -> None:
        while self.is_active:
            self._guarded(cluster.run, None)
            self._flush()
            names.hub.sleep(CLUSTER_PERIOD_S)

    def _follow_tenants(self) -> None:
        while self.is_active:
            self._guarded(self._read_tenants, None)
            names.hub.sleep(_OVSDB_PERIOD_S)

    def _read_tenants(self) -> None:
        self.tenants.run()
        self.engine.tenants.set_policies(dict(self.tenants.read()))

    def _follow_ovsdb(self) -> None:
        while self.is_active:
            self._guarded(self._read_ovsdb, None)
            connecting = any(one.state == "connecting" for one in self.policy.health())
            names.hub.sleep(_OVSDB_FIRST_S if connecting else _OVSDB_PERIOD_S)

    def _make_managers(self) -> ManagerListener:
        return ManagerListener(
            self.settings, self.allowed, self.policy, self._find_holder,
            lambda: self._guarded(self._take_databases, None),
        )  # fmt: skip

    def _find_holder(self, dpid: int) -> Optional[Holder]:
        """Return which connection is a switch's."""
        datapath = self.identities.holders.get(dpid)
        return datapath and Holder(datapath.socket.identity, str(datapath.socket.channel))

    def _follow_admitted(self) -> None:
        """Read the list of admitted certificates when it changes, and end what it no longer allows."""
        while self.is_active:
            if self._guarded(self.allowed.follow, False):
                for datapath in list(self.identities.holders.values()):
                    why = self.allowed.refuses(datapath.socket.identity) or self._refuses_switch(datapath)
                    if why is not None:
                        datapath.socket.end(Reason.NOT_ADMITTED, why)
            names.hub.sleep(_ADMITTED_PERIOD_S)

    def _follow_underlay(self) -> None:
        """Read the file of the network beneath when it changes."""
        while self.is_active:
            self._guarded(lambda: self.underlay.follow(self._set_underlay), None)
            names.hub.sleep(_UNDERLAY_PERIOD_S)

    def _set_underlay(self, underlay: Underlay) -> None:
        """Take another file of the network beneath, and wait until it is in force; raises ValueError."""
        self.engine.set_underlay(underlay)
        self._flush()
        while self.engine.hosting and self.engine.hosting.underlay_waits:
            names.hub.sleep(_SLICES_S)

    def _refuses_switch(self, datapath: Any) -> Optional[str]:
        """Return why a connection may not be the switch's that it says it is, None when it may."""
        identity = datapath.socket.identity
        if identity is None:
            return None
        if self.managers:
            return self.managers.nodes.refuses_switch(identity, datapath.id)
        return self.allowed.refuses_switch(identity, datapath.id)

    def _read_ovsdb(self) -> None:
        self.policy.run()
        self._take_databases()

    def _take_databases(self) -> None:
        """Let the engine know what the databases say now."""
        if self.managers:
            self.managers.settle()
        if self.engine.hosting:
            self.engine.set_devices(self.policy.devices())
        else:
            self.engine.set_tunnels(self.policy.tunnels())
            self.engine.set_vlans(self.policy.vlans())
        self.engine.set_interfaces(self.policy.interfaces())
        self.engine.tenants.set_names(self.policy.tenants())
        self._flush()

    def _deliver(self, fresh: list[PortMarks]) -> None:
        self._guarded(lambda: self.engine.collected(fresh), None)
        self._flush()

    def _collect(self, collect: Callable[[], None]) -> None:
        while self.is_active:
            self._guarded(collect, None)
            names.hub.sleep(_RETRY_NS / 1e9)

    def _guarded(self, function: Callable[[], Result], otherwise: Result) -> Result:
        """Call a function; a fault in it is logged and counted, and ends nothing else."""
        try:
            return function()
        except Exception:
            self.engine.counters["internal_errors"] += 1
            LOG.exception("internal error; the controller goes on")
            return otherwise

    def _report(self) -> None:
        while self.is_active:
            self._guarded(self.rest.report, None)
            names.hub.sleep(SAMPLE_S)

    def _send(self, dpid: int, data: bytes) -> bool:
        datapath = self.identities.holders.get(dpid)
        return datapath is not None and connections.send(datapath, data)

    @names.handler.set_ev_cls(
        names.ofp_event.EventOFPStateChange,
        [names.handler.MAIN_DISPATCHER, names.handler.DEAD_DISPATCHER],
    )
    def state_changed(self, event: Any) -> None:
        """Take a switch that finished its handshake or whose connection ended."""
        datapath: Any = event.datapath
        if event.state == names.handler.MAIN_DISPATCHER:
            datapath.socket.datapath = datapath
            why, holder = self._refuses_switch(datapath), self.identities.holders.get(datapath.id)
            if why is not None:
                datapath.socket.end(Reason.NOT_ADMITTED, why)
                return
            if holder is not None and not same(holder.socket.identity, datapath.socket.identity):
                self._refuse(datapath, holder)  # whether that one answers or not: it is no connection of this switch
                return
            claim = self.identities.claim(datapath.id, datapath)
            if claim is Claim.HELD:
                self._take(datapath)
            elif claim is Claim.DOUBTED:
                names.hub.spawn(self._decide, datapath)
            else:
                self._refuse(datapath, self.identities.holders[datapath.id])
        elif datapath.id is not None:
            held, successor = self.identities.release(datapath.id, datapath)
            if successor is not None:
                self._take(successor)
            elif held and self.cluster:
                self.cluster.disconnected(datapath.id)
            elif held:
                self.engine.switch_down(datapath.id)
        self._flush()

    def _take(self, datapath: Any) -> None:
        """Let a connection be its switch's."""
        dpid, connection = datapath.id, datapath.socket
        connection.sink = functools.partial(self._read, datapath)
        if self.cluster:
            self.cluster.connected(dpid)
        ports = connection.reader.ports
        self.engine.switch_up(dpid, {number: (port.name, port.mac, port.up) for number, port in ports.items()})
        for number, port in ports.items():
            self.engine.port_speed(dpid, number, port.speed)

    def _decide(self, newcomer: Any) -> None:
        """Ask a switch's connection whether it is there, as another one says it is that switch; leave one of both."""
        dpid = newcomer.id
        holder = self.identities.holders[dpid]
        asked = holder.socket.ask()
        # In steps, for whatever keeps this process busy meanwhile: between them it reads what arrived.
        for _ in range(round(_PROBE_S / _PROBE_STEP_S)):
            names.hub.sleep(_PROBE_STEP_S)
            if not self.identities.waits(dpid, newcomer):
                return  # one of the two ended
            if holder.socket.answered(asked):
                self.identities.keep(dpid)
                self._refuse(newcomer, holder)
                return
        self.identities.replace(dpid)
        kept, gone = newcomer.socket.channel, holder.socket.channel
        self.listener.admission.conflict(dpid, kept, gone)
        holder.socket.end(
            Reason.REPLACED, f"it did not answer for {_PROBE_S:g} s when {kept} connected as switch {dpid:016x} too"
        )
        self._take(newcomer)
        self._flush()

    def _refuse(self, newcomer: Any, holder: Any) -> None:
        dpid, kept, refused = newcomer.id, holder.socket.channel, newcomer.socket.channel
        self.listener.admission.conflict(dpid, kept, refused)
        identity = holder.socket.identity
        shown = "" if identity is None else f' by certificate "{identity.name}"'
        newcomer.socket.end(
            Reason.DUPLICATE, f"it says it is switch {dpid:016x}, which is connected from {kept}{shown}"
        )

    def _read(self, datapath: Any, message: Message) -> bool:
        """Pass on what a switch said; return whether it was meant for us.

        A fault in the engine must not end the connection's reader.
        """
        dpid = datapath.id
        if self.identities.holders.get(dpid) is not datapath:
            return True
        taken = self._guarded(lambda: self._pass(dpid, message), True)
        self._flush()
        return taken

    def _pass(self, dpid: int, message: Message) -> bool:
        engine, cluster = self.engine, self.cluster
        if isinstance(message, Multipart):
            return engine.multipart(dpid, message.data)
        if isinstance(message, PacketIn):
            engine.packet_in(dpid, message.in_port, message.frame)
        elif isinstance(message, FlowRemoved):
            engine.flow_removed(message.cookie, message.reason)
        elif isinstance(message, PortChanged):
            port = message.port
            engine.port_changed(dpid, port.number, port.name, port.mac, port.up)
            engine.port_speed(dpid, port.number, port.speed)
        elif isinstance(message, PortRemoved):
            engine.port_removed(dpid, message.number)
        elif isinstance(message, Refused) and cluster and message.kind == openflow.OFPET_ROLE_REQUEST_FAILED:
            cluster.role_refused(dpid, message.code)
        elif isinstance(message, Refused):
            engine.error(dpid, message.xid, message.kind, message.code)
        elif isinstance(message, Role) and cluster:
            cluster.role_reply(dpid, message.role, message.generation)
        return True
