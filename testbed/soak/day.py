# SPDX-License-Identifier: Apache-2.0
"""``python -m sdngcc.testbed.soak.day``: virtual hours of a controller's engine with many switches that come and go.

The engine runs in this process with a clock of its own, its switches are those of the controller's tests, in memory.
A cycle is the very same work each time: switches disconnect and come back, VMs move and return, a link fails and
returns, pairs talk and fall silent, a port marks; then rest until the cycle is over. At its end everything that is
known of pairs has aged.

Judged are the blocks that Python has allocated, by their slope over the cycles, the sizes of tables, and the engine's
own account of its polls: none late, skipped or lost. Time passes only between calls of the engine, so that this says
nothing of how fast it is (bench/size.py does).
"""

from __future__ import annotations

import argparse
import functools
import gc
import itertools
import json
import logging
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from sdngcc.controller import engine as clockwork
from sdngcc.controller.engine import Engine
from sdngcc.controller.settings import Settings
from sdngcc.controller.tests.fabric import Fabric, arp, ipv4, port_reading, vm_reading
from sdngcc.testbed.soak.controller import NAP_NS
from sdngcc.testbed.soak.judge import Verdict, slope

# Ports: a bridge's to its leaf, its first VM's; a leaf's first to a spine.
UP_PORT, VM_PORT, SPINE_PORT = 1, 3, 200
VMS = 2  # of each bridge
# Of all switches, that leave and return in a cycle; of all VMs, that move; and pairs that talk, for each VM.
LEAVING, MOVING, TALKING = 0.1, 0.05, 1
# Virtual time after each step, after which pairs are forgotten, and least of a cycle, seconds: hosts age in 300.
STEP_S, PAIR_IDLE_S, LEAST_S = 5.0, 10, 420.0
# Slope of the blocks of Python's allocator that passes: less than one for each switch that left or VM that moved. With
# few of these what is seen is Python's own caches, which fill and empty by a hundred blocks.
BLOCKS_A_CHANGE, BREATH = 0.25, 25.0
# Of all cycles, those in which Python's caches and the engine's tables are still filling: by a hundred blocks in the
# second cycle, by ten in the eighth, however few the switches are. They are not judged.
WARM_UP = 0.5
# After so much of a cycle's rest switches forget what they were asked, seconds: an hour of it would look like a leak.
FORGET_S = 60.0
# Periods in which the port marks.
MARKED = 20


@dataclass(frozen=True)
class Plan:
    """What is run."""

    switches: int
    cycles: int
    cycle_s: float
    period_ms: float
    """T_i of switches that mark."""


