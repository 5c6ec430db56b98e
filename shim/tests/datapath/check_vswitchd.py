# SPDX-License-Identifier: Apache-2.0
"""ovs-vswitchd: the database's shim-* keys reach the kernel, and OpenFlow tells marks and VMs' state."""

from __future__ import annotations

import re
import socket
import time
from dataclasses import replace
from typing import Dict, List, Tuple

from lab import BRIDGE, ECT_0, PROTOCOL, V1, Lab, U, check, equal, ifindex, ipv4, main, run, udp

from sdngcc.controller.wire.message import Message, encode_v1

# The database's statistics, and with them a kernel that lost its state, are looked at every 5 s; virtual.
REFRESH_S = 6.0

# Keys before and after a rotation.
OLD, NEW = bytes(range(16)), bytes(range(16, 32))

lab = Lab()
untouched = lab.shim.settings_get()
lab.shim.settings_set(law="static")


def setting(*keys: str) -> None:
    """Set keys of Open_vSwitch:other_config."""
    run("ovs-vsctl set Open_vSwitch . " + " ".join(f"other_config:shim-{key}" for key in keys))


def unset(*keys: str) -> None:
    """Remove keys of Open_vSwitch:other_config."""
    run("ovs-vsctl" + "".join(f" -- remove Open_vSwitch . other_config shim-{key}" for key in keys))


def interface(device: str, *keys: str) -> None:
    """Set keys of Interface:other_config."""
    run(f"ovs-vsctl set Interface {device} " + " ".join(f"other_config:shim-{key}" for key in keys))


def complaint(device: str = "") -> str:
    """Return shim-error of an Interface, or of the settings; empty if there is none."""
    row = f"Interface {device} status" if device else "Open_vSwitch . statistics"
    time.sleep(0.2)
    return run(f"ovs-vsctl --if-exists get {row}:shim-error").strip().strip('"')


def ports() -> Dict[str, Tuple[object, ...]]:
    """Return what the kernel has: role, weight, min, max, capacity by device."""
    return {port.name: (port.role, port.weight, port.min_rate, port.max_rate, port.capacity)
            for port in lab.shim.ports()}


def fresh() -> None:
    """Begin with the roles of the database and nothing else."""
    run("ovs-vsctl clear Open_vSwitch . other_config" + "".join(
        f" -- clear Interface s{number} other_config" for number in (1, 2, 3)))
    run("ovs-vsctl set Interface s1 external_ids:iface-id=one -- set Interface s2 external_ids:iface-id=two")
    interface("s3", "role=uplink", "capacity=1000000000")


def message(sender: int, key: bytes) -> bytes:
    """Return a control message for v1, signed with a key."""
    mapped = bytes(10) + b"\xff\xff"
    return encode_v1(Message(vm=mapped + socket.inet_aton(V1), peer=mapped + socket.inet_aton(U), marks=4,
                             interval_ns=5_000_000, weight_total=4, sender=sender, epoch=1000, sequence=1), key)


def dump(what: str, port: str = "") -> Tuple[Dict[str, str], List[Dict[str, str]]]:
    """Ask for PORT_MARKS or VM_STATE; return the head's fields and each entry's."""
    text = run(f"ovs-ofctl -O OpenFlow13 {what} {BRIDGE} {port}")
    rows = [dict(re.findall(r"(\w+)=(\S+)", line)) for line in text.splitlines()]
    return rows[0], rows[1:]


@check
def leaves_alone() -> None:
    """Without shim-* keys, what others set in the kernel stays"""
    before = ports()
    run("ovs-vsctl set Interface s1 external_ids:iface-id=one")
    time.sleep(REFRESH_S)
    equal((ports(), lab.shim.settings_get().law), (before, "static"), "state")


@check
def roles() -> None:
    """An iface-id makes a VM, shim-role an uplink, and rates in bit/s become bytes/s"""
    fresh()
    interface("s2", "weight=3", "min-rate=8000000", "max-rate=80000000")
    equal(ports(), {"s1": ("vm", 1, 0, 0, None), "s2": ("vm", 3, 1_000_000, 10_000_000, None),
                    "s3": ("uplink", None, None, None, 125_000_000)}, "ports")
    run("ovs-vsctl remove Interface s1 external_ids iface-id")
    assert "s1" not in ports()


