# SPDX-License-Identifier: Apache-2.0
"""Runs fuzzers, and tells which lines of the engine their inputs reached."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from sdngcc.testbed.build import ROOT
from sdngcc.testbed.fuzz import seeds
from sdngcc.testbed.fuzz.build import COMPILER, Fuzzer

#: Tools of the compiler's version.
_TOOL = COMPILER.replace("clang", "{}")

#: An input that takes longer has found an endless loop, seconds.
_LONGEST_S = 20


@dataclass(frozen=True)
class Finding:
    """What ended a fuzzer: the words of the check or the sanitizer, and the input that did it."""

    words: str
    input: Optional[Path]


@dataclass(frozen=True)
class Lines:
    """Lines of a file: how many the compiler made code of, and which of these were never reached."""

    file: str
    total: int
    missed: Tuple[int, ...]


def corpus(one: Fuzzer, folder: Path) -> Path:
    """Write the seeds of a fuzzer into its corpus, a folder of inputs that runs add to, and return that."""
    inputs = folder / one.name
    inputs.mkdir(parents=True, exist_ok=True)
    for name, data in seeds.of(one.name).items():
        (inputs / f"seed-{name}").write_bytes(data)
    (folder / f"{one.name}.dict").write_text(seeds.dictionary(one.name), encoding="ascii")
    return inputs


def fuzz(one: Fuzzer, program: Path, folder: Path, limits: Sequence[str]) -> Tuple[Optional[Finding], str]:
    """Run a fuzzer on its corpus in a folder until libFuzzer's limits; return what it found, and its last words.

    limits are words such as -runs=1000 and -seed=1. The input of a finding stays in the folder.
    """
    inputs = corpus(one, folder)
    command = [
        str(program),
        f"-max_len={one.longest}",
        f"-timeout={_LONGEST_S}",
        "-print_final_stats=1",
        f"-dict={folder / one.name}.dict",
        f"-artifact_prefix={folder}/{one.name}-",
        *limits,
        str(inputs),
    ]
    done = subprocess.run(command, capture_output=True, check=False)
    words = done.stderr.decode(errors="replace")
    stats = " ".join(re.findall(r"^(?:Done .*|stat::\w+: +\d+)$", words, re.M))
    if not done.returncode:
        return None, re.sub(r"stat::| +(?= )", "", stats)
    told = re.findall(r"^.*(?:fuzz: |runtime error|ERROR: |shim: ).*$", words, re.M)
    written = re.search(r"Test unit written to (\S+)", words)
    return Finding("\n".join(told[:3]) or words[-2000:], Path(written[1]) if written else None), stats


def coverage(programs: Dict[str, Path], folder: Path) -> List[Lines]:
    """Return the lines of the engine that the corpora in a folder reach; raises subprocess.CalledProcessError."""
    profiles = folder / "profiles"
    shutil.rmtree(profiles, ignore_errors=True)
    profiles.mkdir(parents=True)
    for name, program in programs.items():
        subprocess.run(
            [str(program), "-runs=0", str(folder / name)],
            check=True,
            capture_output=True,
            env={**os.environ, "LLVM_PROFILE_FILE": str(profiles / f"{name}.profraw")},
        )
    merged = folder / "profiles" / "all.profdata"
    subprocess.run(
        [_TOOL.format("llvm-profdata"), "merge", "-sparse", "-o", str(merged), *map(str, profiles.glob("*.profraw"))],
        check=True,
    )
    first, *others = map(str, programs.values())
    told = subprocess.run(
        [
            _TOOL.format("llvm-cov"),
            "export",
            "-format=lcov",
            f"-instr-profile={merged}",
            first,
            *(word for other in others for word in ("-object", other)),
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    (folder / "coverage.lcov").write_text(told, encoding="utf-8")
    return read_lcov(told)


def read_lcov(text: str) -> List[Lines]:
    """Return the lines of the files of shim/core that an lcov report tells of, by name of the file."""
    found = []
    for record in text.split("end_of_record"):
        name = re.search(r"^SF:(.*)$", record, re.M)
        place = re.search(r"(?:^|/)(shim/core/.*)$", name[1]) if name else None
        if not place:
            continue
        counts = {int(line): int(count) for line, count in re.findall(r"^DA:(\d+),(\d+)", record, re.M)}
        missed = tuple(sorted(line for line, count in counts.items() if not count))
        found.append(Lines(place[1], len(counts), missed))
    return sorted(found, key=lambda lines: lines.file)


def _ranges(numbers: Sequence[int]) -> List[Tuple[int, int]]:
    """Return runs of numbers that follow each other, as first and last."""
    found: List[Tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _named(lines: Lines) -> List[str]:
    """Return each place that was not reached with its first line's text."""
    path = ROOT / lines.file
    text = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [
        f"  {lines.file}:{first}{f'-{last}' if last > first else ''}: "
        f"{text[first - 1].strip() if first <= len(text) else ''}"
        for first, last in _ranges(lines.missed)
    ]


def report(found: Sequence[Lines]) -> str:
    """Return a table of the lines reached, and what was not."""
    total, missed = sum(one.total for one in found), sum(len(one.missed) for one in found)
    rows = [f"{one.file:<40}{one.total:>7}{100 * (1 - len(one.missed) / max(one.total, 1)):>8.1f} %" for one in found]
    rows.append(f"{'all':<40}{total:>7}{100 * (1 - missed / max(total, 1)):>8.1f} %")
    return "\n".join(
        [
            f"{'file':<40}{'lines':>7}{'reached':>10}",
            *rows,
            "",
            "not reached:",
            *(line for one in found for line in _named(one)),
        ]
    )


def to_json(found: Sequence[Lines]) -> str:
    """Return the same for programs."""
    return json.dumps([{"file": one.file, "lines": one.total, "missed": list(one.missed)} for one in found], indent=1)