class Day:
    """A leaf-spine network around an engine."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        """Build and connect it."""
        self.plan = plan
        self.chance = random.Random()
        self.fabric = Fabric()
        key = folder / "key"
        key.touch(0o600)
        key.write_text("00" * 16)
        settings = Settings(key_file=key, period_us=round(plan.period_ms * 1000), relation_idle_s=PAIR_IDLE_S,
                            lldp_period_ms=60_000, packet_ins_a_second=1_000_000,
                            switch_packet_ins_a_second=1_000_000)
        self.engine = self.fabric.engine = Engine(settings, self.fabric.clock, epoch=1)
        spines = [0x2000 + number for number in range(max(2, plan.switches // 50))]
        leaves = [0x1000 + number for number in range(max(2, plan.switches // 25))]
        self.bridges = [1 + number for number in range(plan.switches - len(spines) - len(leaves))]
        self.marking = (leaves[0], SPINE_PORT)
        wires = [((bridge, UP_PORT), (leaves[number % len(leaves)], 1 + number // len(leaves)))
                 for number, bridge in enumerate(self.bridges)]
        wires += [((leaf, SPINE_PORT + up), (spine, 1 + down)) for down, leaf in enumerate(leaves)
                  for up, spine in enumerate(spines)]
        ports: Dict[int, List[int]] = {}
        for near, far in wires:
            self.fabric.wire(near, far)
            for dpid, port in (near, far):
                ports.setdefault(dpid, []).append(port)
        for bridge in self.bridges:
            ports[bridge] += range(VM_PORT, VM_PORT + 2 * VMS)
        for dpid, numbers in ports.items():
            self.fabric.add_switch(dpid, {number: f"p{number}" for number in numbers})
        for bridge in self.bridges:
            self.fabric.switches[bridge].vms = {VM_PORT + vm: vm_reading(VM_PORT + vm) for vm in range(VMS)}
        self.fabric.switches[leaves[0]].marks[SPINE_PORT] = port_reading(SPINE_PORT)
        self.links = wires[len(self.bridges):]
        # Where each VM is; its number says what its addresses are.
        self.places = {1 + number: (bridge, VM_PORT + vm)
                       for number, (bridge, vm) in enumerate(itertools.product(self.bridges, range(VMS)))}
        for dpid in self.fabric.switches:
            self.connect(dpid)
        self.fabric.run(STEP_S)

    def connect(self, dpid: int) -> None:
        """Let a switch connect, with no flows."""
        switch = self.fabric.switches[dpid]
        switch.flows, switch.groups = [], {}
        self.engine.switch_up(dpid, {number: (name, bytes(6), True) for number, name in switch.ports.items()})
        self.fabric.settle()

    def cycle(self) -> int:
        """Do a cycle's work, the same in each; return how many switches left and VMs moved."""
        begin_ns = self.fabric.now_ns
        self.chance = random.Random(1)
        homes = dict(self.places)
        leaving = self.chance.sample(self.bridges, max(1, round(LEAVING * len(self.bridges))))
        for dpid in leaving:
            self.engine.switch_down(dpid)
        self.fabric.run(STEP_S)
        for dpid in leaving:
            self.connect(dpid)
        self.fabric.run(STEP_S)
        moving = self.chance.sample(sorted(self.places), max(1, round(MOVING * len(self.places))))
        for number in moving:
            self.move(number, self.room())
        self.fabric.run(STEP_S)
        self.talk()
        self.mark()
        self.link(self.chance.choice(self.links))
        for number in moving:
            self.move(number, homes[number])
        self.age()
        end_ns = begin_ns + round(self.plan.cycle_s * 1e9)
        while self.fabric.now_ns < end_ns:
            self.fabric.run(min(FORGET_S, (end_ns - self.fabric.now_ns) / 1e9))
            self.forget()
        return len(leaving) + 2 * len(moving)

    def forget(self) -> None:
        """Let switches forget what they were asked and told, which those of this kind remember all of."""
        for switch in self.fabric.switches.values():
            switch.requests.clear()
            switch.packet_outs.clear()
        self.fabric.delivered.clear()

    def room(self) -> Tuple[int, int]:
        """Return a port of any bridge that has no VM."""
        taken = set(self.places.values())
        return next(place for place in itertools.product(self.chance.sample(self.bridges, len(self.bridges)),
                                                         range(VM_PORT, VM_PORT + 2 * VMS)) if place not in taken)

    def move(self, number: int, new: Tuple[int, int]) -> None:
        """Let a VM have another port, and be heard there."""
        old = self.places[number]
        self.fabric.switches[old[0]].vms.pop(old[1], None)
        self.fabric.switches[new[0]].vms[new[1]] = vm_reading(new[1])
        self.places[number] = new
        self.fabric.inject(*new, arp(number, number))

    def talk(self) -> None:
        """Let VMs be heard, and each send a packet to another."""
        numbers = sorted(self.places)
        for number in numbers:
            self.fabric.inject(*self.places[number], arp(number, number))
        for number in numbers:
            for other in self.chance.sample(numbers, TALKING):
                if other != number:
                    self.fabric.inject(*self.places[number], ipv4(number, other))
        self.fabric.run(1.0)

    def mark(self) -> None:
        """Let a port mark for some periods."""
        dpid, port = self.marking
        for _ in range(MARKED):
            self.fabric.switches[dpid].add_marks(port, 50)
            self.fabric.run(self.plan.period_ms / 1000)

    def link(self, ends: Tuple[Tuple[int, int], Tuple[int, int]]) -> None:
        """Let a link fail and return."""
        for up in (False, True):
            for dpid, port in ends:
                self.engine.port_changed(dpid, port, f"p{port}", bytes(6), up)
            self.fabric.run(STEP_S)

    def age(self) -> None:
        """Let flows end that were idle, as a switch does, and pairs be forgotten."""
        for switch in self.fabric.switches.values():
            idle = [flow for flow in switch.flows if flow.idle_s]
            switch.flows = [flow for flow in switch.flows if not flow.idle_s]
            for flow in idle:
                if flow.report:
                    self.engine.flow_removed(flow.cookie, 0)
        self.fabric.run(2.0 * PAIR_IDLE_S)

    def read(self) -> Dict[str, Any]:
        """Return what a checkpoint reads: blocks of memory, sizes of tables, the account of polls.

        Caches of functions, which are bounded by declaration, are counted and emptied first.
        """
        cached = empty_caches()
        gc.collect()
        with open("/proc/self/status", encoding="ascii") as status:
            rss = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
        engine = self.engine
        return {"blocks": sys.getallocatedblocks(), "cached": cached, "rss_kb": rss,
                "pairs": len(engine.relations.pairs()), "hosts": len(engine.relations.hosts),
                "switches": len(engine.switches),
                "machines": sum(len(switch.vms) for switch in engine.switches.values()),
                "links": len(engine.topology.links()), **engine.poll_counts()}


