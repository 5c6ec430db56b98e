# SPDX-License-Identifier: Apache-2.0
"""Inside the virtual machine: five hosts as namespaces, each with an Open vSwitch, a switch, and an experiment on them.

    a, b, c, d: senders    e: receivers    sw, a namespace with a bridge of Linux: the switch, RED towards e

Arguments: those of ``sdngcc testbed run``, to which the inventory is added.
"""

import os
import subprocess
import sys
from pathlib import Path

import yaml

from sdngcc.testbed.openvswitch import VSWITCHD_UPTIME_S
from sdngcc.testbed.processes import sleep_until
from sdngcc.topologies.shaping import LEAF_HANDLE, Shape, tc_commands

MBPS = 100
CONTROLLER = "172.31.255.254"
HOSTS = "abcde"


def run(*argv, within="", **environment):
    """Run a program, in a namespace if one is named."""
    words = ["nsenter", f"--net=/run/netns/{within}"] if within else []
    subprocess.run([*words, *argv], check=True, env={**os.environ, **environment}, stderr=subprocess.DEVNULL)


def build():
    """Make hosts and switch."""
    for name in [*HOSTS, "sw"]:
        run("ip", "netns", "add", name)
    run("ip", "link", "add", "name", "fabric0", "type", "bridge", "forward_delay", "0", within="sw")
    run("ip", "link", "set", "fabric0", "up", within="sw")
    # The network by which hosts reach the controller.
    run("ip", "link", "add", "name", "mgmt", "type", "bridge", "forward_delay", "0")
    run("ip", "addr", "add", f"{CONTROLLER}/16", "dev", "mgmt")
    run("ip", "link", "set", "mgmt", "up")
    schema = Path(subprocess.check_output(["which", "ovs-vswitchd"], text=True).strip()).with_name("vswitch.ovsschema")
    sleep_until(VSWITCHD_UPTIME_S)
    for number, name in enumerate(HOSTS, 1):
        run("ip", "link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"m-{name}")
        run("ip", "link", "set", f"m-{name}", "master", "mgmt", "up")
        run("ip", "addr", "add", f"172.31.0.{number}/16", "dev", "eth0", within=name)
        run("ip", "link", "set", "eth0", "up", within=name)
        run("ip", "link", "add", "eth1", "netns", name, "type", "veth", "peer", "name", f"p-{name}", "netns", "sw")
        run("ip", "link", "set", f"p-{name}", "master", "fabric0", "up", within="sw")
        folder = f"/run/hosts/{name}"
        os.makedirs(folder)
        mine = {"OVS_RUNDIR": folder, "OVS_LOGDIR": folder}
        run("ovsdb-tool", "create", f"{folder}/conf.db", str(schema))
        run("ovsdb-server", f"{folder}/conf.db", f"--remote=punix:{folder}/db.sock", "--pidfile", "--detach",
            "--log-file", within=name, **mine)
        run("ovs-vsctl", "--no-wait", "init", **mine)
        run("ovs-vswitchd", "--pidfile", "--detach", "--log-file", within=name, **mine)
    shape = Shape("marking", rate_mbps=MBPS, buffer_packets=100, mark_percent=20)
    for command in tc_commands("p-e", shape):
        run("tc", *command, within="sw")


def left():
    """Return what is still on hosts of what the run made."""
    found = [name for name in os.listdir("/run/netns") if name.startswith("sdngcc-")]
    found += [str(path) for pattern in ("sdngcc*", "racks*") for path in Path("/run").glob(pattern)]
    for name in HOSTS:
        said = subprocess.run(["ovs-vsctl", "list-br"], capture_output=True, text=True, check=True,
                              env={**os.environ, "OVS_RUNDIR": f"/run/hosts/{name}"}).stdout
        found += [f"{name}: {said}"] if said else []
    return found


def main():
    """Do it; the experiment's exit status, 3 if something is left of it."""
    build()
    inventory = {
        "link_mbps": MBPS, "shape": True, "senders": list("abcd"), "receivers": ["e"], "folder": "/run/racks",
        "reach": ["nsenter", "--net=/run/netns/{address}", "env", "OVS_RUNDIR=/run/hosts/{address}"],
        "hosts": {name: {"address": name, "uplink": "eth1"} for name in HOSTS},
        "switch": {"address": "sw", "device": "p-e", "handle": LEAF_HANDLE},
        "controller": CONTROLLER, "database": "/run/hosts/{address}/db.sock",
    }
    Path("racks.yaml").write_text(yaml.safe_dump(inventory))
    done = subprocess.run([sys.executable, "-m", "sdngcc.main", "testbed", "run", *sys.argv[1:], "--inventory",
                           "racks.yaml", "--out", "results", "--json"], check=False)
    if Path("results/raw/console.log").exists() and done.returncode > 1:
        print(Path("results/raw/console.log").read_text())
    remains = left()
    print("\n".join(f"left: {one}" for one in remains))
    sys.exit(3 if remains else done.returncode)


if __name__ == "__main__":
    main()
