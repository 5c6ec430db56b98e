# SPDX-License-Identifier: Apache-2.0
"""Builds what ``make bench-instructions`` boots, in the cache of testbed/build.py.

``instructions_kernel`` is the distribution's own kernel with the modules that are needed and its headers, fetched and
never installed. ``instructions_module`` has the patched openvswitch.ko and sdngcc.ko for it, ``instructions_init`` the
first process. Of KERNELS the first is the release's, the second the one of the release after it, which Debian builds
for this one, too.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional

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
)
from sdngcc.testbed.fetch import apt_options, newest

HERE = Path(__file__).resolve().parent

# The kernels that can be measured.
KERNELS = (KERNEL, "6.12")

# Modules by which the machine reaches the host's files, and those that loads and rows need; what these need is found.
FILES = ("virtio_pci", "9pnet_virtio", "9p")
LOADS = ("veth", "pktgen", "openvswitch", "vport_vxlan", "sch_htb", "sch_ingress", "sch_fq", "act_police", "cls_basic")

# Folders of the kernel package that have them.
UNPACKED = ("boot/vmlinuz-*", "lib/modules/*/modules.*", "lib/modules/*/kernel/net/*", "lib/modules/*/kernel/lib/*",
            "lib/modules/*/kernel/crypto/*", "lib/modules/*/kernel/arch/*", "lib/modules/*/kernel/fs/9p/*",
            "lib/modules/*/kernel/fs/netfs/*", "lib/modules/*/kernel/drivers/virtio/*",
            "lib/modules/*/kernel/drivers/net/veth.ko*", "lib/modules/*/kernel/drivers/net/vxlan/*")
# And one that only the first of KERNELS has.
UNPACKED_FIRST = ("lib/modules/*/kernel/fs/fscache/*",)


@dataclass(frozen=True)
class Machine:
    """Paths of all a machine needs."""

    release: str
    """The kernel's, as ``uname -r`` has it."""
    image: Path
    """The kernel."""
    files: List[Path]
    """Modules that the initial RAM disk has, in the order to load them."""
    loads: List[Path]
    """Modules that loads need, in the order to load them, but for openvswitch.ko and what needs it."""
    stock: List[Path]
    """The distribution's own openvswitch.ko."""
    patched: List[Path]
    """The openvswitch.ko with the shim."""
    beside: List[Path]
    """The distribution's own openvswitch.ko and sdngcc.ko."""
    init: Path
    """The first process."""


def instructions_parts(linux: str = KERNEL) -> Dict[str, Part]:
    """Return all parts by name with the keys of the present sources; linux is one of KERNELS."""
    gcc, patches, shim = compiler_version(), ROOT / "ovs-patches", ROOT / "shim"
    kernel = Part("instructions_kernel", content_key([linux, SUITES.get(linux, ""), *FILES, *LOADS, *_unpacked(linux)]),
                  30, kernel=linux, recipe=_fetch_kernel)
    module = Part("instructions_module",
                  content_key([kernel.key, gcc, source_part(linux).key], patches / "build.sh", patches / "linux",
                              shim / "Kbuild", shim / "core", shim / "kernel"), 150, kernel=linux,
                  recipe=_build_modules)
    init = Part("instructions_init", content_key([gcc], HERE / "init.c"), 1, recipe=_build_init)
    return {part.name: part for part in (kernel, module, init)}


def machine(progress: Optional[Progress] = None, linux: str = KERNEL) -> Machine:
    """Build what is missing and return where everything is; linux is one of KERNELS. Raises BuildError."""
    build_part(source_part(linux), progress)  # from which the datapath is taken
    parts = instructions_parts(linux)
    for part in parts.values():
        build_part(part, progress)
    root, built = parts["instructions_kernel"].folder / "root", parts["instructions_module"].folder
    release = next((root / "lib" / "modules").iterdir()).name
    loads = _in_order(root, release, LOADS)
    datapath = [path for path in loads if path.stem in ("openvswitch", "vport-vxlan")]
    stock = [path for path in datapath if path.stem == "openvswitch"]
    return Machine(
        release=release, image=next((root / "boot").glob("vmlinuz-*")), files=_in_order(root, release, FILES),
        loads=[path for path in loads if path not in datapath], stock=stock, patched=[built / "openvswitch.ko"],
        beside=[*stock, built / "sdngcc.ko"], init=parts["instructions_init"].folder / "init")


