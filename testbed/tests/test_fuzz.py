# SPDX-License-Identifier: Apache-2.0
"""The fuzzers of shim/fuzz: a minute of each change, and that they find what is planted."""

import shutil
from pathlib import Path

import pytest

from sdngcc.testbed.build import ROOT
from sdngcc.testbed.fuzz import __main__ as command
from sdngcc.testbed.fuzz import seeds
from sdngcc.testbed.fuzz.build import FUZZERS, FuzzBuildError, build, fuzzer
from sdngcc.testbed.fuzz.run import Lines, fuzz, read_lcov, report, to_json

#: Inputs of each fuzzer: some 15 s of a processor.
RUNS = {"message": 4000, "packet": 6000, "law": 100000, "divide": 60000}

#: Mistakes that a fuzzer must find: fuzzer, file, what stands there, what is planted.
MISTAKES = [
    ("message", "shim/core/message.c", "if (get(data + len - TAG_BYTES, TAG_BYTES) !=",
     "if (0 && get(data + len - TAG_BYTES, TAG_BYTES) !="),
    ("message", "shim/core/replay.c", "\t\twindow[0] |= 1;\n", ""),
    ("message", "shim/core/engine/peer.c", "\tshim_call_rcu(&peer->rcu, peer_free);\n", "\t(void)peer_free;\n"),
    ("message", "shim/core/engine/path_index.c", "\tnext.low++;\n", "\tnext.low += 2;\n"),
    ("message", "shim/core/engine/path.c", ">= SHIM_PATHS_MAX)", "> SHIM_PATHS_MAX)"),
    ("message", "shim/core/laws/maxmin.c", "told->rate < lowest->rate", "told->rate > lowest->rate"),
    ("message", "shim/core/engine/gate.c",
     "\t\tgate->tat = shim_bucket_charge(&gate->rate, verdict.tat, *departure_ns,\n\t\t\t\t\t       packet->bytes);\n",
     ""),
    ("packet", "shim/core/engine/decide.c", "action->ecn = SHIM_ECT_ZERO;", "action->ecn = SHIM_CE;"),
    ("packet", "shim/core/engine/limiter.c", "\tlimiter->tat = verdict.tat;\n\treturn", "\treturn"),
    ("packet", "shim/core/engine/ahead.c", "SHIM_AHEAD_PART * shim_bucket_cost", "shim_bucket_cost"),
    ("packet", "ovs-patches/ovs/files/lib/shim-frame.c", "!(frag_off & (IP_MORE_FRAGMENTS | IP_FRAG_OFF_MASK))",
     "!(frag_off & IP_MORE_FRAGMENTS)"),
    ("packet", "shim/kernel/frame.c", "tags == VLAN_TAGS_MAX ||", "tags == VLAN_TAGS_MAX + 1 ||"),
    ("law", "shim/core/flow.c", "if (field < segment->window)", "if (field > segment->window)"),
    ("law", "shim/core/climb.c", "state->rate - floor < less)", "state->rate < less)"),
    ("divide", "shim/core/share.c", "\t\tif (more > left)\n\t\t\tmore = left;\n", ""),
    ("divide", "shim/core/bucket.c", "shim_mul_div(missing, from", "shim_mul_div(missing / 2, from"),
]


@pytest.mark.slow
@pytest.mark.xdist_group("fuzz")
@pytest.mark.parametrize("name", RUNS)
def test_nothing_is_found(tmp_path: Path, name: str) -> None:
    finding, words = fuzz(fuzzer(name), build("sanitized")[name], tmp_path, [f"-runs={RUNS[name]}", "-seed=1"])
    assert finding is None, f"{finding.words}\ninput: {finding.input}"
    assert f"number_of_executed_units: {RUNS[name]}" in words, words


@pytest.mark.release
@pytest.mark.timeout(1800)
@pytest.mark.xdist_group("fuzz")
@pytest.mark.parametrize("name, file, old, new", MISTAKES)
def test_a_mistake_is_found(tmp_path: Path, name: str, file: str, old: str, new: str) -> None:
    root = tmp_path / "tree"
    for folder in ("shim", "ovs-patches/ovs/files"):
        shutil.copytree(ROOT / folder, root / folder)
    text = (root / file).read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{file} has not one {old!r}"
    (root / file).write_text(text.replace(old, new), encoding="utf-8")
    finding, words = fuzz(fuzzer(name), build("sanitized", root, only=name)[name], tmp_path / "out",
                          [f"-runs={20 * RUNS[name]}", "-seed=1"])
    assert finding, words
    print(f"{name}: {file}: {finding.words}: {words}")


def test_every_fuzzer_has_seeds_that_fit() -> None:
    for one in FUZZERS:
        inputs = seeds.of(one.name)
        assert inputs and max(map(len, inputs.values())) <= one.longest, one.name
        assert seeds.dictionary(one.name).startswith('"\\x')


@pytest.mark.parametrize("value, rounded", [(0, 0), (65535, 65535), (65537, 65536), (10**9, 999997440), (2**63, 2**63)])
def test_numbers_are_rounded_down(value: int, rounded: int) -> None:
    shift, low, high = seeds.number(value)
    assert (low | high << 8) << shift == rounded


def test_coverage_names_what_was_not_reached() -> None:
    found = read_lcov("SF:/x/shim/core/flow.c\nDA:1,5\nDA:2,0\nDA:3,0\nDA:5,0\nend_of_record\n"
                      "SF:/x/shim/user/host.c\nDA:1,0\nend_of_record\n")
    assert found == [Lines("shim/core/flow.c", 4, (2, 3, 5))]
    told = report(found)
    assert "25.0 %" in told and "shim/core/flow.c:2-3: " in told and "shim/core/flow.c:5: " in told
    assert '"missed": [' in to_json(found)


def test_a_build_failure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDNGCC_CACHE", str(tmp_path))
    monkeypatch.setattr("sdngcc.testbed.fuzz.build.COMPILER", "no-such-compiler")
    with pytest.raises(FuzzBuildError, match="no-such-compiler"):
        build("sanitized")


def test_a_time_out_of_range_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--seconds", "0"])
    assert "allowed is 1 and more" in capsys.readouterr().err
