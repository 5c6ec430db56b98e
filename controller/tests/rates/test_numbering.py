# SPDX-License-Identifier: Apache-2.0
"""Epochs and sequences of messages, and how a controller finds the epoch that machines still accept."""

from sdngcc.controller.rates.numbering import DISTANCE_MAX_S, PATIENCE, REST_NS, U32_MAX, Hearing, Numbering

TODAY = 1_790_000_000


class Shim:
    """A host's memory of one sender, and a machine's counters; a message refused for another reason leaves no trace."""

    def __init__(self, epoch=0, deaf=False):
        self.epoch, self.top, self.deaf = epoch, 0, deaf
        self.messages = self.refused = 0

    def take(self, epoch, sequence):
        if self.deaf or (epoch, sequence) <= (self.epoch, self.top):
            self.refused += 1
        else:
            self.epoch, self.top = epoch, sequence
            self.messages += 1


def today(wall_s=TODAY):
    """Return the numbering of a sender that starts at a time of day."""
    return Numbering(wall_s=lambda: float(wall_s))


def number(numbering, hearing):
    """Return epoch and sequence of a message to a machine."""
    sequence = numbering.reserve(1)
    return numbering.epoch_for(hearing), sequence


def told(numbering, hearing, shim, now_ns=0):
    """Tell a machine something and read its counters; return the epoch it was told with."""
    epoch, sequence = number(numbering, hearing)
    shim.take(epoch, sequence)
    numbering.heard(hearing, shim.messages, shim.refused, now_ns)
    return epoch


def known(shim=None):
    hearing, shim = Hearing(), shim or Shim()
    Numbering(1).heard(hearing, shim.messages, shim.refused, 0)
    return hearing


def test_one_sequence_over_all_machines():
    numbering, one, other = today(), Hearing(), Hearing()
    assert [number(numbering, one), number(numbering, other), number(numbering, one)] == [(TODAY, n) for n in (1, 2, 3)]


def test_the_epoch_is_the_time_of_day_and_never_goes_back():
    numbering = Numbering(wall_s=lambda: TODAY + 0.9)
    assert numbering.epoch == TODAY
    numbering.raise_to(TODAY + 5)
    numbering.raise_to(TODAY + 3)
    assert numbering.epoch == TODAY + 5
    assert Numbering(wall_s=lambda: -5.0).epoch == 1


def test_sequences_that_ran_out_take_a_new_epoch():
    numbering = Numbering(TODAY, wall_s=lambda: TODAY - 100.0)
    numbering.sequence = U32_MAX - 1
    assert [number(numbering, Hearing()) for _ in range(2)] == [(TODAY, U32_MAX), (TODAY + 1, 1)]
    numbering.sequence, numbering._wall_s = U32_MAX, lambda: TODAY + 100.0
    assert number(numbering, Hearing()) == (TODAY + 100, 1)


def test_a_clock_that_stepped_back_by_any_time_is_overcome():
    for back_s in (0, 1, 2, 3600, 86400, 10**9, TODAY - 10):
        numbering, shim = today(TODAY - back_s), Shim()
        shim.epoch, shim.top = TODAY, 1000
        hearing = known(shim)
        tries = 0
        while not shim.messages:
            told(numbering, hearing, shim)
            tries += 1
        assert tries <= PATIENCE * (back_s.bit_length() + 2)
        assert numbering.epoch == shim.epoch and numbering.raised == 1
        assert TODAY <= numbering.epoch <= TODAY + back_s + 1, "further than the doubled distance"
        assert told(numbering, known(), Shim()) == numbering.epoch, "other machines are told with another epoch"


def test_others_are_told_as_before_while_epochs_are_tried():
    numbering, deaf, well = today(), Shim(deaf=True), Shim()
    hearings = known(), known()
    for _ in range(100):
        told(numbering, hearings[0], deaf)
        assert told(numbering, hearings[1], well) == TODAY
    assert well.messages == 100 and numbering.epoch == TODAY and numbering.raised == 0


