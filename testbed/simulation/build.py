# SPDX-License-Identifier: Apache-2.0
"""Builds the simulators, each part in a folder of the cache named after the content it was made from.

* ``ns3``: headers and libraries of ns-3, out of the wheel that its project publishes. No program of Python imports it,
  so it is no requirement of ours: it is fetched when the first simulation of packets is built, by pip, which checks the
  hash, and only what the program needs is kept, a twentieth. One wheel serves all versions of Python.
* ``packets``: the program of the folder packets, with shim/core and shim/user as they are.
* ``fluid``: the library of the folder fluid, the same.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

from sdngcc.shim import LABORATORY
from sdngcc.testbed.build import ROOT, Build, BuildError, Part, Progress, build_part, compiler_version, content_key

HERE = Path(__file__).resolve().parent
# The newest on PyPI. Debian 12 has 3.37, whose pkg-config file is broken, and Debian 13 another one: figures would
# depend on the system's.
NS3 = "ns3==3.44.post0"
NS3_SHA256 = "2a98479a4a3a1bb819b95ce061871a9d068268b42351b8f0ef598160939ba7ce"
# Modules that the program links, and the libraries that these need.
NS3_MODULES = ("core", "network", "stats", "bridge", "traffic-control", "internet", "point-to-point")
NS3_KEPT = tuple(f"libns3.44-{name}.so" for name in NS3_MODULES) + ("libgsl", "libsqlite3", "libxml2", "liblzma")
# The arithmetic of D2TCP and L2DCT, as the testbed's kernel has it.
ALGEBRA = ROOT / "testbed" / "congestion" / "algebra"
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def ns3_part() -> Part:
    """Return the part with ns-3's headers and libraries."""
    return Part("ns3", content_key([NS3, NS3_SHA256, *NS3_KEPT]), 4, recipe=_fetch_ns3)


def packets_part() -> Part:
    """Return the part with the simulator of packets."""
    algebra = (ALGEBRA.with_suffix(".h"), ALGEBRA.with_suffix(".c"))
    texts = [ns3_part().key, *(path.read_text(encoding="utf-8") for path in algebra)]
    return Part("packets", _key("packets", texts), 8, recipe=_build_packets)


def fluid_part() -> Part:
    """Return the part with the simulator of rates."""
    return Part("fluid", _key("fluid", []), 1, recipe=_build_fluid)


def simulation_parts() -> List[Part]:
    """Return all parts of this module."""
    return [ns3_part(), packets_part(), fluid_part()]


def _key(folder: str, texts: Sequence[str]) -> str:
    return content_key([compiler_version(), *texts], HERE / folder, HERE / "build.py", ROOT / "shim" / "core",
                       ROOT / "shim" / "user")


