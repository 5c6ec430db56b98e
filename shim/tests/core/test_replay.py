# SPDX-License-Identifier: Apache-2.0
"""Each control message counts once, in whatever order the network delivers, and no old one ever again."""

from typing import Any, List, Set, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.shim import core as binding

WINDOW = 1024
REPORTS_WINDOW = 64
SENDERS = 16
U32_MAX = 2**32 - 1


class Table:
    """The replay table of a host."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._table = core.ffi.new("struct shim_replay *")

    def accepts(self, sequence: int, epoch: int = 1000, sender: int = 1) -> bool:
        message = binding.message({"sequence": sequence, "epoch": epoch, "sender": sender})
        error = self._core.lib.shim_replay_check(self._table, message)
        assert error in (self._core.lib.SHIM_MESSAGE_OK, self._core.lib.SHIM_MESSAGE_REPLAY)
        return bool(error == self._core.lib.SHIM_MESSAGE_OK)


@pytest.fixture()
def table(core: Any) -> Table:
    return Table(core)


def test_in_order_then_again(table: Table) -> None:
    assert all(table.accepts(sequence) for sequence in range(1, 300))
    assert not any(table.accepts(sequence) for sequence in range(1, 300))


def test_reordered_within_the_window_once(table: Table) -> None:
    assert table.accepts(2000)
    assert table.accepts(2000 - WINDOW + 1)
    assert not table.accepts(2000 - WINDOW)
    assert not table.accepts(2000 - WINDOW + 1)
    assert table.accepts(1999)
    assert not table.accepts(1999)


def test_jumps_of_the_window(table: Table) -> None:
    assert table.accepts(1)
    assert table.accepts(WINDOW)
    assert not table.accepts(1)
    assert table.accepts(2)
    assert table.accepts(WINDOW + 2)
    assert not table.accepts(2)
    assert table.accepts(U32_MAX)
    assert not table.accepts(U32_MAX)
    assert table.accepts(U32_MAX - 1)
    assert not table.accepts(WINDOW + 3)


def test_a_step_of_a_whole_window_forgets_the_old(table: Table) -> None:
    assert table.accepts(1) and table.accepts(2)
    assert table.accepts(2 + WINDOW)
    assert table.accepts(1 + WINDOW)
    assert not table.accepts(2)


def test_zero_is_no_sequence_and_no_epoch(table: Table) -> None:
    assert not table.accepts(0)
    assert not table.accepts(1, epoch=0)


def test_restart_of_a_sender(table: Table) -> None:
    assert table.accepts(500, epoch=10)
    assert table.accepts(1, epoch=11)
    assert not table.accepts(1, epoch=11)
    assert not table.accepts(501, epoch=10)
    assert table.accepts(2, epoch=11)


def test_refused_messages_change_nothing(table: Table) -> None:
    assert table.accepts(500, epoch=10)
    assert not table.accepts(600, epoch=9)
    assert table.accepts(501, epoch=10)


def test_senders_are_apart(table: Table) -> None:
    for sender in range(SENDERS):
        assert table.accepts(5, sender=sender)
        assert not table.accepts(5, sender=sender)
    assert all(table.accepts(6, sender=sender) for sender in range(SENDERS))


def test_eviction_of_the_one_silent_longest(table: Table) -> None:
    last = SENDERS + 1
    for sender in range(1, last):
        assert table.accepts(1, epoch=100 + sender, sender=sender)
    assert table.accepts(2, epoch=101, sender=1)
    assert table.accepts(1, epoch=200, sender=last)
    # Sender 2 (epoch 102) gave way: nothing it said, nor the like of it, is heard again.
    assert not table.accepts(1, epoch=102, sender=2)
    assert not table.accepts(2, epoch=102, sender=2)
    # The others are known and go on, though 101 is below the floor.
    assert table.accepts(3, epoch=101, sender=1)
    for sender in range(3, last):
        assert table.accepts(2, epoch=100 + sender, sender=sender)
    # After its restart sender 2 is heard; it takes the place of the last, silent longest now.
    assert table.accepts(1, epoch=300, sender=2)
    assert not table.accepts(2, epoch=200, sender=last)


events = st.lists(st.tuples(st.integers(1, SENDERS + 3), st.integers(1, 4), st.integers(1, 2200)), max_size=200)


@given(history=events)
def test_nothing_is_accepted_twice(core: Any, history: List[Tuple[int, int, int]]) -> None:
    table = Table(core)
    accepted: Set[Tuple[int, int, int]] = set()
    for sender, epoch, sequence in history:
        if table.accepts(sequence, epoch, sender):
            assert (sender, epoch, sequence) not in accepted
            accepted.add((sender, epoch, sequence))


class Slot(Table):
    """The slot of one peer of a host that hears nobody else."""

    def __init__(self, core: Any) -> None:
        super().__init__(core)
        self._slot = core.ffi.new("struct shim_replay_slot *")
        self._reporters = core.ffi.new("struct shim_reporters *")

    def accepts(self, sequence: int, epoch: int = 1000, sender: int = 1) -> bool:
        message = binding.message({"sequence": sequence, "epoch": epoch, "sender": sender})
        lib = self._core.lib
        return bool(lib.shim_replay_check_report(self._reporters, self._slot, message) == lib.SHIM_MESSAGE_OK)

    def forget(self) -> None:
        """Let the peer be forgotten, and be made again."""
        self._slot = self._core.ffi.new("struct shim_replay_slot *")


#: Steps from the highest sequence so far: near it, about each edge of a word, and far away.
EDGES = st.sampled_from((63, 64, 65, 128, 1024, 5000))
steps = st.lists(st.one_of(st.integers(-70, 70), st.integers(-1100, 1100), EDGES), max_size=150)


@pytest.mark.parametrize("window", [WINDOW, REPORTS_WINDOW])
@given(moves=steps)
def test_one_sender_against_a_model(core: Any, window: int, moves: List[int]) -> None:
    table = Table(core) if window == WINDOW else Slot(core)
    seen: Set[int] = set()
    for move in moves:
        top = max(seen, default=0)
        sequence = max(top + move, 1)
        want = sequence not in seen and sequence > top - window
        assert table.accepts(sequence) == want
        if want:
            seen.add(sequence)


def test_slot_takes_what_is_new_of_any_sender(core: Any) -> None:
    """A machine that moves is told of by another host, which may have begun earlier; and it may move back."""
    slot = Slot(core)
    assert slot.accepts(5) and not slot.accepts(5) and slot.accepts(4)
    assert not slot.accepts(9, epoch=999)
    assert slot.accepts(9, epoch=500, sender=2)
    assert not slot.accepts(5) and not slot.accepts(3), "heard, or older than what was heard"
    assert slot.accepts(6)
    assert not slot.accepts(9, epoch=500, sender=2) and slot.accepts(10, epoch=500, sender=2)
    assert not slot.accepts(0, epoch=2000) and not slot.accepts(1, epoch=0)


def test_a_peer_that_is_forgotten_leaves_what_its_sender_said(core: Any) -> None:
    slot = Slot(core)
    assert all(slot.accepts(sequence) for sequence in (5, 200))
    for epoch, sequence in ((1000, 5), (1000, 150), (1000, 200), (999, 5000)):
        slot.forget()
        assert not slot.accepts(sequence, epoch)
    assert slot.accepts(201)
    slot.forget()
    assert slot.accepts(1, epoch=1001) and not slot.accepts(202)


def test_a_sender_that_gave_way_is_heard_with_a_later_epoch_only(core: Any) -> None:
    """Of 3,000 senders of one set all but eight gave way: none of them is heard again with an epoch that it had."""
    slot, sets = Slot(core), 256
    for number in range(3000):
        slot.forget()
        assert slot.accepts(1, epoch=1000 + number, sender=7 + sets * number)
    for number in range(2992):
        slot.forget()
        assert not slot.accepts(2, epoch=1000 + number, sender=7 + sets * number)
    assert slot.accepts(1, epoch=1000, sender=8), "another set"
    assert slot.accepts(1, epoch=4000, sender=7)


@given(events=st.lists(st.tuples(st.integers(1, 200), st.integers(1, 4), st.integers(1, 3)), max_size=60))
def test_slot_accepts_nothing_twice(core: Any, events: List[Tuple[int, int, int]]) -> None:
    slot = Slot(core)
    seen: Set[Tuple[int, int, int]] = set()
    for event in events:
        if event[0] % 10 == 0:
            slot.forget()
        if slot.accepts(*event):
            assert event not in seen
            seen.add(event)

