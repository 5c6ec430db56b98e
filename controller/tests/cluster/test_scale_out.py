# SPDX-License-Identifier: Apache-2.0
"""Real controllers over a real Raft cluster share switches; controllers and the database's leader are killed.

What must happen within 2 s is asserted in test_cluster, in time of its own; here it is waited for.
"""

import re
import signal
import subprocess
import sys
import urllib.error

import pytest

from sdngcc.controller.cluster.view import JOINED_BEATS, Member, wanted_owner
from sdngcc.controller.wire import message, openflow

from ..databases.test_ovsdb import Database, needs_ovsdb
from ..fabric import arp, ipv4, port_reading, vm_reading
from ..processes import KEY, PATIENCE_S, Controller, WireSwitch, wait_for
from .raft import INSTALLED, Raft

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not INSTALLED, reason="ovsdb-server is not installed")]
LEASE_MS = 4000  # long, or a busy machine would end leases by itself
BRIDGES = (0xA1, 0xA2, 0xA3, 0xA4)


class Site:
    """Bridges with two machines each, connected to every controller of a cluster."""

    def __init__(self, folder):
        self.raft = Raft(folder)
        self.folder = folder
        self.controllers = []
        self.others = []  # to be stopped too
        self.switches = {}
        for dpid in BRIDGES:
            switch = self.switches[dpid] = WireSwitch(dpid, {1: b"tap1", 2: b"tap2"})
            switch.vms = {1: vm_reading(1, 5_000_000), 2: vm_reading(2, 0)}
            switch.marks = {2: port_reading(2)}

    def add(self, sender, **settings):
        controller = Controller(
            self.folder, "ryu", f"controller{sender}", cluster=self.raft.remotes, sender_id=sender, lease_ms=LEASE_MS,
            poll_hypervisors="true", **settings,
        )  # fmt: skip
        controller.sender = sender
        self.controllers.append(controller)
        for switch in self.switches.values():
            switch.connect(controller.address)
        return controller

    def told(self):
        logs = [f"--- {c.name}\n{c.log()}" for c in self.controllers]
        alive = [controller for controller in self.controllers if controller.process.poll() is None]
        states = [str(controller.get("/v1/status")) + str(controller.get("/v1/vms")) for controller in alive]
        return "\n".join([*logs, *states, self.raft.dump("Controller"), self.raft.dump("Switch")])

    def masters(self):
        """Return the port of each switch's master, by switch."""
        return {
            dpid: line.address[1]
            for dpid, switch in self.switches.items()
            for line in switch.lines
            if line.alive and line.role == openflow.ROLE_MASTER
        }

    def await_masters(self, controllers):
        """Wait until each switch obeys the one that ought to own it when these controllers live."""
        members = [Member(str(c.address[1]), c.sender, JOINED_BEATS, 1, frozenset(BRIDGES)) for c in controllers]
        wanted = {dpid: int(wanted_owner(dpid, members)) for dpid in BRIDGES}
        wait_for(lambda: self.masters() == wanted, self.told)

    def close(self):
        for switch in self.switches.values():
            switch.close()
        for controller in self.controllers:
            controller.stop()
        for other in self.others:
            other.stop()
        self.raft.stop()


@pytest.fixture
def site(tmp_path):
    found = Site(tmp_path)
    yield found
    found.close()


def talk(switch, number):
    """Let the machines of a bridge get to know each other."""
    one, two = 10 * number + 1, 10 * number + 2
    switch.packet_in(1, arp(one, two))
    switch.packet_in(2, arp(two, one))
    switch.packet_in(1, ipv4(one, two))


def mark(site, switch, count):
    """Let a bridge's queue mark packets once its counters were read; return the messages that follow."""
    seen = switch.polls
    wait_for(lambda: switch.polls > seen + 1, site.told)
    before = len(switch.senders)
    switch.marks[2] = port_reading(2, count=count)
    wait_for(lambda: len(switch.senders) > before, site.told)
    seen = switch.polls
    wait_for(lambda: switch.polls > seen + 3, site.told)
    return switch.senders[before:]


