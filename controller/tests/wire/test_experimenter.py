# SPDX-License-Identifier: Apache-2.0
"""Experimenter multiparts put together, and refused when malformed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.wire import experimenter

from ..fabric import port_reading, vm_reading


def test_parts_are_put_together():
    assembler = experimenter.Assembler()
    entry = [experimenter.encode_vm_state(vm_reading(1, 5))]
    assert assembler.feed(1, experimenter.encode_reply(8, experimenter.VM_STATE, 0, 5, 0, entry, more=True)) is None
    other = [experimenter.encode_vm_state(vm_reading(2, 6))]
    whole = assembler.feed(1, experimenter.encode_reply(8, experimenter.VM_STATE, 0, 5, 0, other))
    assert whole is not None
    assert [one.port for one in experimenter.vm_readings(whole)] == [1, 2]


def test_part_of_an_older_reply_is_dropped():
    assembler = experimenter.Assembler()
    entry = [experimenter.encode_port_marks(port_reading(1))]
    assembler.feed(1, experimenter.encode_reply(8, experimenter.PORT_MARKS, 0, 5, 0, entry, more=True))
    whole = assembler.feed(1, experimenter.encode_reply(9, experimenter.PORT_MARKS, 0, 5, 0, entry))
    assert whole is not None and len(whole.entries) == 1


@given(st.binary(max_size=300))
def test_noise_never_does_more_than_be_refused(data):
    try:
        experimenter.Assembler().feed(1, data)
    except experimenter.ReplyError:
        pass


def test_wrong_length_is_refused_by_name():
    entry = experimenter.encode_port_marks(port_reading(1))
    data = experimenter.encode_reply(1, experimenter.PORT_MARKS, 1, 1, 1, [entry])
    with pytest.raises(experimenter.ReplyError, match="44 bytes for 1 entries of 48"):
        experimenter.Assembler().feed(1, data[:-4])


def test_entries_of_the_next_version_are_read_as_far_as_they_are_known():
    entries = [experimenter.encode_vm_state(vm_reading(port, 5)) for port in (1, 2)]
    longer = [entry + b"\xff" * 8 for entry in entries]
    for told in (entries, longer):
        whole = experimenter.Assembler().feed(1, experimenter.encode_reply(1, experimenter.VM_STATE, 1, 1, 1, told))
        assert whole is not None and experimenter.vm_readings(whole) == [vm_reading(1, 5), vm_reading(2, 5)]


def test_entries_of_the_last_version_have_zeros_for_what_came_since():
    entries = [experimenter.encode_vm_state(vm_reading(port, 5)) for port in (1, 2)]
    shorter = [entry[:-8] for entry in entries]
    whole = experimenter.Assembler().feed(1, experimenter.encode_reply(1, experimenter.VM_STATE, 1, 1, 1, shorter))
    assert whole is not None
    assert experimenter.vm_readings(whole) == [vm_reading(port, 5)._replace(message_marks=0) for port in (1, 2)]


def test_a_switch_that_tells_no_length_has_entries_of_the_first_version():
    entry = experimenter.encode_port_marks(port_reading(1))
    data = bytearray(experimenter.encode_reply(1, experimenter.PORT_MARKS, 1, 1, 1, [entry]))
    data[-len(entry) - 4 : -len(entry)] = bytes(4)
    whole = experimenter.Assembler().feed(1, bytes(data))
    assert whole is not None and experimenter.port_readings(whole) == [port_reading(1)]


def test_two_uplinks_of_a_machine_are_one():
    merged = experimenter.merge(vm_reading(2, 100), vm_reading(2, 300)._replace(uplink=7))
    assert merged.sent_rate == 400 and merged.uplink == 7


def test_paths_are_read_as_a_switch_tells_them():
    prefix = bytes(10) + b"\xff\xff\x0a\1\0\0"
    path = experimenter.PathReading(7, experimenter.PATH_LIMITED, prefix, 112, 0, 9, 1, 2, 3, 4, 5)
    rest = path._replace(prefix=bytes(16), bits=0, flags=0)
    entries = [experimenter.encode_path(one) for one in (path, rest)]
    assert [len(entry) for entry in entries] == [72, 72]
    whole = experimenter.Assembler().feed(1, experimenter.encode_reply(1, experimenter.HOST_PATHS, 1, 1, 1, entries))
    assert whole is not None and experimenter.path_readings(b"".join(whole.entries)) == [path, rest]
    asked = experimenter.decode_request(experimenter.host_paths_request(5, 6, 7))
    assert asked[:4] == (5, experimenter.HOST_PATHS, 6, 7)


def test_messages_of_any_length_are_handed_over():
    told = [(7, bytes(96)), (0xFFFFFFFF, bytes(range(136)))]
    data = experimenter.path_messages(9, told)
    assert len(data) == int.from_bytes(data[2:4], "big") == 16 + 2 * 8 + 96 + 136
    assert experimenter.decode_path_messages(data) == told
