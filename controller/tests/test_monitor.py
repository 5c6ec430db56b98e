# SPDX-License-Identifier: Apache-2.0
"""Poll schedules without drift, and mark counters read without inventing marks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller import marks
from sdngcc.controller.monitor import FACTOR_MAX, NAP_NS, Monitor

from .fabric import port_reading, vm_reading

T = 5_000_000


def asked(monitor, now, xid=1):
    turn, _ = monitor.due(now)
    for dpid in turn:
        monitor.asked(dpid, xid, now)
    return turn


@given(st.lists(st.integers(0, T - 1), min_size=1, max_size=100))
def test_late_wake_ups_never_move_the_schedule(lateness):
    monitor = Monitor(T, 0)
    monitor.add(1, 0)
    monitor.set_idle(1, False, 0)
    first = NAP_NS // T + 1
    for turn, late in enumerate(lateness, first):
        assert monitor.next_ns() == turn * T
        assert asked(monitor, turn * T + late) == [1]
        monitor.answered(1, 1, turn * T + late)


def test_never_two_requests_outstanding_then_backing_off():
    monitor = Monitor(T, 0)
    monitor.add(1, 0)
    monitor.set_idle(1, False, 0)
    first = monitor.next_ns()
    assert asked(monitor, first) == [1]
    notes = []
    for turn in range(1, 4):
        due, said = monitor.due(first + turn * T)
        assert due == []
        notes += said
    assert monitor.polls[1].factor == 2 and "polled every 10 ms instead of 5 ms" in notes[0]
    assert not monitor.outstanding()


def test_backing_off_ends_somewhere_and_an_answer_is_waited_for_2_s():
    monitor = Monitor(T, 0)
    monitor.add(1, 0)
    monitor.set_idle(1, False, 0)
    now, requests = T, 0
    while now < 20_000_000_000:
        requests += len(asked(monitor, now))
        now = monitor.next_ns()
    assert monitor.polls[1].factor <= FACTOR_MAX
    assert requests <= 10


def test_stale_answer_is_ignored():
    monitor = Monitor(T, 0)
    monitor.add(1, 0)
    asked(monitor, monitor.next_ns(), xid=7)
    assert monitor.answered(1, 6, T) is None
    assert monitor.polls[1].xid == 7


def reply(*readings, generation=1, boot=5, time_ns=T):
    entries = [b"".join(marks.encode_port_marks(one) for one in readings)]
    return marks.Reply(marks.PORT_MARKS, generation, boot, time_ns, entries)


def test_first_reading_is_a_baseline_then_differences():
    source = marks.OpenFlowMarks(T)
    assert source.take(1, reply(port_reading(3, count=1000))) == []
    assert source.take(1, reply(port_reading(3, count=1007), time_ns=2 * T)) == [marks.PortMarks(3, 7, T)]
    assert source.take(1, reply(time_ns=3 * T)) == []
    assert source.take(1, reply(port_reading(3, count=1008), time_ns=4 * T)) == [marks.PortMarks(3, 1, T)]


def test_after_a_long_interval_the_rate_of_marks_is_kept():
    source = marks.OpenFlowMarks(T)
    source.take(1, reply(port_reading(3)))
    assert source.take(1, reply(port_reading(3, count=1000), time_ns=51 * T)) == [marks.PortMarks(3, 40, 2 * T)]
    assert source.take(1, reply(port_reading(3, count=1001), time_ns=101 * T)) == [marks.PortMarks(3, 1, 2 * T)]


def test_restart_reset_and_missing_counter_are_told_apart():
    source = marks.OpenFlowMarks(T)
    source.take(1, reply(port_reading(3, count=100), port_reading(4, kinds=0)))
    assert source.take(1, reply(port_reading(3, count=40))) == [] and source.resets == 1
    assert source.take(1, reply(port_reading(3, kinds=2, count=90))) == [] and source.resets == 2
    assert source.take(1, reply(port_reading(3, kinds=2, count=95), boot=6)) == [] and source.restarts == 1
    assert source.take(1, reply(port_reading(4, kinds=0, count=5), boot=6)) == []
    assert source.resets == 2


def test_counted_means_a_queue_that_can_mark():
    source = marks.OpenFlowMarks(T)
    assert not source.counted(1)
    source.take(1, reply(port_reading(4, kinds=0)))
    assert not source.counted(1)
    source.take(1, reply(port_reading(3)))
    assert source.counted(1)


def test_request_names_the_last_generation():
    source = marks.OpenFlowMarks(T)
    assert marks.decode_request(source.request(1, 9))[2:4] == (0, 0)
    source.take(1, reply(port_reading(3), generation=44, boot=55))
    assert marks.decode_request(source.request(1, 9)) == (9, marks.PORT_MARKS, 44, 55, 0xFFFFFFFF)


def test_parts_are_put_together():
    assembler = marks.Assembler()
    entry = [marks.encode_vm_state(vm_reading(1, 5))]
    assert assembler.feed(1, marks.encode_reply(8, marks.VM_STATE, 0, 5, 0, entry, more=True)) is None
    other = [marks.encode_vm_state(vm_reading(2, 6))]
    whole = assembler.feed(1, marks.encode_reply(8, marks.VM_STATE, 0, 5, 0, other))
    assert whole is not None
    assert [one.port for one in marks.vm_readings(whole)] == [1, 2]


def test_part_of_an_older_reply_is_dropped():
    assembler = marks.Assembler()
    entry = [marks.encode_port_marks(port_reading(1))]
    assembler.feed(1, marks.encode_reply(8, marks.PORT_MARKS, 0, 5, 0, entry, more=True))
    whole = assembler.feed(1, marks.encode_reply(9, marks.PORT_MARKS, 0, 5, 0, entry))
    assert whole is not None and len(whole.entries) == 1


@given(st.binary(max_size=300))
def test_noise_never_does_more_than_be_refused(data):
    try:
        marks.Assembler().feed(1, data)
    except marks.ReplyError:
        pass


def test_wrong_length_is_refused_by_name():
    data = marks.encode_reply(1, marks.PORT_MARKS, 1, 1, 1, [marks.encode_port_marks(port_reading(1))])
    with pytest.raises(marks.ReplyError, match="44 bytes for 1 entries of 48"):
        marks.Assembler().feed(1, data[:-4])


def test_two_uplinks_of_a_machine_are_one():
    merged = marks.merge(vm_reading(2, 100), vm_reading(2, 300)._replace(uplink=7))
    assert merged.sent_rate == 400 and merged.uplink == 7
