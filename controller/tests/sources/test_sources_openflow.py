# SPDX-License-Identifier: Apache-2.0
"""Counters of the patched ovs-vswitchd read without inventing marks."""

from sdngcc.controller.sources.base import PortMarks
from sdngcc.controller.sources.openflow import OpenFlowMarks
from sdngcc.controller.wire import experimenter

from ..fabric import port_reading

T = 5_000_000


def reply(*readings, generation=1, boot=5, time_ns=T):
    entries = [b"".join(experimenter.encode_port_marks(one) for one in readings)]
    return experimenter.Reply(experimenter.PORT_MARKS, generation, boot, time_ns, entries)


def test_first_reading_is_a_baseline_then_differences():
    source = OpenFlowMarks(T)
    assert source.take(1, reply(port_reading(3, count=1000))) == []
    assert source.take(1, reply(port_reading(3, count=1007), time_ns=2 * T)) == [PortMarks((1, 3), 7, T)]
    assert source.take(1, reply(time_ns=3 * T)) == []
    assert source.take(1, reply(port_reading(3, count=1008), time_ns=4 * T)) == [PortMarks((1, 3), 1, T)]


def test_after_a_long_interval_the_rate_of_marks_is_kept():
    source = OpenFlowMarks(T)
    source.take(1, reply(port_reading(3)))
    assert source.take(1, reply(port_reading(3, count=1000), time_ns=51 * T)) == [PortMarks((1, 3), 40, 2 * T)]
    assert source.take(1, reply(port_reading(3, count=1001), time_ns=101 * T)) == [PortMarks((1, 3), 1, 2 * T)]


def test_restart_reset_and_missing_counter_are_told_apart():
    source = OpenFlowMarks(T)
    source.take(1, reply(port_reading(3, count=100), port_reading(4, kinds=0)))
    assert source.take(1, reply(port_reading(3, count=40))) == [] and source.resets == 1
    assert source.take(1, reply(port_reading(3, kinds=2, count=90))) == [] and source.resets == 2
    assert source.take(1, reply(port_reading(3, kinds=2, count=95), boot=6)) == [] and source.restarts == 1
    assert source.take(1, reply(port_reading(4, kinds=0, count=5), boot=6)) == []
    assert source.resets == 2


def test_counted_means_a_queue_that_can_mark():
    source = OpenFlowMarks(T)
    assert not source.counted(1)
    source.take(1, reply(port_reading(4, kinds=0)))
    assert not source.counted(1)
    source.take(1, reply(port_reading(3)))
    assert source.counted(1)


def test_request_names_the_last_generation():
    source = OpenFlowMarks(T)
    assert experimenter.decode_request(source.request(1, 9))[2:4] == (0, 0)
    source.take(1, reply(port_reading(3), generation=44, boot=55))
    assert experimenter.decode_request(source.request(1, 9)) == (9, experimenter.PORT_MARKS, 44, 55, 0xFFFFFFFF)


def test_what_a_port_carried_is_known_where_a_queue_stood_all_the_time():
    """Where it marked in the interval before, too, and had a backlog at both of its ends."""
    for backlogs, missed, known in (((9, 9), False, True), ((0, 9), False, False), ((9, 0), False, False),
                                    ((9, 9), True, False)):  # fmt: skip
        source = OpenFlowMarks(T)
        source.take(1, reply(port_reading(3)))
        source.take(1, reply(port_reading(3, count=10)._replace(bytes=1000, backlog_bytes=backlogs[0]), time_ns=2 * T))
        if missed:
            source.take(1, reply(time_ns=3 * T))
        last = port_reading(3, count=20)._replace(bytes=626_000, backlog_bytes=backlogs[1])
        (found,) = source.take(1, reply(last, time_ns=(4 if missed else 3) * T))
        assert found.carried == (125_000_000 if known else 0)
