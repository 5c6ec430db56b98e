# SPDX-License-Identifier: Apache-2.0
"""Tries the packages of modules: DKMS builds them for a release's stock kernel, and takes them away again.

No module is loaded: the kernel that runs here is another one.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Callable

from sdngcc.testbed.packages.build import MODULES
from sdngcc.testbed.packages.check import require
from sdngcc.testbed.packages.roots import Release, Root, RootError, root

# Run by sh with a kernel's release: brings its own modules of the network, without what else a kernel's package does.
_STOCK = """set -eu
cd /tmp
apt-get -q -o APT::Sandbox::User=root download "linux-image-$1"
dpkg-deb --fsys-tarfile "linux-image-$1"_*.deb |
	tar -C / -x --wildcards "*/$1/kernel/net/*" "*/$1/modules.builtin*" "*/$1/modules.order"
depmod "$1"
"""


def check_module(release: Release, package: Path, say: Callable[[str], None]) -> None:
    """Build a package's module for the stock kernel and remove it again. Raises CheckError and RootError."""
    name, version = package.name.split("_")[:2]
    source, module = name.removesuffix("-dkms"), MODULES[name]
    with root(release, ("ca-certificates",)) as one:
        one.path("/packages").mkdir()
        shutil.copy(package, one.path("/packages"))
        one.apt("update")
        one.apt("install", "--no-install-recommends", "linux-headers-amd64")
        kernel = next(one.path("/usr/lib/modules").iterdir()).name
        one.apt("install", "--no-install-recommends", "kmod")
        one.run(["sh", "-c", _STOCK, "stock", kernel])
        try:
            one.apt("install", "--no-install-recommends", f"/packages/{package.name}")
        except RootError as error:
            log = one.path(f"/var/lib/dkms/{source}/{version}/build/make.log")
            raise RootError(f"{error}\n{log.read_text(errors='replace')[-4000:] if log.exists() else ''}") from None
        if not _built(one, kernel, module):
            one.run(["dkms", "install", f"{source}/{version}", "-k", kernel])
        require(_built(one, kernel, module), f"DKMS built no module: {one.run(['dkms', 'status']).stdout}")
        path = one.run(["modinfo", "-k", kernel, "-n", module]).stdout.strip()
        require("/updates/dkms/" in path, f"modprobe would load {path}")
        magic = one.run(["modinfo", "-F", "vermagic", path]).stdout
        require(magic.startswith(f"{kernel} "), f"the module is for {magic}")
        signer = one.run(["modinfo", "-F", "signer", path]).stdout.strip()
        require(bool(signer) and one.path("/var/lib/dkms/mok.pub").exists(), "the module is not signed by DKMS' key")
        say(f"{name}: built for {kernel}, at {path}, signed by {signer}")
        loaded = one.run(["modprobe", "-S", kernel, "--show-depends", "vport-vxlan"]).stdout.split()
        require(any("/kernel/net/openvswitch/vport-vxlan.ko" in word for word in loaded)
                and (path in loaded) == (module == "openvswitch"), f"for vport-vxlan modprobe loads {loaded}")
        _check_broken(one, kernel, name, say)
        one.apt("purge", name)
        require(not _built(one, kernel, module), "the module is left after purging")
        path = one.run(["modinfo", "-k", kernel, "-n", "openvswitch"]).stdout.strip()
        require("/kernel/net/openvswitch/" in path, f"after purging modprobe would load {path}")
        for left in (f"/usr/src/{source}-{version}", f"/var/lib/dkms/{source}"):
            require(not one.path(left).exists(), f"purging left {left}")
        say(f"{name}: purged, modprobe loads the kernel's own openvswitch.ko again")


def _check_broken(one: Root, kernel: str, name: str, say: Callable[[str], None]) -> None:
    """Let the module not compile: neither a kernel's package nor its own fails by that, and both say so."""
    source = name.removesuffix("-dkms")
    one.run(["sh", "-euc", f"""
for file in $(find /usr/src/{source}-*/ -name '*.c'); do echo '#error broken' >>"$file"; done
version=$(dkms status -m {source} | sed -n 's|^{source}/\\([^,:]*\\)[,:].*|\\1|p' | head -n 1)
dkms remove {source}/"$version" -k {kernel}"""])
    for argv in ([f"/etc/kernel/postinst.d/{name}", kernel], [f"/etc/kernel/header_postinst.d/{name}", kernel],
                 ["dkms", "autoinstall", "-k", kernel], ["/etc/kernel/postinst.d/dkms", kernel],
                 ["sh", f"/var/lib/dpkg/info/{name}.postinst", "configure", ""]):
        done = one.run(argv, environment={"DPKG_MAINTSCRIPT_PACKAGE": name}, check=False)
        require(done.returncode == 0, f"with a module that does not compile {argv} failed:\n{done.stdout[-2000:]}")
        if name in " ".join(argv):
            require("not limited" in done.stdout, f"{argv} does not tell of it:\n{done.stdout[-2000:]}")
    require(not _built(one, kernel, MODULES[name]), "a module that does not compile is installed")
    say(f"{name}: where it does not compile, apt and kernels' packages go on and say that nothing is limited")


def _built(one: Root, kernel: str, module: str) -> bool:
    """Return whether DKMS' module is where modprobe prefers it."""
    return any(one.path(f"/lib/modules/{kernel}/updates/dkms").glob(f"{module}.ko*"))
