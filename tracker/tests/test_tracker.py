# SPDX-License-Identifier: Apache-2.0
"""Reference weights, factors, and tracker and agent over real sockets: failover, silence, forgery."""

import json
import socket
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.tracker.decision import LEAST, WHOLE, Choice, Division, Factors, Flow, peer_weights, reference_weight
from sdngcc.tracker.service import Agent, Refused, Tracker, pack, read_flows, unpack
from sdngcc.tracker.settings import Settings, SettingsError, read_settings

DIVISIONS = {"a": Division(3, "ds"), "b": Division(1, "cs")}
KEY = b"secret"


def test_reference_weights_are_the_papers() -> None:
    assert reference_weight("ds", [Flow(1000, 0.01), Flow(4000, 0.02)]) == pytest.approx(300_000)
    assert reference_weight("ds", [Flow(1000, 0.0), Flow(1000, -1.0)]) == 0
    assert reference_weight("cs", [Flow(1000), Flow(4000), Flow(0)]) == pytest.approx(0.00125)
    assert reference_weight("ls", [Flow(0), Flow(15_000)]) == pytest.approx(2 * 15_000 / 0.0003)
    assert reference_weight("ls", [Flow(25_000)]) == pytest.approx(15_000 / 0.0003 + 10_000 / 0.005)
    assert all(reference_weight(objective, []) == 0 for objective in ("ds", "cs", "ls"))
    with pytest.raises(ValueError, match="allowed are ds, cs, ls"):
        reference_weight("x", [])


@given(references=st.lists(st.lists(st.floats(1e-6, 1e12), min_size=1, max_size=20), min_size=1, max_size=20))
def test_a_divisions_weights_add_up_to_its_own(references: List[List[float]]) -> None:
    """Over any hosts and tunnels, up to rounding and what sleeping tunnels keep."""
    factors = Factors(DIVISIONS)
    for host, tunnels in enumerate(references):
        factors.tell(f"h{host}", {"a": sum(tunnels)}, 0.0)
    factor = factors.factors(0.0)["a"]
    total, count = 0, 0
    for tunnels in references:
        weights = peer_weights(dict(enumerate(tunnels)), factor, DIVISIONS["a"], DIVISIONS)
        total, count = total + sum(weights.values()), count + len(weights)
    whole = WHOLE * 3 / 4
    assert whole - count <= total <= whole * (1 + LEAST * count) + count


def test_hosts_that_are_silent_count_no_more() -> None:
    factors = Factors(DIVISIONS, stale_s=1.0)
    factors.tell("h1", {"a": 10.0}, 0.0)
    factors.tell("h2", {"a": 30.0}, 0.9)
    assert factors.factors(0.9)["a"] == pytest.approx(7500 / 40)
    assert factors.factors(1.5)["a"] == pytest.approx(7500 / 30)
    assert factors.factors(9.0) == {"a": 0.0, "b": 0.0}
    with pytest.raises(ValueError, match="division 'c' is not among a, b"):
        factors.tell("h1", {"c": 1.0}, 0.0)


def test_the_first_tracker_that_answers_is_obeyed() -> None:
    choice = Choice(2, takeover_s=0.05)
    assert choice.current(0.0) is None
    choice.heard(1, 0.0)
    assert choice.current(0.01) == 1
    choice.heard(0, 0.02)
    assert choice.current(0.03) == 0
    choice.heard(1, 0.06)
    assert choice.current(0.07) == 0 and choice.current(0.08) == 1 and choice.current(0.2) is None


class Bench:
    """Two trackers and one agent with two VMs, on this machine, under a clock of the test's own."""

    def __init__(self, folder: Path) -> None:
        (folder / "key").write_bytes(KEY)
        common = {"divisions": {"a": {"weight": 3, "objective": "ds"}, "b": {"weight": 1, "objective": "cs"}},
                  "key_file": str(folder / "key")}
        self.trackers: List[Optional[Tracker]] = [Tracker(Settings.model_validate(common), "127.0.0.1:0")
                                                  for _ in range(2)]
        self.weights: Dict[Tuple[str, str], int] = {}
        self.path = str(folder / "vm1.sock")
        self.agent = Agent(Settings.model_validate({
            **common, "host": "h1", "trackers": [one.address for one in self.trackers if one], "period_ms": 5,
            "takeover_ms": 50,
            "vms": {"vm1": {"division": "a", "register_path": self.path},
                    "vm2": {"division": "b", "peers": {"10.0.1.1": 1.0, "10.0.1.2": 3.0}}}}), self.set_weight)
        self.now_s = 1.0

    def set_weight(self, device: str, address: str, weight: int) -> bool:
        self.weights[device, address] = weight
        return True

    def register(self, flows: List[Any], peer: str = "10.0.1.9") -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(json.dumps({"peer": peer, "flows": flows}).encode(), self.path)

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.now_s += 0.005
            self.agent.hear_trackers(self.now_s)
            self.agent.tell_trackers(self.now_s)
            for tracker in self.trackers:
                if tracker is not None:
                    tracker.serve(self.now_s)

    def kill(self, index: int) -> None:
        tracker = self.trackers[index]
        assert tracker is not None
        tracker.close()
        self.trackers[index] = None


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_weights_follow_registrations_within_two_periods(bench: Bench) -> None:
    bench.step(3)
    assert bench.weights == {("vm2", "10.0.1.1"): 625, ("vm2", "10.0.1.2"): 1875}
    bench.register([[100_000, 10_000]])
    bench.register([[100_000, 10_000], [100_000, 5_000]], peer="10.0.1.8")
    bench.step(2)
    assert bench.weights["vm1", "10.0.1.9"] == 1875 and bench.weights["vm1", "10.0.1.8"] == 5625


