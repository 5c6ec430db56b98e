# SPDX-License-Identifier: Apache-2.0
"""Replays over the lives of VMs, and where the sequences of peers' reports begin."""

import subprocess
from pathlib import Path
from typing import Any, Callable

import pytest

from sdngcc.controller.wire.message import TYPE_RATE, TYPE_REPORT, Message, encode_v1
from sdngcc.shim import core as binding

from .host import KEY, Host, address

CAPACITY = 125_000_000
HERE, ELSEWHERE, THERE = address("10.0.0.1"), address("10.0.0.2"), address("10.1.0.1")
SENDERS = 16


def said(sequence: int, epoch: int = 1000, sender: int = 1, to: bytes = HERE, rate: int = 0) -> bytes:
    """Return a controller's message: marks, or a rate."""
    return encode_v1(Message(vm=to, peer=THERE, marks=0 if rate else 10, rate=rate, interval_ns=5_000_000,
                             type=TYPE_RATE if rate else 1, sender=sender, epoch=epoch, sequence=sequence), KEY)


@pytest.fixture
def uplink(host: Host) -> Any:
    host.key(KEY)
    host.law("sdngcc")
    return host.uplink(CAPACITY)


def boot(host: Host, uplink: Any, own: bytes = HERE) -> Any:
    """Return a new VM that has sent a packet from its address."""
    vm = host.vm()
    assert host.send(vm, uplink, own, THERE).passed
    return vm


def tell(host: Host, vm: Any, data: bytes, to: bytes = HERE) -> str:
    return host.message(vm, None, THERE, to, data)


def test_a_vm_that_boots_anew_refuses_what_was_said_before(host: Host, uplink: Any) -> None:
    vm = boot(host, uplink)
    old = [said(sequence) for sequence in (3, 1, 2, 70)]
    assert [tell(host, vm, data) for data in old] == ["messages"] * 4
    host.lib.shim_lab_remove_vm(vm)
    vm = boot(host, uplink)
    rate = host.limiter(vm, uplink).rate
    assert [tell(host, vm, data) for data in old] == ["refused_replay"] * 4
    assert host.limiter(vm, uplink).rate == rate and host.counter(vm, "marks") == 0
    assert tell(host, vm, said(69)) == "refused_replay", "nobody had heard it, but it was sent before the VM came"
    assert tell(host, vm, said(71)) == "messages"
    assert tell(host, vm, said(1, epoch=1001)) == "messages"
    assert tell(host, vm, said(72)) == "refused_replay"


def test_what_one_vm_heard_holds_for_one_that_takes_its_address(host: Host, uplink: Any) -> None:
    """Though that one was there when it was said."""
    vm, other = boot(host, uplink), boot(host, uplink, ELSEWHERE)
    assert tell(host, vm, said(5)) == "messages"
    host.lib.shim_lab_remove_vm(vm)
    assert host.send(other, uplink, HERE, THERE).passed
    assert tell(host, other, said(5)) == "refused_replay"
    assert tell(host, other, said(6)) == "messages"


def test_a_vm_that_migrates_refuses_what_is_older_than_its_new_host_knows(host: Host, uplink: Any) -> None:
    """What it was told where it was before, though no VM of this host heard it."""
    other = boot(host, uplink, ELSEWHERE)
    assert tell(host, other, said(100, to=ELSEWHERE), ELSEWHERE) == "messages"
    vm = boot(host, uplink)
    assert [tell(host, vm, said(sequence)) for sequence in (1, 99, 100)] == ["refused_replay"] * 3
    assert tell(host, vm, said(500, epoch=999)) == "refused_replay"
    assert tell(host, vm, said(102)) == tell(host, vm, said(101)) == "messages"
    assert tell(host, vm, said(1, sender=2)) == "messages"
    assert tell(host, other, said(98, to=ELSEWHERE), ELSEWHERE) == "messages", "it was there before"


def test_messages_to_several_vms_may_overtake_each_other(host: Host, uplink: Any) -> None:
    """As where a host has two bridges: a sender's messages arrive bridge by bridge."""
    vms = [(boot(host, uplink, own), own) for own in (HERE, ELSEWHERE)]
    for number in range(20):
        for which, (vm, own) in enumerate(vms):
            for turn in range(500):
                assert tell(host, vm, said(1 + number * 1000 + turn * 2 + which, to=own), own) == "messages"


def test_refused_messages_are_not_remembered(host: Host, uplink: Any) -> None:
    vm = boot(host, uplink)
    forged = said(5000)[:-1] + b"\0"
    assert tell(host, vm, forged) == "refused_tag"
    assert tell(host, vm, said(5001, rate=1_000_000)) == "refused_law"
    assert tell(host, vm, said(5002, to=ELSEWHERE), ELSEWHERE) == "refused_port"
    assert tell(host, vm, said(1)) == "messages"


def test_a_flooded_message_reaches_its_owner(host: Host, uplink: Any) -> None:
    vm, other = boot(host, uplink), boot(host, uplink, ELSEWHERE)
    assert tell(host, other, said(5)) == "refused_port"
    assert tell(host, vm, said(5)) == "messages"


def test_reports_are_remembered_apart(host: Host, uplink: Any) -> None:
    """Peers are senders, too, as many as they like: what is remembered of controllers is safe from them."""
    host.law("eyeq")
    vm = boot(host, uplink)
    assert tell(host, vm, said(5)) == "messages"
    for sender in range(100, 100 + 2 * SENDERS):
        report = Message(vm=HERE, peer=THERE, marks=0, type=TYPE_REPORT, rate=10_000_000, point_datapath=1514,
                         weight_total=1, interval_ns=500_000, sender=sender, epoch=2000 + sender, sequence=1)
        assert tell(host, vm, encode_v1(report, KEY)) == "reports"
    assert tell(host, vm, said(5)) == "refused_replay"
    assert tell(host, vm, said(6)) == "messages", "a report took the place of a controller"


def test_another_host_obeys_an_old_message_until_it_hears_a_new_one(hosts: Callable[..., Host]) -> None:
    """What is not promised: a host that never heard a sender cannot tell old from new."""
    vms = []
    for host in (hosts(), hosts()):
        host.key(KEY)
        host.law("sdngcc")
        uplink = host.uplink(CAPACITY)
        vms.append((host, boot(host, uplink), uplink))
    (old, vm, _), (new, moved, uplink) = vms
    assert tell(old, vm, said(100)) == "messages"
    assert tell(new, moved, said(100)) == "messages"
    assert tell(new, moved, said(100)) == "refused_replay"
    assert tell(new, moved, said(2000)) == "messages"
    assert tell(new, moved, said(99)) == "refused_replay"


def test_reports_after_the_sequences_ran_out(tmp_path: Path) -> None:
    """Peers made after a new epoch began count from its start, and use up no epoch of their own."""
    program = tmp_path / "report_sequences"
    source = Path(__file__).with_name("report_sequences.c")
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-o", str(program), str(source),
                    *map(str, binding.sources() + binding.host_sources())], check=True, timeout=300)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
