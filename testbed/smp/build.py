# SPDX-License-Identifier: Apache-2.0
"""Builds what the machines with several CPUs run, in the cache of testbed/build.py.

Of each kernel there are these parts: ``smp_<kernel>`` itself, ``smp_<kernel>_module`` with openvswitch.ko and
``smp_<kernel>_planted`` with the module that does wrong on purpose. ``smp_rtpatches`` holds Debian's patches for
PREEMPT_RT and ``smp_stress`` the program that runs inside.

``debian`` and ``debian_rt`` are the distribution's own kernels, fetched and never installed: there the shim is compiled
for a watcher of races (watch/) that is a module itself. ``kcsan``, ``lockdep`` and ``rt`` are built.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, FrozenSet, List, Optional

from sdngcc.shim import LABORATORY
from sdngcc.testbed.build import (
    JOBS,
    KERNEL,
    ROOT,
    SUITES,
    Build,
    BuildError,
    Part,
    Progress,
    build_part,
    compiler_version,
    content_key,
    copy_beside,
    source_part,
    unpack_kernel,
)
from sdngcc.testbed.build import parts as testbed_parts
from sdngcc.testbed.fetch import apt_options, newest, numbers
from sdngcc.testbed.qemu import qemu

HERE = Path(__file__).resolve().parent

# Debian's own kernels, by the flavour in their packages' names.
STOCK = {"debian": "amd64", "debian_rt": "rt-amd64"}

# The kernels there are.
KINDS = (*STOCK, "kcsan", "lockdep", "rt")

# What openvswitch.ko needs, and the links, in the order to load them; the other kernels have it built in.
STOCK_MODULES = (
    "crypto/crc32c_generic.ko", "lib/libcrc32c.ko", "drivers/net/veth.ko", "net/sched/sch_fq.ko",
    "net/ipv4/netfilter/nf_defrag_ipv4.ko", "net/ipv6/netfilter/nf_defrag_ipv6.ko", "net/netfilter/nf_conntrack.ko",
    "net/netfilter/nf_nat.ko", "net/netfilter/nf_conncount.ko", "net/nsh/nsh.ko")

# With these the compiler calls the watcher (watch/) at each access, as it calls KCSAN.
WATCH_FLAGS = ("-fsanitize=thread", "-fno-optimize-sibling-calls", "--param", "tsan-distinguish-volatile=1",
               "--param", "tsan-instrument-func-entry-exit=0")

# What of the kernel's source none of these kernels reads: half of the unpacking. Kconfig files and headers stay.
UNREAD = ("Documentation/[a-z]*", "arch/[a-w]*.[cS]", "arch/[a-w]*.dts*", "drivers/gpu/*.[ch]", "drivers/media/*.[ch]",
          "drivers/net/ethernet/*.[ch]", "drivers/net/wireless/*.[ch]", "drivers/staging/*.[ch]", "drivers/scsi/*.[ch]",
          "sound/*.[ch]", "tools/testing/*")

# Patches for PREEMPT_RT that Debian's changelog of 6.1.177-1 calls applied upstream.
RT_APPLIED = ("debugobjects-locking-Annotate-debug_object_fill_pool", "kvm-vmx-guard-regparm")

# Functions that the patches for PREEMPT_RT renamed, in the datapath's source of the other kernels.
RT_NAMES = "-Du64_stats_fetch_begin_irq=u64_stats_fetch_begin -Du64_stats_fetch_retry_irq=u64_stats_fetch_retry"

# The kernel that looks for races looks at openvswitch.ko alone: to look at the rest would cost most of its speed and of
# the accesses it can watch. There it only learns of the barriers that the module gets by calling it.
KCSAN_BARRIERS = ("kernel/locking", "kernel/rcu", "kernel/time", "lib", "net/core")

# A line of a fragment that asks for something.
WANTED = re.compile(r"^CONFIG_\w+=(?!n$).+$", re.MULTILINE)


@dataclass(frozen=True)
class SmpArtifacts:
    """Paths of all a machine needs."""

    kind: str
    image: Path
    """The kernel, bzImage."""
    before: List[Path]
    """Modules that are loaded before it, in order."""
    module: Path
    """openvswitch.ko with the shim, or sdngcc.ko, without debugging information."""
    planted: Path
    """planted.ko, that does wrong on purpose."""
    stress: Path
    """The program inside."""
    functions: FrozenSet[str]
    """Names of all functions whose source is the shim's."""
    qemu: List[str]
    """The command that boots it, without its arguments."""


