# SPDX-License-Identifier: Apache-2.0
"""Inside the virtual machine: what a checkpoint reads of the kernel, of processes and of logs, when all is at rest."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, Dict, List

# Of /proc/meminfo: what the kernel has for itself, kB.
MEMORY = ("MemAvailable", "Slab", "SReclaimable", "SUnreclaim", "KernelStack", "PageTables", "VmallocUsed", "Percpu",
          "Shmem")
# Lines of logs that tell of a mistake in the program itself.
FAULTY = {"controller": re.compile(r"Traceback|\bCRITICAL\b"), "ovs": re.compile(r"\|EMER\|")}


def memory_kb() -> Dict[str, int]:
    """Give back what is only cached, and return the kernel's memory by kind, kB."""
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3\n")
    found = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return {name: int(found[name].split()[0]) for name in MEMORY if name in found}


def process(pid: int) -> Dict[str, int]:
    """Return a process' number, resident memory in kB, threads and open files."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {"pid": pid, "rss_kb": int(status["VmRSS"].split()[0]), "threads": int(status["Threads"]),
            "files": len(list(Path(f"/proc/{pid}/fd").iterdir()))}


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
