# SPDX-License-Identifier: Apache-2.0
"""What the shim costs a packet in Open vSwitch's user-space datapath, beside the same datapath without a law.

One PMD thread of Debian's ``ovs-vswitchd-dpdk`` with the series forwards as fast as it can from a VM, DPDK's net_pcap
that gives the same frames for ever, to an uplink, net_null that drops them. It needs neither hugepages nor a card, but
root, for namespaces of its own. Laws take turns, some tenths of a second each; the CPU time of the thread is divided by
the packets that it counts, so other work on the machine distorts little, and ratios are taken within a round.

``--folder`` names a folder where the packages openvswitch-switch-dpdk, openvswitch-switch, openvswitch-common and
DPDK's libraries and drivers are unpacked, if they are not installed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

#: What is measured: a name and the settings in force; the first is what others are compared to.
TURNS: Dict[str, Dict[str, str]] = {
    "no law": {"shim-law": "none"},
    "static, police": {"shim-law": "static", "shim-limiter": "police"},
    "static, pace": {"shim-law": "static", "shim-limiter": "pace"},
    "sdngcc, pace": {"shim-law": "sdngcc", "shim-limiter": "pace"},
    "hygenicc, pace": {"shim-law": "hygenicc", "shim-limiter": "pace"},
}
#: So fast that no packet waits, bytes/s and bit/s.
RATE, CAPACITY = 12_500_000_000, 100_000_000_000
#: Frames in the file, each a flow of its own.
FRAMES = 64
#: Where the libraries appear to the processes: DPDK loads no driver from a folder that others may write.
LIBRARIES = Path("/mnt")
_SETTLE_S = 0.1


class BenchError(Exception):
    """The datapath could not be measured; the text says why."""


def frame(flow: int, size: int) -> bytes:
    """Return an Ethernet frame of UDP over IPv4 with ``size`` bytes, 60 to 1514, without its FCS."""
    udp = struct.pack("!HHHH", 1000 + flow, 9, size - 34, 0) + bytes(size - 42)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, size - 14, flow, 0x4000, 64, 17, 0, bytes([10, 0, 0, 1]),
                     bytes([10, 0, 0, 2]))
    total = sum(struct.unpack("!10H", ip))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return bytes.fromhex("5054000000025054000000010800") + ip[:10] + struct.pack("!H", total ^ 0xffff) + ip[12:] + udp


def write_frames(path: Path, size: int) -> None:
    """Write a file of pcap with FRAMES frames of ``size`` bytes."""
    records = [struct.pack("<IIII", 0, 0, size, size) + frame(flow, size) for flow in range(FRAMES)]
    path.write_bytes(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1) + b"".join(records))


def packets_received(stats: str) -> int:
    """Return how many packets the PMD threads got, by ``dpif-netdev/pmd-stats-show``. Raises BenchError."""
    counts = [int(count) for core, count in
              re.findall(r"^(pmd|main) thread.*?packets received: (\d+)", stats, re.DOTALL | re.MULTILINE)
              if core == "pmd"]
    if not counts:
        raise BenchError(f"no PMD thread runs: {stats.strip() or 'nothing is told'}")
    return sum(counts)


def summarize(rounds: Sequence[Dict[str, float]]) -> List[Dict[str, object]]:
    """Return for each turn its median ns a packet, and median, lowest and highest ratio to no law in the same round."""
    base = next(iter(TURNS))
    rows: List[Dict[str, object]] = []
    for name in rounds[0]:
        ratios = [one[name] / one[base] for one in rounds]
        rows.append({"turn": name, "ns": round(statistics.median(one[name] for one in rounds), 1),
                     "ratio": round(statistics.median(ratios), 3), "ratio_low": round(min(ratios), 3),
                     "ratio_high": round(max(ratios), 3)})
    return rows


class Datapath:
    """An ovs-vswitchd with a bridge between both devices, and its database; to be used as a context manager."""

    def __init__(self, root: Path, folder: Path, frame_bytes: int) -> None:
        self._root, self._folder, self._bytes = root, folder, frame_bytes
        self._daemons: List[Path] = []
        schema = root / "usr" / "share" / "openvswitch"
        self._env = {**os.environ, "OVS_RUNDIR": str(folder), "OVS_LOGDIR": str(folder), "OVS_DBDIR": str(folder),
                     "OVS_PKGDATADIR": str(schema), "LD_LIBRARY_PATH": str(LIBRARIES)}

    def __enter__(self) -> Datapath:
        """Start both daemons and let the bridge forward. Raises BenchError."""
        try:
            self._open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _open(self) -> None:
        drivers = next(iter(sorted((LIBRARIES / "dpdk").glob("pmds-*"))), None)
        if drivers is None:
            raise BenchError(f"no drivers of DPDK in {LIBRARIES}/dpdk: install librte-net-pcap and librte-net-null, or "
                             "give --folder")
        write_frames(self._folder / "in.pcap", self._bytes)
        database = self._folder / "conf.db"
        self._run("ovsdb-tool", "create", str(database),
                  str(self._root / "usr" / "share" / "openvswitch" / "vswitch.ovsschema"))
        self._start("ovsdb-server", str(database), f"--remote=punix:{self._folder}/db.sock")
        self.set({"dpdk-init": "true", "pmd-cpu-mask": "0x1",
                  "dpdk-extra": f"--no-huge --legacy-mem -m 1024 --no-pci -d {drivers}"}, wait=False)
        self._start(str(self._root / "usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"),
                    f"unix:{self._folder}/db.sock", f"--unixctl={self._folder}/ctl")
        self._vsctl(
            "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "--",
            "add-port", "br0", "vm", "--", "set", "Interface", "vm", "type=dpdk", "ofport_request=1",
            f"options:dpdk-devargs=net_pcap0,rx_pcap={self._folder}/in.pcap,infinite_rx=1",
            "other_config:shim-role=vm", "--", "add-port", "br0", "up", "--", "set", "Interface", "up", "type=dpdk",
            "ofport_request=2", "options:dpdk-devargs=net_null0", "other_config:shim-role=uplink",
            f"other_config:shim-capacity={CAPACITY}")
        self._run("ovs-ofctl", "add-flow", f"unix:{self._folder}/br0.mgmt", "priority=65535,in_port=1,actions=2")

    def __exit__(self, *_: object) -> None:
        """End both daemons."""
        for pidfile in reversed(self._daemons):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(pidfile.read_text(encoding="utf-8")), signal.SIGTERM)

    def set(self, settings: Dict[str, str], wait: bool = True) -> None:
        """Write other_config of Open_vSwitch; by default until it is in force."""
        self._vsctl(*([] if wait else ["--no-wait"]), "set", "Open_vSwitch", ".",
                    *(f"other_config:{key}={json.dumps(value)}" for key, value in settings.items()))

    def ns_per_packet(self, seconds: float) -> float:
        """Return how much CPU time the PMD thread takes for a packet. Raises BenchError."""
        before, began = self._counts()
        time.sleep(seconds)
        after, ended = self._counts()
        if after == before:
            raise BenchError("no packet was forwarded")
        return (ended - began) / (after - before)

    def _counts(self) -> Tuple[int, int]:
        """Return the packets that came so far, and the CPU time of the PMD thread, ns."""
        pid = int(self._daemons[-1].read_text(encoding="utf-8"))
        stats = self._run("ovs-appctl", "-t", f"{self._folder}/ctl", "dpif-netdev/pmd-stats-show")
        ran = [int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()
               if (task / "comm").read_text().startswith("pmd-")]
        return packets_received(stats), sum(ran)

    def _start(self, program: str, *arguments: str) -> None:
        pidfile = self._folder / f"{Path(program).name}.pid"
        self._daemons.append(pidfile)
        self._run(program, *arguments, f"--pidfile={pidfile}", "--detach", "--no-chdir", "-vconsole:off",
                  f"--log-file={pidfile.with_suffix('.log')}")

    def _vsctl(self, *words: str) -> None:
        self._run("ovs-vsctl", f"--db=unix:{self._folder}/db.sock", "--timeout=120", *words)

    def _run(self, *command: str) -> str:
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=False)
        if done.returncode or "Error detected" in done.stderr:
            raise BenchError(f"{command[0]}: {done.stderr.strip()[-400:]}; logs: {self._folder}")
        return done.stdout


def measure(datapath: Datapath, rounds: int, seconds: float) -> Iterator[Dict[str, float]]:
    """Measure all turns so many times; yields the ns a packet of each."""
    for _ in range(rounds):
        found = {}
        for name, settings in TURNS.items():
            datapath.set({"shim-knob-rate": str(RATE), **settings} if settings["shim-law"] == "static" else settings)
            time.sleep(_SETTLE_S)
            found[name] = datapath.ns_per_packet(seconds)
        yield found


def _inside(chosen: argparse.Namespace) -> int:
    """Measure, in namespaces of its own; returns the exit status."""
    libraries = chosen.folder / "usr/lib/x86_64-linux-gnu"
    subprocess.run(["mount", "--bind", str(libraries), str(LIBRARIES)], check=True)
    try:
        with tempfile.TemporaryDirectory(prefix="sdngcc-userspace-") as name, \
                Datapath(chosen.folder, Path(name), chosen.bytes) as datapath:
            rows = summarize(list(measure(datapath, chosen.rounds, chosen.seconds)))
    except BenchError as error:
        print(f"userspace: {error}", file=sys.stderr)
        return 2
    if chosen.json:
        print(json.dumps(rows))
        return 0
    print(f"frames of {chosen.bytes} bytes; CPU time of the PMD thread, medians of {chosen.rounds} rounds")
    for row in rows:
        print(f"{row['turn']:<16} {row['ns']:>8} ns/packet   {row['ratio']:>6} of no law "
              f"({row['ratio_low']} to {row['ratio_high']})")
    return 0


def main(words: Sequence[str]) -> int:
    """Read the command line and measure; returns 0, or 2 when it could not."""
    parser = argparse.ArgumentParser(prog="python -m sdngcc.testbed.bench.userspace", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/"), help="where the packages are unpacked (default: /)")
    parser.add_argument("--bytes", type=int, default=60, choices=range(60, 1515), metavar="60..1514",
                        help="length of a frame")
    parser.add_argument("--rounds", type=int, default=9, help="so often each is measured")
    parser.add_argument("--seconds", type=float, default=0.4, help="so long each time")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(words)
    if chosen.inside:
        return _inside(chosen)
    program = chosen.folder / "usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
    if os.geteuid() or not program.exists():
        print(f"userspace: {'needs root' if os.geteuid() else f'{program} is not there'}", file=sys.stderr)
        return 2
    return subprocess.run(["unshare", "--net", "--mount", sys.executable, "-m", "sdngcc.testbed.bench.userspace",
                           "--inside", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
