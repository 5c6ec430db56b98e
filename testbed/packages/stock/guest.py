# SPDX-License-Identifier: Apache-2.0
"""A machine of QEMU with two processors, emulated ones, that boots a root with the kernel that is installed in it.

Its disk is a file with an ext4 file system, its two network cards are plugged into each other, and it reaches nothing
else. Commands go in by its second serial port (agent.py); what the kernel says on the first stays in a file.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Dict, Iterator, List, Sequence

from sdngcc.testbed.build import BuildError
from sdngcc.testbed.packages.roots import Root, RootError
from sdngcc.testbed.qemu import clock, qemu

MEMORY = "1536M"
DISK = "6G"

# Where the machine finds what it runs for a check, in the root.
FOLDER = "/usr/local/lib/check"

_UNIT = f"""[Unit]
Description=Commands by the second serial port
After=network.target

[Service]
ExecStart=/usr/bin/python3 -B {FOLDER}/agent.py
Environment=HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive

[Install]
WantedBy=multi-user.target
"""

# What takes seconds on a processor takes minutes on an emulated one.
_SLOW = {"/etc/systemd/system.conf.d": "[Manager]\nDefaultTimeoutStartSec=900\nDefaultTimeoutStopSec=300\n",
         "/etc/systemd/system/sdngcc-controller.service.d": "[Service]\nTimeoutStartSec=900\nWatchdogSec=300\n"}

# What attends to others' attacks on processors costs emulated ones time only.
_PARAMETERS = ("root=/dev/vda", "rw", "console=ttyS0", "net.ifnames=0", "mitigations=off",
               "watchdog_thresh=60", "panic=-1", "oops=panic", "systemd.mask=apt-daily.timer",
               "systemd.mask=apt-daily-upgrade.timer", "systemd.mask=e2scrub_reap.service",
               "systemd.mask=systemd-timesyncd.service", "systemd.mask=serial-getty@ttyS0.service",
               "systemd.mask=getty@tty1.service")

_BOOT_S = 600
_END_S = 120


class Guest:
    """A machine that runs; commands in it are root's."""

    def __init__(self, name: str, wire: socket.socket) -> None:
        self._name = name
        self._wire = wire
        self._answers = wire.makefile("rb")

    def wait(self) -> None:
        """Wait until it takes commands. Raises RootError."""
        self._wire.settimeout(_BOOT_S)
        try:
            while self._line().strip() != b"ready":
                pass
        except OSError:
            raise RootError(f"{self._name}: the machine took no command within {_BOOT_S} s") from None

    def _line(self) -> bytes:
        line = self._answers.readline()
        if not line:
            raise RootError(f"{self._name}: the machine ended by itself; its console tells why")
        return line

    def _order(self, argv: Sequence[str], timeout_s: float) -> Dict[str, object]:
        self._wire.settimeout(timeout_s + 60)
        self._wire.sendall(json.dumps({"argv": [*argv], "timeout_s": timeout_s}).encode() + b"\n")
        try:
            answer: Dict[str, object] = json.loads(self._line())
        except OSError:
            raise RootError(f"{self._name}: no answer to {' '.join(argv)}") from None
        return answer

    def run(self, argv: Sequence[str], *, check: bool = True, timeout_s: float = 300) -> str:
        """Run a command and return all of its output. Raises RootError when it fails and check is set."""
        answer = self._order(argv, timeout_s)
        if check and answer["status"]:
            raise RootError(f"{self._name}: {' '.join(argv)} failed (exit {answer['status']}):\n"
                            f"{str(answer['output'])[-4000:]}")
        return str(answer["output"])

    def end(self) -> None:
        """Switch the machine off; it may be gone before it could answer."""
        self._wire.sendall(json.dumps({"argv": ["systemctl", "--no-block", "poweroff"], "timeout_s": _END_S}).encode()
                           + b"\n")

    def shell(self, script: str, *, timeout_s: float = 300) -> str:
        """Run a script of sh, which ends at what fails first, and return its output. Raises RootError."""
        return self.run(["sh", "-euc", script], timeout_s=timeout_s)

    def succeeds(self, argv: Sequence[str]) -> bool:
        """Run a command and return whether it ended with status 0."""
        return self._order(argv, 300)["status"] == 0


