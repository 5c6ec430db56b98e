# SPDX-License-Identifier: Apache-2.0
"""Runs one job inside the virtual machine: Open vSwitch, Mininet, controller, workload, samplers.

Started by boot/init.sh with the path of the job runner.py wrote; leaves raw samples beside it. Uses the standard
library and Mininet as far as it can: in User Mode Linux every import costs wall time.
"""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence, Tuple

from sdngcc.testbed.fabric import make_fabric
from sdngcc.testbed.virtual import cluster, rest
from sdngcc.testbed.virtual.entropy import seed_entropy
from sdngcc.testbed.virtual.network import Network
from sdngcc.testbed.virtual.processes import run, sleep_until

# Time between the last preparation and the start of the experiment's clock, seconds: programs are started in it, which
# takes little virtual time, and early TCPs connect.
LEAD_S = 0.6
# The experiment's clock starts at a whole number of these, seconds.
START_STEP_S = 0.1
# An early TCP connects so long before that, seconds.
HANDSHAKE_S = 0.5
# Longest time after the experiment's end for programs to end, and what of it servers still answer in, seconds.
TAIL_S, SERVE_S = 2.0, 0.1
# Ethernet, IPv4 and UDP headers of a datagram.
UDP_HEADER_BYTES = 42
# What stands for a VM's address in the words of a program.
ADDRESS = re.compile(r"\{ip:(\w+)\}")
# Port of the first controller inside the machine; the others' follow.
OPENFLOW_PORT = 6653
# Longest wait for the controllers to be ready, and time between two looks whether they are, seconds.
CONNECT_S, LOOK_S = 60.0, 0.02
# Time between two looks whether programs have ended, seconds.
ENDED_S = 0.05
# What bridges get to take note of the controllers' end, seconds.
GONE_S = 2.0


class Failure(Exception):
    """What went wrong inside, in words for the user."""


def note(text: str) -> None:
    """Tell the outside how far we are; the machine's log carries it."""
    print(f"sdngcc-progress {time.clock_gettime(time.CLOCK_MONOTONIC):.3f} {text}", flush=True)


def counters_of(text: str, group: str) -> Dict[str, int]:
    """Return the counters of a group in /proc/net/snmp or netstat: a line of names and one of values."""
    names, values = (line.split()[1:] for line in text.splitlines() if line.startswith(f"{group}:"))
    return dict(zip(names, map(int, values)))


def tcp_counters(snmp: str) -> Dict[str, int]:
    """Return how many segments a network namespace's TCP sent, and how many of them again."""
    counters = counters_of(snmp, "Tcp")
    return {"out_segs": counters["OutSegs"], "retrans_segs": counters["RetransSegs"]}


def check_memory(vm: str, netstat: str) -> None:
    """Raise Failure if a VM's TCP was short of memory: all VMs share its limit, as real ones do not."""
    if pressures := counters_of(netstat, "TcpExt")["TCPMemoryPressures"]:
        raise Failure(f"the TCP of {vm} was short of memory {pressures} times, which the machines of the experiment "
                      "share: what it lost then, no network lost; see tcp_mem in testbed/boot/init.sh")