def smp_parts() -> Dict[str, Part]:
    """Return all parts by name with the keys of the present sources."""
    gcc, patches, shim = compiler_version(), ROOT / "ovs-patches", ROOT / "shim"
    linux = [path for path in (patches / "build.sh", patches / "linux", shim / "core", shim / "kernel")]
    rt_patches = Part("smp_rtpatches", content_key(["patches-rt of Debian's linux 6.1"]), 10,
                      recipe=_fetch_rt_patches)
    found = [rt_patches, Part("smp_stress", content_key([gcc], HERE / "stress", shim / "kernel" / "uapi"), 1,
                              recipe=_build_stress)]
    for kind in KINDS:
        texts = [*([kind] if kind in STOCK else []), source_part(KERNEL).key, gcc, *UNREAD]
        sources = [HERE / "kernel" / "base.config", HERE / "kernel" / f"{kind}.config"]
        extra: List[Path] = []
        if kind == "kcsan":
            texts += KCSAN_BARRIERS
        elif kind == "rt":
            texts += [*RT_APPLIED, *(_digest(path) for path in sorted(rt_patches.folder.glob("*.tar.xz")))]
        elif kind in STOCK:
            sources, extra = [], [HERE / "watch"]
        kernel = content_key(texts, *sources)
        recipe = functools.partial(_fetch_stock if kind in STOCK else _build_kernel, kind)
        if kind in STOCK:
            found.append(Part(f"smp_{kind}_watch", content_key([kernel], HERE / "watch"), 25,
                              recipe=functools.partial(_build_watch, kind)))
            found.append(Part(f"smp_{kind}_beside", content_key([kernel], shim / "Kbuild", *linux[-2:], *extra), 100,
                              recipe=functools.partial(_build_beside, kind)))
        found += [
            Part(f"smp_{kind}", kernel, 30 if kind in STOCK else 1150, recipe=recipe),
            Part(f"smp_{kind}_module", content_key([kernel], *linux, *extra), 70,
                 recipe=functools.partial(_build_module, kind)),
            Part(f"smp_{kind}_planted", content_key([kernel], HERE / "planted", *extra), 25,
                 recipe=functools.partial(_build_planted, kind))]
    return {part.name: part for part in found}


def smp_build(kind: str, progress: Optional[Progress] = None, beside: bool = False) -> SmpArtifacts:
    """Build what is missing for one kernel and return where everything is. Raises BuildError.

    beside: with sdngcc.ko beside an unmodified openvswitch.ko, on one of Debian's own kernels.
    """
    ours = f"smp_{kind}_{'beside' if beside else 'module'}"
    if kind == "rt":
        build_part(smp_parts()["smp_rtpatches"], progress)
    if kind in STOCK:
        build_part(testbed_parts()["kernel"], progress)  # whose source the datapath is taken from
    parts = smp_parts()
    for name in (f"smp_{kind}", f"smp_{kind}_watch", ours, f"smp_{kind}_planted", "smp_stress"):
        if name in parts:
            build_part(parts[name], progress)
    kernel, module = parts[f"smp_{kind}"].folder, parts[ours].folder
    before = []
    if kind in STOCK:
        folder = next((kernel / "root" / "lib" / "modules").iterdir()) / "kernel"
        before = [*(folder / name for name in STOCK_MODULES), _watch_folder(kind) / "watch.ko"]
    if beside:
        before.append(module / "openvswitch.ko")
    return SmpArtifacts(
        kind=kind, qemu=qemu(progress), before=before, module=module / ("sdngcc.ko" if beside else "openvswitch.ko"),
        image=(next((kernel / "root" / "boot").glob("vmlinuz-*")) if kind in STOCK
               else kernel / "build" / "arch" / "x86" / "boot" / "bzImage"),
        planted=parts[f"smp_{kind}_planted"].folder / "source" / "planted.ko",
        stress=parts["smp_stress"].folder / "stress",
        functions=_functions(module / "source" / ("sdngcc" if beside else "net/openvswitch/shim")))


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _functions(folder: Path) -> FrozenSet[str]:
    """Return the functions that the objects below folder define."""
    objects = [str(path) for path in sorted(folder.rglob("*.o"))]
    told = subprocess.run(["nm", "--defined-only", *objects], capture_output=True, text=True, check=True).stdout
    return frozenset(match[1].split(".")[0] for match in re.finditer(r"^\w+ [tTwW] (\S+)$", told, re.MULTILINE))