def test_refusals_for_other_reasons_end_with_the_epoch_as_it_was():
    """Another key, or a law that obeys no rates: once that is mended the machine hears the epoch it always had."""
    numbering, shim, hearing = today(), Shim(deaf=True), known()
    epochs = [told(numbering, hearing, shim) for _ in range(PATIENCE * 40)]
    assert max(epochs) > TODAY + 2**30 and epochs[-1] == TODAY
    shim.deaf = False
    assert told(numbering, hearing, shim) == TODAY and shim.messages == 1
    assert numbering.epoch == TODAY and numbering.raised == 0


def test_after_a_rest_it_is_tried_again():
    numbering, shim, hearing = today(), Shim(deaf=True), known()
    for _ in range(PATIENCE * 40):
        told(numbering, hearing, shim, 5)
    shim.deaf, shim.epoch, shim.top = False, TODAY + 2, U32_MAX
    for _ in range(PATIENCE * 40):
        told(numbering, hearing, shim, REST_NS)
    assert not shim.messages, "it did not rest"
    for _ in range(PATIENCE * 4):
        told(numbering, hearing, shim, 5 + REST_NS)
    assert shim.messages and numbering.epoch == TODAY + 4


def test_no_epoch_is_tried_before_three_bad_readings_in_a_row():
    numbering, shim, hearing = today(), Shim(), known()
    for _ in range(20):
        for deaf in (True, True, False):
            shim.deaf = deaf
            assert told(numbering, hearing, shim) == TODAY


def test_readings_count_only_after_something_was_said():
    numbering, hearing = today(), known()
    for refused in range(1, 50):
        numbering.heard(hearing, 0, refused, 0)
    assert number(numbering, hearing)[0] == TODAY


def test_a_machine_that_accepts_others_messages_beside_is_left_alone():
    numbering, hearing = today(), known()
    for count in range(1, 50):
        assert number(numbering, hearing)[0] == TODAY
        numbering.heard(hearing, count, count, 0)


def test_counters_that_begin_anew_or_wrap_mean_nothing():
    numbering, hearing = today(), Hearing()
    for refused in (500, 1, 600, 2, 700, 3, 800, 4):
        number(numbering, hearing)
        numbering.heard(hearing, 1000, refused, 0)
        numbering.heard(hearing, 0, 0, 0)
    assert hearing.trial == 0
    hearing, shim = Hearing(), Shim(TODAY + 1)
    shim.refused = U32_MAX
    numbering.heard(hearing, 0, shim.refused, 0)
    for _ in range(PATIENCE):
        epoch, sequence = number(numbering, hearing)
        shim.take(epoch, sequence)
        numbering.heard(hearing, 0, shim.refused & U32_MAX, 0)
    assert hearing.trial == TODAY + 1


def test_a_raise_ends_what_is_tried_with_others():
    numbering = today()
    pairs = [(known(), Shim()) for _ in range(3)]
    for _, shim in pairs:
        shim.epoch, shim.top = TODAY + 50, 10**6
    for _ in range(PATIENCE * 8):
        for hearing, shim in pairs:
            told(numbering, hearing, shim)
    assert numbering.raised == 1 and {shim.epoch for _, shim in pairs} == {numbering.epoch}
    assert {told(numbering, hearing, shim) for hearing, shim in pairs} == {numbering.epoch}


def test_no_start_leaves_an_epoch_that_the_next_one_cannot_find():
    """Who drops what a controller says until it tries far epochs brings it no further than it finds back from."""
    shim = Shim()
    for start in range(TODAY, TODAY + 3):
        numbering, hearing = today(start), known(shim)
        for turn in range(PATIENCE * 800):
            shim.deaf = hearing.trial - numbering.epoch <= 2**26
            told(numbering, hearing, shim, turn * REST_NS)
        assert start + 2**30 < numbering.epoch <= start + DISTANCE_MAX_S
    numbering, hearing, shim.deaf, heard = today(start + 1), known(shim), False, shim.messages
    for _ in range(PATIENCE * 40):
        told(numbering, hearing, shim)
    assert shim.messages > heard