def equip(one: Root) -> None:
    """Let a root, once it is a machine, take commands and stay as it is: nothing in it asks the network for news."""
    folder = one.path(FOLDER)
    folder.mkdir(parents=True)
    for name in ("agent.py", "traffic.py", "scene.sh"):
        shutil.copy(Path(__file__).parent / name, folder / name)
    one.path("/etc/systemd/system/check.service").write_text(_UNIT, encoding="ascii")
    one.run(["systemctl", "enable", "check.service"])
    for name, text in _SLOW.items():
        one.path(name).mkdir(parents=True)
        (one.path(name) / "slow.conf").write_text(text, encoding="ascii")
    one.path("/etc/hostname").write_text("stock\n", encoding="ascii")
    one.path("/etc/apt/apt.conf.d/99check").write_text('APT::Get::Assume-Yes "true";\nDpkg::Use-Pty "false";\n',
                                                       encoding="ascii")


def _command(emulator: Sequence[str], kernel: Path, initrd: Path, disk: Path, wire: Path, console: Path) -> List[str]:
    """Return how a QEMU is called."""
    cards: List[str] = []
    for name in ("near", "far"):
        cards += ["-netdev", f"hubport,id={name},hubid=0", "-device", f"virtio-net-pci,netdev={name},romfile="]
    return [*emulator, "-accel", "tcg,thread=multi", "-smp", "2", "-m", MEMORY, "-cpu", "max,la57=off", "-nodefaults",
            "-no-reboot", "-display", "none", "-serial", f"file:{console}",
            "-chardev", f"socket,id=wire,path={wire},server=on,wait=off", "-serial", "chardev:wire",
            "-drive", f"file={disk},if=virtio,format=raw,cache=unsafe", *cards, "-device", "virtio-rng-pci",
            "-kernel", str(kernel), "-initrd", str(initrd), "-append", " ".join((*_PARAMETERS, *clock()))]


@contextlib.contextmanager
def booted(one: Root, kernel: str, disk: Path, console: Path, anew: bool = True) -> Iterator[Guest]:
    """Boot a kernel, named by its release, of an equipped root for as long as the context lasts. Raises RootError.

    The root itself stays as it is; what the machine makes of it is in the file disk, whole once the context has ended
    without an error. anew: without it the machine goes on with the disk as it was left.
    """
    try:
        emulator = qemu()
    except BuildError as error:
        raise RootError(str(error)) from None
    one.path("/usr/sbin/policy-rc.d").unlink(missing_ok=True)
    if anew:
        disk.unlink(missing_ok=True)
        made = subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", "-d", str(one.folder), str(disk), DISK],
                              capture_output=True, text=True)
        if made.returncode:
            raise RootError(f"{one.release.suite}: no disk can be made: {made.stderr}")
    with tempfile.TemporaryDirectory() as folder, open(console, "wb") as said:
        wire = Path(folder) / "wire"
        command = _command(emulator, one.path(f"/boot/vmlinuz-{kernel}"), one.path(f"/boot/initrd.img-{kernel}"), disk,
                           wire, console)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            guest = Guest(one.release.suite, _connect(process, wire, console))
            guest.wait()
            yield guest
            guest.end()
            process.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            raise RootError(f"{one.release.suite}: the machine did not end within {_END_S} s") from None
        finally:
            process.kill()
            process.wait()


def _connect(process: subprocess.Popen[bytes], path: Path, console: Path) -> socket.socket:
    """Return a connection to the second serial port of a machine that begins. RootError when it ends before."""
    wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    while process.poll() is None:
        with contextlib.suppress(OSError):
            wire.connect(str(path))
            return wire
        time.sleep(0.05)
    raise RootError(f"QEMU does not run: {console.read_text(errors='replace')[-500:]}")


@contextlib.contextmanager
def mounted(disk: Path) -> Iterator[Path]:
    """Give the files of a disk, to be read only, for as long as the context lasts. RootError when they cannot be."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["mount", "-o", "loop,ro", str(disk), folder], capture_output=True, text=True)
        if done.returncode:
            raise RootError(f"the disk cannot be read: {done.stderr}")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)