def _unpacked(linux: str) -> List[str]:
    """Return what is taken out of a kernel's package."""
    return [*UNPACKED, *(UNPACKED_FIRST if linux == KERNEL else ())]


def _in_order(root: Path, release: str, names: tuple[str, ...]) -> List[Path]:
    """Return modules and what they need, each once and behind what it needs. Raises BuildError."""
    found: List[Path] = []
    for name in names:
        done = subprocess.run(["modprobe", "-d", str(root), "-S", release, "--show-depends", name],
                              capture_output=True, text=True)
        if done.returncode:
            raise BuildError(f"instructions_kernel: {release} has no module {name}: {done.stderr.strip()}")
        for line in done.stdout.splitlines():
            kind, _, path = line.partition(" ")
            if kind == "insmod" and Path(path.strip()) not in found:
                found.append(Path(path.strip()))
    return found


def _fetch_kernel(build: Build) -> None:
    """Fetch the newest package of a kernel and its headers."""
    linux = build.part.kernel
    options = apt_options(build, [SUITES[linux]] if linux in SUITES else [])
    image = newest(build, options, rf"linux-image-{re.escape(linux)}\.\d+(-\d+|\+deb\d+)-amd64")
    headers = image.replace("image", "headers")
    asked = subprocess.run(["apt-cache", *options, "depends", headers], capture_output=True, text=True, check=True)
    needed = re.findall(r"Depends: (linux-(?:kbuild|headers)-\S+)", asked.stdout)
    build.run(["apt-get", *options, "download", image, headers, *needed], f"fetching {image}", cwd=build.folder)
    root = build.folder / "root"
    root.mkdir()
    for package in sorted(build.folder.glob("*.deb")):
        if package.name.startswith(image):
            archive = build.folder / "image.tar"
            with open(archive, "wb") as file:
                subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=file, check=True)
            build.run(["tar", "-xf", str(archive), "-C", str(root), "--wildcards",
                       *(f"./{name}" for name in _unpacked(linux))], "unpacking the kernel")
            archive.unlink()
        else:
            build.run(["dpkg-deb", "-x", str(package), str(root)], "unpacking headers")
        package.unlink()
    release = next((root / "lib" / "modules").iterdir()).name
    compressed = [str(path) for path in (root / "lib" / "modules").rglob("*.ko.xz")]
    if compressed:
        build.run(["xz", "-d", *compressed], "unpacking modules")
    build.run(["depmod", "-b", str(root), release], "finding what modules need")
    makefile = root / "usr" / "src" / headers / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{root}/usr/src/"))


def _build_modules(build: Build) -> None:
    """Compile openvswitch.ko with the shim, and sdngcc.ko."""
    linux = build.part.kernel
    root = instructions_parts(linux)["instructions_kernel"].folder / "root"
    headers = next(path for path in (root / "usr" / "src").iterdir() if path.name.endswith("amd64"))
    tree = build.folder / "source"
    tree.mkdir()
    name = f"linux-source-{linux}"
    build.run(["tar", "-xf", str(source_part(linux).folder / "usr" / "src" / f"{name}.tar.xz"), "-C", str(tree),
               "--strip-components=1", f"{name}/Makefile", f"{name}/net/openvswitch"], "unpacking Open vSwitch")
    build.run(["sh", str(ROOT / "ovs-patches" / "build.sh"), "linux", str(tree)], "applying the hooks")
    copy_beside(tree / "sdngcc")
    for folder, name in ((tree / "net" / "openvswitch", "openvswitch"), (tree / "sdngcc", "sdngcc")):
        # The headers name the compiler of the release that they are of; types for BPF need a program more.
        build.run(["make", "ARCH=x86_64", f"-j{JOBS}", "CC=gcc", "CONFIG_DEBUG_INFO_BTF_MODULES=",
                   "-C", str(headers), f"M={folder}", "modules"], f"compiling {name}.ko")
        build.run(["strip", "-g", "-o", str(build.folder / f"{name}.ko"), str(folder / f"{name}.ko")], "stripping")


def _build_init(build: Build) -> None:
    build.run(["gcc", "-O2", "-static", "-Wall", "-Wextra", "-Werror", "-o", str(build.folder / "init"),
               str(HERE / "init.c")], "compiling")
