# SPDX-License-Identifier: Apache-2.0
"""Compiles the fuzzers of shim/fuzz, with libFuzzer and the sanitizers, or for their coverage.

Builds are cached by content under ``${SDNGCC_CACHE:-~/.cache/sdn-gcc}``.
"""

import hashlib
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from sdngcc.shim import LABORATORY
from sdngcc.testbed.build import ROOT

#: Debian 12 and 13 have it; libclang-rt-19-dev has libFuzzer and the sanitizers.
COMPILER = "clang-19"

_STRICT = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-fno-omit-frame-pointer",
           f"-D{LABORATORY}")

#: What a build is for, and its flags: to find something, or to tell which lines were reached.
VARIANTS: Dict[str, Tuple[str, ...]] = {
    "sanitized": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "coverage": ("-fprofile-instr-generate", "-fcoverage-mapping", "-fprofile-update=atomic"),
}


class FuzzBuildError(RuntimeError):
    """A fuzzer could not be compiled; the text holds the command and the compiler's words."""


@dataclass(frozen=True)
class Part:
    """C files that are compiled with flags of their own; paths are relative to the repository."""

    files: Tuple[str, ...]
    flags: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Fuzzer:
    """A program, and the longest input that it is given, bytes."""

    name: str
    parts: Tuple[Part, ...]
    longest: int


_OVS = ("-Ishim/fuzz/ovs", "-I.", "-include", "shim/fuzz/ovs/config.h")
#: The kernel is not compiled with -Wextra.
_KERNEL = ("-Ishim/fuzz/kernel", "-I.", "-Wno-sign-compare", "-Wno-unused-parameter")
#: lib/shim-frame.c has its own of these.
_NO_FRAMES = ("-Dshim_host_flow_hash=lab_flow_hash", "-Dshim_host_source=lab_source",
              "-Dshim_host_tunnel_end=lab_tunnel_end")

#: The engine's surroundings, and the accounts of what it does.
_WORLD = ("shim/fuzz/world.c", "shim/fuzz/paths.c", "shim/fuzz/path_message.c")

FUZZERS: Tuple[Fuzzer, ...] = (
    Fuzzer("message", (
        Part(("shim/fuzz/message.c", *_WORLD, "shim/user/host.c")),), 4096),
    Fuzzer("packet", (
        Part(("shim/fuzz/packet.c", "shim/fuzz/frames.c", "shim/fuzz/ovs/hash.c",
              "ovs-patches/ovs/files/lib/shim-frame.c"), _OVS),
        Part(("shim/fuzz/kernel.c",), _KERNEL),
        Part(_WORLD),
        Part(("shim/user/host.c",), _NO_FRAMES)), 4096),
    Fuzzer("law", (Part(("shim/fuzz/law.c", "shim/user/host.c")),), 2048),
    Fuzzer("divide", (Part(("shim/fuzz/divide.c", "shim/user/host.c")),), 1024),
)


def fuzzer(name: str) -> Fuzzer:
    """Return the fuzzer of that name; raises KeyError."""
    return {one.name: one for one in FUZZERS}[name]


def _common(root: Path) -> Part:
    """Return the engine and what of user space is the same for all fuzzers."""
    files = sorted((root / "shim" / "core").glob("**/*.c")) + sorted((root / "shim" / "user").glob("*.c"))
    return Part(tuple(path.relative_to(root).as_posix() for path in files if path.name != "host.c"))


def _digest(root: Path, words: Sequence[str]) -> str:
    """Return what tells one build from another: its flags, and all that it may read."""
    digest = hashlib.sha256("\0".join((COMPILER, *words)).encode())
    for folder in ("shim/core", "shim/user", "shim/fuzz", "shim/kernel", "ovs-patches/ovs/files/lib"):
        for path in sorted((root / folder).glob("**/*.[ch]")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _call(command: List[str], root: Path) -> None:
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except OSError as error:
        raise FuzzBuildError(f"cannot run {COMPILER} (make setup installs it): {error}") from error
    if done.returncode:
        raise FuzzBuildError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def _compile(part: Part, flags: Sequence[str], root: Path, folder: Path) -> List[str]:
    """Compile the files of a part and return their objects."""
    objects = []
    for file in part.files:
        objects.append(str(folder / f"{len(os.listdir(folder))}-{Path(file).stem}.o"))
        _call(
            [COMPILER, *_STRICT, *flags, "-fsanitize=fuzzer-no-link", *part.flags, "-c", "-o", objects[-1], file], root
        )
    return objects


def build(variant: str, root: Path = ROOT, only: Optional[str] = None) -> Dict[str, Path]:
    """Compile what the cache has not, and return the programs by their names; raises FuzzBuildError.

    variant is one of VARIANTS, root another tree than this one: one with a mistake planted. only: this fuzzer alone.
    """
    flags = VARIANTS[variant]
    digest = _digest(root, [variant, *flags, *_STRICT, repr(FUZZERS)])
    folder = Path(os.environ.get("SDNGCC_CACHE") or Path.home() / ".cache" / "sdn-gcc") / f"fuzz-{digest}"
    wanted = [one for one in FUZZERS if only in (None, one.name)]
    programs = {one.name: folder / f"fuzz-{one.name}" for one in wanted}
    if all(path.exists() for path in programs.values()):
        return programs
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        engine = _compile(_common(root), flags, root, Path(scratch))
        for one in wanted:
            own = [name for part in one.parts for name in _compile(part, flags, root, Path(scratch))]
            output = Path(scratch) / programs[one.name].name
            _call([COMPILER, *flags, "-fsanitize=fuzzer", "-o", str(output), *own, *engine], root)
            output.replace(programs[one.name])
    return programs
