# SPDX-License-Identifier: Apache-2.0
"""Inside the virtual machine: five hosts as namespaces, each with an Open vSwitch, a switch, and an experiment on them.

    a, b, c, d: senders    e: receivers    switch, a namespace with a bridge of Linux, RED towards e

A namespace holds the cables between them. What has left a host there is no more its sockets', as behind a real card:
TCP would wait for what is in the switch's queue, too.

Arguments: "reach", or the path of sshd, by which all of them are reached then; "whole", or "given-up" if the run is to
be ended by Ctrl-C in its third second; and those of ``sdngcc testbed run``, to which the inventory is added.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml

from sdngcc.testbed.inventory import SWITCH
from sdngcc.testbed.virtual.openvswitch import VSWITCHD_UPTIME_S
from sdngcc.testbed.virtual.processes import sleep_until
from sdngcc.topologies.shaping import LEAF_HANDLE, Shape, tc_commands

# A rate that one processor carries, and a buffer that such a port empties within half a period of the controller.
MBPS, BUFFER_PACKETS = 100, 20
CONTROLLER = "172.31.255.254"
HOSTS = "abcde"
# Their namespace, and how long a packet is on its way in one of them.
CABLES, CABLE_US = "cables", 25
# Of hosts and switch, on a network apart.
ADDRESSES = {name: f"172.31.0.{number}" for number, name in enumerate([*HOSTS, SWITCH], 1)}
# Root's home inside, the port of all sshds, and the file of the key that they let in.
HOME, SSH_PORT, IDENTITY = Path("/run/root"), 2222, Path("/run/root/mine")


def run(*argv, within="", **environment):
    """Run a program, in a namespace if one is named."""
    words = ["nsenter", f"--net=/run/netns/{within}"] if within else []
    subprocess.run([*words, *argv], check=True, env={**os.environ, **environment}, stderr=subprocess.DEVNULL)


def lay_cable(name):
    """Connect a host's device eth1 with the switch's p-NAME."""
    cable = f"cable-{name}"
    run("ip", "link", "add", "name", cable, "type", "bridge", "forward_delay", "0", within=CABLES)
    run("ip", "link", "set", cable, "up", within=CABLES)
    for end, device, machine in ((f"h-{name}", "eth1", name), (f"s-{name}", f"p-{name}", SWITCH)):
        run("ip", "link", "add", device, "netns", machine, "type", "veth", "peer", "name", end, "netns", CABLES)
        run("ip", "link", "set", end, "master", cable, "up", within=CABLES)
        # A packet that waits here is no socket's.
        run("tc", "qdisc", "replace", "dev", end, "root", "netem", "delay", f"{CABLE_US}us", "limit", "100000",
            within=CABLES)
    run("ip", "link", "set", f"p-{name}", "master", "fabric0", "up", within=SWITCH)


def build():
    """Make hosts and switch."""
    for name in [*HOSTS, SWITCH, CABLES]:
        run("ip", "netns", "add", name)
    run("ip", "link", "add", "name", "fabric0", "type", "bridge", "forward_delay", "0", within=SWITCH)
    run("ip", "link", "set", "fabric0", "up", within=SWITCH)
    # The network by which they reach the controller, and sshd's clients reach them.
    run("ip", "link", "add", "name", "mgmt", "type", "bridge", "forward_delay", "0")
    run("ip", "addr", "add", f"{CONTROLLER}/16", "dev", "mgmt")
    run("ip", "link", "set", "mgmt", "up")
    for name, address in ADDRESSES.items():
        run("ip", "link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"m-{name}")
        run("ip", "link", "set", f"m-{name}", "master", "mgmt", "up")
        run("ip", "addr", "add", f"{address}/16", "dev", "eth0", within=name)
        run("ip", "link", "set", "eth0", "up", within=name)
    schema = Path(subprocess.check_output(["which", "ovs-vswitchd"], text=True).strip()).with_name("vswitch.ovsschema")
    sleep_until(VSWITCHD_UPTIME_S)
    for name in HOSTS:
        lay_cable(name)
        folder = f"/run/hosts/{name}"
        os.makedirs(folder)
        mine = {"OVS_RUNDIR": folder, "OVS_LOGDIR": folder}
        run("ovsdb-tool", "create", f"{folder}/conf.db", str(schema))
        run("ovsdb-server", f"{folder}/conf.db", f"--remote=punix:{folder}/db.sock", "--pidfile", "--detach",
            "--log-file", within=name, **mine)
        run("ovs-vsctl", "--no-wait", "init", **mine)
        run("ovs-vswitchd", "--pidfile", "--detach", "--log-file", within=name, **mine)
    shape = Shape("marking", rate_mbps=MBPS, buffer_packets=BUFFER_PACKETS, mark_percent=20)
    for command in tc_commands("p-e", shape):
        run("tc", *command, within=SWITCH)


def covered(path, text):
    """Let a file of the machine, which is the computer's, hold something else inside."""
    copy = Path("/run") / Path(path).name
    copy.write_text(text)
    run("mount", "--bind", str(copy), path)


