# SPDX-License-Identifier: Apache-2.0
"""What ``make bench-limiter`` does inside User Mode Linux, in virtual time: one limiter, all that it is asked.

    namespace vm: e1 -- s1 | bridge br0 | s2 -- e2: namespace far

The limiter is that of the VM at s1 towards s2. Links have no rate of their own, so that what is seen is the limiter's.
What comes back to the VM is RTT_US late.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

from sdngcc.testbed.bench import arrivals, departures
from sdngcc.testbed.bench.limiter_rows import (
    BULK,
    FRAME_BYTES,
    LIMITERS,
    LOADS,
    OFFERED,
    RTT_US,
    SMALL_NS,
    TCP_NS,
    TCP_SETTLED_NS,
    UDP_PAYLOAD,
    WIRE_BYTES,
    Limiter,
    Load,
    rate_ns,
    tcp_ns,
    tcp_part,
)
from sdngcc.testbed.statistics import spread_us
from sdngcc.testbed.virtual.namespaces import network_namespace
from sdngcc.testbed.virtual.openvswitch import OpenVSwitch
from sdngcc.testbed.virtual.processes import run

FAR = "10.0.0.2"
BPF_FOLDER = "/sys/fs/bpf"

# Bulk's port, that of requests, and that of UDP.
BULK_PORT, SMALL_PORT, UDP_PORT = 5001, 5002, 5003

# Programs are started so long before the first of them sends, ns.
LEAD_NS = 200_000_000

# A request and its answer, bytes.
SMALL_BYTES = 100

# What a policer lets through at once: 10 ms of its rate, but no less than the largest GSO packet, bit.
POLICER_MS, POLICER_LEAST = 10, 8 * 65_536


def words(command: str) -> str:
    """Run a command of words without spaces in them; RuntimeError with what it said when it fails."""
    return run(command.split())


class Site:
    """The bridge, both its ends, and a limiter that can be put there and taken away."""

    def __init__(self, switch: OpenVSwitch, generator: str, limiter: Limiter) -> None:
        """Build it without a limit."""
        self.switch, self.generator, self.limiter = switch, generator, limiter
        for number, name in ((1, "vm"), (2, "far")):
            words(f"ip netns add {name}")
            words(f"ip link add e{number} netns {name} type veth peer name s{number}")
            words(f"ip link set s{number} up")
            words(f"ip -n {name} link set lo up")
            words(f"ip -n {name} addr add 10.0.0.{number}/24 dev e{number}")
            words(f"ip -n {name} link set e{number} up")
            # Room for packets that wait in the sender: none of its own limits shall be seen.
            words(f"ip netns exec {name} sysctl -q -w net.ipv4.tcp_ecn=0")
        words(f"tc -n far qdisc add dev e2 root netem delay {RTT_US}us limit 100000")
        switch.vsctl("add-br", "br0", "--", "set-fail-mode", "br0", "secure", "--", "set", "bridge", "br0",
                     "protocols=OpenFlow13", *(word for number in (1, 2) for word in (
                         "--", "add-port", "br0", f"s{number}", "--", "set", "interface", f"s{number}",
                         f"ofport_request={number}")))
        self.route("output:2")
        if limiter.kind == "departures":
            words(f"mount -t bpf bpf {BPF_FOLDER}")

    def route(self, actions: str) -> None:
        """Have what the VM sends pass these actions."""
        self.ofctl("add-flow", "in_port=2,actions=output:1")
        self.ofctl("add-flow", f"in_port=1,actions={actions}")
        self.switch.appctl("revalidator/wait")

    def ofctl(self, command: str, text: str) -> None:
        """Change the bridge."""
        self.switch.ofctl("-O", "OpenFlow13", command, "br0", text)

    @property
    def overhead(self) -> int:
        """What the limiter counts of a packet beyond its bytes."""
        return WIRE_BYTES if self.limiter.kind == "shim" else 0

    def set_mtu(self, mtu: int) -> None:
        """Change the MTU of all devices."""
        for number, name in ((1, "vm"), (2, "far")):
            words(f"ip -n {name} link set e{number} mtu {mtu}")
            words(f"ip link set s{number} mtu {mtu}")

    def limit(self, bits: int) -> None:
        """Put the limiter there, with an empty queue and a full bucket, bits/s."""
        for device in ("s1", "s2"):
            subprocess.run(["tc", "qdisc", "del", "dev", device, "root"], capture_output=True, check=False)
            subprocess.run(["tc", "qdisc", "del", "dev", device, "clsact"], capture_output=True, check=False)
        {"shim": self._shim, "meter": self._meter, "police": self._police, "htb": self._htb,
         "departures": self._departures, "cake": self._cake}[self.limiter.kind](bits)

    def _shim(self, bits: int) -> None:
        from sdngcc.shim.netlink import ShimClient, ShimRefused

        words("tc qdisc add dev s2 root fq nopacing limit 100000 flow_limit 100000")
        with ShimClient() as client:
            client.settings_set(law="static", **dict(self.limiter.options))
            for device in ("s1", "s2"):
                try:
                    client.port_del(device)
                except ShimRefused:
                    pass
            client.port_set("s2", role="uplink", capacity=bits // 8)
            client.port_set("s1", role="vm")

    def _meter(self, bits: int) -> None:
        self.route("output:2")
        subprocess.run([self.switch.files["ovs-ofctl"], "-O", "OpenFlow13", "del-meters", "br0"], check=True)
        burst = max(bits * POLICER_MS // 1000, POLICER_LEAST) // 1000
        self.ofctl("add-meter", f"meter=1,kbps,burst,band=type=drop,rate={bits // 1000},burst_size={burst}")
        self.route("meter:1,output:2")

    def _police(self, bits: int) -> None:
        burst = max(bits * POLICER_MS // 1000, POLICER_LEAST) // 1000
        self.switch.vsctl("set", "interface", "s1", f"ingress_policing_rate={bits // 1000}",
                          f"ingress_policing_burst={burst}")

    def _htb(self, bits: int) -> None:
        burst = max(bits // 8 // 10_000, 2 * FRAME_BYTES)
        words("tc qdisc add dev s2 root handle 1: htb default 1")
        words(f"tc class add dev s2 parent 1: classid 1:1 htb rate {bits}bit burst {burst} cburst {burst} "
              "quantum 60000")
        words("tc qdisc add dev s2 parent 1:1 pfifo limit 1000")

    def _departures(self, bits: int) -> None:
        path = f"{BPF_FOLDER}/limit{bits}-{time.monotonic_ns()}"
        departures.pin(path, bits // 8, **dict(self.limiter.options))
        for command in departures.tc_commands("s2", path):
            run(["tc", *command])

    def _cake(self, bits: int) -> None:
        words(f"tc qdisc add dev s2 root cake bandwidth {bits}bit besteffort")

    def start(self, name: str, *argv: str) -> subprocess.Popen[bytes]:
        """Start a program in a namespace."""
        return subprocess.Popen(["ip", "netns", "exec", name, *argv], stdout=subprocess.PIPE)

    def generate(self, name: str, *argv: Any) -> subprocess.Popen[bytes]:
        """Start the traffic generator in a namespace."""
        return self.start(name, self.generator, *(str(word) for word in argv))


def end(programs: Sequence[subprocess.Popen[bytes]]) -> List[str]:
    """Wait until all have ended and return what they printed; RuntimeError when one failed."""
    said = []
    for program in programs:
        output = program.communicate()[0].decode()
        # A ping that lost some says so by its status.
        if program.returncode and "ping statistics" not in output:
            raise RuntimeError(f"{program.args!r}: exit {program.returncode}")
        said.append(output)
    return said


def rate(site: Site, load: Load) -> Dict[str, Any]:
    """Offer more UDP than the limit; return what arrivals.judge() finds."""
    start_ns = time.monotonic_ns() + LEAD_NS
    stop_ns = start_ns + rate_ns(load.bits)
    words("ip netns exec vm ethtool -K e1 tso off gso off tx-udp-segmentation off")
    with network_namespace("/run/netns/far"):
        ring = arrivals.Ring("e2", 2 * rate_ns(load.bits) * load.bits // 8 // FRAME_BYTES // 10**9 + 10_000)
    sink = site.generate("far", "sink", "--flow", f"udp:{UDP_PORT}:{UDP_PAYLOAD}", "--start", start_ns, "--bin",
                         stop_ns - start_ns, "--bins", 1, "--out", "/run/sink.txt")
    source = site.generate("vm", "source", "--proto", "udp", "--to", FAR, "--port", UDP_PORT, "--start", start_ns,
                           "--stop", stop_ns, "--rate", OFFERED * load.bits)
    end([sink, source])
    found = [(time_ns, size + site.overhead) for time_ns, size in ring.arrivals() if size == FRAME_BYTES]
    words("ip netns exec vm ethtool -K e1 tso on gso on tx-udp-segmentation on")
    return arrivals.judge(found, load.bits / 8)


def bulk(site: Site, load: Load, count: int, more: Sequence[subprocess.Popen[bytes]], start_ns: int) -> Dict[str, Any]:
    """Let TCP connections send, beside other programs; return their part of what the limit leaves them."""
    settled_ns, measured_ns = tcp_ns(load)
    stop_ns = start_ns + settled_ns + measured_ns
    bins = (stop_ns - start_ns) // 10**8
    for name in ("vm", "far"):
        words(f"ip netns exec {name} sysctl -q -w net.ipv4.tcp_ecn={1 if load.control == 'dctcp' else 2}")
    sink = site.generate("far", "sink", "--flow", f"tcp:{BULK_PORT}:{load.control}", "--start", start_ns, "--bin",
                         10**8, "--bins", bins, "--out", "/run/sink.txt")
    source = site.generate("vm", "source", "--proto", "tcp", "--to", FAR, "--port", BULK_PORT, "--cc", load.control,
                           "--count", count, "--connect", start_ns - LEAD_NS // 4, "--start", start_ns, "--stop",
                           stop_ns)
    end([sink, source, *more])
    got = [int(word) for word in Path("/run/sink.txt").read_text().split()[1:]]
    bits = sum(got[settled_ns // 10**8:]) * 8 / (measured_ns / 1e9)
    return {"goodput_mbps": round(bits / 1e6, 2),
            "part": round(bits / (load.bits * tcp_part(load.mtu, site.overhead)), 4)}


def tcp(site: Site, load: Load) -> Dict[str, Any]:
    """Return a single connection's part of the limit."""
    return bulk(site, load, 1, (), time.monotonic_ns() + LEAD_NS)


