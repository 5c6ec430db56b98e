# SPDX-License-Identifier: Apache-2.0
"""Builds what ``make bench-instructions`` boots, in the cache of testbed/build.py.

``instructions_kernel`` is the distribution's own kernel with the modules that are needed and its headers, fetched and
never installed. ``instructions_module`` has the patched openvswitch.ko and sdngcc.ko for it, ``instructions_init`` the
first process.
"""

from __future__ import annotations

import re
import shutil
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
)
from sdngcc.testbed.build import parts as testbed_parts
from sdngcc.testbed.fetch import apt_options, newest

HERE = Path(__file__).resolve().parent

# Modules by which the machine reaches the host's files, and those that loads and rows need; what these need is found.
FILES = ("virtio_pci", "9pnet_virtio", "9p")
LOADS = ("veth", "pktgen", "openvswitch", "vport_vxlan", "sch_htb", "sch_ingress", "sch_fq", "act_police", "cls_basic")

# Folders of the kernel package that have them.
UNPACKED = ("boot/vmlinuz-*", "lib/modules/*/modules.*", "lib/modules/*/kernel/net/*", "lib/modules/*/kernel/lib/*",
            "lib/modules/*/kernel/crypto/*", "lib/modules/*/kernel/arch/*", "lib/modules/*/kernel/fs/9p/*",
            "lib/modules/*/kernel/fs/netfs/*", "lib/modules/*/kernel/fs/fscache/*",
            "lib/modules/*/kernel/drivers/virtio/*", "lib/modules/*/kernel/drivers/net/veth.ko",
            "lib/modules/*/kernel/drivers/net/vxlan/*")


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


def instructions_parts() -> Dict[str, Part]:
    """Return all parts by name with the keys of the present sources."""
    gcc, patches, shim = compiler_version(), ROOT / "ovs-patches", ROOT / "shim"
    kernel = Part("instructions_kernel", content_key([KERNEL, SUITES[KERNEL], *FILES, *LOADS, *UNPACKED]), 30,
                  recipe=_fetch_kernel)
    module = Part("instructions_module",
                  content_key([kernel.key, gcc, testbed_parts()["kernel"].key], patches / "build.sh", patches / "linux",
                              shim / "Kbuild", shim / "core", shim / "kernel"), 150, recipe=_build_modules)
    init = Part("instructions_init", content_key([gcc], HERE / "init.c"), 1, recipe=_build_init)
    return {part.name: part for part in (kernel, module, init)}


def machine(progress: Optional[Progress] = None) -> Machine:
    """Build what is missing and return where everything is. Raises BuildError."""
    build_part(testbed_parts()["kernel"], progress)  # whose source the datapath is taken from
    parts = instructions_parts()
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
    """Fetch the release's newest kernel and its headers."""
    options = apt_options(build, [SUITES[KERNEL]])
    image = newest(build, options, rf"linux-image-{re.escape(KERNEL)}\.0-\d+-amd64")
    headers = image.replace("image", "headers")
    build.run(["apt-get", *options, "download", image, headers, headers.replace("-amd64", "-common"),
               f"linux-kbuild-{KERNEL}"], f"fetching {image}", cwd=build.folder)
    root = build.folder / "root"
    root.mkdir()
    for package in sorted(build.folder.glob("*.deb")):
        if package.name.startswith(image):
            archive = build.folder / "image.tar"
            with open(archive, "wb") as file:
                subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=file, check=True)
            build.run(["tar", "-xf", str(archive), "-C", str(root), "--wildcards", *(f"./{name}" for name in UNPACKED)],
                      "unpacking the kernel")
            archive.unlink()
        else:
            build.run(["dpkg-deb", "-x", str(package), str(root)], "unpacking headers")
        package.unlink()
    release = next((root / "lib" / "modules").iterdir()).name
    build.run(["depmod", "-b", str(root), release], "finding what modules need")
    makefile = root / "usr" / "src" / headers / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{root}/usr/src/"))


def _build_modules(build: Build) -> None:
    """Compile openvswitch.ko with the shim, and sdngcc.ko."""
    source = testbed_parts()["kernel"].folder / "source"
    root = instructions_parts()["instructions_kernel"].folder / "root"
    headers = next(path for path in (root / "usr" / "src").iterdir() if path.name.endswith("amd64"))
    tree = build.folder / "source"
    (tree / "net").mkdir(parents=True)
    shutil.copytree(source / "net" / "openvswitch", tree / "net" / "openvswitch")
    shutil.copy(source / "Makefile", tree)  # tells the version
    build.run(["sh", str(ROOT / "ovs-patches" / "build.sh"), "linux", str(tree)], "applying the hooks")
    copy_beside(tree / "sdngcc")
    for folder, name in ((tree / "net" / "openvswitch", "openvswitch"), (tree / "sdngcc", "sdngcc")):
        # The headers name the compiler of the release that they are of.
        build.run(["make", "ARCH=x86_64", f"-j{JOBS}", "CC=gcc", "-C", str(headers), f"M={folder}", "modules"],
                  f"compiling {name}.ko")
        build.run(["strip", "-g", "-o", str(build.folder / f"{name}.ko"), str(folder / f"{name}.ko")], "stripping")


def _build_init(build: Build) -> None:
    build.run(["gcc", "-O2", "-static", "-Wall", "-Wextra", "-Werror", "-o", str(build.folder / "init"),
               str(HERE / "init.c")], "compiling")