class Agent:
    """One job from switches to samples. The job is the dictionary machine.py writes; out is its directory."""

    lead_s = LEAD_S
    """Time in which all programs are started, seconds."""

    def __init__(self, job: Dict[str, Any], out: Path) -> None:
        """Remember the job."""
        self.job = job
        self.out = out
        self.fabric = make_fabric(job, out)
        self.network: Network
        self.processes: List[subprocess.Popen[bytes]] = []
        self.servers: List[subprocess.Popen[bytes]] = []
        self.iperf: Dict[int, subprocess.Popen[bytes]] = {}
        self.controllers: List[subprocess.Popen[bytes]] = []
        self.settings: Dict[str, str] = {}
        self.killed: Dict[str, Any] = {}
        self.bridges: Dict[str, Any] = {}
        self.loss_stage = 0
        self.start_s = 0.0

    def spawn(self, node: str, argv: Sequence[str], name: str) -> subprocess.Popen[bytes]:
        """Start a program in a VM's namespace (or outside any when node is empty); its output is kept as a log."""
        prefix = ["mnexec", "-a", str(self.network.pid(node))] if node else []
        with open(self.out / f"{name}.log", "wb") as log:
            process = subprocess.Popen([*prefix, *argv], stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT)
        self.processes.append(process)
        return process

    def set_start(self) -> None:
        """Choose when the experiment's clock starts; its lead is the time to start all programs in."""
        steps = int((time.clock_gettime(time.CLOCK_MONOTONIC) + self.lead_s) / START_STEP_S) + 1
        self.start_s = round(steps * START_STEP_S, 3)

    def start_workload(self) -> None:
        """Start sampler, sinks and sources; all wait for the same instant."""
        job, generator = self.job, self.job["generator"]
        start_ns = round(self.start_s * 1e9)
        sampling = job["sampling"]
        interval_ns = sampling["interval_us"] * 1000
        count = int(job["duration_s"] * 1e9) // interval_ns + 1
        argv = [generator, "sampler", "--dev", self.network.topo.bottleneck, "--handle", str(sampling["handle"]),
                "--start", str(start_ns), "--interval", str(interval_ns), "--count", str(count),
                "--out", str(self.out / "queue.txt")]
        limits_ns = sampling["limits_ms"] * 1000000
        hosts = [one.name for one in self.fabric.installations if one.name] if job["shim"] else []
        if job["shim"] and not hosts and not job["userspace"]:
            argv += ["--limiters", str(self.out / "limiters.txt"), "--limiters-every", str(limits_ns // interval_ns)]
        self.spawn("", argv, "sampler")
        for host in hosts:
            self.spawn(host, [generator, "sampler", "--start", str(start_ns), "--interval", str(limits_ns), "--count",
                              str(int(job["duration_s"] * 1e9) // limits_ns + 1),
                              "--limiters", str(self.out / f"limiters-{host}.txt")], f"sampler-{host}")
        self.start_receivers(start_ns)
        for program in job["programs"]:
            if program["start_s"] is None:
                self.start_program(program)
        for flow in job["flows"]:
            if "reply" in flow:
                self.start_client(flow, start_ns)
            elif job["traffic"] == "own":
                self.start_source(flow, start_ns)

    def start_receivers(self, start_ns: int) -> None:
        """Start a sink in each VM that receives, a server in each that answers requests."""
        job, generator, sampling = self.job, self.job["generator"], self.job["sampling"]
        sinks: Dict[str, List[str]] = {}
        servers: Dict[str, List[str]] = {}
        for flow in job["flows"]:
            if "reply" in flow:
                size = flow["size"] if flow["proto"] == "calls" else 0
                servers.setdefault(flow["to"], []).append(f"{flow['port']}:{flow['cc']}:{size}:{flow['reply']}")
            else:
                kind = flow["cc"] if flow["proto"] == "tcp" else flow["payload"]
                sinks.setdefault(flow["to"], []).append(f"{flow['proto']}:{flow['port']}:{kind}")
        for vm, flows in sorted(sinks.items()):
            argv = [generator, "sink", "--start", str(start_ns), "--bin", str(sampling["bin_us"] * 1000),
                    "--bins", str(round(job["duration_s"] * 1e6 / sampling["bin_us"])),
                    "--out", str(self.out / f"sink-{vm}.txt")]
            self.spawn(vm, [*argv, *(word for flow in flows for word in ("--flow", flow))], f"sink-{vm}")
        stop_ns = start_ns + round((job["duration_s"] + SERVE_S) * 1e9)
        for vm, ports in sorted(servers.items()):
            argv = [generator, "server", "--stop", str(stop_ns)]
            self.spawn(vm, [*argv, *(word for port in ports for word in ("--port", port))], f"server-{vm}")

    def start_source(self, flow: Dict[str, Any], start_ns: int) -> None:
        """Start our generator for a flow; it waits for its time."""
        argv = [self.job["generator"], "source", "--proto", flow["proto"], *self.course(flow, start_ns)]
        if flow["proto"] == "tcp":
            argv += ["--cc", flow["cc"], "--count", str(flow["count"])]
            if self.job["early"]:
                argv += ["--connect", str(start_ns - round(HANDSHAKE_S * 1e9))]
        else:
            argv += ["--rate", str(flow["rate_bps"]), "--payload", str(flow["payload"])]
            if flow["off_ms"]:
                argv += ["--on", str(round(flow["on_ms"] * 1e6)), "--off", str(round(flow["off_ms"] * 1e6))]
        self.spawn(flow["vm"], argv, f"source-{flow['vm']}-{flow['port']}")

    def start_client(self, flow: Dict[str, Any], start_ns: int) -> None:
        """Start our generator for a flow of requests; it waits for its time."""
        argv = [self.job["generator"], "client", *self.course(flow, start_ns), "--cc", flow["cc"],
                "--size", str(flow["size"]), "--size-max", str(flow["size_max"]), "--reply", str(flow["reply"]),
                "--count", str(flow["count"]), "--interval", str(round(flow["interval_us"] * 1000)),
                "--seed", str((self.job["seed"] << 16 | flow["port"]) % 2**62),
                "--out", str(self.out / f"requests-{flow['port']}.txt")]
        argv += ["--poisson"] if flow["poisson"] else []
        argv += ["--requests", str(flow["requests"])] if flow["requests"] is not None else []
        if "schedule" in flow:
            schedule = self.out / f"schedule-{flow['port']}.txt"
            schedule.write_text("".join(f"{at_ns} {size}\n" for at_ns, size in flow["schedule"]))
            argv += ["--schedule", str(schedule)]
        if flow["proto"] == "short":
            argv.append("--anew")
        else:
            argv += ["--connect", str(start_ns + round((flow["start_s"] - HANDSHAKE_S) * 1e9))]
        self.spawn(flow["vm"], argv, f"client-{flow['vm']}-{flow['port']}")

    def course(self, flow: Dict[str, Any], start_ns: int) -> List[str]:
        """Return the generator's words for where a flow goes, and when."""
        return ["--to", self.network.ip(flow["to"]), "--port", str(flow["port"]),
                "--start", str(start_ns + round(flow["start_s"] * 1e9)),
                "--stop", str(start_ns + round(flow["stop_s"] * 1e9))]

    def start_program(self, program: Dict[str, Any]) -> None:
        """Start a real program in its VM."""
        for path, text in program["files"].items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text)
        known = {"{out}": str(self.out), "{generator}": str(self.job["generator"]),
                 "{start}": str(round(self.start_s * 1e9)),
                 "{end}": str(round((self.start_s + self.job["duration_s"]) * 1e9))}
        argv = [functools.reduce(lambda text, name: text.replace(name, known[name]), known,
                                 ADDRESS.sub(lambda match: self.network.ip(match[1]), word))
                for word in program["argv"]]
        words = [f"{name}={value}" for name, value in program["environment"].items()]
        process = self.spawn(program["vm"], ["env", *words, *argv] if words else argv, f"program-{program['name']}")
        if program["serves"]:
            self.processes.remove(process)
            self.servers.append(process)

    def start_iperf(self, flow: Dict[str, Any]) -> None:
        """Start iperf for a flow, which begins at once; our sink receives it."""
        argv = ["iperf", "-c", self.network.ip(flow["to"]), "-p", str(flow["port"]),
                "-t", str(round(flow["stop_s"] - flow["start_s"], 1))]
        if flow["proto"] == "tcp":
            argv += ["-Z", flow["cc"], "-l", "1M", "-P", str(flow["count"])]
        else:
            # iperf counts payload only.
            rate = flow["rate_bps"] * flow["payload"] // (flow["payload"] + UDP_HEADER_BYTES)
            argv += ["-u", "-b", str(rate), "-l", str(flow["payload"])]
        self.iperf[flow["port"]] = self.spawn(flow["vm"], argv, f"iperf-{flow['vm']}-{flow['port']}")

    def stop_iperf(self, flow: Dict[str, Any]) -> None:
        """End a flow's iperf with what it has queued; it would wait for a report of its own server."""
        process = self.iperf.pop(flow["port"])
        process.kill()
        process.wait()
        self.processes.remove(process)

    def start_controllers(self) -> None:
        """Start the controllers, and the database that several share, and point every switch to them."""
        count = self.job["controller"]["count"]
        if count > 1:
            cluster.start_database(self.job["ovs"])
        self.settings = self.fabric.controller_settings()
        self.controllers = [self.start_controller(number) for number in range(count)]
        # A switch that finds nobody listening would try again only after a second.
        self.await_controllers(self.silent)
        self.fabric.connect(self.targets)
        self.await_controllers(self.wanting)

    @property
    def targets(self) -> List[str]:
        """Where controllers listen for bridges, as OVSDB writes it."""
        return [f"tcp:{self.fabric.controller_address}:{OPENFLOW_PORT + number}"
                for number in range(self.job["controller"]["count"])]

    def start_controller(self, number: int) -> subprocess.Popen[bytes]:
        """Start one of the controllers; its log and its trace are kept."""
        settings = self.job["controller"]["environment"]
        name = "controller"
        if self.job["controller"]["count"] > 1:
            name += str(number + 1)
            settings = {**settings, "SDNGCC_CONTROLLER_CLUSTER": cluster.REMOTES,
                        "SDNGCC_CONTROLLER_SENDER_ID": str(number + 1)}
        environment = {
            # Nothing here has a name to be looked up, and what eventlet would load for that is a third of the start.
            **os.environ, "EVENTLET_NO_GREENDNS": "yes", **settings, **self.settings,
            "SDNGCC_CONTROLLER_OPENFLOW": self.targets[number].partition(":")[2],
            "SDNGCC_CONTROLLER_REST": f"127.0.0.1:{self.job['controller']['rest_port'] + number}",
            "SDNGCC_CONTROLLER_TRACE_FILE": str(self.out / f"{name}-trace.jsonl"),
        }
        losses = [str(percent) for _, percent in self.job["loss"][self.loss_stage:]]
        program = (["sdngcc.testbed.virtual.lossy", str(self.job["seed"]), *losses] if losses
                   else self.job["controller"].get("program", ["sdngcc.main", "controller"]))
        with open(self.out / f"{name}.log", "ab") as log:
            return subprocess.Popen([sys.executable, "-m", *program], env=environment,
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    @property
    def rest_ports(self) -> List[int]:
        """Ports of the controllers' REST."""
        return [self.job["controller"]["rest_port"] + number for number in range(len(self.controllers))]

    def silent(self) -> List[str]:
        """Return which controllers do not listen yet, in words."""
        return [f"port {port}" for port in self.rest_ports if rest.ask(port, "/v1/healthz") is None]

    def wanting(self) -> List[str]:
        """Return what keeps the controllers from acting for every switch, in words."""
        datapaths = self.fabric.datapaths()
        found = [f"port {port}: {one}" for port in self.rest_ports for one in rest.hindrances(port, datapaths)]
        if not found and len(self.controllers) > 1:
            owned = cluster.owners(self.job["ovs"])
            found = [f"owner of {dpid}" for dpid in datapaths if dpid not in owned]
        return found

    def await_controllers(self, wanting: Callable[[], List[str]]) -> None:
        """Wait until nothing is wanting; Failure when that takes too long, or when a controller ends."""
        deadline = time.clock_gettime(time.CLOCK_MONOTONIC) + CONNECT_S
        while found := wanting():
            for controller in self.controllers:
                if controller.poll() is not None:
                    raise Failure(f"a controller ended with {controller.returncode}; its log is kept")
            if time.clock_gettime(time.CLOCK_MONOTONIC) > deadline:
                raise Failure(f"the controllers were not ready within {CONNECT_S:.0f} s, wanting are "
                              f"{', '.join(found)}; their logs are kept")
            time.sleep(LOOK_S)

    def lose(self, stage: int) -> None:
        """Put that entry of the job's losses in force."""
        losses = self.job["loss"]
        before = losses[self.loss_stage][1] if stage else 0
        self.loss_stage = stage
        self.fabric.change_loss(self.job["shim"]["settings"]["shim-law"], before, losses[stage][1])
        for controller in self.controllers if stage else []:
            controller.send_signal(signal.SIGUSR1)

    def kill_controller(self) -> None:
        """Kill the controller as a crash would; of several the one that owns the bottleneck's switch."""
        topo, number = self.network.topo, 0
        if len(self.controllers) > 1:
            owners = cluster.owners(self.job["ovs"])
            switch = topo.nodeInfo(topo.bottleneck.partition("-")[0])["dpid"]
            number = owners[switch] - 1
            self.killed = {"controller": number + 1, "bottleneck": switch,
                           "switches": sorted(dpid for dpid, owner in owners.items() if owner == number + 1),
                           "t_s": time.clock_gettime(time.CLOCK_MONOTONIC)}
        self.controllers[number].kill()
        self.controllers[number].wait()

    def restart_controller(self) -> None:
        """Start the controller that was killed again."""
        number = self.killed.get("controller", 1) - 1
        self.controllers[number] = self.start_controller(number)

    def stop_controllers(self) -> None:
        """End the controllers as an operator does, and wait until they have."""
        for controller in self.controllers:
            controller.terminate()
        for controller in self.controllers:
            controller.wait()
        time.sleep(GONE_S)

    def events(self) -> List[Tuple[float, str, Callable[[], None]]]:
        """Return what happens during the run: seconds from the start, text, action; in order of time."""
        seconds = int(self.job["duration_s"])
        events: List[Tuple[float, str, Callable[[], None]]] = [
            (float(second), f"running {second}/{seconds}", lambda: None) for second in range(1, seconds + 1)]
        controller = self.job["controller"] or {}
        if controller.get("kill_at_s") is not None:
            events.append((controller["kill_at_s"], "killing the controller", self.kill_controller))
        if controller.get("restart_at_s") is not None:
            events.append((controller["restart_at_s"], "starting the controller again", self.restart_controller))
        if self.bridges:
            events.append((seconds / 2, "looking at the bridges", functools.partial(self.look, "during")))
        for stage, (at_s, percent) in enumerate(self.job["loss"][1:], 1):
            events.append((at_s, f"losing {percent:g}% of feedback", functools.partial(self.lose, stage)))
        for program in self.job["programs"]:
            if program["start_s"] is not None:
                events.append((program["start_s"], f"starting {program['name']}",
                               functools.partial(self.start_program, program)))
        if self.job["traffic"] == "iperf":
            for flow in [flow for flow in self.job["flows"] if "reply" not in flow]:
                name = f"iperf of {flow['vm']}"
                events.append((flow["start_s"], f"starting {name}", functools.partial(self.start_iperf, flow)))
                events.append((flow["stop_s"], f"stopping {name}", functools.partial(self.stop_iperf, flow)))
        return sorted(events, key=lambda event: event[0])

    def watch(self) -> None:
        """Let the experiment run with its events; then wait for the programs to end.

        Raises Failure naming a program that failed or did not end.
        """
        for at_s, text, action in self.events():
            sleep_until(self.start_s + at_s)
            note(text)
            action()
        end_s = self.start_s + self.job["duration_s"]
        sleep_until(end_s)
        while (time.clock_gettime(time.CLOCK_MONOTONIC) < end_s + TAIL_S
               and any(process.poll() is None for process in self.processes)):
            time.sleep(ENDED_S)
        for process in self.servers:
            ended = process.poll()
            if ended is not None:
                raise Failure(f"{process.args!r} ended with {ended} before the run did; its log is kept")
            process.terminate()
        for process in self.processes:
            code = process.poll()
            if code != 0:
                argv = process.args if isinstance(process.args, list) else [str(process.args)]
                state = "did not end" if code is None else f"ended with {code}"
                raise Failure(f"{' '.join(map(str, argv))} {state}; its log is kept")

    def read_network(self, vm: str, name: str) -> str:
        """Return a file of /proc/net as a VM sees it."""
        return Path(f"/proc/{self.network.pid(vm)}/net/{name}").read_text()

    def collect(self) -> None:
        """Write what only the inside knows: names, indices, counters of queues."""
        for vm in self.network.topo.vms:
            check_memory(vm, self.read_network(vm, "netstat"))
        queues = self.fabric.queues()
        meta = {
            "start_s": self.start_s,
            "devices": self.fabric.devices(),
            "marking": {queue["dev"]: queue for queue in queues if queue["kind"] == "red"},
            "drops": {queue["dev"]: queue["drops"] for queue in queues if queue.get("drops")},
            "tcp": {vm: tcp_counters(self.read_network(vm, "snmp")) for vm in self.network.topo.vms},
        }
        if self.job["shim"]:
            meta["shim"] = self.fabric.shim_counters()
            if refusals := self.fabric.refusals():
                raise Failure("the shims refused settings of this run: " + "; ".join(refusals))
            self.fabric.join_limiters()
        if self.killed:
            meta["killed"] = self.killed
        (self.out / "meta.json").write_text(json.dumps(meta, indent=1, sort_keys=True))

    def prepare(self) -> None:
        """Bring up switches, network, shim and controller, until every VM reaches its receiver."""
        note("starting Open vSwitch and building the network")
        programs = {os.path.dirname(path) for path in self.job["ovs"].values()}
        os.environ["PATH"] = os.pathsep.join([*sorted(programs), os.environ["PATH"]])
        for module in self.job["modules"]:
            run(["insmod", module])
        self.network = self.fabric.build()
        if self.job["shim"]:
            key_file = Path(self.job["key_file"])
            key_file.touch(0o600)
            key_file.write_text(self.job["key"] + "\n")
        self.fabric.configure()
        if self.job["loss"]:
            self.lose(0)
        if self.job["cloud"]["agent"] != "none":
            self.warm_up()
            self.look("before")
        if self.job["controller"]:
            note("starting the controllers" if self.job["controller"]["count"] > 1 else "starting the controller")
            self.start_controllers()
        self.warm_up()

    def warm_up(self) -> None:
        """Let each VM reach whom it talks to; RuntimeError if one does not."""
        note("checking that every VM is reached")
        self.network.warm_up([*((flow["vm"], flow["to"]) for flow in self.job["flows"]),
                              *((program["vm"], to) for program in self.job["programs"] for to in program["to"])])

    def look(self, when: str) -> None:
        """Keep what the bridges of a cloud's agents hold now."""
        self.bridges[when] = self.fabric.bridges()
        (self.out / "bridges.json").write_text(json.dumps(self.bridges, indent=1, sort_keys=True))

    def main(self) -> None:
        """Do the job."""
        self.prepare()
        self.set_start()
        note("starting the workload")
        self.start_workload()
        self.watch()
        note("collecting")
        self.collect()
        if self.bridges:
            self.stop_controllers()
            self.look("after")


def main() -> int:
    """Run the job named by the first argument; 0 when all went well."""
    seed_entropy()
    path = Path(sys.argv[1])
    agent = Agent(json.loads(path.read_text()), path.parent)
    try:
        agent.main()
    except Exception as error:
        traceback.print_exc()
        print(f"sdngcc-failure {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
