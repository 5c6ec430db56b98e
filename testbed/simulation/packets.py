# SPDX-License-Identifier: Apache-2.0
"""Simulations of packets: a plan for the program of the folder packets, and the controller in lock step with it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

from sdngcc.testbed.simulation.build import packets_program
from sdngcc.testbed.simulation.controller import HOSTS, Decisions, PortCount, Step, VmState
from sdngcc.testbed.simulation.divisions import Divisions, Tunnel
from sdngcc.testbed.simulation.fabric import Fabric, address
from sdngcc.testbed.simulation.options import Options
from sdngcc.tracker.decision import Flow

# Key of messages, as packets/shim.cc has it.
KEY = bytes(range(16))
# The engine's time when the simulator begins (packets/shim.h), and time before the run (packets/plan.h), ns.
EPOCH_NS, BEFORE_NS = 10**9, 20_000_000

# Called with the part of the run that is over, 0 to 1.
Show = Callable[[float], None]


class SimulationError(Exception):
    """A simulation did not end well; the text says why."""


@dataclass(frozen=True)
class Bulk:
    """A TCP flow between two VMs; size 0: without end."""

    vm: int
    to: int
    start_ns: int
    stop_ns: int
    cc: str = "reno"
    ecn: bool = False
    size: int = 0
    early: bool = False
    """It connects before the run."""
    deadline_ns: int = 0
    """From its start; 0: none."""
    order: str = "none"
    """Among flows of its VM to the same one: none, size, deadline."""

    def line(self) -> str:
        """Return it as the plan has it."""
        return (f"bulk {self.vm} {self.to} {self.start_ns} {self.stop_ns} {self.cc} {self.ecn:d} {self.size} "
                f"{self.early:d} {self.deadline_ns} {self.order}")


@dataclass(frozen=True)
class Stream:
    """A UDP flow between two VMs at a rate on the wire, in trains of datagrams; on_ns 0: it always sends."""

    vm: int
    to: int
    start_ns: int
    stop_ns: int
    rate_bps: int
    on_ns: int = 0
    off_ns: int = 0
    payload: int = 1472
    train: int = 1
    """Datagrams that are sent at a time."""

    def line(self) -> str:
        """Return it as the plan has it."""
        return (f"stream {self.vm} {self.to} {self.start_ns} {self.stop_ns} {self.rate_bps} {self.on_ns} {self.off_ns} "
                f"{self.payload} {self.train}")


@dataclass(frozen=True)
class Call:
    """Calls of one VM to another on a TCP connection that stands before the run; times between them are exponential."""

    vm: int
    to: int
    start_ns: int
    stop_ns: int
    request: int
    """Bytes."""
    response: int
    """Bytes."""
    gap_ns: int
    """Mean time between two calls."""
    cc: str = "reno"
    ecn: bool = False

    def line(self) -> str:
        """Return it as the plan has it."""
        return (f"calls {self.vm} {self.to} {self.start_ns} {self.stop_ns} {self.cc} {self.ecn:d} {self.request} "
                f"{self.response} {self.gap_ns}")


@dataclass
class Simulation:
    """All that is simulated."""

    fabric: Fabric
    law: str
    """none: no shims."""
    duration_ns: int
    seed: int
    options: Options
    flows: List[Bulk | Stream | Call] = field(default_factory=list)
    settings: Dict[str, int] = field(default_factory=dict)
    """Of all shims, by their names in the engine."""
    knobs: Dict[str, int] = field(default_factory=dict)
    bin_ns: int = 100_000_000
    sample_ns: int = 2_000_000
    limits_ns: int = 100_000_000
    queues_ns: int = 0
    """All queues are read so often; 0: never."""
    decisions: Optional[Decisions] = None
    control_ns: int = 0
    """T_i; 0: no controller."""
    divisions: Optional[Divisions] = None
    """Weights of tunnels, under law scc."""
    ranks: str = ""
    """strict or pfabric: ports send by rank."""
    rank_of: Dict[int, int] = field(default_factory=dict)
    """Of VMs, if ports do; 0 if not said, which goes first."""
    times: bool = False
    """Round trips of TCP are counted."""
    warm: bool = False
    """Ends of flows have met some 1 s before the run, and the clocks of their hosts go."""

    def plan(self) -> str:
        """Return the plan that packets/plan.h describes."""
        fabric, options = self.fabric, self.options
        frame_ns = 1514 * 8 * 10**9 // max(link.rate_bps for link in fabric.links)
        lines = [
            f"run {self.seed} {self.duration_ns} {self.bin_ns} {self.sample_ns} {self.limits_ns} "
            f"{frame_ns * options.jitter_percent // 100} {options.ecmp == 'packet':d}",
            f"tcp {round(options.min_rto_ms * 1e6)} {options.socket_kib * 1024} {options.dupacks} {options.sack:d}",
            f"nodes {fabric.hosts} {fabric.switches}",
            *(f"link {link.a} {link.b} {link.rate_bps} {link.delay_ns} {link.limit_a} {link.mark_a} {link.limit_b} "
              f"{link.mark_b}" for link in fabric.links),
            *(f"route {switch} {host} {' '.join(map(str, links))}"
              for (switch, host), links in sorted(fabric.routes().items()))]
        if self.law != "none":
            lines += [f"setting {name} {value}" for name, value in sorted(self.settings.items())]
            lines += [f"knob {name} {value}" for name, value in sorted(self.knobs.items())]
            lines += [f"shim {host} {fabric.uplink_bps(host) // 8} {self.law}" for host in range(fabric.hosts)]
        lines += [f"vm {vm.host} {vm.weight} {vm.low} {vm.high}" for vm in fabric.vms]
        lines += [flow.line() for flow in self.flows]
        if self.queues_ns:
            lines.append(f"queues {self.queues_ns}")
        if self.control_ns:
            lines.append(f"control {self.control_ns} {options.control_delay_us * 1000}")
        if self.divisions is not None:
            lines.append(f"tracker {self.divisions.period_ns} {options.control_delay_us * 1000}")
        if self.ranks:
            lines += [f"ranks {self.ranks}", *(f"rank {vm} {rank}" for vm, rank in sorted(self.rank_of.items()))]
        if self.times:
            lines.append("times")
        if fabric.delivery_ns:
            lines.append(f"delivery {fabric.delivery_ns}")
        if self.warm:
            lines.append("warm")
        if fabric.watch is not None:
            lines.append(f"watch {fabric.watch[0]} {fabric.watch[1]}")
        return "\n".join(lines) + "\n"


def make_decisions(fabric: Fabric, law: str, period_ns: int, division: str, levels: bool,
                   shim_period_ns: int) -> Decisions:
    """Return the controller of a network under law sdngcc or maxmin."""
    ports: Dict[int, int] = {}
    places = []
    for vm in fabric.vms:
        ports[vm.host] = ports.get(vm.host, 0) + 1
        places.append((HOSTS + vm.host, ports[vm.host]))
    return Decisions("maxmin" if law == "maxmin" else "marks", period_ns, division, levels, shim_period_ns, KEY, places,
                     [address(number) for number in range(len(fabric.vms))], fabric.points(),
                     [(vm.low, vm.high) for vm in fabric.vms], EPOCH_NS + BEFORE_NS)


def _parts(words: List[str]) -> Dict[int, float]:
    return {int(words[at]): float(words[at + 1]) for at in range(0, len(words), 2)}


class _LockStep:
    """Reads what the simulator says and answers its steps."""

    def __init__(self, simulation: Simulation, show: Optional[Show]) -> None:
        self._simulation, self._show = simulation, show
        self._step = Step(0)
        self._flows_ns = 0
        self._tunnels: Dict[Tunnel, List[Flow]] = {}

    def take(self, line: str) -> Optional[str]:
        """Take a line; return the answer to a step that ends with it."""
        kind, *words = line.split()
        if kind == "at" and self._show is not None:
            self._show(int(words[0]) / self._simulation.duration_ns)
        elif kind == "step":
            self._step = Step(EPOCH_NS + int(words[0]))
        elif kind == "port":
            link, node, *counts = (int(word) for word in words)
            self._step.ports.append(PortCount((node, link), *counts))
        elif kind == "parts":
            self._step.parts[int(words[1]), int(words[0])] = _parts(words[2:])
        elif kind == "vm":
            number, weight, active, *rest = (int(word) for word in words)
            self._step.vms.append(VmState(number, weight, bool(active), *rest))
        elif kind == "go":
            assert self._simulation.decisions is not None
            told = self._simulation.decisions.decide(self._step)
            return "".join(f"tell {number} {data.hex()}\n" for number, data in told) + "done\n"
        else:
            return self._take_flows(kind, [int(word) for word in words])
        return None

    def _take_flows(self, kind: str, words: List[int]) -> Optional[str]:
        if kind == "flows":
            self._flows_ns, self._tunnels = words[0], {}
        elif kind == "tunnel":
            self._tunnels[words[0], words[1]] = [Flow(left, until_us / 1e6)
                                                 for left, until_us in zip(words[2::2], words[3::2])]
        elif kind == "weigh":
            assert self._simulation.divisions is not None
            told = self._simulation.divisions.weigh(self._flows_ns / 1e9, self._tunnels)
            return "".join(f"weight {vm} {to} {weight}\n" for vm, to, weight in told) + "done\n"
        return None


def run(simulation: Simulation, raw: Path, show: Optional[Show] = None) -> None:
    """Simulate, and leave in raw what packets/main.cc says. Raises SimulationError, BuildError."""
    raw.mkdir(parents=True, exist_ok=True)
    plan = raw / "plan.txt"
    plan.write_text(simulation.plan(), encoding="utf-8")
    with open(raw / "errors.txt", "w+", encoding="utf-8") as errors:
        process = subprocess.Popen([str(packets_program()), str(plan), str(raw)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdin is not None and process.stdout is not None
            talk = _LockStep(simulation, show)
            for line in process.stdout:
                answer = talk.take(line)
                if answer is not None:
                    process.stdin.write(answer)
                    process.stdin.flush()
            code = process.wait()
        finally:
            process.kill()
            process.wait()
        if code:
            errors.seek(0)
            raise SimulationError(f"the simulator ended with {code}: {errors.read().strip()[-1000:]}")


def table(path: Path) -> List[Tuple[int, ...]]:
    """Return the rows of whole numbers of a file, without its heading."""
    return [tuple(int(word) for word in line.split()) for line in path.read_text(encoding="utf-8").splitlines()[1:]]
