# SPDX-License-Identifier: Apache-2.0
"""The rim: the Ryu (or os-ken) application around the engine.

``sdngcc controller`` starts it; so does ``ryu-manager sdngcc.controller.app`` with settings from the
environment, where eventlet is old enough for Ryu's own launcher.
"""

import logging
import time
from typing import Any, Callable, TypeVar

from sdngcc.controller import settings
from sdngcc.controller.cluster.runner import PERIOD_S as CLUSTER_PERIOD_S
from sdngcc.controller.cluster.runner import Cluster
from sdngcc.controller.databases.ovsdb import Policy
from sdngcc.controller.engine import Engine
from sdngcc.controller.framework import compat
from sdngcc.controller.garbage import Collector
from sdngcc.controller.rest.audit import AuditLog
from sdngcc.controller.rest.live import Live
from sdngcc.controller.rest.resource import RestContext
from sdngcc.controller.rest.server import SAMPLE_S, Server
from sdngcc.controller.sources import PortMarks
from sdngcc.controller.wire import openflow

LOG = logging.getLogger(__name__)

_CONFIG_DOWN = 1  # OFPPC_PORT_DOWN
_STATE_LINK_DOWN = 1  # OFPPS_LINK_DOWN
_PORT_DELETED = 1  # OFPPR_DELETE
_KBPS = 125  # bytes/s
_OVSDB_PERIOD_S = 0.5
_RETRY_NS = 1_000_000_000

Result = TypeVar("Result")

compat.tap_connections()


def _is_up(port: Any) -> bool:
    return not (port.config & _CONFIG_DOWN or port.state & _STATE_LINK_DOWN)


def _mac(port: Any) -> bytes:
    return bytes.fromhex(str(port.hw_addr).replace(":", ""))