def test_switches_are_shared_and_outlive_a_controller_and_the_databases_leader(site):
    first = [site.add(1), site.add(2)]
    site.await_masters(first)
    wait_for(lambda: all(c.get("/v1/status")["ready"] for c in first), site.told)
    for number, switch in enumerate(site.switches.values()):
        talk(switch, number)
    # All know who talks to whom, whoever owns the bridge.
    wait_for(lambda: all(c.get("/v1/status")["pairs"] == len(BRIDGES) for c in first), site.told)
    for switch in site.switches.values():
        assert len(mark(site, switch, 10)) == 1, site.told()

    raft = site.raft
    raft.kill(raft.leader())
    for dpid, switch in site.switches.items():
        [(_, port, _)] = mark(site, switch, 20)
        assert port == site.masters()[dpid], site.told()
    assert not any("lease lost" in controller.log() for controller in first), site.told()

    # A controller dies; the other acts for all, and knows the relations already.
    victim = first[0] if first[0].address[1] in site.masters().values() else first[1]
    survivor = first[1 - first.index(victim)]
    generations = {dpid: switch.role_generation for dpid, switch in site.switches.items()}
    lost = [dpid for dpid, port in site.masters().items() if port == victim.address[1]]
    victim.kill()
    site.await_masters([survivor])
    for dpid, switch in site.switches.items():
        assert (switch.role_generation > generations[dpid]) == (dpid in lost)
        [(_, port, frame)] = mark(site, switch, 30)
        assert port == survivor.address[1]
        assert message.decode_v1(frame[34:], KEY).sender == survivor.sender
    assert survivor.get("/v1/status")["pairs"] == len(BRIDGES)

    # A newcomer reads relations from the flows, and its messages are no replays.
    late = site.add(3)
    wait_for(lambda: late.get("/v1/status")["pairs"] == len(BRIDGES), site.told)
    survivor.kill()
    site.await_masters([late])
    for switch in site.switches.values():
        [(_, port, frame)] = mark(site, switch, 40)
        assert port == late.address[1]
        assert message.decode_v1(frame[54:], KEY).sender == late.sender  # by IPv6: flows tell no IPv4 address
    assert all("Traceback" not in controller.log() for controller in site.controllers), site.told()


