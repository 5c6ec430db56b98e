# SPDX-License-Identifier: Apache-2.0
"""Inside the virtual machine: cycles of load, changes and faults, and a checkpoint at the end of each.

A cycle is the same work each time: mixed tenants under one of the laws while ports, roles, weights, speeds and laws
change and feedback is lost; a fault; many changes of a VM by netlink; then all settings as they were, the reference
load, and rest until the cycle is over. Then a row is written to rows.jsonl.
"""

from __future__ import annotations

import errno
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

from sdngcc.testbed.soak import readings
from sdngcc.testbed.virtual.agent import Agent, note
from sdngcc.testbed.virtual.openvswitch import FOLDER
from sdngcc.testbed.virtual.processes import run, sleep_until
from sdngcc.testbed.workload import Workload
from sdngcc.topologies.shaping import Shape, tc_commands

# The laws under which mixed tenants send, in turn; the reference load is under the first.
LAWS = ("sdngcc", "maxmin", "hygenicc", "eyeq", "seawall", "scc", "vcc", "static", "elasticswitch")
# What happens in the cycles in turn. Where a process ends, so does what it leaked: many cycles lie between two ends,
# and the controller ends once, as its memory is at its size only when it has met all of this.
FAULTS = ("module", "ovs-vswitchd", "none", "ovsdb-server", "module", "none", "controller", "none")
CONTROLLER_AWAY_S = 5.0
# While the database is away, and until all are connected to it again, one of the processes does not sleep (not traced
# which): a second of virtual time costs two minutes of wall time then.
DATABASE_AWAY_S = 0.05
# Length of the mixed load, of the reference load, and of what counts of that, seconds.
MIXED_S, REFERENCE_S, COUNTED_S = 12.0, 20.0, 10.0
# A VM leaves and comes back so often a cycle.
REMOVALS = 10
# After all changes: until switches are connected, addresses known and idle VMs inactive, seconds.
SETTLE_S = 5.0
# What is read at the end of a cycle is read so long before it, seconds.
READ_S = 2.0
# Part of feedback that is lost during the mixed load, percent.
LOSS = 10.0
# The device of a VM that changes by netlink, and the hypervisor that has it.
SPARE, HOST = "hv1-spare", "hv1"