class SdnGcc(compat.App):
    """The application: passes events in and bytes out."""

    OFP_VERSIONS = [compat.ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.settings = settings.current()
        self.datapaths: dict[int, Any] = {}
        self.workers: list[Any] = []  # our own threads; the framework's event loop is in self.threads
        self.cluster = self._make_cluster() if self.settings.cluster else None
        self.engine = Engine(self.settings, owner=self.cluster)
        self._collector = Collector()
        self._sleep_ns = 0  # when _clock() calls the engine's clock next
        self._wake_ns = 0  # when it is called next at all
        if self.cluster:
            self.cluster.attach(self.engine)
        self.policy = Policy(self.settings.ovsdb, compat.hub.sleep)
        audit = AuditLog(self.settings.audit_file, self.engine.counters)
        context = RestContext(self.engine, self.policy, Live(self.engine), audit, lambda: compat.hub.sleep(0))
        self.rest = Server(context, self.settings)

    def start(self) -> None:
        """Start the clock, the OVSDB clients and REST."""
        super().start()
        self.workers.append(compat.hub.spawn(self._clock))
        if self.settings.ovsdb:
            self.workers.append(compat.hub.spawn(self._follow_ovsdb))
        if self.cluster:
            self.workers.append(compat.hub.spawn(self._follow_cluster, self.cluster))
        if self.settings.rest:
            self.workers.append(compat.hub.spawn(self.rest.serve))
            self.workers.append(compat.hub.spawn(self._report))
        for collect in self.engine.source.collectors(self._deliver, self.engine.clock):
            self.workers.append(compat.hub.spawn(self._collect, collect))

    def stop(self) -> None:
        """End clock, OVSDB clients and REST; take the events that wait; write what is left of the trace.

        The framework ends its event loop by an event, and waits for resource in the queue first: were the loop
        killed too, a full queue (switches that all disconnect at once) would never have any.
        """
        self.rest.close()
        for worker in self.workers:
            compat.hub.kill(worker)
        super().stop()
        self.engine.trace.flush()

    def _clock(self) -> None:
        while self.is_active:
            self._sleep_ns = self._wake_ns = self._beat()
            compat.hub.sleep(max(self._sleep_ns - time.monotonic_ns(), 0) / 1e9)

    def _beat(self) -> int:
        """Call the engine's clock, and return when to do so again."""
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
            compat.hub.spawn_after(max(due_ns - time.monotonic_ns(), 0) / 1e9, self._beat_early, due_ns)

    def _beat_early(self, due_ns: int) -> None:
        """Call the engine's clock while _clock() sleeps, unless that, or an earlier call, came before."""
        if due_ns == self._wake_ns and self.is_active:
            self._wake_ns = self._sleep_ns
            self._wake_early(self._beat())

    def _make_cluster(self) -> Cluster:
        chosen = self.settings
        return Cluster(chosen.cluster, chosen.sender_id, chosen.lease_ms, self._send, time.monotonic_ns)

    def _follow_cluster(self, cluster: Cluster) -> None:
        while self.is_active:
            self._guarded(cluster.run, None)
            self._flush()
            compat.hub.sleep(CLUSTER_PERIOD_S)

    def _follow_ovsdb(self) -> None:
        while self.is_active:
            self._guarded(self._read_ovsdb, None)
            compat.hub.sleep(_OVSDB_PERIOD_S)

    def _read_ovsdb(self) -> None:
        self.policy.run()
        self.engine.set_interfaces(self.policy.interfaces())
        self.engine.set_tunnels(self.policy.tunnels())
        self.engine.set_vlans(self.policy.vlans())
        self._flush()

    def _deliver(self, fresh: list[PortMarks]) -> None:
        self._guarded(lambda: self.engine.collected(fresh), None)
        self._flush()

    def _collect(self, collect: Callable[[], None]) -> None:
        while self.is_active:
            self._guarded(collect, None)
            compat.hub.sleep(_RETRY_NS / 1e9)

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
            compat.hub.sleep(SAMPLE_S)

    def _send(self, dpid: int, data: bytes) -> bool:
        datapath = self.datapaths.get(dpid)
        return datapath is not None and compat.send(datapath, data)

    @compat.handler.set_ev_cls(
        compat.ofp_event.EventOFPStateChange,
        [compat.handler.MAIN_DISPATCHER, compat.handler.DEAD_DISPATCHER],
    )
    def state_changed(self, event: Any) -> None:
        """Take a switch that finished its handshake or whose connection ended."""
        datapath: Any = event.datapath
        if event.state == compat.handler.MAIN_DISPATCHER:
            dpid = datapath.id
            self.datapaths[dpid] = datapath
            datapath.socket.sink = lambda data: self._multipart(datapath, data)
            if self.cluster:
                self.cluster.connected(dpid)
            self.engine.switch_up(
                dpid,
                {
                    number: (port.name.decode("utf-8", "replace"), _mac(port), _is_up(port))
                    for number, port in datapath.ports.items()
                },
            )
            for number, port in datapath.ports.items():
                self.engine.port_speed(dpid, number, port.curr_speed * _KBPS)
        elif self._is_current(datapath):
            del self.datapaths[datapath.id]
            if self.cluster:
                self.cluster.disconnected(datapath.id)
            else:
                self.engine.switch_down(datapath.id)
        self._flush()

    def _multipart(self, datapath: Any, data: bytes) -> bool:
        """Pass on a multipart reply; a fault in the engine must not end the connection's reader."""
        taken = not self._is_current(datapath) or self._guarded(lambda: self.engine.multipart(datapath.id, data), True)
        self._flush()
        return taken

    @compat.handler.set_ev_cls(compat.ofp_event.EventOFPPacketIn, compat.handler.MAIN_DISPATCHER)
    def packet_in(self, event: Any) -> None:
        """Take a packet no flow knew."""
        msg = event.msg
        if self._is_current(msg.datapath):
            self.engine.packet_in(msg.datapath.id, msg.match["in_port"], bytes(msg.data))
            self._flush()

    @compat.handler.set_ev_cls(compat.ofp_event.EventOFPFlowRemoved, compat.handler.MAIN_DISPATCHER)
    def flow_removed(self, event: Any) -> None:
        """Take note of a flow that is gone."""
        if self._is_current(event.msg.datapath):
            self.engine.flow_removed(event.msg.cookie, event.msg.reason)
            self._flush()

    @compat.handler.set_ev_cls(compat.ofp_event.EventOFPPortStatus, compat.handler.MAIN_DISPATCHER)
    def port_status(self, event: Any) -> None:
        """Take a port that came, changed or went."""
        msg = event.msg
        if not self._is_current(msg.datapath):
            return
        port, dpid = msg.desc, msg.datapath.id
        if msg.reason == _PORT_DELETED:
            self.engine.port_removed(dpid, port.port_no)
        else:
            name = port.name.decode("utf-8", "replace")
            self.engine.port_changed(dpid, port.port_no, name, _mac(port), _is_up(port))
            self.engine.port_speed(dpid, port.port_no, port.curr_speed * _KBPS)
        self._flush()

    @compat.handler.set_ev_cls(compat.ofp_event.EventOFPErrorMsg, compat.handler.MAIN_DISPATCHER)
    def error(self, event: Any) -> None:
        """Take an OpenFlow error; it bears the transaction id of what it is about."""
        msg = event.msg
        if not self._is_current(msg.datapath):
            return
        if self.cluster and msg.type == openflow.OFPET_ROLE_REQUEST_FAILED:
            self.cluster.role_refused(msg.datapath.id, msg.code)
        else:
            self.engine.error(msg.datapath.id, msg.xid, msg.type, msg.code)
            self._flush()

    @compat.handler.set_ev_cls(compat.ofp_event.EventOFPRoleReply, compat.handler.MAIN_DISPATCHER)
    def role_reply(self, event: Any) -> None:
        """Take a switch's answer to a request for a role."""
        msg = event.msg
        if self.cluster and self._is_current(msg.datapath):
            self.cluster.role_reply(msg.datapath.id, msg.role, msg.generation_id)

    def _is_current(self, datapath: Any) -> bool:
        """Tell whether a connection is the last one its switch made."""
        return bool(self.datapaths.get(datapath.id) is datapath)