def beside(site: Site, load: Load) -> Dict[str, Any]:
    """Return what a ping and a small request take beside bulk, without the round-trip time, and bulk's part."""
    start_ns = time.monotonic_ns() + LEAD_NS
    small_ns = start_ns + TCP_SETTLED_NS
    stop_ns = small_ns + TCP_NS
    count = TCP_NS // SMALL_NS
    server = site.generate("far", "server", "--port", f"{SMALL_PORT}:cubic:{SMALL_BYTES}:{SMALL_BYTES}", "--stop",
                           stop_ns)
    client = site.generate("vm", "client", "--to", FAR, "--port", SMALL_PORT, "--connect", start_ns - LEAD_NS // 4,
                           "--start", small_ns, "--stop", stop_ns, "--interval", SMALL_NS, "--count", 16, "--size",
                           SMALL_BYTES, "--reply", SMALL_BYTES, "--out", "/run/client.txt")
    ping = site.start("vm", "sh", "-c", f"sleep {(small_ns - time.monotonic_ns()) / 1e9:.6f}; "
                      f"exec ping -n -i {SMALL_NS / 1e9:g} -c {count} -W 2 {FAR}")
    result = bulk(site, load, BULK, [server, client], start_ns)
    said = end([ping])[0]
    base_ns = RTT_US * 1000
    pings = [float(text) * 1e6 - base_ns for text in re.findall(r"time=([0-9.]+) ms", said)]
    records = [line.split() for line in Path("/run/client.txt").read_text().splitlines()[1:]]
    took = [int(record[2]) for record in records]
    return {**result,
            "ping": {**spread_us([round(one) for one in pings]), "lost": count - len(pings)},
            "request": {**spread_us([one - base_ns for one in took if one >= 0]),
                        "unanswered": sum(one < 0 for one in took)}}


MEASURES: Dict[str, Callable[[Site, Load], Dict[str, Any]]] = {"rate": rate, "tcp": tcp, "beside": beside}


def main(path: Path) -> None:
    """Do the job: settings in path, result.json ({load: what was found}) beside it."""
    job = json.loads(path.read_text())
    for module in job["modules"]:
        words(f"insmod {module}")
    switch = OpenVSwitch(job["ovs"])
    switch.start()
    site = Site(switch, job["generator"], LIMITERS[job["limiter"]])
    found = {}
    for load in LOADS:
        if job["loads"] and load.name not in job["loads"]:
            continue
        print(f"sdngcc-progress {time.monotonic():.3f} {job['limiter']}: {load.name}", flush=True)
        site.set_mtu(load.mtu)
        site.limit(load.bits)
        found[load.name] = MEASURES[load.kind](site, load)
        path.with_name("result.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
