# SPDX-License-Identifier: Apache-2.0
"""Reference weights, factors, and tracker and agent over real sockets: failover, silence, forgery."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.tracker import service
from sdngcc.tracker.datagrams import Answer, Refused, Sums, _tag, pack, read_registration, unpack
from sdngcc.tracker.decision import LEAST, WHOLE, Choice, Division, Factors, Flow, peer_weights, reference_weight
from sdngcc.tracker.service import Agent, Tracker
from sdngcc.tracker.settings import PREFIX, Settings, SettingsError, load

DIVISIONS = {"a": Division(3, "ds"), "b": Division(1, "cs")}
KEY = b"secret of sixteen or more bytes"
# What no reader may fall over: numbers beyond floats, depth, what is no JSON.
HOSTILE = [b"", b"{", b"[" * 60_000, b'{"a":' * 10_000, b"null", b"7", b"[]", b"{}", b"\xff\xfe", b'"' + b"x" * 60_000,
           b"1" * 5000]
HOSTILE_NUMBERS = ["1e999", "-1e999", "NaN", "Infinity", "-1", "1e31", '"1"', "true", "null", "[]", "1" * 400]


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
        (folder / "key").chmod(0o640)
        common = {"divisions": {"a": {"weight": 3, "objective": "ds"}, "b": {"weight": 1, "objective": "cs"}},
                  "key_file": str(folder / "key")}
        self.trackers: List[Optional[Tracker]] = [Tracker(Settings.model_validate(
            {**common, "listen": "127.0.0.1:0"})) for _ in range(2)]
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


def tagged(body: bytes) -> bytes:
    return _tag(body, KEY) + body


def test_forged_old_and_broken_datagrams_change_nothing(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.step(3)
    tracker = bench.trackers[0]
    assert tracker is not None
    host, port = tracker.address.split(":")
    good = Sums(host="h1", epoch=1, sequence=1, sums={"a": 1e9})
    text = '{"host": "h2", "epoch": 1, "sequence": 1, "sums": {"a": %s}}'
    broken = [
        pack(good, b"other"), pack(good, KEY), b"x" * 100, *HOSTILE, *map(tagged, HOSTILE),
        *(tagged((text % number).encode()) for number in HOSTILE_NUMBERS),
        tagged(b'{"host": "h2", "epoch": 1e999, "sequence": 1, "sums": {}}'),
        tagged(b'{"host": "h2", "epoch": 1, "sequence": 1, "sums": []}'),
        pack(Sums(host="h2", epoch=1, sequence=1, sums={"c": 1.0}), KEY), tagged(b'{"host": "h3"}'),
    ]
    before = dict(bench.weights)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for data in broken:
            sock.sendto(data, (host, int(port)))
            tracker.serve(bench.now_s)
    bench.step(3)
    assert tracker.refused == len(broken) and bench.weights == before
    assert "datagram of 127.0.0.1 refused: the tag is wrong" in caplog.text
    assert "sums.a: Input should be a finite number" in caplog.text


def test_a_broken_answer_of_a_tracker_changes_nothing(bench: Bench) -> None:
    bench.step(3)
    before, refused = dict(bench.weights), 0
    text = '{"epoch": %d, "sequence": %d, "factors": {"a": %s, "b": 1.0}}'
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for body in [*HOSTILE, *((text % (bench.agent._epoch, bench.agent._sequence, number)).encode()
                                 for number in HOSTILE_NUMBERS)]:
            sock.sendto(tagged(body), bench.agent._sockets[0].getsockname())
            refused += 1
            bench.agent.hear_trackers(bench.now_s)
    assert bench.agent.refused == refused and bench.weights == before


def test_a_flood_keeps_nobody_else_from_being_heard(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "BATCH", 10)
    bench.step(3)
    tracker = bench.trackers[0]
    assert tracker is not None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in range(50):
            sock.sendto(b"[", (tracker.address.split(":")[0], int(tracker.address.split(":")[1])))
    tracker.serve(bench.now_s)
    assert tracker.refused == 10


def test_a_vm_registers_a_bounded_number_of_addresses(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "PEERS_MAX", 3)
    for number in range(5):
        bench.register([[1000, 1000]], peer=f"10.0.2.{number + 1}")
        bench.agent.tell_trackers(bench.now_s)
    assert bench.agent.refused == 2
    bench.now_s += 2
    bench.register([[1000, 1000]], peer="10.0.3.1")
    bench.agent.tell_trackers(bench.now_s)
    assert bench.agent.refused == 2


@pytest.mark.parametrize("data", [
    *HOSTILE, b'{"peer":"x","flows":[]}', b'{"peer":"fe80::1%eth0","flows":[]}', b'{"peer":"10.0.0.1","flows":[[1]]}',
    b'{"peer":"10.0.0.1","flows":[[-1,0]]}', b'{"peer":"10.0.0.1","flows":7}',
    b'{"peer":"10.0.0.1","flows":[' + b",".join([b"[1,1]"] * 4097) + b"]}",
    *(f'{{"peer":"10.0.0.1","flows":[[{number},0]]}}'.encode() for number in HOSTILE_NUMBERS),
    *(f'{{"peer":"10.0.0.1","flows":[[0,{number}]]}}'.encode() for number in HOSTILE_NUMBERS if number != "-1"),
])
def test_broken_registrations_are_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        read_registration(data)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(
        st.sampled_from(["host", "epoch", "sequence", "sums", "factors", "peer", "flows", "a"]), inner, max_size=5),
    max_leaves=30,
)


@given(value=VALUES, noise=st.binary(max_size=200))
def test_whatever_arrives_is_read_or_refused(value: Any, noise: bytes) -> None:
    for body in (json.dumps(value).encode(), noise, json.dumps(value).encode() + noise):
        for read in (read_registration, lambda data: unpack(tagged(data), KEY, Sums),
                     lambda data: unpack(tagged(data), KEY, Answer)):
            try:
                read(body)
            except Refused as error:
                assert str(error) and len(str(error)) < 500


def test_the_largest_registration_is_taken_and_leaves_numbers_finite(bench: Bench) -> None:
    bench.register([[1 << 53, 1]] * 1500)
    bench.step(3)
    assert bench.agent.refused == 0 and bench.weights["vm1", "10.0.1.9"] == 7500
    assert all(tracker is not None and tracker.refused == 0 for tracker in bench.trackers)


def test_datagrams_are_tagged() -> None:
    answer = Answer(epoch=1, sequence=2, factors={"a": 0.5})
    assert unpack(pack(answer, KEY), KEY, Answer) == answer
    with pytest.raises(Refused, match="tag"):
        unpack(pack(answer, KEY)[:-1] + b" ", KEY, Answer)
    with pytest.raises(Refused, match="message: .*object"):
        unpack(tagged(b"[1]"), KEY, Answer)


@pytest.mark.parametrize("key, mode, listen, said", [
    (None, 0, "0.0.0.0:0", "listen 0.0.0.0:0: without a key only 127.0.0.1 .* set key_file"),
    (None, 0, "localhost:0", "without a key only"),
    (b"", 0o600, "127.0.0.1:0", "it holds 0 bytes; allowed: 16 to 1024"),
    (KEY, 0o644, "127.0.0.1:0", "everybody may use it .mode 644.; allowed: 640"),
])
def test_it_starts_on_loopback_or_with_a_key_only(
    tmp_path: Path, key: Optional[bytes], mode: int, listen: str, said: str
) -> None:
    settings: Dict[str, Any] = {"divisions": {"a": {"objective": "ds"}}}
    if key is not None:
        (tmp_path / "key").write_bytes(key)
        (tmp_path / "key").chmod(mode)
        settings["key_file"] = str(tmp_path / "key")
    with pytest.raises(SettingsError, match=said):
        Tracker(Settings.model_validate({**settings, "listen": listen}))
    (tmp_path / "tracker.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "sdngcc.main", "tracker", "serve", "--config", tmp_path / "tracker.json",
         "--listen", listen], capture_output=True, text=True, timeout=120,
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr and said.split(" .")[0] in done.stderr


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
        load(path, {})


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tracker.json"
    path.write_text('{"divisions": {"a": {"objective": "ds"}}, "host": "h1", "listen": "127.0.0.1:1", "period_ms": 6}')
    settings = load(path, {PREFIX + "HOST": "h2", PREFIX + "LISTEN": "127.0.0.1:2",
                           PREFIX + "TRACKERS": "127.0.0.1:7,[::1]:8"}, {"listen": "127.0.0.1:3"})
    assert (settings.period_ms, settings.host, settings.listen) == (6, "h2", "127.0.0.1:3")
    assert settings.trackers == ("127.0.0.1:7", "[::1]:8")
    only = load(None, {PREFIX + "DIVISIONS": '{"a": {"objective": "cs", "weight": 2}}'})
    assert only.divisions["a"].weight == 2
    with pytest.raises(SettingsError, match="colour: unknown key(.|\n)*known keys: "):
        load(path, {PREFIX + "COLOUR": "red"})


def test_a_division_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "tracker.json"
    path.write_text('{"divisions": {"a": {"objective": "ds"}, "a": {"objective": "cs"}}}')
    with pytest.raises(SettingsError, match='"a" is given twice'):
        load(path, {})


def test_every_setting_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs/tracker.md").read_text("utf-8")
    for name in Settings.model_fields:
        assert f"| `{name}" in text, name
