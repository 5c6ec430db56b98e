# SPDX-License-Identifier: Apache-2.0
"""Tries the package of the patched datapath: DKMS builds it for a release's stock kernel, and takes it away again.

The module is not loaded: the kernel that runs here is another one.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Callable, Dict

from sdngcc.testbed.packages.check import require
from sdngcc.testbed.packages.roots import Release, Root, root

PACKAGE = "openvswitch-sdngcc-dkms"

_ROW = re.compile(r"^(0x[0-9a-f]+)\t(\S+)\t(\S*openvswitch)\t", re.MULTILINE)


def exported(symvers: str) -> Dict[str, str]:
    """Return the checksum of each symbol that openvswitch.ko exports, by the text of a Module.symvers."""
    return {name: checksum for checksum, name, module in _ROW.findall(symvers) if module.endswith("openvswitch")}


def check_module(release: Release, package: Path, say: Callable[[str], None]) -> None:
    """Build the module for the stock kernel and remove it again. Raises CheckError and RootError.

    The module must export what the kernel's own exports, with the same checksums: vport-*.ko stay the kernel's.
    """
    with root(release, ("ca-certificates",)) as one:
        one.path("/packages").mkdir()
        shutil.copy(package, one.path("/packages"))
        one.apt("update")
        one.apt("install", "--no-install-recommends", "linux-headers-amd64")
        kernel = next(one.path("/lib/modules").iterdir()).name
        one.apt("install", "--no-install-recommends", f"/packages/{package.name}")
        module, version = PACKAGE.removesuffix("-dkms"), package.name.split("_")[1]
        if not _built(one, kernel):
            one.run(["dkms", "install", f"{module}/{version}", "-k", kernel])
        require(_built(one, kernel), f"DKMS built no module: {one.run(['dkms', 'status']).stdout}")
        path = one.run(["modinfo", "-k", kernel, "-n", "openvswitch"]).stdout.strip()
        require("/updates/dkms/" in path, f"modprobe would load {path}")
        magic = one.run(["modinfo", "-F", "vermagic", path]).stdout
        require(magic.startswith(f"{kernel} "), f"the module is for {magic}")
        stock = exported(one.path(f"/usr/src/linux-headers-{kernel}/Module.symvers").read_text(encoding="ascii"))
        tree = one.path(f"/var/lib/dkms/{module}/{version}/build/tree/net/openvswitch/Module.symvers")
        if tree.exists():  # DKMS may clean up before
            ours = exported(tree.read_text(encoding="ascii"))
            require(ours == stock, f"exported: {ours}; by the kernel's own: {stock}")
            say(f"{PACKAGE}: the {len(stock)} symbols that it exports have the checksums of the kernel's own")
        say(f"{PACKAGE}: built for {kernel}, at {path}")
        one.apt("purge", PACKAGE)
        require(not _built(one, kernel), "the module is left after purging")
        for left in (f"/usr/src/{module}-{version}", f"/var/lib/dkms/{module}"):
            require(not one.path(left).exists(), f"purging left {left}")
        say(f"{PACKAGE}: purged, the kernel's own module is in force again")


def _built(one: Root, kernel: str) -> bool:
    """Return whether DKMS' module is where modprobe prefers it."""
    return any(one.path(f"/lib/modules/{kernel}/updates/dkms").glob("openvswitch.ko*"))
