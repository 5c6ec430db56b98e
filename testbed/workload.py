# SPDX-License-Identifier: Apache-2.0
"""What VMs do during a run: flows of our generator, and real programs.

An experiment that needs more than the usual three periods fills a Workload and gives it to its Case.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple

from sdngcc.testbed.parameters import Parameters

# Payload of our UDP datagrams: full frames.
UDP_PAYLOAD_BYTES = 1472
# Ports of flows begin here; a flow's port is its name.
FIRST_PORT = 5001
# What is received is counted in bins of this many ms, and no experiment's are longer.
BIN_MS = 100
# Port of the first controller's REST on the machine's loopback; the others' follow.
REST_PORT = 8080


@dataclass(frozen=True)
class Program:
    """A real program in a VM. Its output is kept as raw/program-<name>.log."""

    name: str
    vm: str
    argv: Tuple[str, ...]
    """``{ip:NAME}`` stands for a VM's address, ``{out}`` for the folder of raw samples, ``{generator}`` for ours,
    ``{start}`` and ``{end}`` for the run's, ns of CLOCK_MONOTONIC."""
    start_s: Optional[float] = None
    """Seconds from the start of the run; None: before it."""
    serves: bool = False
    """Runs to the end and is stopped then; else it must end by itself, with 0, two seconds after the run at most."""
    to: Tuple[str, ...] = ()
    """VMs it talks to: they are reached before the run begins."""
    files: Dict[str, str] = field(default_factory=dict)
    """Texts written below /run before it starts, by path."""
    environment: Dict[str, str] = field(default_factory=dict)
    """Added to its environment."""


class Workload:
    """Flows and programs of a run. All times are seconds from its start; VMs are vm1.. and rx1.., either way round."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.flows: List[Dict[str, Any]] = []
        self.programs: List[Program] = []
        self.own_protocols = False  # True: congestion controls of testbed/congestion are used
        self.bin_us = BIN_MS * 1000

    def count_in(self, bin_us: int) -> None:
        """Let sinks count in bins of bin_us, us, a whole part of BIN_MS; ValueError if it is none.

        Results have sums over BIN_MS all the same; raw samples have the bins.
        """
        if bin_us < 1 or BIN_MS * 1000 % bin_us:
            raise ValueError(f"bins of {bin_us} us: want a whole part of {BIN_MS} ms")
        self.bin_us = bin_us

    def _add(self, vm: str, to: str, start_s: float, stop_s: float, **rest: Any) -> None:
        self.flows.append({"vm": vm, "to": to, "port": FIRST_PORT + len(self.flows), "start_s": round(start_s, 6),
                           "stop_s": round(stop_s, 6), **rest})

    def tcp(self, vm: str, to: str, start_s: float, stop_s: float, cc: str = "reno", ecn: bool = False,
            count: int = 1) -> None:
        """Let vm send without end over count connections; all of a VM's flows negotiate ECN or none."""
        self._add(vm, to, start_s, stop_s, proto="tcp", cc=cc, ecn=ecn, count=count)

    def udp(self, vm: str, to: str, start_s: float, stop_s: float, rate_mbps: float, on_ms: float = 0,
            off_ms: float = 0) -> None:
        """Let vm send datagrams at a rate on the wire: always, or on_ms long and then off_ms not, and so on."""
        self._add(vm, to, start_s, stop_s, proto="udp", rate_bps=round(rate_mbps * 1e6), payload=UDP_PAYLOAD_BYTES,
                  on_ms=on_ms, off_ms=off_ms)

    def calls(self, vm: str, to: str, start_s: float, stop_s: float, size: int = 1, reply: int = 1, count: int = 1,
              interval_us: float = 0, poisson: bool = False, cc: str = "reno", ecn: bool = False,
              requests: Optional[int] = None, deadline_us: Optional[float] = None, name: str = "") -> None:
        """Let vm send requests of size bytes over count connections that stay, and wait for answers of reply bytes.

        With interval_us one is due every so often (poisson: at random, in the mean), however long earlier ones take,
        and its time counts from then; without, each connection sends its next one when the last has ended. Flows of
        one name (default: vm>to:port) are summed up together.
        """
        self._requests("calls", vm, to, start_s, stop_s, size, size, reply, count, interval_us, poisson, cc, ecn,
                       requests, deadline_us, name)

    def short(self, vm: str, to: str, start_s: float, stop_s: float, size: int, size_max: int = 0,
              count: int = 1024, interval_us: float = 0, poisson: bool = False, cc: str = "reno", ecn: bool = False,
              requests: Optional[int] = None, deadline_us: Optional[float] = None, name: str = "") -> None:
        """Let vm send flows of size (to size_max) bytes, each over a connection of its own, at most count at a time.

        A flow ends when the receiver has closed behind its last byte. interval_us and name are as in calls().
        """
        self._requests("short", vm, to, start_s, stop_s, size, size_max or size, 1, count, interval_us, poisson, cc,
                       ecn, requests, deadline_us, name)

    def scheduled(self, vm: str, to: str, start_s: float, stop_s: float, schedule: Sequence[Tuple[int, int]],
                  count: int = 1024, cc: str = "reno", ecn: bool = False, name: str = "") -> None:
        """Let vm send a flow for each (ns from start_s, bytes) of the schedule, as short() does; times in order.

        ValueError if they are not, or a flow has no bytes; or if there are none.
        """
        times = [at_ns for at_ns, _ in schedule]
        if not schedule or times[0] < 0 or times != sorted(times) or min(size for _, size in schedule) < 1:
            raise ValueError(f"schedule of {vm}: want flows in order of time from 0 on, of 1 byte or more each")
        self._requests("short", vm, to, start_s, stop_s, 1, 1, 1, count, 0, False, cc, ecn, None, None, name)
        self.flows[-1]["schedule"] = [list(one) for one in schedule]

    def _requests(self, proto: str, vm: str, to: str, start_s: float, stop_s: float, size: int, size_max: int,
                  reply: int, count: int, interval_us: float, poisson: bool, cc: str, ecn: bool,
                  requests: Optional[int], deadline_us: Optional[float], name: str) -> None:
        self._add(vm, to, start_s, stop_s, proto=proto, cc=cc, ecn=ecn, count=count, size=size, size_max=size_max,
                  reply=reply, interval_us=interval_us, poisson=poisson, requests=requests, deadline_us=deadline_us,
                  name=name or f"{vm}>{to}:{FIRST_PORT + len(self.flows)}")

    def program(self, program: Program) -> None:
        """Add a real program."""
        self.programs.append(program)

    def as_dict(self) -> Dict[str, Any]:
        """Return it as the job has it."""
        return {"flows": self.flows, "programs": [asdict(program) for program in self.programs]}


def three_periods(parameters: Parameters) -> Workload:
    """Return the usual work: the tagged VM sends in periods 2 and 3, the others in 1 and 2."""
    first, second, _ = parameters.phases
    work = Workload()
    for index, vm in enumerate(parameters.vm_names):
        protocol = parameters.protocol(index)
        start, stop = (first, parameters.duration_s) if index == 0 else (0.0, first + second)
        receivers = parameters.receivers_of(index)
        for receiver in receivers:
            if protocol == "udp":
                rate_mbps = (parameters.udp_mbps or parameters.link_mbps) / len(receivers)
                work.udp(vm, f"rx{receiver + 1}", start, stop, rate_mbps)
            else:
                work.tcp(vm, f"rx{receiver + 1}", start, stop, protocol,
                         parameters.guest_ecn and protocol != "dctcp", 1 if index == 0 else parameters.flows)
    return work
