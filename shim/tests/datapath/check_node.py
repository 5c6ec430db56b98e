# SPDX-License-Identifier: Apache-2.0
"""``sdngcc node setup`` and ``check`` on this kernel's own queues, with ovs-vswitchd and its database.

s3 is the bridge's uplink, with one queue; q1, a veth with four queues, is another; v1.7 is a VLAN device over a third.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Dict, List

from lab import BRIDGE, Lab, check, equal, links, main, run

from sdngcc.node.facts import Facts, read_facts
from sdngcc.node.findings import judge
from sdngcc.node.host import Host
from sdngcc.node.queues import QueueError
from sdngcc.node.record import Wanted
from sdngcc.node.setup import SetupError, apply, plan, reapply, undo
from sdngcc.testbed.programs import debians

lab = Lab()
KEY = "/tmp/node.key"
# The machine's own files but for what is written: that may not be.
ROOT = Path("/tmp/root")
# Open vSwitch as Debian has it, without this project's series.
DEBIANS = str(debians("ovs-vswitchd"))
FQ = {"limit": 100_000, "flow_limit": 2_000, "buckets": 1024}


def begin() -> Host:
    """Return this machine without anything set up: devices new, no roles, no settings, no record."""
    run("ovs-vsctl" + "".join(f" -- --if-exists del-port {BRIDGE} {name}" for name in ("q1", "v1.7"))
        + " -- clear Port s3 qos")
    run("ovs-vsctl --all destroy QoS")
    for name in ("q1", "v1"):
        run(f"ip link del {name} 2>/dev/null || true")
    links("link add q1 numtxqueues 4 numrxqueues 4 type veth peer name q2 numtxqueues 4 numrxqueues 4",
          "link add v1 type veth peer name v2", "link add link v1 name v1.7 type vlan id 7",
          *(f"link set {name} up" for name in ("q1", "q2", "v1", "v2", "v1.7")))
    run("ovs-vsctl clear Open_vSwitch . other_config" + "".join(
        f" -- clear Interface s{number} other_config -- clear Interface s{number} external_ids"
        for number in (1, 2, 3)))
    run("tc qdisc del dev s3 root 2>/dev/null || true")
    run(f"ovs-vsctl --may-exist add-port {BRIDGE} q1 -- --may-exist add-port {BRIDGE} v1.7")
    os.makedirs(ROOT / "var/lib/sdngcc-node", exist_ok=True)
    for name in ("sys", "proc", "run", "tmp", "boot", "lib"):
        if not (ROOT / name).is_symlink():
            (ROOT / name).symlink_to(f"/{name}")
    (ROOT / "var/lib/sdngcc-node/node.json").unlink(missing_ok=True)
    with open(KEY, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as key:
        key.write("00112233445566778899aabbccddeeff\n")
    return Host(ROOT)


def wanted(*uplinks: str, **more: Any) -> Wanted:
    """Return that s1 and s2 are VMs, with these uplinks of 1 Gb/s."""
    return Wanted(uplinks, **{"vms": ("s1", "s2"), "capacity": 1_000_000_000, "boots": False, **more})


def qdiscs(device: str) -> List[Dict[str, Any]]:
    """Return a device's queuing disciplines as tc tells of them."""
    found: List[Dict[str, Any]] = json.loads(run(f"tc -j qdisc show dev {device}"))
    return sorted(found, key=lambda one: str(one.get("parent", "")))


def state() -> Dict[str, Any]:
    """Return all of the database that a set-up may change, and the queues."""
    tables = {"Interface": "name,other_config", "Port": "name,qos", "Open_vSwitch": "other_config,manager_options",
              "Bridge": "name,controller,fail_mode", "QoS": "type", "Manager": "target"}
    database = {table: sorted(run(f"ovs-vsctl --format=csv --columns={columns} list {table}").splitlines())
                for table, columns in tables.items()}
    flows = sorted(line.split("actions=")[-1] for line in run(f"ovs-ofctl dump-flows {BRIDGE}").splitlines())
    return {**database, "flows": flows, **{name: [(one["kind"], one["handle"], one.get("parent"), one["options"])
                                                  for one in qdiscs(name)] for name in ("q1", "s3", "v1", "v1.7")}}


def faults(facts: Facts) -> List[str]:
    """Return what is a fault there, but for what only an installed machine has."""
    return [f"{one.subject}: {one.text}" for one in judge(facts) if one.level == "fault"]


def set_up(host: Host, asked: Wanted) -> List[str]:
    """Set up and return the names of the steps."""
    steps = plan(host, read_facts(host), asked)
    apply(host, asked, steps, lambda _: None)
    return [one.name for one in steps]


@check
def queues() -> None:
    """A card with four queues keeps mq and has fq at each, one with one queue has it as its root"""
    host = begin()
    before = state()
    steps = plan(host, read_facts(host), wanted("q1", "s3", law="static"))
    equal(state(), before, "a plan changes nothing")
    apply(host, wanted("q1", "s3", law="static"), steps, lambda _: None)
    root = next(one for one in qdiscs("q1") if one.get("root"))
    equal(root["kind"], "mq", "root of q1")
    leaves = [one for one in qdiscs("q1") if not one.get("root")]
    equal([(one["kind"], one["parent"]) for one in leaves], [("fq", f"1:{number}") for number in (1, 2, 3, 4)],
          "leaves")
    for one in leaves + qdiscs("s3"):
        equal({name: one["options"][name] for name in FQ}, FQ, f"options of {one}")
    time.sleep(6)
    facts = read_facts(host)
    equal(faults(facts), [], "faults")
    equal({one.name: one.qdisc for one in lab.shim.ports() if one.role == "uplink"}, {"q1": "fit", "s3": "fit"},
          "what the shim says")
    equal(set_up(host, wanted("q1", "s3", law="static")), [], "steps of a second set-up")


