# SPDX-License-Identifier: Apache-2.0
"""Reference weights, factors, and tracker and agent over real sockets: failover, silence, forgery."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple, cast

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


class Endless:
    """A workload's socket that always has another registration, made by a function of its number."""

    def __init__(self, make: Callable[[int], bytes]) -> None:
        self.read = 0
        self._make = make

    def recv(self, size: int) -> bytes:
        self.read += 1
        return self._make(self.read)

    def close(self) -> None:
        pass


def registration(number: int, flows: int) -> bytes:
    text = {"peer": f"10.{number // 250 % 4}.1.{number % 250}", "flows": [[1 << 50, 1000]] * flows}
    return json.dumps(text, separators=(",", ":")).encode()


@pytest.mark.parametrize("flows", [0, 1, 100, 2000])
def test_a_vm_that_registers_without_end_costs_a_bounded_part_of_each_step(bench: Bench, flows: int) -> None:
    """And another one's weights are there within two periods."""
    bench.step(3)
    flood = Endless(lambda number: registration(number, flows))
    bench.agent._workloads["vm1"].close()
    bench.agent._workloads["vm1"] = cast(socket.socket, flood)
    cost = len(registration(1, flows)) + service.REGISTRATION_BYTES
    bench.step(20)
    assert flood.read * cost <= service.DATAGRAM_BYTES + 20 * service.VM_BYTES + cost
    before, calls = flood.read, len(bench.weights)
    bench.agent._settings.vms["vm2"].peers["10.0.1.3"] = 4.0
    bench.agent._vms["vm2"].fixed["10.0.1.3"] = 4.0
    bench.step(2)
    assert (flood.read - before) * cost <= 2 * service.VM_BYTES + 2 * cost and calls
    assert bench.weights["vm2", "10.0.1.3"] == 1250 and bench.weights["vm2", "10.0.1.1"] == 312


def test_many_vms_that_register_without_end_are_heard_in_turn(bench: Bench) -> None:
    bench.step(3)
    floods = {f"x{number}": Endless(lambda number: registration(number, 1000)) for number in range(40)}
    for device, flood in floods.items():
        bench.agent._vms[device] = service._Vm("a")
        bench.agent._workloads[device] = cast(socket.socket, flood)
    cost = len(registration(1, 1000)) + service.REGISTRATION_BYTES
    read = 0
    for _ in range(40):
        bench.step()
        now = sum(flood.read for flood in floods.values())
        assert (now - read) * cost <= service.STEP_BYTES + 2 * cost
        read = now
    assert min(flood.read for flood in floods.values()) > 0


def test_weights_of_many_addresses_are_set_some_in_a_period(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "WEIGHTS_MAX", 10)
    vm, calls = bench.agent._vms["vm1"], []
    bench.step(3)
    real = bench.agent._set_weight
    bench.agent._set_weight = lambda device, peer, weight: calls.append(device) or real(device, peer, weight)
    for number in range(100):
        vm.registered[f"10.9.0.{number}"] = (bench.now_s, 1.0)
    for _ in range(11):
        calls.clear()
        bench.step()
        assert calls.count("vm1") <= 10
    assert sum(device == "vm1" for device, _ in bench.weights) == 100
    assert bench.weights["vm2", "10.0.1.2"] == 1875
    bench.agent.close()
    assert set(bench.weights.values()) == {0}


def test_words_of_a_workload_are_no_words_of_the_log(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    for word in ("secret", "\x1b[2J", "x" * 100):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(json.dumps({"peer": "10.0.0.1", "flows": [], word: 1}).encode(), bench.path)
        bench.step()
    assert bench.agent.refused == 3 and len({record.getMessage() for record in caplog.records}) == 1
    assert "registration at vm1 refused: ?: Extra inputs are not permitted" in caplog.text


def ask(tracker: Tracker, now_s: float, **words: Any) -> Optional[Answer]:
    """Tell a tracker something as a host; return its answer, None where it has none."""
    host, port = tracker.address.split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.05)
        sock.sendto(pack(Sums(**{"host": "h9", "sequence": 1, "sums": {}, **words}), KEY), (host, int(port)))
        tracker.serve(now_s)
        try:
            return unpack(sock.recv(65_536), KEY, Answer)
        except socket.timeout:
            return None


def test_a_host_whose_clock_was_ahead_is_heard_again(bench: Bench) -> None:
    bench.step(3)
    for tracker in bench.trackers:
        assert tracker is not None
        answer = ask(tracker, bench.now_s, host="h1", epoch=2**63 - 1, sequence=2**63 - 1, sums={"a": 1e9})
        assert answer is not None and answer.factors
    bench.step(20)
    assert bench.weights["vm2", "10.0.1.1"] == 625
    assert [tracker._hosts["h1"].epoch for tracker in bench.trackers if tracker] == [bench.agent._epoch] * 2


def test_an_earlier_epoch_is_taken_with_a_proof_that_is_new_only(bench: Bench) -> None:
    tracker = bench.trackers[0]
    assert tracker is not None
    now_s = 10.0
    assert ask(tracker, now_s, epoch=7) is not None
    doubt = ask(tracker, now_s, epoch=5)
    assert doubt is not None and doubt.challenge and not doubt.factors
    wrong = ask(tracker, now_s, epoch=5, proof=doubt.challenge ^ 2)
    assert wrong is not None and wrong.challenge
    # Another's proof, one of another epoch, and one that is too old are none.
    for words in ({"epoch": 6}, {"epoch": 5, "at": now_s + 2 * service.CHALLENGE_S}):
        at_s = words.pop("at", now_s)
        again = ask(tracker, at_s, proof=doubt.challenge, **words)
        assert again is not None and again.challenge
    taken = ask(tracker, now_s, epoch=5, proof=doubt.challenge, sequence=4)
    assert taken is not None and not taken.challenge and taken.factors
    # Once taken it is no proof again, nor does a sequence come twice.
    assert ask(tracker, now_s, epoch=5, proof=doubt.challenge, sequence=4) is None
    # What was recorded under the epoch before is doubted as well; a later one than ever is not.
    replayed = ask(tracker, now_s, epoch=7, sequence=2)
    assert replayed is not None and replayed.challenge
    later = ask(tracker, now_s, epoch=8)
    assert later is not None and not later.challenge
    replayed = ask(tracker, now_s, epoch=5, proof=doubt.challenge, sequence=5)
    assert replayed is not None and replayed.challenge


def test_hosts_that_are_gone_make_room(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "HOSTS_MAX", 3)
    tracker = bench.trackers[0]
    assert tracker is not None
    for name in ("a", "b", "c"):
        assert ask(tracker, 1.0, host=name, epoch=1) is not None
    assert ask(tracker, 2.0, host="d", epoch=1) is None
    assert ask(tracker, 300.0, host="b", epoch=1, sequence=2) is not None
    assert ask(tracker, 1.0 + service.FORGET_S, host="d", epoch=1) is not None
    assert list(tracker._hosts) == ["b", "d"]


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
