# SPDX-License-Identifier: Apache-2.0
"""Control messages at a VM: whom it obeys, once, and what each refusal is called."""

from typing import Any, Dict

import pytest

from sdngcc.shim import core as binding

from .host import FULL, KEY, Host, address

CAPACITY = 125_000_000
HERE, THERE, OTHER, CONTROLLER = (address(text) for text in ("10.0.0.1", "10.1.0.1", "10.0.0.2", "10.3.0.1"))
MARKS, RATE, REPORT, LEVEL = 1, 2, 3, 4
NEW_KEY = bytes(range(50, 66))


@pytest.fixture
def vm(host: Host) -> Any:
    host.key(KEY)
    host.law("sdngcc")
    vm = host.vm()
    host.near = host.uplink(CAPACITY)
    host.send(vm, host.near, HERE, THERE)
    return vm


def say(host: Host, to: Any, key: bytes = KEY, source: bytes = CONTROLLER, destination: bytes = HERE,
        **fields: Any) -> str:
    words: Dict[str, Any] = {"type": MARKS, "vm": HERE, "peer": THERE, "marks": 50, "interval_ns": 5_000_000,
                             "weight_total": 100, "sender": 7, "epoch": 9, "sequence": 1, **fields}
    return host.message(to, host.near, source, destination, binding.encode(words, key))


def test_marks_cut_the_rate(host: Host, vm: Any) -> None:
    before = host.limiter(vm, host.near).rate
    assert say(host, vm) == "messages"
    assert host.limiter(vm, host.near).rate < before
    assert host.counter(vm, "messages") == 1 and host.counter(vm, "marks") == 50


@pytest.mark.parametrize("law, verdict", [
    ("sdngcc", "messages"), ("maxmin", "messages"), ("static", "refused_law"), ("hygenicc", "refused_law")])
def test_who_heeds_levels(host: Host, vm: Any, law: str, verdict: str) -> None:
    host.law(law)
    host.send(vm, host.near, HERE, THERE)
    assert say(host, vm, type=LEVEL, rate=1_000_000, marks=0, interval_ns=0) == verdict
    if law == "sdngcc":
        assert host.limiter(vm, host.near).rate == CAPACITY // 100, "R_min"


def test_each_is_obeyed_once(host: Host, vm: Any) -> None:
    assert say(host, vm, sequence=5) == "messages"
    rate = host.limiter(vm, host.near).rate
    assert say(host, vm, sequence=5) == "refused_replay"
    assert host.limiter(vm, host.near).rate == rate
    assert say(host, vm, sequence=4) == "messages", "reordered ones are good"
    assert say(host, vm, sequence=4) == "refused_replay"
    assert say(host, vm, sequence=1, epoch=8) == "refused_replay", "an older start of the same sender"
    assert say(host, vm, sequence=1, epoch=10) == "messages"
    assert host.counter(vm, "refused_replay") == 3


def test_a_key_can_be_changed_without_a_gap(host: Host, vm: Any) -> None:
    assert say(host, vm, NEW_KEY, sequence=1) == "refused_tag"
    host.key(NEW_KEY, other=True)
    assert say(host, vm, NEW_KEY, sequence=2) == "messages" and say(host, vm, KEY, sequence=3) == "messages"
    assert host.counter(vm, "messages_other_key") == 1
    host.key(NEW_KEY)
    host.key(KEY, other=True)
    assert say(host, vm, KEY, sequence=4) == "messages" and host.counter(vm, "messages_other_key") == 2
    host.key(None, other=True)
    assert say(host, vm, KEY, sequence=5) == "refused_tag" and say(host, vm, NEW_KEY, sequence=6) == "messages"


def test_without_a_key_none_is_good_not_even_by_the_zero_key(host: Host, vm: Any) -> None:
    host.key(None)
    assert say(host, vm, bytes(16)) == "refused_tag"
    host.key(NEW_KEY, other=True)
    assert say(host, vm, bytes(16)) == "refused_tag" and say(host, vm, NEW_KEY) == "messages"
    host.key(KEY)
    host.key(None, other=True)
    assert say(host, vm, bytes(16), sequence=2) == "refused_tag"


