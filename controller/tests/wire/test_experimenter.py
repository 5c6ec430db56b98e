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


def test_two_uplinks_of_a_machine_are_one():
    merged = experimenter.merge(vm_reading(2, 100), vm_reading(2, 300)._replace(uplink=7))
    assert merged.sent_rate == 400 and merged.uplink == 7
