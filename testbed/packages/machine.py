# SPDX-License-Identifier: Apache-2.0
"""A root that runs: systemd as the first process of namespaces of its own, with a network of its own.

What is installed in it starts as on a machine, with all that its units ask for. The kernel is this machine's.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path
from typing import Iterator, Sequence

from sdngcc.testbed.packages.roots import Root, RootError

# Run by sh with the root and the folder of apt's archives: what systemd needs to find.
_BOOT = """set -eu
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/dev"
for node in null:3 zero:5 full:7 random:8 urandom:9; do
	mknod -m 666 "$root/dev/${node%:*}" c 1 "${node#*:}"
done
mknod -m 666 "$root/dev/tty" c 5 0
mkdir "$root/dev/shm" "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mkdir -p "$root/var/cache/apt/archives"
[ -z "$2" ] || mount --bind "$2" "$root/var/cache/apt/archives"
ip link set lo up
# Units' own mount namespaces need a root that is one, which chroot does not make.
cd "$root"
pivot_root . mnt
umount -l /mnt
exec /usr/bin/env -i container=chroot PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd \
	--log-target=journal --show-status=false
"""

_BOOT_S = 120


class Machine:
    """A root whose systemd runs as process ``init`` of this machine."""

    def __init__(self, root: Root, init: int) -> None:
        self.root = root
        self._enter = ["nsenter", "--target", str(init), "--mount", "--uts", "--ipc", "--net", "--pid", "--root",
                       "--wd", "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
                       "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"]

    def run(self, argv: Sequence[str], *, check: bool = True, timeout_s: float = 600) -> str:
        """Run a command as root and return all of its output. Raises RootError when it fails and check is set."""
        done = subprocess.run([*self._enter, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout_s)
        if check and done.returncode:
            raise RootError(f"{self.root.release.suite}: {' '.join(argv)} failed (exit {done.returncode}):\n"
                            f"{done.stdout[-4000:]}")
        return done.stdout

    def succeeds(self, argv: Sequence[str]) -> bool:
        """Run a command and return whether it ended with status 0."""
        return subprocess.run([*self._enter, *argv], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=600).returncode == 0

    def apt(self, *argv: str) -> str:
        """Run apt-get without a network: what it needs was fetched before."""
        return self.run(["apt-get", "-q", "-y", "-o", "Dpkg::Use-Pty=0", *argv])


@contextlib.contextmanager
def booted(root: Root) -> Iterator[Machine]:
    """Boot a root, which has systemd, for as long as the context lasts. Raises RootError."""
    root.path("/usr/sbin/policy-rc.d").unlink(missing_ok=True)
    process = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--ipc", "--uts", "--net", "--cgroup", "--fork", "--kill-child", "sh", "-c",
         _BOOT, "boot", str(root.folder), str(root.archives or "")],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        machine = Machine(root, _wait_for_init(process))
        deadline = time.monotonic() + _BOOT_S
        while machine.run(["systemctl", "is-system-running"], check=False).strip() not in ("running", "degraded"):
            if time.monotonic() > deadline:
                raise RootError(f"{root.release.suite}: systemd did not start within {_BOOT_S} s")
            time.sleep(0.2)
        yield machine
    finally:
        process.kill()
        process.wait()


def _wait_for_init(process: subprocess.Popen[bytes]) -> int:
    """Return the id of the namespaces' first process once it is systemd; RootError when it ends before."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + _BOOT_S
    while process.poll() is None and time.monotonic() < deadline:
        found = children.read_text(encoding="ascii").split()
        if found and os.readlink(f"/proc/{found[0]}/exe").endswith("/systemd"):
            return int(found[0])
        time.sleep(0.05)
    raise RootError("no systemd could be started in namespaces of its own")
