# SPDX-License-Identifier: Apache-2.0
"""Replays over the lives of VMs, and where the sequences of peers' reports begin."""

import subprocess
from pathlib import Path
from typing import Any, Callable

import pytest

from sdngcc.controller.wire.message import TYPE_RATE, TYPE_REPORT, Message, encode_v1
from sdngcc.shim import core as binding

from .host import KEY, SECOND, Host, address

CAPACITY = 125_000_000
HERE, ELSEWHERE, THERE = address("10.0.0.1"), address("10.0.0.2"), address("10.1.0.1")
SENDERS = 16
VLAN = 0x8100 << 16 | 5


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


def report(sequence: int, sender: int = 100, epoch: int = 2000, rate: int = 10_000_000) -> bytes:
    """Return a report of a shim: what THERE grants HERE."""
    return encode_v1(Message(vm=HERE, peer=THERE, marks=0, type=TYPE_REPORT, rate=rate, point_datapath=1514,
                             weight_total=1, interval_ns=500_000, sender=sender, epoch=epoch, sequence=sequence), KEY)


@pytest.mark.parametrize("silence_s", [11.5, 60, 3600])
@pytest.mark.parametrize("law", ["eyeq", "seawall", "scc", "hygenicc", "elasticswitch"])
def test_a_report_is_no_news_after_its_peer_was_forgotten(host: Host, uplink: Any, law: str, silence_s: float) -> None:
    host.law(law)
    host.set(peer_idle_ns=10 * SECOND)
    vm = boot(host, uplink)
    assert [tell(host, vm, report(sequence)) for sequence in (7, 9, 8)] == ["reports"] * 3
    host.pass_time(int(silence_s * SECOND))
    assert host.peers(vm) == 0
    assert host.send(vm, uplink, HERE, THERE).passed
    rate = host.peer(vm, THERE).rate
    assert [tell(host, vm, report(sequence)) for sequence in (7, 8, 9, 1, 6)] == ["refused_replay"] * 5
    assert tell(host, vm, report(5000, epoch=1999)) == "refused_replay"
    assert host.peer(vm, THERE).rate == rate
    assert tell(host, vm, report(10)) == "reports"


def test_a_report_is_no_news_to_a_port_that_came_later_or_has_another_law(host: Host, uplink: Any) -> None:
    host.law("eyeq")
    vm = boot(host, uplink)
    assert tell(host, vm, report(7)) == "reports"
    for law in ("seawall", "eyeq"):
        host.law(law)
        assert host.send(vm, uplink, HERE, THERE).passed
        assert tell(host, vm, report(7)) == "refused_replay"
    host.lib.shim_lab_remove_vm(vm)
    vm = boot(host, uplink)
    assert tell(host, vm, report(7)) == tell(host, vm, report(3)) == "refused_replay"
    assert tell(host, vm, report(8)) == "reports"


def test_what_was_heard_is_remembered_as_long_as_a_key_is(host: Host, uplink: Any) -> None:
    host.law("eyeq")
    vm = boot(host, uplink)
    assert tell(host, vm, report(7)) == "reports"
    host.key(bytes(range(16, 32)), other=True)
    host.key(bytes(range(16, 32)))
    host.key(KEY, other=True)
    host.lib.shim_lab_remove_vm(vm)
    vm = boot(host, uplink)
    assert tell(host, vm, report(7)) == "refused_replay", "keys were exchanged, and this one is still good"
    host.key(None, other=True)
    assert tell(host, vm, report(8)) == "refused_tag"


def test_a_report_for_one_tenant_is_none_for_another(host: Host, uplink: Any) -> None:
    """Both use the same addresses, and talk to the same; nor does it take the place of whom the other listens to."""
    host.law("eyeq")
    one, two = boot(host, uplink), host.vm()
    assert host.send(two, uplink, HERE, THERE, vlan=VLAN).passed
    assert tell(host, one, report(5)) == "reports"
    assert host.message_within(two, uplink, THERE, HERE, report(3, sender=200, epoch=1500), vlan=VLAN) == "reports"
    for sequence in (4, 5):
        assert host.message_within(two, uplink, THERE, HERE, report(sequence), vlan=VLAN) == "refused_replay"
    assert host.message_within(two, uplink, THERE, HERE, report(4, sender=200, epoch=1500), vlan=VLAN) == "reports"