@check
def settings() -> None:
    """Settings and knobs take effect, and go back to their defaults without the key"""
    fresh()
    run("echo 000102030405060708090a0b0c0d0e0f > key")
    wanted = ("law=sdngcc", "period-us=1000", "limiter=police", "burst=200000", "burst-us=0", "horizon-us=5",
              "ecn=false", "inactive-ms=7", "protocol=200", "accept-v0=true", "key-file=$PWD/key",
              "knob-step-fast-ppm=123")
    setting(*wanted)
    got = lab.shim.settings_get()
    equal((got.law, got.period, got.limiter, got.burst, got.burst_us, got.horizon, got.ecn, got.inactive,
           got.protocol, got.accept_v0, got.key_set, got.knobs["step-fast-ppm"].value),
          ("sdngcc", 10**6, "police", 200000, 0, 5000, False, 7 * 10**6, 200, True, True, 123), "settings")
    equal(complaint(), "", "complaint")
    unset(*(key.split("=")[0] for key in wanted[1:]))
    got = lab.shim.settings_get()
    got_off = replace(got, law="none", of="none", period=untouched.period, knobs={})
    equal(got_off, untouched, "the kernel's own defaults")
    knob = got.knobs["step-fast-ppm"]
    equal(knob.value, knob.default, "knob")
    unset("law")
    equal(lab.shim.settings_get().law, "none", "law")


@check
def unusable() -> None:
    """What cannot be used is reported, and everything else takes effect"""
    fresh()
    setting("law=sdngcc", "burst-us=200")
    setting("law=fair", "burst-us=10001", "knob-nonsense=1", "horizon-us=777", "early-us=700", "quantum=3028",
            "segment=true")
    text = complaint()
    for words in ("shim-law: the datapath refuses it", "none, static, sdngcc", "shim-knob-nonsense",
                  "shim-burst-us: '10001' is not allowed", "200 us stays in force",
                  "shim-early-us: there is no such setting, shim-ahead does its work; false stays in force",
                  "shim-quantum: there is no such setting, shim-burst-us does its work; 200 us stays in force",
                  "shim-segment: there is no such setting, shim-burst-us does its work; 200 us stays in force"):
        assert words in text, f"'{words}' is not in: {text}"
    got = lab.shim.settings_get()
    equal((got.law, got.burst_us, got.horizon), ("sdngcc", 200, 777_000), "settings")
    interface("s1", "min-rate=600000000")
    interface("s2", "min-rate=600000000", "weight=9")
    assert "guarantees sum to" in complaint("s2"), complaint("s2")
    equal((ports()["s1"][2], ports()["s2"][1:3]), (75_000_000, (1, 0)), "ports")
    interface("s2", "min-rate=300000000")
    equal((complaint("s2"), ports()["s2"][1:3]), ("", (9, 37_500_000)), "after the mistake")
    for overhead, wrong, in_force in ((94, "", 94), (1001, "shim-overhead: '1001' is not allowed, 1 to 1000 bytes", 94),
                                      (0, "", 24)):
        interface("s3", f"overhead={overhead}")
        said = complaint("s3")
        assert (wrong in said) if wrong else not said, said
        equal(lab.shim.port_get("s3").overhead, in_force, f"overhead of {overhead}")


