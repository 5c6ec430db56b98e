# SPDX-License-Identifier: Apache-2.0
"""What TCP gets under a limit, how VMs share an uplink, and what becomes of UDP above its rate.

Argument: the traffic generator. VMs' links and the uplink are 1 Gb/s; the round trip is 100 us.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Dict, List

from lab import Lab, check, equal, main, run

GENERATOR = sys.argv[1] if len(sys.argv) > 1 else "generator"
SECOND = 10**9
LIMIT = 31_250_000  # 250 Mb/s
WIRE = 24  # bytes that a packet takes of a cable beyond its own: preamble, FCS, gap
TCP_PART = 1448 / (1514 + WIRE)  # of the wire bytes is payload

lab = Lab()


def prepare() -> None:
    """Give addresses, line rates and the delay."""
    run("sysctl -qw net.core.wmem_max=16777216")
    for name, number in (("v1", 1), ("v2", 2), ("u", 3)):
        run(f"ip -n {name} addr add 10.9.0.{number}/24 dev e{number}")
    for name, number in (("v1", 1), ("v2", 2)):
        run(f"ip netns exec {name} tc qdisc add dev e{number} root netem delay 50us rate 1gbit limit 10000")
    run("ip netns exec u tc qdisc add dev e3 root netem delay 50us limit 10000")
    run("tc qdisc add dev s3 root handle 1: htb default 1")
    run("tc class add dev s3 parent 1: classid 1:1 htb rate 1gbit ceil 1gbit burst 3028 cburst 3028 "
        "overhead 24 mpu 84")
    run("tc qdisc add dev s3 parent 1:1 fq limit 100000 flow_limit 100000 nopacing")
    run("ovs-ofctl del-flows br0")
    for flow in ("priority=5,arp,actions=output:1,output:2,output:3", "in_port=1,ip,actions=output:3",
                 "in_port=2,ip,actions=output:3", "in_port=3,ip,nw_dst=10.9.0.1,actions=output:1",
                 "in_port=3,ip,nw_dst=10.9.0.2,actions=output:2"):
        run(f"ovs-ofctl add-flow br0 {flow}")


def transfer(flows: Dict[str, str], seconds: int) -> Dict[str, List[float]]:
    """Run flows, such as {"v1": "tcp:5001:reno"} or {"v1": "udp:5001:1400:900000000"}, and return bytes/s by second."""
    start = time.monotonic_ns() + SECOND
    sinks, sources = [], []
    for vm, flow in flows.items():
        kind, port, *rest = flow.split(":")
        sinks.append(f"{kind}:{port}:{rest[0]}")
        options = ["--cc", rest[0]] if kind == "tcp" else ["--payload", rest[0], "--rate", rest[1]]
        sources.append(["ip", "netns", "exec", vm, GENERATOR, "source", "--proto", kind, "--to", "10.9.0.3", "--port",
                        port, "--start", str(start), "--stop", str(start + seconds * SECOND), *options])
    sink = ["ip", "netns", "exec", "u", GENERATOR, "sink", "--start", str(start), "--bin", str(SECOND), "--bins",
            str(seconds), "--out", "/run/sink"]
    for one in sinks:
        sink += ["--flow", one]
    running = [subprocess.Popen(argv) for argv in [sink, *sources]]
    for process in running:
        equal(process.wait(), 0, "generator's exit status")
    got = {}
    with open("/run/sink", encoding="ascii") as lines:
        for line in lines:
            port, *counts = line.split()
            vm = next(name for name, flow in flows.items() if flow.split(":")[1] == port)
            got[vm] = [float(count) for count in counts]
    return got


def mean(values: List[float]) -> float:
    """Return the mean."""
    return sum(values) / len(values)


def tcp_under_limit(limiter: str, wanted: float, flows: int = 1) -> None:
    """Check that Reno and CUBIC, with GSO and without, get a part of what headers leave of the limit.

    It is the mean of some flows, one after another.
    """
    for control in ("reno", "cubic"):
        for segments in (65535, 1):
            lab.shim.settings_set(law="static", limiter=limiter)
            lab.roles()
            lab.shim.port_set("s1", max_rate=LIMIT)
            run(f"ip -n v1 link set e1 gso_max_segs {segments}")
            parts = [mean(transfer({"v1": f"tcp:5001:{control}"}, 8)["v1"]) / (LIMIT * TCP_PART) for _ in range(flows)]
            part = mean(parts)
            print(f"# {limiter}, {control}, gso_max_segs {segments}: {part:.3f}, of {[round(one, 3) for one in parts]}",
                  flush=True)
            assert wanted <= part <= 1.02, f"{part:.3f} of what headers leave"
            stats = lab.stats("s1")
            equal(stats["drop_police"] if limiter == "pace" else stats["tx_paced"], 0, "counter of the other limiter")


@check
def pace() -> None:
    """One TCP flow under 250 Mb/s gets 98% with pace"""
    tcp_under_limit("pace", 0.98)


@check
def police() -> None:
    """One TCP flow under 250 Mb/s gets 90% with police, by the mean of three, for timeouts come by chance"""
    tcp_under_limit("police", 0.90, flows=3)


def set_mtu(mtu: int) -> None:
    """Change the MTU of the first VM's way to the uplink's far end."""
    run(f"ip link set s1 mtu {mtu}; ip -n v1 link set e1 mtu {mtu}; ip link set s3 mtu {mtu}; "
        f"ip -n u link set e3 mtu {mtu}")


@check
def mtus() -> None:
    """One TCP flow under 20 Mb/s gets 98% at any MTU, changed while the VM has its limiter"""
    lab.shim.settings_set(law="static", limiter="pace")
    lab.roles()
    limit = 2_500_000
    lab.shim.port_set("s1", max_rate=limit)
    run("ip -n v1 link set e1 gso_max_segs 65535")
    for mtu in (9000, 576, 9216, 1500):
        set_mtu(mtu)
        for control in ("reno", "cubic"):
            got = mean(transfer({"v1": f"tcp:5001:{control}"}, 6)["v1"][1:])
            part = got / (limit * (mtu - 52) / (mtu + 14 + WIRE))
            print(f"# MTU {mtu}, {control}: {part:.3f} of what headers leave", flush=True)
            assert 0.98 <= part <= 1.02, f"MTU {mtu}, {control}: {part:.3f} of what headers leave"


@check
def uncut() -> None:
    """Whole GSO packets, with 10 ms in one go: a TCP flow still gets 95%, and the wire no more than the limit"""
    lab.shim.settings_set(law="static", limiter="pace", burst_us=10_000)
    lab.roles()
    lab.shim.port_set("s1", max_rate=LIMIT)
    run("ip -n v1 link set e1 gso_max_segs 65535")
    got = mean(transfer({"v1": "tcp:5001:cubic"}, 3)["v1"]) / (LIMIT * TCP_PART)
    stats = lab.stats("s1")
    lab.shim.settings_set(burst_us=100)
    print(f"# uncut: {got:.3f} of what headers leave, {stats['drop_horizon']} dropped", flush=True)
    assert 0.95 <= got <= 1.02, f"{got:.3f} of what headers leave"
    equal(round(stats["tx_bytes"] / stats["tx_packets"], -2), 1500.0, "mean bytes of a packet counted")


@check
def shares() -> None:
    """Two VMs share the uplink 3:1 by weight, and a newcomer gets its part at once"""
    lab.shim.settings_set(law="static", limiter="pace")
    lab.roles()
    lab.shim.port_set("s1", weight=3)
    run("ip -n v1 link set e1 gso_max_segs 65535")
    got = transfer({"v1": "tcp:5001:cubic", "v2": "tcp:5002:cubic"}, 4)
    ratio = mean(got["v1"][1:]) / mean(got["v2"][1:])
    total = (mean(got["v1"][1:]) + mean(got["v2"][1:])) / (125_000_000 * TCP_PART)
    print(f"# ratio {ratio:.3f}, utilisation {total:.3f}", flush=True)
    assert 2.85 <= ratio <= 3.15, f"ratio {ratio}"
    assert total >= 0.97, f"utilisation {total}"


@check
def guarantee() -> None:
    """A guarantee holds against a heavier VM, and a ceiling too"""
    lab.roles()
    lab.shim.port_set("s1", weight=100, max_rate=62_500_000)
    lab.shim.port_set("s2", min_rate=50_000_000)
    time.sleep(1.1)
    transfer({"v1": "udp:5001:1400:900000000", "v2": "udp:5002:1400:900000000"}, 1)
    rates = {one.vm: one.rate for one in lab.shim.limiters()}
    equal(sorted(rates.values()), [62_500_000, 62_500_000], "rates")


@check
def udp_flood() -> None:
    """UDP above its rate gets its rate and no more; each lost packet is counted"""
    for limiter, counter in (("pace", "drop_horizon"), ("police", "drop_police")):
        lab.shim.settings_set(limiter=limiter)
        lab.roles()
        lab.shim.port_set("s1", max_rate=LIMIT)
        got = transfer({"v1": "udp:5001:1400:500000000"}, 2)["v1"]
        wire = mean(got[1:]) * (1442 + WIRE) / 1400
        stats = lab.stats("s1")
        print(f"# {limiter}: {wire * 8 / 1e6:.1f} Mb/s on the wire, {stats[counter]} dropped", flush=True)
        assert 0.98 <= wire / LIMIT <= 1.02, f"{wire / LIMIT:.3f} of the limit"
        assert stats[counter] > 10_000, stats
        sent = stats["tx_packets"] + stats[counter]
        offered = 2 * 500_000_000 / 8 / 1442
        assert 0.9 <= sent / offered <= 1.1, f"{sent} packets counted of about {offered:.0f}"


@check
def rate_changes() -> None:
    """A new ceiling holds at once"""
    lab.shim.settings_set(limiter="pace")
    lab.roles()
    lab.shim.port_set("s1", max_rate=LIMIT)
    run("(sleep 3; python3 -c 'from sdngcc.shim.netlink import ShimClient; "
        f"ShimClient().port_set(\"s1\", max_rate={LIMIT // 10})') >/dev/null 2>&1 &")
    got = transfer({"v1": "tcp:5001:cubic"}, 5)["v1"]
    print(f"# by second: {[round(one * 8 / 1e6, 1) for one in got]} Mb/s", flush=True)
    assert got[0] > 0.97 * LIMIT * TCP_PART, got
    assert 0.9 * LIMIT / 10 * TCP_PART < got[4] < 1.05 * LIMIT / 10, got


prepare()
main()
