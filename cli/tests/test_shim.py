# SPDX-License-Identifier: Apache-2.0
"""``sdngcc shim`` without a kernel: what options become, and what refusals look like."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest
from click.testing import CliRunner

from sdngcc.commands import shim as commands
from sdngcc.shim.netlink import Knob, Limiter, Peer, Port, Settings, ShimRefused
from sdngcc.shim.netlink import Path as ShimPath

SETTINGS = Settings(law="sdngcc", of="sdngcc", period=5_000_000, limiter="pace", burst=131072, burst_us=100,
                    horizon=10_000_000, ecn=True, inactive=10**9, protocol=253, accept_v0=False,
                    key_set=True, peers_max=4096, peer_idle=10**10,
                    knobs={"rmin-ppm": Knob("rmin-ppm", 7, 10_000, 0, 10**6, "ppm", "help", "ours")},
                    laws=("none", "sdngcc"), key_other_set=True, codepoint=0, waiting_max=1024,
                    other_key_senders={9: 61})
VM = Port(ifindex=1, name="tap0", role="vm", weight=2, min_rate=0, max_rate=31_250_000, stats={"tx_packets": 5},
          addresses=("10.0.0.5", "10.0.1.0/24"))
PEER = Peer(vm=1, address="fd00::9", weight=3, rate=12_500_000, tx_bytes=1514, tx_packets=1, drops=2, rx_bytes=3028,
            rx_packets=2, rx_marks=1, time=10**9)
PATHS = [ShimPath(vm=1, prefix="10.1.0.0/16", tunnel=False, rate=12_500_000, sent_rate=1_250_000, tx_bytes=1514,
                  tx_packets=1, held=3, limited=True, time=10**9)]
PATHS += [replace(PATHS[0], prefix="192.0.2.1", tunnel=True, limited=False), replace(PATHS[0], vm=7),
          replace(PATHS[0], prefix="", limited=False, sent_rate=0)]
UPLINK = Port(ifindex=2, name="eth0", role="uplink", capacity=125_000_000, qdisc="unfit")


def limiter(time: int, tx_bytes: int) -> Limiter:
    """Return a reading of tap0's limiter."""
    return Limiter(vm=1, uplink=2, rate=31_250_000, share=31_250_000, sent_rate=1, tx_bytes=tx_bytes, tx_packets=5,
                   drops=3, active=True, congested=False, time=time, weight=2, min_rate=0, max_rate=31_250_000,
                   messages=0, message_marks=0, refused=0)


class FakeClient:
    """Remembers what it was asked to set."""

    asked: List[Dict[str, Any]] = []

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def settings_get(self, of: Optional[str] = None) -> Settings:
        return SETTINGS if of is None else replace(SETTINGS, of=of, period=200_000, knobs={})

    def settings_set(self, **given: Any) -> None:
        self.asked.append(given)

    def port_get(self, _device: str) -> Port:
        return VM

    def port_set(self, device: str, **given: Any) -> None:
        for address in given["addresses"] or ():
            if address == "10.0.0.1/24":
                raise ValueError(f"addresses: {address} has host bits set; what is in force stays")
        if given["weight"] == 0:
            raise ShimRefused(34, "weight: allowed are 1 to 65535; what is in force stays")
        self.asked.append({"device": device, **given})

    def ports(self) -> List[Port]:
        return [VM, UPLINK]

    def limiters(self) -> List[Limiter]:
        return [limiter(10**9, 0)]

    def peers(self) -> List[Peer]:
        return [PEER, replace(PEER, vm=7)]

    def paths(self) -> List[ShimPath]:
        return PATHS

    def peer_set(self, device: str, address: str, weight: int) -> None:
        if weight > 65535:
            raise ShimRefused(34, "weight: allowed are 1 to 65535; what is in force stays")
        self.asked.append({"device": device, "address": address, "weight": weight})

    def peer_del(self, device: str, address: str) -> None:
        if address != PEER.address:
            raise ValueError(f"address: '{address}' is no IPv4 or IPv6 address; what is in force stays")
        self.asked.append({"device": device, "address": address})


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the fake in the client's place."""
    FakeClient.asked = []
    monkeypatch.setattr(commands, "ShimClient", FakeClient)


