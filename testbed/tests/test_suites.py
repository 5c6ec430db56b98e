# SPDX-License-Identifier: Apache-2.0
"""Peers' own tests of the datapath: what their outputs say, what differs, and a few of them on all variants."""

from pathlib import Path

import pytest

from sdngcc.testbed.build import build
from sdngcc.testbed.suites import __main__ as command
from sdngcc.testbed.suites.run import VARIANTS, differences, read_outcomes, run_suite

KMOD = """
datapath-sanity

  1: datapath - ping between two ports               ok
  8: datapath - ping6, IPv6 later fragments          skipped (system-traffic.at:196)
 10: datapath - ping over bond                       FAILED (system-traffic.at:277)
"""
SELFTESTS = """
TEST: netlink_checks                                                [START]
TEST: ovsnl: validate netlink attrs and settings                    [ OK ]
"""

#: Of kmod: pings between ports, and on VLANs.
FEW = "1-4"


def test_outcomes_are_read() -> None:
    assert list(read_outcomes(KMOD, "kmod").values()) == ["ok", "skipped", "FAILED"]
    assert read_outcomes(KMOD, "kmod")["  1 datapath - ping between two ports"] == "ok"
    assert read_outcomes(SELFTESTS, "selftests") == {"ovsnl: validate netlink attrs and settings": "OK"}
    broken = "Traceback (most recent call last):" + SELFTESTS
    assert list(read_outcomes(broken, "selftests").values()) == ["its tool failed"]
    background = "Task exception was never retrieved\nfuture: <Task>\n" + """Traceback (most recent call last):
  File "source.py", line 267, in receiver
    raise error
NetlinkError: (95, 'Operation not supported')
"""
    assert list(read_outcomes(background + SELFTESTS, "selftests").values()) == ["OK"]
    assert list(read_outcomes(background + broken, "selftests").values()) == ["its tool failed"]


def test_differences_are_told() -> None:
    same = {"a": "ok", "b": "FAILED"}
    assert differences({"unpatched": same, "patched": same}) == []
    assert differences({"unpatched": same, "patched": {"a": "FAILED"}}) == [
        "a: unpatched ok, patched FAILED", "b: unpatched FAILED, patched not run"]


@pytest.mark.parametrize("words", [["--suites", "own"], ["--variants", "other"], ["--tests", "1-x"]])
def test_what_there_is_not_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(words)
    assert words[1] in capsys.readouterr().err


@pytest.mark.release
@pytest.mark.uml
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("suite, tests", [("selftests", []), ("kmod", [FEW])])
def test_all_variants_do_the_same(suite: str, tests: list[str], tmp_path: Path) -> None:
    artifacts = build()
    found = {variant: run_suite(suite, variant, artifacts, tests, tmp_path / variant) for variant in VARIANTS}
    assert differences(found) == []
    assert set(found["unpatched"].values()) <= {"ok", "OK"}, found["unpatched"]