def _build_kernel(kind: str, build: Build) -> None:
    source, objects = unpack_kernel(build, KERNEL, UNREAD), build.folder / "build"
    objects.mkdir()
    if kind == "rt":
        patch = build.folder / "rt.patch"
        patch.write_bytes(_rt_patch(smp_parts()["smp_rtpatches"].folder, source))
        build.run(["patch", "-p1", "-s", "-N", "-d", str(source), "-i", str(patch)], "applying PREEMPT_RT")
    make = ["make", "ARCH=x86_64", f"O={objects}", "-C", str(source)]
    if kind == "kcsan":
        for name in KCSAN_BARRIERS:
            with open(source / name / "Makefile", "a", encoding="utf-8") as makefile:
                makefile.write("KCSAN_INSTRUMENT_BARRIERS := y\n")
        make.append("KCSAN_SANITIZE=n")
    build.run([*make, "tinyconfig"], "configuring")
    fragments = "".join((HERE / "kernel" / name).read_text() for name in ("base.config", f"{kind}.config"))
    with open(objects / ".config", "a", encoding="utf-8") as config:
        config.write(fragments)
    build.run([*make, "olddefconfig"], "configuring")
    have = set((objects / ".config").read_text().splitlines())
    unmet = [line for line in WANTED.findall(fragments) if line not in have]
    if unmet:
        raise BuildError(f"{build.part.name}: the kernel's configuration refuses {', '.join(unmet)}")
    build.run([*make, f"-j{JOBS}", "bzImage", "modules"], "compiling")


def _kernel_make(kind: str) -> List[str]:
    """Return the command that builds modules for a kernel."""
    kernel = smp_parts()[f"smp_{kind}"].folder
    make = ["make", "ARCH=x86_64", f"-j{JOBS}", f"{LABORATORY}=y", "modules"]
    if kind not in STOCK:
        return [*make, "-C", str(kernel / "build")]
    # The headers name the compiler of the release that they are of.
    make.append("CC=gcc")
    headers = next(path for path in (kernel / "root" / "usr" / "src").iterdir() if path.name.endswith("amd64"))
    symbols = _watch_folder(kind) / "Module.symvers"
    return [*make, "-C", str(headers), *([f"KBUILD_EXTRA_SYMBOLS={symbols}"] if symbols.exists() else []),
            *([f"KCFLAGS={RT_NAMES}"] if kind == "debian_rt" else [])]


def _watch_folder(kind: str) -> Path:
    """Return where the watcher of a kernel without KCSAN is built."""
    return smp_parts()[f"smp_{kind}_watch"].folder / "source"


def _watch_flags(kind: str) -> str:
    """Return what the compiler needs to let the watcher see each access of a file."""
    return f"{' '.join(WATCH_FLAGS)} -include {_watch_folder(kind) / 'watch.h'}"


def _build_watch(kind: str, build: Build) -> None:
    tree = build.folder / "source"
    shutil.copytree(HERE / "watch", tree)
    build.run([*_kernel_make(kind), f"M={tree}"], "compiling")


def _build_module(kind: str, build: Build) -> None:
    kernel = testbed_parts()["kernel"].folder if kind in STOCK else smp_parts()[f"smp_{kind}"].folder
    tree = build.folder / "source"
    (tree / "net").mkdir(parents=True)
    shutil.copytree(kernel / "source" / "net" / "openvswitch", tree / "net" / "openvswitch")
    shutil.copy(kernel / "source" / "Makefile", tree)  # tells the version
    build.run(["sh", str(ROOT / "ovs-patches" / "build.sh"), "linux", str(tree)], "applying the hooks")
    folder = tree / "net" / "openvswitch"
    if kind in STOCK:
        with open(folder / "Makefile", "a", encoding="utf-8") as makefile:
            makefile.write(f"$(foreach object,$(filter shim/%,$(openvswitch-y)),"
                           f"$(eval CFLAGS_$(object) += {_watch_flags(kind)}))\n")
    build.run([*_kernel_make(kind), f"M={folder}"], "compiling")
    build.run(["strip", "-g", "-o", str(build.folder / "openvswitch.ko"), str(folder / "openvswitch.ko")], "stripping")