def test_a_controller_is_taken_out_of_service_without_a_gap(site):
    controllers = [site.add(1), site.add(2)]
    site.await_masters(controllers)
    first, second = controllers
    command = [sys.executable, "-m", "sdngcc.main", "controller", "--drain", "--url", first.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0 and "other controllers act for all switches" in done.stdout, done.stderr + site.told()
    site.await_masters([second])
    status = first.get("/v1/status")
    assert status["lease"] == {**status["lease"], "held": True, "switches": 0} and not status["ready"]
    command[4] = "--resume"
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
    site.await_masters(controllers)

    # SIGTERM does the same before the process ends.
    generations = {dpid: switch.role_generation for dpid, switch in site.switches.items()}
    mine = {dpid for dpid, port in site.masters().items() if port == first.address[1]}
    assert mine
    first.stop()
    owners = site.raft.dump("Switch")
    site.await_masters([second])
    assert {dpid for dpid, switch in site.switches.items() if switch.role_generation > generations[dpid]} == mine
    assert "ended before all switches" not in first.log() and "Traceback" not in first.log(), owners


def test_a_stalled_master_is_refused_when_it_wakes(site):
    controllers = [site.add(1), site.add(2)]
    site.await_masters(controllers)
    stalled, other = controllers
    before = {dpid for dpid, port in site.masters().items() if port == stalled.address[1]}
    assert before
    stalled.process.send_signal(signal.SIGSTOP)
    site.await_masters([other])
    stalled.process.send_signal(signal.SIGCONT)
    # It finds its lease gone, acts for nothing, and gets its part back under later generation ids.
    wait_for(lambda: re.search("lease lost", stalled.log()), site.told)
    site.await_masters(controllers)
    assert all(controller.process.poll() is None for controller in controllers)
    assert all("Traceback" not in controller.log() for controller in controllers), site.told()


def stored(controller):
    """Return a machine's policy as a controller shows it, None while that knows none."""
    try:
        return controller.get("/v1/vms/00000000000000a1:tap1")["stored"]
    except urllib.error.HTTPError:
        return None


def stored_tenants(controller):
    """Return the policy of tenants as a controller shows it, and which of them have VMs."""
    tenants = controller.get("/v1/tenants")["tenants"]
    return {one["name"]: (one["weight"], one["max_bps"], one["vms"]) for one in tenants}


@needs_ovsdb
def test_policy_set_on_one_is_seen_on_all_and_outlives_a_restart_of_everything(site, tmp_path):
    hypervisor = Database(tmp_path)
    site.others.append(hypervisor)
    hypervisor.vsctl("set", "interface", "tap1", "external_ids:shim-tenant=gold")
    chosen = {"ovsdb": hypervisor.remote, "decision": "maxmin"}
    controllers = [site.add(1, **chosen), site.add(2, **chosen)]
    first = {"weight": None, "min": 3_000_000, "max": None, "law": None}
    for controller in controllers:
        wait_for(lambda at=controller: stored(at) == first, site.told)
    wanted = {"weight": 3, "min": 3_000_000, "max": 8_000_000, "law": None}
    answer = controllers[0].put("/v1/vms/00000000000000a1:tap1", {"weight": 3, "max": 8_000_000})
    assert answer["stored"] == wanted
    wait_for(lambda: stored(controllers[1]) == wanted, site.told)
    controllers[1].put("/v1/vms/00000000000000a1:tap1", {"weight": 5})
    wanted["weight"] = 5
    wait_for(lambda: stored(controllers[0]) == wanted, site.told)
    wait_for(lambda: controllers[0].get("/v1/status")["databases"][-1]["state"] == "connected", site.told)
    assert controllers[0].put("/v1/tenants/gold", {"weight": 2, "max": 10**13})["vms"] == 1
    tenants = {"gold": (2, 10**13, 1)}
    for controller in controllers:
        wait_for(lambda at=controller: stored_tenants(at) == tenants, site.told)

    for controller in controllers:
        controller.kill()
    for number in list(site.raft.servers):
        site.raft.kill(number)
    hypervisor.restart()
    for number in range(3):
        site.raft.start(number)
    for controller in controllers:
        controller.start()
        for switch in site.switches.values():
            switch.connect(controller.address)
    for controller in controllers:
        wait_for(lambda at=controller: stored(at) == wanted, site.told)
        wait_for(lambda at=controller: stored_tenants(at) == tenants, site.told)
    site.await_masters(controllers)
    assert all("Traceback" not in controller.log() for controller in controllers), site.told()


def test_without_a_database_nothing_is_acted_for_and_the_key_is_named(tmp_path):
    controller = Controller(tmp_path, "ryu", cluster="tcp:127.0.0.1:1", lease_ms=300)
    switch = WireSwitch(0xA1, {1: b"tap1"})
    try:
        switch.connect(controller.address)
        wait_for(lambda: "cluster database tcp:127.0.0.1:1: unreachable" in controller.log(), controller.log)
        status = controller.get("/v1/status")
        assert status["switches"] == 1 and not status["ready"]
        assert not status["lease"]["held"] and status["lease"]["switches"] == 0
        # Between two attempts to connect it may be called hung for a moment: what matters is that it is named.
        away, lease = status["not_ready"][-2:]
        assert away in {f"cluster database {state}: tcp:127.0.0.1:1" for state in ("unreachable", "hung", "no quorum")}
        assert lease == "this controller holds no lease of the cluster, so it acts for no switch"
        assert switch.polls == 0 and not switch.flows
        assert "Traceback" not in controller.log()
    finally:
        switch.close()
        controller.stop()