@pytest.mark.parametrize("verdict, words", [
    ("refused_address", {"vm": OTHER}),
    ("refused_port", {"vm": OTHER, "destination": OTHER}),
    ("refused_law", {"type": RATE, "rate": 1_000_000, "marks": 0, "interval_ns": 0}),
    ("refused_law", {"type": REPORT, "peer": THERE, "source": THERE}),
    ("refused_address", {"type": REPORT, "peer": THERE, "source": OTHER}),
])
def test_who_is_meant(host: Host, vm: Any, verdict: str, words: Dict[str, Any]) -> None:
    rate = host.limiter(vm, host.near).rate
    assert say(host, vm, **words) == verdict and host.counter(vm, verdict) == 1
    assert host.limiter(vm, host.near).rate == rate


def test_what_is_no_message(host: Host, vm: Any) -> None:
    good = binding.encode({"type": MARKS, "vm": HERE, "peer": THERE, "marks": 1, "sender": 1, "epoch": 1,
                           "sequence": 1}, KEY)
    near = host.near
    assert host.message(vm, near, CONTROLLER, HERE, b"") == "refused_short"
    assert host.message(vm, near, CONTROLLER, HERE, good[:50]) in ("refused_short", "refused_form")
    assert host.message(vm, near, CONTROLLER, HERE, b"\0\5") == "refused_form", "v0 is not accepted"
    assert host.message(vm, near, CONTROLLER, HERE, good + b"x") == "refused_form"
    assert host.message(vm, near, CONTROLLER, HERE, good[:-1] + bytes([good[-1] ^ 1])) == "refused_tag"
    host.set(accept_v0=1)
    assert host.message(vm, near, CONTROLLER, HERE, b"\0\5") == "messages"
    assert host.message(vm, near, CONTROLLER, OTHER, b"\0\5") == "refused_port"


def test_a_report_of_whom_the_vm_does_not_talk_to(host: Host, vm: Any) -> None:
    host.law("scc")
    assert say(host, vm, type=REPORT, source=THERE) == "refused_peer"
    host.send(vm, host.near, HERE, THERE)
    assert say(host, vm, type=REPORT, source=THERE, sequence=2) == "reports"
    assert say(host, vm, type=REPORT, source=THERE, sequence=2) == "refused_replay"
    assert host.counter(vm, "reports") == 1 and host.counter(vm, "report_bytes") > 96


def test_a_message_concerns_the_uplink_it_came_by(host: Host, vm: Any) -> None:
    near, far = host.near, host.uplink(CAPACITY)
    host.send(vm, far, HERE, THERE)
    rates = [host.limiter(vm, uplink).rate for uplink in (near, far)]
    assert say(host, vm, sequence=1) == "messages"
    assert host.limiter(vm, near).rate < rates[0] and host.limiter(vm, far).rate == rates[1]
    data = binding.encode({"type": MARKS, "vm": HERE, "peer": THERE, "marks": 50, "interval_ns": 5_000_000,
                           "sender": 7, "epoch": 9, "sequence": 2}, KEY)
    assert host.message(vm, None, CONTROLLER, HERE, data) == "messages"
    assert host.limiter(vm, far).rate < rates[1], "the bridge's own concern all of them"


def test_a_vm_cannot_send_one(host: Host, vm: Any) -> None:
    assert host.send(vm, host.near, HERE, THERE, protocol=253).drop == "forged"
    host.set(protocol=200)
    assert host.send(vm, host.near, HERE, THERE, protocol=253).passed == FULL
    assert host.send(vm, host.near, HERE, THERE, protocol=200).drop == "forged"


@pytest.mark.parametrize("law", ["hygenicc", "scc", "seawall"])
def test_reports_need_a_key(host: Host, law: str) -> None:
    host.law(law)
    uplink, vm = host.uplink(CAPACITY), host.vm()
    for number in range(200):
        host.send(vm, uplink, HERE, THERE)
        host.receive(vm, uplink, THERE, HERE, ecn=3, id=number)
        host.pass_time(1_000_000)
    assert host.reports() == [] and host.counter(vm, "reports_no_key") > 0 and host.counter(vm, "reports_sent") == 0
    host.key(KEY)
    for number in range(200):
        host.receive(vm, uplink, THERE, HERE, ecn=3, id=200 + number)
        host.pass_time(1_000_000)
    reports = host.reports()
    assert len(reports) == host.counter(vm, "reports_sent") > 0
    verdict, fields = binding.decode(reports[-1][2], KEY)
    assert verdict == "ok" and fields["type"] == REPORT and fields["vm"] == THERE and fields["peer"] == HERE
    assert reports[-1][:2] == (HERE, THERE)
    sequences = [binding.decode(data, KEY)[1]["sequence"] for _, _, data in reports]
    assert sequences == sorted(set(sequences))