def test_a_standby_takes_over_in_time_and_nothing_is_lost(bench: Bench) -> None:
    """Within 50 ms and a period of the first one's death, with weights that know every flow registered before."""
    bench.register([[100_000, 10_000]])
    bench.register([[300_000, 10_000]], peer="10.0.1.8")
    bench.step(4)
    bench.kill(0)
    before = dict(bench.weights)
    bench.step(9)
    assert bench.weights == before
    bench.register([[100_000, 10_000]], peer="10.0.1.8")
    bench.step(3)
    assert bench.weights["vm1", "10.0.1.9"] == bench.weights["vm1", "10.0.1.8"] == 3750
    assert bench.weights["vm2", "10.0.1.2"] == 1875


def test_a_returning_tracker_is_obeyed_again_and_agrees(bench: Bench) -> None:
    bench.step(3)
    first = bench.trackers[0]
    assert first is not None
    bench.trackers[0] = None
    bench.step(20)
    bench.trackers[0] = first
    before = dict(bench.weights)
    bench.step(5)
    assert bench.weights == before


def test_without_any_tracker_weights_are_taken_back(bench: Bench) -> None:
    """The operator's weights of VMs count then."""
    bench.step(3)
    bench.kill(0)
    bench.kill(1)
    bench.step(12)
    assert set(bench.weights.values()) == {0}


def test_a_workload_that_falls_silent_loses_its_weight(bench: Bench) -> None:
    bench.register([[100_000, 10_000]])
    bench.step(3)
    assert bench.weights["vm1", "10.0.1.9"] == 7500
    bench.step(205)
    assert bench.weights["vm1", "10.0.1.9"] == 0


def test_weights_that_cannot_be_set_are_tried_again(bench: Bench) -> None:
    real, bench.agent._set_weight = bench.set_weight, lambda *_: False
    bench.step(3)
    assert not bench.weights
    bench.agent._set_weight = real
    bench.step()
    assert bench.weights["vm2", "10.0.1.1"] == 625


def test_closing_takes_weights_back(bench: Bench) -> None:
    bench.step(3)
    bench.agent.close()
    assert set(bench.weights.values()) == {0}


def test_forged_old_and_broken_datagrams_change_nothing(bench: Bench) -> None:
    bench.step(3)
    tracker = bench.trackers[0]
    assert tracker is not None
    host, port = tracker.address.split(":")
    good = {"host": "h1", "epoch": 1, "sequence": 1, "sums": {"a": 1e9}}
    broken = [pack(good, b"other"), pack(good, KEY), b"", b"x" * 100, pack({**good, "epoch": 2**63, "sums": []}, KEY),
              pack({**good, "host": "h2", "sums": {"c": 1.0}}, KEY), pack({"host": "h3"}, KEY)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for data in broken:
            sock.sendto(data, (host, int(port)))
    before = dict(bench.weights)
    bench.step(3)
    assert tracker.refused == len(broken) and bench.weights == before


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"peer":"x","flows":[]}', b'{"peer":"10.0.0.1","flows":[[1]]}',
                                  b'{"peer":"10.0.0.1","flows":[[-1,0]]}', b'{"peer":"10.0.0.1","flows":7}'])
def test_broken_registrations_are_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        read_flows(data)


def test_datagrams_are_tagged() -> None:
    assert unpack(pack({"a": 1}, KEY), KEY) == {"a": 1}
    with pytest.raises(Refused):
        unpack(pack({"a": 1}, KEY)[:-1] + b" ", KEY)
    with pytest.raises(Refused):
        unpack(pack([1], KEY), KEY)  # type: ignore[arg-type]


@pytest.mark.parametrize("change,text", [
    ({"vms": {"x": {"division": "z"}}}, "vms.x.division=z: there are a"),
    ({"trackers": ["10.0.0.1:7700"]}, "needs key_file"),
    ({"trackers": ["10.0.0.1"]}, "is not HOST:PORT"),
    ({"takeover_ms": 6}, "at least two periods"),
    ({"colour": 1}, "colour"),
    ({"divisions": {}}, "divisions"),
])
def test_settings_are_refused_by_name(tmp_path: Path, change: Dict[str, Any], text: str) -> None:
    path = tmp_path / "tracker.json"
    path.write_text(json.dumps({"divisions": {"a": {"objective": "ds"}}, **change}))
    with pytest.raises(SettingsError, match=text):
        read_settings(path)
