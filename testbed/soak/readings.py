# SPDX-License-Identifier: Apache-2.0
"""Inside the virtual machine: what a checkpoint reads of the kernel, of processes and of logs, when all is at rest."""

from __future__ import annotations

import collections
import contextlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Dict, List

# Of /proc/meminfo: what the kernel has for itself, kB.
MEMORY = ("MemAvailable", "Slab", "SReclaimable", "SUnreclaim", "KernelStack", "PageTables", "VmallocUsed", "Percpu",
          "Shmem")
# Tables of sockets below /proc/PID/net, and which column has a socket's inode.
SOCKETS = {"unix": 6, "packet": 8, "netlink": 9, "tcp": 9, "tcp6": 9, "udp": 9, "udp6": 9}
TEMPORARY = re.compile(r"/tmp/[^/]+ \(deleted\)")
# Lines of logs that tell of a mistake in the program itself.
FAULTY = {"controller": re.compile(r"Traceback|\bCRITICAL\b"), "ovs": re.compile(r"\|EMER\|")}


def memory_kb() -> Dict[str, int]:
    """Give back what is only cached, and return the kernel's memory by kind, kB."""
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3\n")
    found = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return {name: int(found[name].split()[0]) for name in MEMORY if name in found}


def process(pid: int) -> Dict[str, Any]:
    """Return a process' number, resident memory in kB (all of it, and what no file is behind), threads and files."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {"pid": pid, "rss_kb": int(status["VmRSS"].split()[0]), "anonymous_kb": int(status["RssAnon"].split()[0]),
            "threads": int(status["Threads"]), "files": open_files(pid)}


def open_files(pid: int) -> Dict[str, int]:
    """Return how many files of each kind a process has open: names, families of sockets, netlink's with protocols.

    Temporary files, which bear a name of their own in each process and are deleted once they are open, are one kind.
    """
    kinds: Dict[str, str] = {}
    for family, column in SOCKETS.items():
        for line in Path(f"/proc/{pid}/net/{family}").read_text().splitlines()[1:]:
            fields = line.split()
            kinds[f"socket:[{fields[column]}]"] = f"netlink {fields[1]}" if family == "netlink" else family
    found: collections.Counter[str] = collections.Counter()
    for number in os.listdir(f"/proc/{pid}/fd"):
        # What is closed meanwhile is not open.
        with contextlib.suppress(FileNotFoundError):
            target = os.readlink(f"/proc/{pid}/fd/{number}")
            kind = kinds.get(target, target.split(":[")[0])
            found["temporary file" if TEMPORARY.fullmatch(kind) else kind] += 1
    return dict(sorted(found.items()))


def pid_of(program: str) -> int:
    """Return the process that a program of Open vSwitch wrote down as its own."""
    return int(Path(f"/run/openvswitch/{program}.pid").read_text())


def faulty_lines(path: Path, kind: str) -> List[str]:
    """Return the lines of a log that tell of a mistake in the program; kind is a key of FAULTY."""
    return [line for line in path.read_text(errors="replace").splitlines() if FAULTY[kind].search(line)]


def devices() -> int:
    """Return how many network devices the machine's own namespace has."""
    return len(list(Path("/sys/class/net").iterdir()))


def counters(ports: List[Any]) -> Dict[str, Dict[str, int]]:
    """Return the shim's counters by port, of its ports as the netlink family tells them."""
    return {port.name: dict(port.stats) for port in ports}