def run(*args: str) -> Any:
    """Run the command on a wide terminal."""
    return CliRunner(env={"COLUMNS": "200"}).invoke(commands.shim, args)


def given() -> Dict[str, Any]:
    """Return what was asked for, without what was not."""
    (one,) = FakeClient.asked
    return {name: value for name, value in one.items() if value is not None}


def test_show() -> None:
    """Both forms name the VM, its limits and the knobs."""
    text = run("show").output
    assert "tap0" in text and "250.0" in text and "rmin-ppm" in text
    document = json.loads(run("show", "--json").output)
    assert document["settings"]["knobs"]["rmin-ppm"]["value"] == 7
    assert document["limiters"][0]["rate"] == 31_250_000


def test_show_tells_what_is_unsafe_or_unfit() -> None:
    """Addresses, the other key with who still uses it, and an uplink that nothing is delayed on are in both forms."""
    text = run("show").output
    for words in ("other key set yes", "sender 9 used the other key 61 s ago", "as ECT(0)", "at most 1024 packets",
                  "10.0.0.5 10.0.1.0/24", "eth0: the queuing discipline does not obey departure times"):
        assert words in text, words
    document = json.loads(run("show", "--json").output)
    assert document["settings"]["other_key_senders"] == {"9": 61}
    assert [port["qdisc"] for port in document["ports"]] == [None, "unfit"]
    assert document["ports"][0]["addresses"] == ["10.0.0.5", "10.0.1.0/24"]


def test_show_any_number_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """0 packets are told as what they mean; without senders, or laws, there is no line about them or what they need."""
    monkeypatch.setattr(FakeClient, "settings_get",
                        lambda *_: replace(SETTINGS, law="none", waiting_max=0, other_key_senders={}))
    text = run("show").output
    assert "any number of packets may wait" in text and "used the other key" not in text
    assert "departure times" not in text


def test_set_keys(tmp_path: Path) -> None:
    """Keys come from files, codepoint and bound as numbers; a key is never printed."""
    (tmp_path / "key").write_text("00" * 15 + "01\n")
    (tmp_path / "other").write_text("ab" * 16)
    result = run("set", "--key-file", str(tmp_path / "key"), "--key-other-file", str(tmp_path / "other"),
                 "--codepoint", "1", "--waiting-max", "0")
    assert result.exit_code == 0 and "abab" not in result.output
    assert given() == {"key": bytes(15) + b"\x01", "key_other": b"\xab" * 16, "codepoint": 1, "waiting_max": 0}


def test_set_key_that_is_none(tmp_path: Path) -> None:
    """A file with something else changes nothing, and what it holds is not printed."""
    (tmp_path / "other").write_text("abab")
    result = run("set", "--key-other-file", str(tmp_path / "other"), "--codepoint", "1")
    assert result.exit_code and "a key is 32 hex digits" in result.output and "abab" not in result.output
    assert not FakeClient.asked


@pytest.mark.parametrize(("text", "addresses"), [
    ("10.0.0.5 10.0.1.0/24,2001:db8::/64", ("10.0.0.5", "10.0.1.0/24", "2001:db8::/64")),
    ("", ())])
def test_set_addresses(text: str, addresses: Any) -> None:
    """Several addresses are one option; an empty one takes all back, which is not the same as no option."""
    assert run("set-port", "tap0", "--addresses", text).exit_code == 0
    assert given() == {"device": "tap0", "addresses": addresses}


def test_set_converts_units() -> None:
    """Times become ns, knobs a mapping."""
    assert run("set", "--law", "sdngcc", "--period", "2.5ms", "--no-ecn", "--knob", "rmin-ppm=7").exit_code == 0
    assert given() == {"law": "sdngcc", "period": 2_500_000, "ecn": False, "knobs": {"rmin-ppm": 7}}


def test_set_port_converts_units() -> None:
    """Rates become bytes/s."""
    assert run("set-port", "tap0", "--role", "vm", "--max", "250M", "--min", "0").exit_code == 0
    assert given() == {"device": "tap0", "role": "vm", "max_rate": 31_250_000, "min_rate": 0}