def test_a_message_in_one_network_is_not_for_the_same_address_in_another(host: Host, uplink: Any) -> None:
    """Nor is it a replay to whom it is for."""
    for law, kind in (("sdngcc", 0), ("maxmin", 1_000_000)):
        host.law(law)
        for ours, theirs in (({}, {"vlan": VLAN}), ({"vlan": VLAN}, {}), ({"vlan": VLAN}, {"vlan": VLAN + 1}),
                             ({"tunnel_id": 7}, {"tunnel_id": 8})):
            one, two = host.vm(), host.vm()
            assert host.send(one, uplink, HERE, THERE, **ours).passed
            assert host.send(two, uplink, HERE, THERE, **theirs).passed
            said_now = said(host.now_ns % 2**31 + 1, epoch=9000 + host.now_ns // SECOND, rate=kind)
            assert host.message_within(two, uplink, THERE, HERE, said_now, **ours) == "refused_port"
            assert host.message_within(one, uplink, THERE, HERE, said_now, **ours) == "messages"
            for vm in (one, two):
                host.lib.shim_lab_remove_vm(vm)
            host.pass_time(SECOND)


def test_an_address_in_a_vlan_of_ones_own_making_takes_no_messages(host: Host, uplink: Any) -> None:
    """A bridge that floods hands them to the thief, too: tagged, untagged, and where no tag is known."""
    one, two = boot(host, uplink), boot(host, uplink, ELSEWHERE)
    assert host.send(one, uplink, ELSEWHERE, THERE, vlan=VLAN).passed
    for sequence in (1, 2):
        data = said(sequence, to=ELSEWHERE)
        tell_it = host.message_within if sequence == 1 else host.message
        assert tell_it(one, uplink, THERE, ELSEWHERE, data) == "refused_port"
        assert tell_it(two, uplink, THERE, ELSEWHERE, data) == "messages"


def test_where_tunnels_are_routed_messages_come_by_another_network(host: Host, uplink: Any) -> None:
    """A distributed router sends in the network of the destination; what comes back is in the VM's own."""
    vm = host.vm()
    assert host.send(vm, uplink, HERE, THERE, tunnel_id=8).passed
    assert host.message_within(vm, uplink, THERE, HERE, said(1), tunnel_id=7) == "messages"
    assert host.message_within(vm, uplink, THERE, HERE, said(2), vlan=VLAN) == "messages"


def test_an_access_port_is_told_by_frames_without_a_tag(host: Host, uplink: Any) -> None:
    """The bridge put the tag on and takes it off; another VM outside the VLAN with the same address changes nothing."""
    vm, other = host.vm(), boot(host, uplink)
    assert host.send(vm, uplink, HERE, THERE, vlan=VLAN).passed
    assert host.message(vm, uplink, THERE, HERE, said(1)) == "messages"
    assert host.message_within(vm, uplink, THERE, HERE, said(2), vlan=VLAN) == "messages"
    assert host.message(other, uplink, THERE, HERE, said(3)) == "messages"


def test_a_message_names_the_port_that_it_is_put_out_at(host: Host, uplink: Any) -> None:
    """The controller knows ports; what a VM claims to be, or that it claims nothing, does not matter."""
    silent, many, listed = host.vm(), host.vm(), host.vm()
    for number in range(2000):
        host.send(many, uplink, address(f"10.7.{number >> 8}.{number & 255}"), THERE, bytes=100)
    assert host.lib.shim_lab_set_prefixes(listed, HERE, bytes([128]), 1) == 0
    for sequence, vm in enumerate((silent, many, listed), 1):
        assert host.message(vm, None, THERE, HERE, said(sequence, to=bytes(16))) == "messages"
        assert host.message(vm, None, THERE, HERE, said(sequence, to=bytes(16))) == "refused_replay"
    assert host.message(many, uplink, THERE, HERE, said(9, to=bytes(16))) == "refused_address", "no port is known"
    assert host.message(many, uplink, THERE, bytes(16), said(9, to=bytes(16))) == "refused_port"
    host.law("eyeq")
    data = encode_v1(Message(vm=bytes(16), peer=THERE, marks=0, type=TYPE_REPORT, rate=10_000_000, weight_total=1,
                             interval_ns=500_000, sender=5, epoch=2000, sequence=1), KEY)
    assert host.message(many, None, THERE, bytes(16), data) == "refused_port", "a report knows addresses only"


def test_who_sends_from_many_addresses_is_told_at_any_of_them(host: Host, uplink: Any) -> None:
    """But not at another VM's, nor at one that is set for another."""
    vm, other, listed = host.vm(), boot(host, uplink), host.vm()
    assert host.lib.shim_lab_set_prefixes(listed, ELSEWHERE, bytes([128]), 1) == 0
    own = [address(f"10.7.0.{number}") for number in range(200)]
    for source in own:
        assert host.send(vm, uplink, source, THERE, bytes=100).passed
    assert {tell(host, vm, said(number, to=one), one) for number, one in enumerate(own, 1)} == {"messages"}
    assert tell(host, vm, said(300)) == "refused_port"
    assert tell(host, vm, said(301, to=ELSEWHERE), ELSEWHERE) == "refused_port"
    assert tell(host, other, said(302, to=own[150]), own[150]) == "refused_port"


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
