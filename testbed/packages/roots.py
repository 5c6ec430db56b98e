# SPDX-License-Identifier: Apache-2.0
"""Roots: a Debian of its own in a folder, made by mmdebstrap, kept as an archive by what is in it.

Commands run inside by chroot, in mount and process namespaces that end with them: no mount of a root is seen outside,
so that its folder can be deleted at any time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from sdngcc.testbed import locks
from sdngcc.testbed.build import cache_root

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
CONFINE = Path(__file__).parent / "plain.py"

# Run by sh with the root as first argument: what a command inside finds beside its files.
_ENTER = """set -eu
root=$1; shift
# A mount point, as every machine's root is: programs inside that make namespaces change how it propagates.
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root/var/cache/apt/archives"
[ -z "$ARCHIVES" ] || mount --bind "$ARCHIVES" "$root/var/cache/apt/archives"
if [ -n "$ALONE" ]; then ip link set lo up; fi
# The first process of the namespace takes those over whose parents end, and lets them go.
${CONFINE:+python3 "$CONFINE" "$root/dev/shm"} /usr/sbin/chroot "$root" /usr/bin/env -i "$@" &
wait $!
"""


class RootError(Exception):
    """A root cannot be made, or a command in it failed; the text ends with what it said."""


@functools.cache
def mirror(label: str) -> str:
    """Return where this machine's apt fetches Debian's archive of a label ("Debian", "Debian-Security"). RootError."""
    done = subprocess.run(["apt-get", "indextargets", "--format", "$(LABEL)|$(REPO_URI)", "Identifier: Packages"],
                          capture_output=True, text=True)
    found = sorted(line.split("|")[1] for line in done.stdout.splitlines() if line.startswith(label + "|"))
    if not found:
        raise RootError(f"apt has no source with the label {label} on this machine; `apt-get update` may bring it")
    return found[0]


@dataclasses.dataclass(frozen=True)
class Release:
    """A release of Debian that packages are made for."""

    suite: str
    number: int  # as in "Debian 12"
    kernel: str  # of Linux, as in "6.1"
    openvswitch: str  # as in "3.1"
    frameworks: Tuple[str, ...]  # that the controller can run on: Ryu 4.34 cannot be used with Python 3.12 and later

    @property
    def suffix(self) -> str:
        """Return what ends versions of packages for it; a later release's sorts later."""
        return f"deb{self.number}"

    @property
    def sources(self) -> str:
        """Return its list of apt sources, with security updates, from where this machine has its own. RootError."""
        debian, security = mirror("Debian"), mirror("Debian-Security")
        return (f"deb {debian} {self.suite} main\ndeb {debian} {self.suite}-updates main\n"
                f"deb {security} {self.suite}-security main\n")


RELEASES: Dict[str, Release] = {
    one.suite: one for one in (
        Release("bookworm", 12, "6.1", "3.1", ("ryu", "os-ken")), Release("trixie", 13, "6.12", "3.5", ("os-ken",)))}