def serve(sshd):
    """Start sshd on hosts and switch, with keys of its own; root's home with its key and known hosts is made, too."""
    covered("/etc/passwd", f"root:x:0:0::{HOME}:/bin/sh\nsshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n")
    covered("/etc/shadow", "root:*:1:0:99999:7:::\nsshd:*:1:0:99999:7:::\n")
    for folder in (HOME, HOME / ".ssh", Path("/run/sshd")):
        folder.mkdir(mode=0o755)
    theirs = HOME / "theirs"
    for key in (IDENTITY, theirs):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
    IDENTITY.with_suffix(".pub").rename(HOME / ".ssh/authorized_keys")
    public = theirs.with_suffix(".pub").read_text()
    (HOME / ".ssh/known_hosts").write_text("".join(f"[{address}]:{SSH_PORT} {public}"
                                                   for address in ADDRESSES.values()))
    for name, address in ADDRESSES.items():
        config = HOME / f"{name}.config"
        config.write_text(f"ListenAddress {address}:{SSH_PORT}\nHostKey {theirs}\nPidFile none\n"
                          # Fewer than a host's programs: others need connections of their own.
                          "AuthenticationMethods publickey\nMaxSessions 2\n"
                          f"SetEnv PATH={os.environ['PATH']} OVS_RUNDIR=/run/hosts/{name}\n")
        run(sshd, "-f", str(config), within=name)


def still_there(program):
    """Return the command lines of all processes of a program."""
    return subprocess.run(["pgrep", "-a", "-x", program], capture_output=True, text=True,
                          check=False).stdout.splitlines()


def left():
    """Return what is still on hosts, or here, of what the run made."""
    found = [name for name in os.listdir("/run/netns") if name.startswith("sdngcc-")]
    found += [str(path) for pattern in ("sdngcc*", "racks*") for path in Path("/run").glob(pattern)]
    found += [line for program in ("ssh", "generator") for line in still_there(program)]
    for name in HOSTS:
        said = subprocess.run(["ovs-vsctl", "list-br"], capture_output=True, text=True, check=True,
                              env={**os.environ, "OVS_RUNDIR": f"/run/hosts/{name}"}).stdout
        found += [f"{name}: {said}"] if said else []
    return found


def main():
    """Do it; the experiment's exit status, 3 if something is left of it."""
    by, end, *words = sys.argv[1:]
    build()
    inventory = {
        "link_mbps": MBPS, "shape": True, "senders": list("abcd"), "receivers": ["e"], "folder": "/run/racks",
        "hosts": {name: {"address": ADDRESSES[name], "uplink": "eth1"} for name in HOSTS},
        "switch": {"address": ADDRESSES[SWITCH], "device": "p-e", "handle": LEAF_HANDLE},
        "controller": CONTROLLER, "database": "/run/hosts/{name}/db.sock",
    }
    if by == "reach":
        inventory["reach"] = ["nsenter", "--net=/run/netns/{name}", "env", "OVS_RUNDIR=/run/hosts/{name}"]
    else:
        serve(by)
        inventory["ssh"] = {"port": SSH_PORT, "identity": str(IDENTITY)}
    Path("racks.yaml").write_text(yaml.safe_dump(inventory))
    console = Path("results/raw/console.log")
    process = subprocess.Popen([sys.executable, "-m", "sdngcc.main", "testbed", "run", *words, "--set",
                                f"buffer_packets={BUFFER_PACKETS}", "--inventory", "racks.yaml", "--out", "results",
                                "--json"])
    while end == "given-up" and process.poll() is None:
        if console.exists() and " running 2/" in console.read_text():
            print(f"sending: {len(still_there('generator'))}")
            process.send_signal(signal.SIGINT)
            break
        time.sleep(0.1)
    status = process.wait()
    if console.exists() and status > 1:
        print(console.read_text())
    remains = left()
    print("\n".join(f"left: {one}" for one in remains))
    sys.exit(3 if remains else status)


if __name__ == "__main__":
    main()