def now_s() -> float:
    """Return CLOCK_MONOTONIC, seconds."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def fault_of(cycle: int) -> str:
    """Return what happens in a cycle, which count from 1."""
    fault = FAULTS[(cycle - 1) % len(FAULTS)]
    return "none" if fault == "controller" and cycle > len(FAULTS) else fault


class Soak(Agent):
    """The cycles."""

    def main(self) -> None:
        """Do the job: prepare, then all cycles, each with its row."""
        self.prepare()
        plan = self.job["soak"]
        run(["ip", "link", "add", SPARE, "type", "dummy"])
        run(["ip", "link", "set", SPARE, "up"])
        self.vsctl("add-port", HOST, SPARE)
        begin_s = now_s()
        for number in range(1, plan["cycles"] + 1):
            started_s = now_s()
            row = self.cycle(number, plan["changes"])
            row["busy_s"] = round(now_s() - started_s, 3)
            sleep_until(begin_s + number * plan["cycle_s"] - READ_S)
            row.update(self.read(number))
            with open(self.out / "rows.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(row, sort_keys=True) + "\n")
            note(f"cycle {number}/{plan['cycles']}: {row['law']}, fault {row['fault']}, Jain {row['jain']}, "
                 f"SUnreclaim {row['memory_kb']['SUnreclaim']} kB")
            sleep_until(begin_s + number * plan["cycle_s"])

    def vsctl(self, *words: str) -> None:
        """Run ovs-vsctl."""
        self.fabric.installations[0].switch.vsctl(*words)

    def cycle(self, number: int, changes: int) -> Dict[str, Any]:
        """Do a cycle's work and return what its row has of it."""
        law = LAWS[(number - 1) % len(LAWS)]
        fault = fault_of(number)
        note(f"cycle {number}: mixed tenants under {law}")
        self.mixed(law)
        note(f"cycle {number}: fault {fault}")
        self.fault(fault)
        note(f"cycle {number}: {changes} changes of a VM")
        self.change(changes)
        self.restore()
        time.sleep(SETTLE_S)
        self.warm_up()
        note(f"cycle {number}: the reference load")
        before = self.counters()
        received = self.load(self.reference(), REFERENCE_S)
        after = self.counters()
        return {"cycle": number, "law": law, "fault": fault, **self.judge(received),
                "fell": sorted(f"{port}:{name}" for port, stats in before.items() for name, count in stats.items()
                               if after.get(port, {}).get(name, -1) < count)}

    def load(self, work: Workload, seconds: float, events: Sequence[Callable[[], None]] = ()) -> Dict[str, List[int]]:
        """Let VMs send for a time while events happen evenly over it; return bytes received by VM, in bins of 0.1 s.

        Raises Failure for a program that does not end well.
        """
        self.job.update(work.as_dict(), duration_s=seconds)
        self.set_start()
        start_ns = round(self.start_s * 1e9)
        self.start_receivers(start_ns)
        for flow in work.flows:
            (self.start_client if "reply" in flow else self.start_source)(flow, start_ns)
        for number, event in enumerate(events):
            sleep_until(self.start_s + (number + 1) * seconds / (len(events) + 1))
            event()
        # watch() waits for the end and checks how each has ended.
        self.watch()
        self.processes.clear()
        received: Dict[str, List[int]] = {}
        owners = {(flow["to"], flow["port"]): flow["vm"] for flow in work.flows if "reply" not in flow}
        for receiver in sorted({receiver for receiver, _ in owners}):
            for line in (self.out / f"sink-{receiver}.txt").read_text().splitlines():
                port, *counts = map(int, line.split())
                total = received.setdefault(owners[receiver, port], [0] * len(counts))
                received[owners[receiver, port]] = [one + other for one, other in zip(total, counts)]
        return received

    def events(self) -> List[Any]:
        """None but those of load()."""
        return []

    def reference(self) -> Workload:
        """Return the load by which cycles are compared."""
        work = Workload()
        work.tcp("vm1", "rx1", 0, REFERENCE_S)
        work.udp("vm2", "rx1", 0, REFERENCE_S, self.mbps)
        work.tcp("vm3", "rx1", 0, REFERENCE_S, "cubic", count=4)
        work.tcp("vm4", "rx1", 0, REFERENCE_S, "dctcp", True)
        return work

    @property
    def mbps(self) -> int:
        """Rate of each link, Mb/s."""
        return int(self.job["topology"]["parameters"]["link_mbps"])

    def mixed(self, law: str) -> None:
        """Let UDP that comes and goes, several TCPs and requests share the link under a law while all changes."""
        work = Workload()
        work.udp("vm1", "rx1", 0, MIXED_S, self.mbps, 500, 500)
        work.tcp("vm2", "rx1", 0, MIXED_S, "reno", count=8)
        work.calls("vm3", "rx1", 0.5, MIXED_S, size=400, reply=4000, interval_us=100_000, poisson=True)
        # vm4 sends nothing, and comes and goes.
        self.set_law(law)
        feedback = law != "static"
        events: List[Callable[[], None]] = []
        if feedback:
            events.append(lambda: self.fabric.change_loss(law, 0, LOSS))
        for _ in range(REMOVALS):
            events += [lambda: self.vsctl("del-port", "hv2", "hv2-vm4"), lambda: self.add_vm("hv2", "vm4")]
        events += [lambda: self.set_vm("hv1-vm1", "shim-weight", "3"),
                   lambda: self.vsctl("remove", "Interface", "hv2-vm2", "other_config", "shim-role"),
                   lambda: self.set_vm("hv2-vm2", "shim-role", "vm"),
                   lambda: self.speed(self.mbps // 2), lambda: self.speed(self.mbps),
                   lambda: self.set_law(LAWS[(LAWS.index(law) + 3) % len(LAWS)]), lambda: self.set_law(law)]
        if feedback:
            events.append(lambda: self.fabric.change_loss(law, LOSS, 0))
        self.load(work, MIXED_S, events)

    def set_law(self, law: str) -> None:
        """Put a law in force on all hypervisors."""
        self.vsctl("set", "Open_vSwitch", ".", f"other_config:shim-law={law}")

    def set_vm(self, device: str, key: str, value: str) -> None:
        """Set a key of the shim for a port."""
        self.vsctl("set", "Interface", device, f"other_config:{key}={value}")

    def add_vm(self, host: str, vm: str) -> None:
        """Give a VM its port back, with its role."""
        device = f"{host}-{vm}"
        self.vsctl("add-port", host, device, "--", "set", "Interface", device, f"external_ids:iface-id={vm}",
                   "other_config:shim-role=vm", "other_config:shim-weight=1")

    def speed(self, mbps: int) -> None:
        """Let the first hypervisor's uplink have another rate, and its shim know."""
        run(["tc", *next(words for words in tc_commands("hv1-up", Shape("uplink", rate_mbps=mbps))
                         if words[0] == "class")])
        self.set_vm("hv1-up", "shim-capacity", str(mbps * 10**6))

    def restore(self) -> None:
        """Set all that a cycle changes to what it was."""
        self.set_law(self.job["shim"]["settings"]["shim-law"])
        self.set_vm("hv1-vm1", "shim-weight", "1")
        self.shape()

    def shape(self) -> None:
        """Give each port of a switch its shape, of which Open vSwitch knows nothing."""
        for node in self.network.mininet.switches:
            for port in node.ports:
                if port.name != "lo" and port.shape is not None:
                    node.cmd("tc", "qdisc", "del", "dev", port.name, "root")
                    port.config(**port.params)

    def fault(self, name: str) -> None:
        """Let something fail and come back."""
        files = self.job["ovs"]
        if name == "module":
            module = self.job["modules"][-1]
            run(["rmmod", Path(module).stem])
            time.sleep(1)
            run(["insmod", module])
        elif name == "ovs-vswitchd":
            run([files["ovs-appctl"], "exit"])
            time.sleep(1)
            run([files["ovs-vswitchd"], "--pidfile", "--detach", f"--log-file={FOLDER}/ovs-vswitchd.log"])
            self.shape()
        elif name == "ovsdb-server":
            run([files["ovs-appctl"], "-t", "ovsdb-server", "exit"])
            time.sleep(DATABASE_AWAY_S)
            run([files["ovsdb-server"], f"{FOLDER}/conf.db", f"--remote=punix:{FOLDER}/db.sock", "--pidfile",
                 "--detach", f"--log-file={FOLDER}/ovsdb-server.log"])
        elif name == "controller":
            self.kill_controller()
            time.sleep(CONTROLLER_AWAY_S)
            self.restart_controller()
        if name != "none":
            time.sleep(SETTLE_S)
            self.await_controllers(self.wanting)

    def change(self, count: int) -> None:
        """Make the spare device a VM and take that back, count times, in no virtual time."""
        from sdngcc.shim.netlink import ShimClient, ShimRefused

        with ShimClient() as client:
            for number in range(count):
                client.port_set(SPARE, role="vm", weight=1 + number % 7)
                try:
                    client.port_del(SPARE)
                except ShimRefused as error:
                    # ovs-vswitchd looks every 5 s for roles that its database does not have, and was faster.
                    if error.code != errno.ENOENT:
                        raise

    def counters(self) -> Dict[str, Dict[str, int]]:
        """Return the shim's counters by port."""
        from sdngcc.shim.netlink import ShimClient

        with ShimClient() as client:
            return readings.counters(list(client.ports()))

    def judge(self, received: Dict[str, List[int]]) -> Dict[str, Any]:
        """Return what the reference load got: Jain's index, error of the worst share, part of the link used."""
        bins = round(COUNTED_S * 10)
        got = [sum(series[-bins:]) for _, series in sorted(received.items())]
        fair = sum(got) / len(got)
        return {"jain": round(sum(got) ** 2 / (len(got) * sum(one * one for one in got)), 4),
                "share_error": round(max(abs(one / fair - 1) for one in got), 4),
                "utilisation": round(sum(got) * 8 / (self.mbps * 1e6 * COUNTED_S), 4),
                "mbps": {vm: round(sum(series[-bins:]) * 8 / 1e6 / COUNTED_S, 3)
                         for vm, series in sorted(received.items())}}

    def read(self, number: int) -> Dict[str, Any]:
        """Return what the checkpoint of a cycle reads."""
        totals: Dict[str, int] = {}
        for stats in self.counters().values():
            for name, count in stats.items():
                totals[name] = totals.get(name, 0) + count
        logs = {"controller": (self.out / "controller.log", "controller"),
                **{name: (Path(f"{FOLDER}/{name}.log"), "ovs") for name in ("ovs-vswitchd", "ovsdb-server")}}
        return {"virtual_s": round(now_s(), 3), "memory_kb": readings.memory_kb(), "devices": readings.devices(),
                "counters": totals,
                "processes": {"controller": readings.process(self.controllers[0].pid),
                              **{name: readings.process(readings.pid_of(name))
                                 for name in ("ovs-vswitchd", "ovsdb-server")}},
                "faulty_lines": {name: readings.faulty_lines(path, kind)[:5] for name, (path, kind) in logs.items()}}


def main() -> int:
    """Run the job named by the first argument; 0 when all cycles ran."""
    path = Path(sys.argv[1])
    try:
        Soak(json.loads(path.read_text()), path.parent).main()
    except Exception as error:
        traceback.print_exc()
        print(f"sdngcc-failure {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