@check
def addresses() -> None:
    """shim-addresses reach the kernel, a bad one is named, and the last good ones stay until the key is gone"""
    fresh()
    setting("law=sdngcc")
    interface("s1", "addresses='\"10.0.0.5 10.0.1.0/24 2001:db8::/64\"'")
    good = ("10.0.0.5", "10.0.1.0/24", "2001:db8::/64")
    equal((complaint("s1"), lab.shim.port_get("s1").addresses), ("", good), "addresses")
    interface("s1", "addresses='\"10.0.0.6 10.0.0.7/24\"'")
    assert "'10.0.0.7/24' has bits beyond its prefix" in complaint("s1"), complaint("s1")
    equal(lab.shim.port_get("s1").addresses, good, "addresses after the mistake")
    text = run("ovs-appctl shim/show")
    assert re.search(r"s1 +vm .* 10\.0\.0\.5 10\.0\.1\.0/24 2001:db8::/64", text), text
    many = [f"10.9.{number}.1" for number in range(256)]
    interface("s1", "addresses='\"" + " ".join(many) + "\"'")
    equal((complaint("s1"), lab.shim.port_get("s1").addresses), ("", tuple(many)), "as many as there may be")
    lab.shim.port_set("s1", addresses=[])
    time.sleep(REFRESH_S)
    equal(lab.shim.port_get("s1").addresses, tuple(many), "what the kernel lost")
    run("ovs-vsctl remove Interface s1 other_config shim-addresses")
    equal(lab.shim.port_get("s1").addresses, (), "without the key")


@check
def other_columns() -> None:
    """Keys in external_ids and Port:other_config count where other_config has none, and outlive its clearing"""
    fresh()
    setting("law=sdngcc")
    run("ovs-vsctl set Port s1 other_config:shim-weight=2 other_config:shim-max-rate=80000000")
    equal(ports()["s1"][1:4], (2, 0, 10_000_000), "keys of the Port")
    run("ovs-vsctl set Interface s1 external_ids:shim-weight=3 external_ids:shim-min-rate=8000000")
    equal(ports()["s1"][1:4], (3, 1_000_000, 10_000_000), "with external_ids")
    interface("s1", "weight=4")
    equal(ports()["s1"][1:4], (4, 1_000_000, 10_000_000), "with other_config")
    run("ovs-vsctl clear Interface s1 other_config")
    equal(ports()["s1"][1:4], (3, 1_000_000, 10_000_000), "after an agent cleared other_config")
    run("ovs-vsctl set Interface s1 external_ids:shim-weight=0 external_ids:shim-mystery=1")
    for words in ("shim-weight: '0' is not allowed", "3 stays in force", "shim-mystery: there is no such setting",
                  "shim-weight is set in Interface:external_ids"):
        assert words in complaint("s1"), f"'{words}' is not in: {complaint('s1')}"
    run("ovs-vsctl remove Interface s1 external_ids shim-weight shim-min-rate shim-mystery"
        " -- clear Port s1 other_config")
    equal((complaint("s1"), ports()["s1"][1:4]), ("", (1, 0, 0)), "without any key")


def root_qdisc(device: str) -> str:
    """Return the kind of a device's root queuing discipline."""
    return run(f"tc qdisc show dev {device}").split()[1]


def restarted(name: str) -> None:
    """Restart ovs-vswitchd, with a log of its own, and add its flows again."""
    run("ovs-appctl exit")
    time.sleep(0.5)
    run(f"ovs-vswitchd --pidfile --detach --log-file=/run/openvswitch/{name}.log 2>&1")
    time.sleep(0.5)
    lab.route()


@check
def qdisc() -> None:
    """An uplink's fq outlives a restart of ovs-vswitchd unless nothing is asked of the shim; HTB of a QoS goes"""
    fresh()
    setting("law=sdngcc")
    run("tc qdisc replace dev s3 root fq limit 100000 flow_limit 2000 buckets 1024")
    restarted("qdisc")
    equal(root_qdisc("s3"), "fq", "queuing discipline of an uplink")
    run("ovs-vsctl set Port s3 qos=@q -- --id=@q create QoS type=linux-htb other_config:max-rate=1000000000")
    time.sleep(REFRESH_S)
    equal(root_qdisc("s3"), "htb", "with a QoS")
    assert "its Port has a QoS of type linux-htb" in complaint("s3"), complaint("s3")
    run("ovs-vsctl clear Port s3 qos -- --all destroy QoS")
    assert root_qdisc("s3") != "htb", "the QoS is gone"
    run("tc qdisc replace dev s3 root fq limit 100000 flow_limit 2000 buckets 1024")
    unset("law")
    restarted("without")
    assert root_qdisc("s3") != "fq", "Open vSwitch deletes it where nothing is asked of the shim"