def _fetch_ns3(build: Build) -> None:
    if (platform.machine(), sys.platform) != ("x86_64", "linux"):
        raise BuildError(f"ns3: its wheel is for Linux on x86_64, this is {sys.platform} on {platform.machine()}")
    wanted = build.folder / "requirements.txt"
    wanted.write_text(f"{NS3} --hash=sha256:{NS3_SHA256}\n", encoding="utf-8")
    build.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--require-hashes",
               "--only-binary=:all:", "--python-version", "3.11", "--implementation", "cp", "--abi", "cp311",
               "--platform", "manylinux_2_28_x86_64", "--dest", str(build.folder), "--requirement", str(wanted)],
              "fetching ns-3")
    wheel = next(build.folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            place, _, base = name.rpartition("/")
            if place == "ns3/include/ns3" or (place == "ns3/lib64" and base.startswith(NS3_KEPT)):
                archive.extract(name, build.folder)
    wheel.unlink()


def _core_objects(build: Build, flags: Sequence[str] = ()) -> List[str]:
    """Compile shim/core and shim/user and return the objects."""
    shim = ROOT / "shim"
    sources = [*sorted((shim / "core").rglob("*.c")), *sorted((shim / "user").glob("*.c"))]
    objects = build.folder / "core"
    objects.mkdir()
    names = [str(objects / ("-".join(path.relative_to(shim).parts) + ".o")) for path in sources]
    compile_all(build, [["gcc", "-std=c11", "-O2", *WARNINGS, f"-D{LABORATORY}", *flags, "-ffreestanding", "-c",
                         str(path), "-o", name] for path, name in zip(sources, names)], "compiling the engine")
    return names


def compile_all(build: Build, commands: Sequence[Sequence[str]], what: str) -> None:
    """Run compilers, as many at a time as there are processors. Raises BuildError with the first one's words."""
    waiting: List[Tuple[Sequence[str], subprocess.Popen[str]]] = []

    def end(command: Sequence[str], process: subprocess.Popen[str]) -> None:
        said, _ = process.communicate()
        if process.returncode:
            raise BuildError(f"{build.part.name}: {what} failed: {' '.join(command)}\n{said}")

    try:
        for command in commands:
            if len(waiting) >= (os.cpu_count() or 1):
                end(*waiting.pop(0))
            waiting.append((command, subprocess.Popen(list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                                      stderr=subprocess.STDOUT, text=True)))
            build.done += 1
            if build.progress is not None:
                build.progress(build.part.name, min(build.done, build.part.steps), build.part.steps, what)
        while waiting:
            end(*waiting.pop(0))
    finally:
        for _, left in waiting:
            left.kill()
            left.communicate()


def _build_packets(build: Build) -> None:
    build_part(ns3_part(), build.progress)
    ns3, shim = ns3_part().folder / "ns3", ROOT / "shim"
    objects = [*_core_objects(build), str(build.folder / "algebra.o")]
    build.run(["gcc", "-std=c11", "-O2", *WARNINGS, "-c", f"{ALGEBRA}.c", "-o", objects[-1]], "compiling algebra")
    sources = sorted((HERE / "packets").glob("*.cc"))
    names = [str(build.folder / f"{path.stem}.o") for path in sources]
    includes = ["-isystem", str(ns3 / "include"), *(f"-I{shim / name}" for name in ("user", "core", "core/engine")),
                f"-I{ALGEBRA.parent}"]
    compile_all(build, [["g++", "-std=c++20", "-O2", *WARNINGS, *includes, "-c", str(path), "-o", name]
                        for path, name in zip(sources, names)], "compiling the simulator of packets")
    lib = ns3 / "lib64"
    # Libraries of modules that are not linked are needed by ones that are, for functions that nobody calls.
    build.run(["g++", "-o", str(build.folder / "packets"), *names, *objects, f"-L{lib}", f"-Wl,-rpath,{lib}",
               "-Wl,--allow-shlib-undefined", "-Wl,--disable-new-dtags",
               *(f"-lns3.44-{name}" for name in NS3_MODULES)], "linking")


def _build_fluid(build: Build) -> None:
    objects = _core_objects(build, ["-fPIC"])
    shim = ROOT / "shim"
    includes = [f"-I{shim / name}" for name in ("user", "core", "core/engine")]
    sources = [str(path) for path in sorted((HERE / "fluid").glob("*.c"))]
    build.run(["gcc", "-std=c11", "-O2", *WARNINGS, *includes, "-fPIC", "-shared", "-o",
               str(build.folder / "libfluid.so"), *sources, *objects, "-lm"], "compiling the simulator of rates")


def packets_program(progress: Optional[Progress] = None) -> Path:
    """Return the simulator of packets, built first if need be. Raises BuildError."""
    build_part(packets_part(), progress)
    return packets_part().folder / "packets"


def fluid_library(progress: Optional[Progress] = None) -> Path:
    """Return the library that simulates rates, built first if need be. Raises BuildError."""
    build_part(fluid_part(), progress)
    return fluid_part().folder / "libfluid.so"
