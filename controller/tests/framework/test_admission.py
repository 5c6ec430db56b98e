# SPDX-License-Identifier: Apache-2.0
"""Who may connect, how long one may be silent, what is logged; and whose a datapath id is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sdngcc.controller.framework.admission import HANDSHAKE_S, TOLD_AGAIN_S, Admission, Due, Reason, affordable
from sdngcc.controller.framework.identities import Claim, Identities

ADDRESSES = ("10.0.0.1", "10.0.0.2", "::1")


@pytest.mark.parametrize(
    "wanted, descriptors, served",
    [(4096, 1 << 20, 4096), (4096, 4480, 4096), (4096, 1024, 640), (4096, 256, 128), (4096, 2, 1), (10, 256, 10)],
)
def test_connections_leave_files_for_the_rest(wanted, descriptors, served):
    assert affordable(wanted, descriptors) == served


def test_an_address_has_its_part_and_gets_it_back():
    admission = Admission(10, 2)
    first, second, third = (admission.enter("10.0.0.1", port) for port in (1, 2, 3))
    assert first.channel and second.channel
    assert (third.channel, third.reason) == (None, Reason.TOO_MANY_OF_PEER)
    assert str(first.channel) == "10.0.0.1:1" and str(admission.enter("::1", 9).channel) == "[::1]:9"
    admission.leave(first.channel)
    admission.leave(first.channel)
    assert admission.enter("10.0.0.1", 4).channel and admission.enter("10.0.0.1", 5).channel is None


def test_where_all_places_are_taken_the_oldest_unfinished_handshake_goes():
    admission = Admission(3, 3)
    done, old, young = (admission.enter("10.0.0.1", port).channel for port in (1, 2, 3))
    admission.ready(done)
    entry = admission.enter("10.0.0.2", 4)
    assert entry.channel and (entry.evicted, entry.reason) == (old, Reason.TOO_MANY)
    for channel in (young, entry.channel):
        admission.ready(channel)
    entry = admission.enter("10.0.0.2", 5)
    assert (entry.channel, entry.evicted, entry.reason) == (None, None, Reason.TOO_MANY)
    assert admission.open == 3 and not admission.unready


def test_a_handshake_has_its_time_however_much_is_said():
    admission = Admission()
    channel = admission.enter("10.0.0.1", 1).channel
    for _ in range(int(HANDSHAKE_S) - 1):
        admission.heard(channel)
        assert not admission.sweep(1.0)
    assert admission.sweep(1.0) == [(channel, Due.HANDSHAKE)]


def test_the_silent_are_asked_once_and_then_ended():
    admission = Admission(silence_s=9)
    channel = admission.enter("10.0.0.1", 1).channel
    admission.ready(channel)
    told = [admission.sweep(1.0) for _ in range(9)]
    assert told == [[], [], [(channel, Due.ECHO)], [], [], [], [], [], [(channel, Due.SILENT)]]
    admission.heard(channel)
    assert [admission.sweep(1.0) for _ in range(3)][-1] == [(channel, Due.ECHO)]


def test_nobody_is_silent_for_as_long_as_the_process_itself_stood_still():
    admission = Admission(silence_s=9)
    admission.ready(admission.enter("10.0.0.1", 1).channel)
    assert not admission.sweep(3600.0)


def test_the_log_tells_the_first_and_then_once_a_minute_how_many():
    admission = Admission()
    assert admission.refuse(Reason.TLS, "10.0.0.1") == 1
    assert admission.refuse(Reason.TLS, "10.0.0.2") == 1
    assert admission.refuse(Reason.SILENT, "10.0.0.1") == 1
    for _ in range(int(TOLD_AGAIN_S)):
        assert admission.refuse(Reason.TLS, "10.0.0.1") is None
        admission.sweep(1.0)
    assert admission.refuse(Reason.TLS, "10.0.0.1") == TOLD_AGAIN_S + 1
    assert admission.refused[Reason.TLS] == TOLD_AGAIN_S + 3


def test_what_is_remembered_of_refusals_and_conflicts_is_bounded():
    admission = Admission()
    for number in range(5000):
        admission.refuse(Reason.MALFORMED, f"peer {number}")
        entry = admission.enter(f"peer {number}", 1)
        admission.conflict(number, entry.channel, entry.channel)
        admission.leave(entry.channel)
    assert len(admission._told) <= 1024 and len(admission.conflicts) == 64 and not admission._by_peer
    assert admission.conflict(4999, entry.channel, entry.channel).count == 2


class Visits(RuleBasedStateMachine):
    """Whatever comes and goes, counts agree with who is there, and limits hold."""

    def __init__(self):
        super().__init__()
        self.admission = Admission(5, 3, 6)
        self.here = []

    @rule(address=st.sampled_from(ADDRESSES))
    def enter(self, address):
        entry = self.admission.enter(address, 1)
        assert (entry.channel is None) <= (entry.reason is not None)
        if entry.evicted is not None:
            assert not entry.evicted.ready and len(self.here) == 5
            self.here.remove(entry.evicted)
        if entry.channel is not None:
            self.here.append(entry.channel)

    @rule(number=st.integers(0, 9))
    def leave(self, number):
        if number < len(self.here):
            self.admission.leave(self.here.pop(number))

    @rule(number=st.integers(0, 9))
    def finish(self, number):
        if number < len(self.here):
            self.admission.ready(self.here[number])
            self.admission.heard(self.here[number])

    @rule(elapsed=st.floats(0, 5))
    def sweep(self, elapsed):
        for channel, due in self.admission.sweep(elapsed):
            assert channel in self.here and (due is Due.HANDSHAKE) == (not channel.ready)

    @invariant()
    def counts(self):
        assert self.admission.open == len(self.here) <= 5
        assert self.admission.unready == sum(not channel.ready for channel in self.here)
        assert all(sum(one.address == address for one in self.here) <= 3 for address in ADDRESSES)


TestVisits = Visits.TestCase


def test_the_first_keeps_its_id_when_it_answers():
    identities = Identities()
    assert identities.claim(7, "first") is Claim.HELD
    assert identities.claim(7, "second") is Claim.DOUBTED and identities.waits(7, "second")
    assert identities.claim(7, "third") is Claim.REFUSED
    assert identities.keep(7) == "second" and not identities.waits(7, "second")
    assert identities.holders == {7: "first"}
    assert identities.release(7, "second") == (False, None) and identities.holders == {7: "first"}


def test_the_second_takes_it_when_the_first_is_silent_or_ends():
    identities = Identities()
    for name in ("first", "second"):
        identities.claim(7, name)
    assert identities.replace(7) == ("first", "second")
    assert identities.release(7, "first") == (False, None)
    identities.claim(7, "third")
    assert identities.release(7, "second") == (True, "third")
    assert identities.release(7, "third") == (True, None) and not identities.holders
    with pytest.raises(KeyError):
        identities.replace(7)


@given(st.lists(st.tuples(st.sampled_from(["claim", "release", "keep", "replace"]), st.integers(0, 5)), max_size=40))
def test_an_id_has_one_holder_who_is_there(steps):
    identities, there = Identities(), set()
    for what, connection in steps:
        if what == "claim" and connection not in there:
            if identities.claim(1, connection) is not Claim.REFUSED:
                there.add(connection)
        elif what == "release" and connection in there:
            there.discard(connection)
            identities.release(1, connection)
        elif what == "keep":
            there.discard(identities.keep(1))
        elif what == "replace" and len(there) == 2:
            there.discard(identities.replace(1)[0])
        assert bool(identities.holders) == bool(there) and set(identities.holders.values()) <= there