@check
def rotation() -> None:
    """Two keys are exchanged in one change; shim/show tells who used the second one, and never a key"""
    fresh()
    run(f"echo {OLD.hex()} > old; echo {NEW.hex()} > new")
    setting("law=sdngcc", "codepoint=0", "waiting-max=2000", "ahead=true", "key-file=$PWD/old",
            "key-other-file=$PWD/new")
    equal(complaint(), "", "complaint")
    got = lab.shim.settings_get()
    equal((got.key_set, got.key_other_set, got.codepoint, got.waiting_max, got.ahead),
          (True, True, 0, 2000, True), "settings")
    lab.v1.send(ipv4(V1, U, udp(500)))
    time.sleep(0.1)
    for number, key in enumerate((OLD, NEW)):
        lab.u.send(ipv4(U, V1, message(70 + number, key), protocol=PROTOCOL))
    time.sleep(0.1)
    equal(lab.shim.settings_get().other_key_senders.keys(), {71}, f"senders with the second key; {lab.stats('s1')}")
    setting("key-file=$PWD/new", "key-other-file=$PWD/old")
    for number, key in enumerate((OLD, NEW)):
        lab.u.send(ipv4(U, V1, message(80 + number, key), protocol=PROTOCOL))
    time.sleep(0.1)
    equal(lab.shim.settings_get().other_key_senders.keys(), {71, 80}, "senders with the second key, exchanged")
    text = run("ovs-appctl shim/show")
    for words in (r"key-other +set", r"other key used by sender 80 \(s ago\) +[0-9]+\n", r"codepoint +0\n",
                  r"waiting-max \(packets\) +2000\n", r"ahead +1\n"):
        assert re.search(words, text), f"'{words}' is not in: {text}"
    assert OLD.hex() not in text and NEW.hex() not in text
    unset("key-other-file", "codepoint", "waiting-max", "ahead")
    got = lab.shim.settings_get()
    equal((got.key_other_set, got.codepoint, got.waiting_max, got.ahead), (False, 1, 1024, False), "defaults")


def alarms(device: str) -> int:
    """Return how often the log of ovs-vswitchd warned of a device's queuing discipline."""
    return int(run(f"cat /run/openvswitch/*.log | grep -c 'WARN|{device}: .*departure times' || true"))


@check
def unfit() -> None:
    """An uplink whose queuing discipline ignores departure times is told in status, log and shim/show, once a change"""
    fresh()
    setting("law=sdngcc")
    before = alarms("s3")
    run("tc qdisc replace dev s3 root pfifo")
    time.sleep(2 * REFRESH_S)
    equal((run("ovs-vsctl get Interface s3 status:shim_qdisc").strip(), alarms("s3")), ("unfit", before + 1), "pfifo")
    text = run("ovs-appctl shim/show")
    assert re.search(r"s3 +uplink .* unfit ", text) and "does not obey departure times" in text, text
    run("tc qdisc replace dev s3 root fq limit 100000 flow_limit 2000 buckets 1024")
    time.sleep(REFRESH_S)
    equal((run("ovs-vsctl --if-exists get Interface s3 status:shim_qdisc").strip(), complaint("s3")), ("", ""), "fq")
    assert re.search(r"s3 +uplink .* fit ", run("ovs-appctl shim/show"))
    run("tc qdisc replace dev s3 root pfifo")
    setting("limiter=police")
    time.sleep(REFRESH_S)
    equal(run("ovs-vsctl --if-exists get Interface s3 status:shim_qdisc").strip(), "", "pfifo while policing")
    unset("limiter")
    time.sleep(REFRESH_S)
    equal(alarms("s3"), before + 2, "warnings")
    unset("law")
    time.sleep(REFRESH_S)
    equal(run("ovs-vsctl --if-exists get Interface s3 status:shim_qdisc").strip(), "", "without a law")
    run("tc qdisc del dev s3 root")