@check
def undone() -> None:
    """Undo gives back queues, keys, QoS, controllers and managers as they were; flows and fail mode never change"""
    host = begin()
    run("ovs-vsctl set Interface s1 other_config:shim-weight=3 -- set Open_vSwitch . other_config:shim-law=vcc "
        "-- set-manager ptcp:6640:127.0.0.1; tc qdisc replace dev s3 root handle 7: fq_codel limit 77 target 3ms")
    run("tc qdisc replace dev q1 root handle 9: mq; tc qdisc replace dev q1 parent 9:2 handle 22: pfifo limit 33")
    before = state()
    asked = wanted("q1", "s3", "v1.7", law="sdngcc", key_file=KEY, controller="tcp:127.0.0.1:6653",
                   manager="tcp:127.0.0.1:6639")
    names = set_up(host, asked)
    equal([one for one in names if one.startswith("queues")], ["queues q1", "queues s3", "queues v1"], "queues")
    equal(state()["flows"], before["flows"], "flows")
    assert not faults(read_facts(host)), faults(read_facts(host))
    # A second set-up with another law keeps what was there before the first.
    set_up(host, wanted("q1", "s3", law="static"))
    undo(host, lambda _: None)
    equal(state(), before, "all is as before")
    equal(undo(host, lambda _: None), 0, "nothing is left to undo")
    run("ovs-vsctl del-manager")


@check
def again() -> None:
    """What a boot, a new queue or a restart of Open vSwitch took away is put back"""
    host = begin()
    set_up(host, wanted("q1", "v1.7", law="static"))
    run("tc qdisc del dev q1 root; tc qdisc replace dev v1 root pfifo")
    told = faults(read_facts(host))
    assert any("q1" in one for one in told) and any("v1 (below v1.7)" in one for one in told), told
    apply(host, None, reapply(host), lambda _: None)
    equal(faults(read_facts(host)), [], "faults")
    run("tc qdisc replace dev q1 parent 1:3 pfifo")
    equal([line for one in reapply(host) for line in one.lines()],
          ["tc qdisc replace dev q1 parent 1:3 fq limit 100000 flow_limit 2000 buckets 1024"], "one leaf alone")


def restart(program: str) -> None:
    """Let another ovs-vswitchd, or the same one again, take over."""
    run("ovs-appctl exit")
    time.sleep(0.5)
    run(f"{program} --pidfile --detach")
    time.sleep(1)


def kinds(*devices: str) -> List[str]:
    """Return the kinds of devices' queuing disciplines."""
    return [one["kind"] for device in devices for one in qdiscs(device)]


@check
def restarts() -> None:
    """A restart of ovs-vswitchd, and one of Debian's own in its place, leave every fq where it is"""
    host = begin()
    set_up(host, wanted("q1", "s3", law="static"))
    own, wished = run("readlink /proc/$(cat /run/openvswitch/ovs-vswitchd.pid)/exe").strip(), kinds("q1", "s3")
    equal(sorted(wished), ["fq"] * 5 + ["mq"], "queues")
    for program in (own, DEBIANS, own):
        restart(program)
        equal(kinds("q1", "s3"), wished, f"queues after {program} started")
        equal([step.name for step in reapply(host)], [], f"what is to be put back after {program} started")
    # What keeps Debian's own from deleting them is the row that the set-up made.
    run("ovs-vsctl clear Port s3 qos")
    restart(DEBIANS)
    assert "fq" not in kinds("s3"), kinds("s3")
    restart(own)
    apply(host, None, reapply(host), lambda _: None)
    equal(faults(read_facts(host)), [], "faults")


@check
def serialized() -> None:
    """An fq that serializes four queues, as `tc qdisc replace dev DEVICE root fq` makes it, is a fault and replaced"""
    host = begin()
    set_up(host, wanted("q1", law="static"))
    run("tc qdisc replace dev q1 root fq limit 100000 flow_limit 2000 buckets 1024")
    told = faults(read_facts(host))
    assert any("fq for 4 queues together" in one for one in told), told
    apply(host, None, reapply(host), lambda _: None)
    equal(sorted(one["kind"] for one in qdiscs("q1")), ["fq"] * 4 + ["mq"], "queues")


@check
def refused() -> None:
    """What cannot be had is refused by name, and nothing is changed"""
    host = begin()
    run("tc qdisc replace dev s3 root handle 5: htb default 1")
    run("ovs-vsctl set Port q1 qos=@q -- --id=@q create QoS type=linux-htb")
    before = state()
    for asked, words in ((wanted("s3"), "s3 has the queuing discipline htb"), (wanted("q1"), "linux-htb"),
                         (wanted("eth9"), "--uplink eth9: there is no such port"),
                         (wanted("v1", vms=("s9",)), "--vms s9"), (wanted("v1", vms=("v1",)), "v1"),
                         (wanted("v1", law="fastest"), "--law fastest: there is no such law; there are "),
                         (wanted("v1", law="eyeq"), "needs a key"),
                         (wanted("v1", law="eyeq", key_file="/tmp/none"), "/tmp/none: there is no such file"),
                         (wanted("v1", controller="10.0.0.1"), "--controller 10.0.0.1: that is no target"),
                         (wanted("v1", boots=True), "--until-boot")):
        try:
            set_up(host, asked)
        except (SetupError, QueueError) as error:
            assert words in str(error), f"{words}: {error}"
        else:
            raise AssertionError(f"{words}: not refused")
        equal(state(), before, words)
    run("ovs-vsctl clear Port q1 qos -- --all destroy QoS; tc qdisc del dev s3 root")


main()
