# SPDX-License-Identifier: Apache-2.0
"""The tracker's datagrams fuzzed, and what the fuzzer sees where a reader is broken."""

from pathlib import Path
from typing import Any

import pytest

from sdngcc.controller.tests import fuzzing
from sdngcc.tracker import datagrams

PROGRAM = "tracker.tests.fuzz_datagrams"


def test_no_datagram_does_more_than_it_may(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    fuzzing.run(PROGRAM, tmp_path, 20_000, "-max_len=400", "-seed=1")


@pytest.mark.release
def test_no_datagram_of_many_does(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    fuzzing.run(PROGRAM, tmp_path, 1_000_000, "-max_len=1000")
    fuzzing.run(PROGRAM, tmp_path, 20_000, "-max_len=65507", "-len_control=0")


def test_the_fuzzer_sees_what_is_taken_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("atheris")
    from . import fuzz_datagrams

    for seed in fuzz_datagrams.SEEDS:
        fuzz_datagrams.take(seed)
    with monkeypatch.context() as broken:
        broken.setattr(datagrams.hmac, "compare_digest", lambda one, other: True)
        with pytest.raises(AssertionError, match="a tag that nobody made"):
            fuzz_datagrams.take(b"\x01" + bytes(32) + fuzz_datagrams.SEEDS[2][1:])

    def refuse(data: bytes, kind: Any) -> Any:
        raise datagrams.Refused("said: \n" + "x" * 1000)

    with monkeypatch.context() as broken:
        broken.setattr(datagrams, "_read", refuse)
        with pytest.raises(AssertionError, match="said"):
            fuzz_datagrams.take(fuzz_datagrams.SEEDS[0])


@pytest.mark.parametrize("name", ["\\u001b[2J", "\\n2026-11-24 root: all is well", "\\u202e"])
def test_names_that_are_refused_write_nothing_into_a_log(name: str) -> None:
    with pytest.raises(datagrams.Refused) as refused:
        datagrams.read_registration(f'{{"peer":"10.0.0.1","flows":[],"{name}":1}}'.encode())
    assert str(refused.value).isprintable() and "Extra inputs" in str(refused.value)
