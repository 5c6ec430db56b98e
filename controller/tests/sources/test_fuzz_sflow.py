# SPDX-License-Identifier: Apache-2.0
"""sFlow fuzzed: no datagram raises, spins, or makes marks of nothing; and the fuzzer would see it."""

import pytest

from .. import fuzzing

PROGRAM = "controller.tests.sources.fuzz_sflow"


def test_no_datagram_raises_spins_or_makes_marks_of_nothing(tmp_path):
    pytest.importorskip("atheris")
    fuzzing.run(PROGRAM, tmp_path, 8000, "-max_len=600", "-seed=1")


@pytest.mark.release
def test_no_datagram_of_many_does(tmp_path):
    pytest.importorskip("atheris")
    fuzzing.run(PROGRAM, tmp_path, 400_000, "-max_len=2000")
    fuzzing.run(PROGRAM, tmp_path, 10_000, "-max_len=70000", "-len_control=0")


def test_the_fuzzer_sees_marks_of_nothing_a_rate_of_none_and_steps_without_end(monkeypatch):
    pytest.importorskip("atheris")
    from . import fuzz_sflow

    for seed in fuzz_sflow.SEEDS:
        fuzz_sflow.take(seed)
    take_flow = fuzz_sflow.module.SFlowMarks._take_flow
    with monkeypatch.context() as broken:
        broken.setattr(fuzz_sflow.module.SFlowMarks, "_take_flow", lambda *words: [take_flow(*words) for _ in range(3)])
        with pytest.raises(AssertionError, match="more CE than samples stand for"):
            fuzz_sflow.take(fuzz_sflow.SEEDS[0])
    decode = fuzz_sflow.decode

    def without_rate(data):
        found = decode(data)
        return found._replace(samples=[sample._replace(rate=0) for sample in found.samples])

    def without_end(data):
        while True:
            pass

    with monkeypatch.context() as broken:
        broken.setattr(fuzz_sflow, "decode", without_rate)
        with pytest.raises(AssertionError):
            fuzz_sflow.take(fuzz_sflow.SEEDS[0])
        broken.setattr(fuzz_sflow, "decode", without_end)
        with pytest.raises(AssertionError, match="too many steps"):
            fuzz_sflow.take(fuzz_sflow.SEEDS[0])