@check
def restart() -> None:
    """A restart of ovs-vswitchd changes no rate and no counter"""
    fresh()
    setting("law=sdngcc")
    for _ in range(5):
        lab.v1.send(ipv4(V1, U, udp(500)))
    time.sleep(0.1)
    before = [(limiter.vm, limiter.rate, limiter.tx_packets) for limiter in lab.shim.limiters()]
    assert before and before[0][2] >= 5, before
    restarted("again")
    equal([(limiter.vm, limiter.rate, limiter.tx_packets) for limiter in lab.shim.limiters()], before, "limiters")
    equal(lab.shim.settings_get().law, "sdngcc", "law")


@check
def lost() -> None:
    """A kernel that lost settings and ports gets them back"""
    fresh()
    setting("law=sdngcc", "period-us=3000", "knob-step-fast-ppm=321")
    before = ports()
    lab.shim.settings_set(law="none")
    lab.shim.port_del("s2")
    time.sleep(REFRESH_S)
    got = lab.shim.settings_get()
    equal((got.law, got.period, got.knobs["step-fast-ppm"].value), ("sdngcc", 3_000_000, 321), "settings")
    equal(ports(), before, "ports")


@check
def removed() -> None:
    """A port that leaves its bridge leaves the shim, and one that moves takes its settings along"""
    fresh()
    interface("s2", "weight=5")
    run(f"ovs-vsctl add-br br9 -- del-port {BRIDGE} s2 -- add-port br9 s2 -- set Interface s2 "
        "external_ids:iface-id=two other_config:shim-weight=5")
    equal(ports()["s2"][:2], ("vm", 5), "moved")
    run("ovs-vsctl del-port br9 s2; ovs-vsctl del-br br9")
    assert "s2" not in ports()
    run(f"ovs-vsctl add-port {BRIDGE} s2 -- set Interface s2 ofport_request=2 external_ids:iface-id=two")
    equal(ports()["s2"][:2], ("vm", 1), "added")


@check
def statistics() -> None:
    """The shim's counters stand in Interface:statistics, all of them"""
    fresh()
    setting("law=sdngcc")
    lab.v1.send(ipv4(V1, U, udp(500)))
    time.sleep(REFRESH_S)
    got = int(run("ovs-vsctl get Interface s1 statistics:shim_tx_packets"))
    equal(got, lab.stats("s1")["tx_packets"], "shim_tx_packets")
    assert got > 0
    there = run("ovs-vsctl get Interface s1 statistics")
    equal([name for name in lab.stats("s1") if f"shim_{name}=" not in there], [], "counters that are missing")


@check
def marks() -> None:
    """PORT_MARKS counts what RED marked, goes on when RED is replaced, and knows a port without"""
    fresh()
    run("tc qdisc add dev s3 root handle 1: tbf rate 8mbit burst 1600 limit 1000000")
    red = "red limit 400000 min 3000 max 4000 avpkt 1000 burst 4 probability 1 bandwidth 8mbit ecn"
    total = 0
    for handle in (10, 20):
        run(f"tc qdisc add dev s3 parent 1: handle {handle}: {red}")
        for _ in range(60):
            lab.v1.send(ipv4(V1, U, udp(1000), ecn=ECT_0))
        time.sleep(0.5)
        text = run("tc -s qdisc show dev s3")
        total += int(re.findall(r"marked (\d+)", text)[0])
        head, entries = dump("dump-port-marks", "3")
        equal((int(entries[0]["marks"]), entries[0]["kinds"]), (total, "red"), text)
        assert total > 0
        run(f"tc qdisc del dev s3 parent 1: handle {handle}:")
    time.sleep(0.001)
    equal(dump("dump-port-marks", "3")[1][0]["kinds"], "none", "kinds without RED")
    equal(int(dump("dump-port-marks", "3")[1][0]["marks"]), total, "marks without RED")
    run("tc qdisc del dev s3 root")
    equal(dump("dump-port-marks", "1")[1][0]["kinds"], "none", "kinds of s1")