def packages_cache() -> Path:
    """Return the folder that keeps roots, archives of Debian's packages and Python packages."""
    folder = cache_root() / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold a lock of the cache by its name."""
    with locks.locked(packages_cache() / f"{name}.lock"):
        yield


def missing_programs() -> List[str]:
    """Return what keeps roots from being made here, a sentence each; an empty list when nothing does."""
    found = [] if os.geteuid() == 0 else ["roots are made and entered by root only"]
    for program, package in (("mmdebstrap", "mmdebstrap"), ("unshare", "util-linux"), ("ip", "iproute2")):
        if shutil.which(program) is None:
            found.append(f"{program} is missing: install the Debian package {package}")
    return found


def root_archive(release: Release, include: Sequence[str]) -> Path:
    """Return the archive of a minimal root with these packages beside it; makes it when it is not there. RootError."""
    wanted = "\n".join([release.sources, *sorted(include)])
    archive = packages_cache() / f"root-{release.suite}-{hashlib.sha256(wanted.encode()).hexdigest()[:16]}.tar"
    with locked(archive.name):
        if not archive.exists():
            part = archive.with_suffix(".part")
            argv = ["mmdebstrap", "--quiet", "--variant=minbase", "--format=tar",
                    "--dpkgopt=force-unsafe-io", release.suite, str(part), "-"]
            if include:
                argv.insert(1, "--include=" + ",".join(include))
            done = subprocess.run(argv, input=release.sources, capture_output=True, text=True)
            if done.returncode:
                raise RootError(f"mmdebstrap of {release.suite} failed:\n{done.stderr[-2000:]}")
            part.rename(archive)
    return archive


class Root:
    """A root that is unpacked in a folder."""

    def __init__(self, release: Release, folder: Path, archives: Optional[Path] = None) -> None:
        self.release = release
        self.folder = folder
        self.archives = archives  # where its apt keeps what it fetches; in itself without one

    def run(self, argv: Sequence[str], *, environment: Optional[Mapping[str, str]] = None, alone: bool = False,
            contained: bool = False, timeout_s: float = 1800,
            check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command inside as root; alone: in a network of its own, with nothing but a loopback device.

        contained: with no more than a container engine gives by default (plain.py).
        Raises RootError when it fails and check is set; the output, both streams together, is the result's stdout.
        """
        path = "/usr/bin:/bin" if contained else "/usr/sbin:/usr/bin:/sbin:/bin"
        inside = {"PATH": path, "HOME": "/root", "LC_ALL": "C.UTF-8",
                  "DEBIAN_FRONTEND": "noninteractive", **(environment or {})}
        spaces = ["--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", *(["--net"] if alone else [])]
        done = subprocess.run(
            ["unshare", *spaces, "sh", "-c", _ENTER, "enter", str(self.folder),
             *(f"{name}={value}" for name, value in inside.items()), *argv],
            env={**os.environ, "ARCHIVES": str(self.archives or ""), "ALONE": "1" if alone else "",
                 "CONFINE": str(CONFINE) if contained else ""},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            timeout=timeout_s)
        if check and done.returncode:
            raise RootError(f"{self.release.suite}: {' '.join(argv)} failed (exit {done.returncode}):\n"
                            f"{done.stdout[-4000:]}")
        return done

    def apt(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run apt-get, which keeps what it fetches for the next root."""
        return self.run(["apt-get", "-q", "-y", "-o", "APT::Keep-Downloaded-Packages=true",
                         "-o", "APT::Sandbox::User=root", *argv])

    def path(self, inside: str) -> Path:
        """Return where a path of the root is outside of it."""
        return self.folder / inside.lstrip("/")


@contextlib.contextmanager
def _archives(release: Release) -> Iterator[Path]:
    """Give a folder with links to all that was fetched for a release, and keep what comes into it.

    apt locks the folder: roots side by side need one each.
    """
    kept = packages_cache() / f"archives-{release.suite}"
    kept.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"fetched-{release.suite}-", dir=packages_cache()) as name:
        folder = Path(name)
        folder.chmod(0o755)
        _link_all(kept, folder)
        try:
            yield folder
        finally:
            _link_all(folder, kept)


def _link_all(source: Path, target: Path) -> None:
    """Link packages of a folder into another one, but for those that are there."""
    for path in source.glob("*.deb"):
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            os.link(path, target / path.name)


@contextlib.contextmanager
def root(release: Release, include: Sequence[str] = ()) -> Iterator[Root]:
    """Unpack a root for as long as the context lasts. Raises RootError when it cannot be made."""
    archive = root_archive(release, include)
    with (tempfile.TemporaryDirectory(prefix=f"sdn-gcc-{release.suite}-", dir="/var/tmp") as folder,
          _archives(release) as archives):
        os.chmod(folder, 0o755)
        subprocess.run(["tar", "-xf", str(archive), "-C", folder, "--numeric-owner"], check=True)
        made = Root(release, Path(folder), archives)
        # No service starts by itself in a root: there is no init that could start it.
        policy = made.path("/usr/sbin/policy-rc.d")
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        yield made


def trust_outside(one: Root) -> Dict[str, str]:
    """Let pip inside trust what is trusted outside, and fetch from where it does outside; return its environment."""
    shutil.copy(CERTIFICATES, one.path("/tmp/trusted.crt"))
    names = [name for name in os.environ
             if name.startswith("PIP_") and name != "PIP_FIND_LINKS" or name.lower() in ("https_proxy", "http_proxy")]
    return {**{name: os.environ[name] for name in names}, "PIP_CERT": "/tmp/trusted.crt"}