@pytest.mark.parametrize(("args", "words"), [
    (("set",), "nothing to set"),
    (("set", "--period", "5"), "no time"),
    (("set", "--knob", "rmin=x"), "no knob"),
    (("set-port", "tap0", "--max", "1"), "no rate"),
    (("set-port", "tap0"), "nothing to set"),
    (("set-port", "tap0", "--addresses", "10.0.0.5 10.0.0.1/24"), "10.0.0.1/24 has host bits set"),
    (("set", "--codepoint", "2"), "'2' is not one of"),
    (("set-port", "tap0", "--weight", "0"), "1 to 65535; what is in force stays"),
    (("set-peer", "tap0", "fd00::9"), "either --weight or --forget"),
    (("set-peer", "tap0", "fd00::9", "--weight", "1", "--forget"), "either --weight or --forget"),
    (("set-peer", "tap0", "fd00::9", "--weight", "65536"), "1 to 65535; what is in force stays"),
    (("set-peer", "tap0", "there", "--forget"), "'there' is no IPv4 or IPv6 address"),
])
def test_refusals(args: Any, words: str) -> None:
    """What cannot be set is refused with words, and nothing is asked of the kernel."""
    result = run(*args)
    assert result.exit_code and words in result.output
    assert not FakeClient.asked


def test_sent_between() -> None:
    """The rate is bytes over the kernel's own time; a counter that fell back tells none."""
    assert commands.sent_between([limiter(10**9, 0)], [limiter(3 * 10**9, 1000)]) == {(1, 2): 500.0}
    assert not commands.sent_between([limiter(10**9, 1000)], [limiter(3 * 10**9, 0)])


def test_of_names_the_law_whose_knobs_are_meant() -> None:
    """Without the option it is the law in force."""
    assert "law eyeq: period 0.2 ms" in run("show", "--of", "eyeq").output
    assert "law sdngcc: period 5 ms" in run("show").output
    result = run("set", "--of", "eyeq", "--period", "200us", "--json")
    assert given() == {"of": "eyeq", "period": 200_000}
    assert json.loads(result.output)["of"] == "eyeq"


def test_peers() -> None:
    """Peers of a port that has gone meanwhile are left out of the table."""
    (line,) = [line for line in run("peers").output.splitlines() if "fd00::9" in line]
    assert line.split() == ["tap0", "fd00::9", "3", "100.0", "1,514", "1", "2", "3,028", "2", "1"]
    assert json.loads(run("peers", "--json").output)[0] == dataclasses.asdict(PEER)


def test_paths() -> None:
    """Paths are told by where they lead; those of a port that has gone meanwhile are left out of the table."""
    lines = [line.split() for line in run("paths").output.splitlines() if "tap0" in line]
    assert lines == [["tap0", "10.1.0.0/16", "limited", "100.0", "10.0", "1,514", "1", "3"],
                     ["tap0", "tunnels", "to", "192.0.2.1", "active", "100.0", "10.0", "1,514", "1", "3"],
                     ["tap0", "the", "rest", "idle", "100.0", "0.0", "1,514", "1", "3"]]
    assert json.loads(run("paths", "--json").output) == [dataclasses.asdict(one) for one in PATHS]


@pytest.mark.parametrize(("args", "asked"), [
    (("--weight", "3"), {"device": "tap0", "address": "fd00::9", "weight": 3}),
    (("--weight", "0"), {"device": "tap0", "address": "fd00::9", "weight": 0}),
    (("--forget",), {"device": "tap0", "address": "fd00::9"})])
def test_set_peer(args: Any, asked: Dict[str, Any]) -> None:
    """A weight is given, taken back, or the peer forgotten."""
    assert run("set-peer", "tap0", "fd00::9", *args).exit_code == 0
    assert given() == asked


def test_monitor() -> None:
    """JSON comes one line a reading, peers only when asked for."""
    lines = run("monitor", "--count", "2", "--interval", "0.01", "--json").output.splitlines()
    assert [json.loads(line)["limiters"][0]["drops"] for line in lines] == [3, 3]
    assert "peers" not in json.loads(lines[0]) and "fd00::9" not in run("monitor", "--count", "1").output
    (line,) = run("monitor", "--count", "1", "--peers", "--json").output.splitlines()
    assert json.loads(line)["peers"][0]["rx_marks"] == 1
    assert "fd00::9" in run("monitor", "--count", "1", "--peers").output