def _build_beside(kind: str, build: Build) -> None:
    source = build.folder / "source"
    shutil.copytree(testbed_parts()["kernel"].folder / "source" / "net" / "openvswitch", source / "openvswitch")
    copy_beside(source / "sdngcc")
    with open(source / "sdngcc" / "Kbuild", "a", encoding="utf-8") as makefile:
        makefile.write(f"$(foreach object,$(sdngcc-y),$(eval CFLAGS_$(object) += {_watch_flags(kind)}))\n")
    for name in ("openvswitch", "sdngcc"):
        build.run([*_kernel_make(kind), f"M={source / name}"], f"compiling {name}.ko")
        build.run(["strip", "-g", "-o", str(build.folder / f"{name}.ko"), str(source / name / f"{name}.ko")],
                  "stripping")


def _build_planted(kind: str, build: Build) -> None:
    tree = build.folder / "source"
    shutil.copytree(HERE / "planted", tree)
    if kind in STOCK:
        with open(tree / "Makefile", "a", encoding="utf-8") as makefile:
            makefile.write(f"CFLAGS_planted.o := {_watch_flags(kind)}\n")
    build.run([*_kernel_make(kind), f"M={tree}"], "compiling")


def _build_stress(build: Build) -> None:
    sources = [str(path) for path in sorted((HERE / "stress").glob("*.c"))]
    build.run(["gcc", "-O2", "-static", "-pthread", "-Wall", "-Wextra", "-Werror",
               f"-I{ROOT / 'shim' / 'kernel' / 'uapi'}", "-o", str(build.folder / "stress"), *sources], "compiling")


def _fetch_rt_patches(build: Build) -> None:
    """Fetch the newest of Debian's linux 6.1 source packages that is to be had; only its debian folder, 2 MB."""
    options = apt_options(build, [SUITES[KERNEL]])
    told = subprocess.run(["apt-cache", *options, "madison", "linux"], capture_output=True, text=True, check=True)
    versions = sorted(set(re.findall(r"\| *(6\.1\.\S+) \|", told.stdout)), key=numbers, reverse=True)
    for version in versions:
        try:
            build.run(["apt-get", *options, "source", "--download-only", "--diff-only", f"linux={version}"],
                      f"fetching the patches of {version}", cwd=build.folder)
            return
        except BuildError:
            continue
    raise BuildError(f"{build.part.name}: Debian serves none of linux {', '.join(versions)}; see {build.log}")


def _fetch_stock(kind: str, build: Build) -> None:
    """Fetch Debian's newest kernel 6.1 of a flavour and what modules for it are built with; nothing is installed."""
    options = apt_options(build, [SUITES[KERNEL]])
    flavour = STOCK[kind]
    image = newest(build, options, rf"linux-image-6\.1\.0-\d+-{flavour}")
    headers = image.replace("image", "headers")
    common = re.sub(r"(rt-)?amd64$", lambda match: "common-rt" if match[1] else "common", headers)
    build.run(["apt-get", *options, "download", image, headers, common, "linux-kbuild-6.1"], f"fetching {image}",
              cwd=build.folder)
    root = build.folder / "root"
    root.mkdir()
    for package in sorted(build.folder.glob("*.deb")):
        if package.name.startswith(image):
            archive = build.folder / "image.tar"
            with open(archive, "wb") as file:
                subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=file, check=True)
            build.run(["tar", "-xf", str(archive), "-C", str(root), "--wildcards", "./boot/vmlinuz-*",
                       *(f"./lib/modules/*/kernel/{name}" for name in STOCK_MODULES)], "unpacking the kernel")
            archive.unlink()
        else:
            build.run(["dpkg-deb", "-x", str(package), str(root)], "unpacking headers")
        package.unlink()
    makefile = root / "usr" / "src" / headers / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{root}/usr/src/"))


def _rt_patch(folder: Path, source: Path) -> bytes:
    """Return the PREEMPT_RT patches of Debian's source package in folder as one, for the files that source has."""
    tarball = next(iter(folder.glob("*.debian.tar.xz")))
    subprocess.run(["tar", "-xf", str(tarball), "-C", str(folder), "debian/patches-rt"], check=True)
    patches = folder / "debian" / "patches-rt"
    wanted: List[bytes] = []
    for name in (patches / "series").read_text().split():
        if not name.endswith(".patch") or any(applied in name for applied in RT_APPLIED):
            continue
        text = (patches / name).read_bytes()
        for part in re.split(rb"(?m)^(?=--- \S+[^\n]*\n\+\+\+ )", text)[1:]:
            old, new = (line.split()[1] for line in part.splitlines()[:2])
            if old == b"/dev/null" or (source / os.fsdecode(new.partition(b"/")[2])).exists():
                wanted.append(part)
    return b"".join(wanted)