@check
def state() -> None:
    """VM_STATE tells what the kernel's limiters tell"""
    fresh()
    setting("law=sdngcc")
    interface("s1", "weight=2", "min-rate=8000000", "max-rate=400000000")
    lab.v1.send(ipv4(V1, U, udp(500)))
    time.sleep(0.05)
    (limiter,) = [limiter for limiter in lab.shim.limiters() if limiter.vm == ifindex("s1")]
    head, (entry,) = dump("dump-vm-state", "1")
    equal({key: entry[key] for key in ("port", "uplink", "weight", "rate", "share", "min", "max", "tx_packets")},
          {"port": "1", "uplink": "3", "weight": "2", "rate": str(limiter.rate), "share": str(limiter.share),
           "min": "1000000", "max": "50000000", "tx_packets": str(limiter.tx_packets)}, "VM_STATE")
    equal(dump("dump-vm-state", "3")[1], [], "VM_STATE of an uplink")


@check
def laws() -> None:
    """An Interface has a law of its own, and knobs named by their law reach that law"""
    fresh()
    setting("law=sdngcc", "knob-rmin-ppm=7", "knob-hygenicc-echo=0", "peers-max=50", "peer-idle-ms=3000")
    interface("s1", "law=hygenicc")
    equal(complaint() + complaint("s1"), "", "complaints")
    equal([lab.shim.port_get(name).law for name in ("s1", "s2")], ["hygenicc", "default"], "laws")
    got = lab.shim.settings_get()
    equal((got.law, got.knobs["rmin-ppm"].value, got.peers_max, got.peer_idle), ("sdngcc", 7, 50, 3 * 10**9),
          "settings")
    equal(lab.shim.settings_get(of="hygenicc").knobs["echo"].value, 0, "knob of hygenicc")
    setting("law=static")
    unset("knob-rmin-ppm", "knob-hygenicc-echo")
    equal(complaint(), "", "complaint")
    equal(lab.shim.settings_get(of="sdngcc").knobs["rmin-ppm"].value, 10_000, "knob of the law set aside")
    equal(lab.shim.settings_get(of="hygenicc").knobs["echo"].value, 1, "knob of hygenicc, taken back")
    interface("s1", "law=fair")
    assert "no law is called fair" in complaint("s1"), complaint("s1")
    equal(lab.shim.port_get("s1").law, "hygenicc", "law after a refusal")
    setting("knob-hygenicc-echo=2")
    assert "hygenicc-echo" in complaint(), complaint()
    unset("knob-hygenicc-echo")
    run("ovs-vsctl remove Interface s1 other_config shim-law")
    equal(complaint("s1"), "", "complaint")
    equal(lab.shim.port_get("s1").law, "default", "law without the key")


@check
def show() -> None:
    """ovs-appctl shim/show prints settings, ports, limiters and complaints"""
    fresh()
    setting("law=sdngcc", "burst-us=x")
    text = run("ovs-appctl shim/show")
    for words in (r"law +sdngcc", r"s1 +vm +1 ", r"s3 +uplink", r"vm +uplink +rate", r"shim-burst-us: 'x'"):
        assert re.search(words, text), f"'{words}' is not in: {text}"
    unset("burst-us")
    equal(len(run("ovs-appctl shim/show --json").splitlines()), 4, "JSON lines")


@check
def offload() -> None:
    """Flow offload beside a law is a mistake that is told, until ovs-vswitchd was restarted without it"""
    fresh()
    run("ovs-vsctl set Open_vSwitch . other_config:hw-offload=true")
    equal(complaint(), "", "without a law")
    setting("law=sdngcc")
    assert "hw-offload: flows that are offloaded pass the shim by" in complaint(), complaint()
    assert "hw-offload" in run("ovs-appctl shim/show")
    setting("law=none")
    equal(complaint(), "", "law none")
    interface("s1", "law=static")
    assert "hw-offload" in complaint(), "a law of one VM"
    run("ovs-vsctl remove Open_vSwitch . other_config hw-offload")
    assert "restart ovs-vswitchd" in complaint(), "before the restart"
    restarted("offload")
    equal(complaint(), "", "after the restart")


main()