def empty_caches() -> int:
    """Empty the caches of the controller's functions and return how many results they had."""
    cached = 0
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper) and one.__module__.startswith("sdngcc.controller"):
            cached += one.cache_info().currsize
            one.cache_clear()
    return cached


def judge(rows: Sequence[Dict[str, Any]], plan: Plan) -> List[Verdict]:
    """Judge the rows of all cycles."""
    late = list(rows[round(WARM_UP * len(rows)):])
    changes = max((row["changes"] for row in rows), default=0)
    grown = slope([(row["cycle"], row["blocks"], 0) for row in late])
    allowed = max(BREATH, BLOCKS_A_CHANGE * changes)
    found = [Verdict("cycles", len(rows) == plan.cycles, str(len(rows)), str(plan.cycles)),
             Verdict("blocks allocated", grown is not None and grown <= allowed,
                     "no pair" if grown is None else f"{grown:+.1f} a cycle", f"up to {allowed:+.1f}")]
    for name in ("switches", "links", "pairs"):
        numbers = sorted({row[name] for row in late})
        found.append(Verdict(name, len(numbers) == 1, ", ".join(map(str, numbers)), "one number"))
    most = max((row["hosts"] for row in rows), default=0)
    vms = VMS * plan.switches
    found.append(Verdict("hosts known", most <= vms, str(most), f"up to {vms}"))
    for name in ("late_max_us", "skipped", "lost"):
        worst = max((row[name] for row in rows), default=0)
        found.append(Verdict(f"polls, {name}", not worst, str(worst), "0"))
    return found


def run(plan: Plan, show: Any = None) -> Dict[str, Any]:
    """Run a plan and return its rows and verdicts; show is called with each row."""
    logging.getLogger("sdngcc.controller").setLevel(logging.ERROR)
    before, clockwork.NAP_NS = clockwork.NAP_NS, NAP_NS
    kept: List[str] = []  # rows as text, a block of memory each
    try:
        with tempfile.TemporaryDirectory() as folder:
            day = Day(plan, Path(folder))
            for number in range(1, plan.cycles + 1):
                changes = day.cycle()
                row = {"cycle": number, "changes": changes, "virtual_s": round(number * plan.cycle_s), **day.read()}
                kept.append(json.dumps(row))
                if show is not None:
                    show(row)
    finally:
        clockwork.NAP_NS = before
    rows = [json.loads(row) for row in kept]
    return {"plan": plan.__dict__, "rows": rows, "verdicts": [verdict.as_dict() for verdict in judge(rows, plan)]}


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run, print rows and verdicts, write results; return 0 if all passed, 1 if not."""
    parser = argparse.ArgumentParser(description="virtual hours of a controller with switches that come and go")
    parser.add_argument("--switches", type=int, default=1000, help="10 and more (1000)")
    parser.add_argument("--hours", type=float, default=24.0, help="virtual time (24)")
    parser.add_argument("--cycles", type=int, default=24, help="4 and more (24)")
    parser.add_argument("--period-ms", type=float, default=100.0, help="T_i (100)")
    parser.add_argument("--out", type=Path, default=Path("results/soak-controller"), help="folder of result.json")
    chosen = parser.parse_args(arguments)
    plan = Plan(chosen.switches, chosen.cycles, chosen.hours * 3600 / max(1, chosen.cycles), chosen.period_ms)
    for name, value, least in (("--switches", chosen.switches, 10), ("--cycles", chosen.cycles, 4),
                               ("a cycle, seconds", plan.cycle_s, LEAST_S)):
        if value < least:
            parser.error(f"{name}: {value:g} is too few, allowed is {least:g} and more")
    chosen.out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()

    def show(row: Dict[str, Any]) -> None:
        with open(chosen.out / "rows.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(f"soak: {row['virtual_s'] / 3600:6.2f} h in {(time.monotonic() - started) / 60:5.1f} min: "
              f"{row['blocks']} blocks, {row['rss_kb']} kB, {row['pairs']} pairs, {row['hosts']} hosts, "
              f"{row['polls']} polls", flush=True)

    (chosen.out / "rows.jsonl").unlink(missing_ok=True)
    result = run(plan, show)
    (chosen.out / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for verdict in result["verdicts"]:
        print(f"{'ok    ' if verdict['passed'] else 'FAILED'} {verdict['name']}: {verdict['seen']} "
              f"(allowed: {verdict['allowed']})")
    return 0 if all(verdict["passed"] for verdict in result["verdicts"]) else 1


if __name__ == "__main__":
    sys.exit(main())
