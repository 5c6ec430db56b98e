# SPDX-License-Identifier: Apache-2.0
"""A compute node without devices: a real ovsdb-server, a real ovs-vswitchd, and Neutron's own agent beside them."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time

from sdngcc.testbed.programs import data

TESTS = pathlib.Path(__file__).resolve().parent
SCHEMA = data("openvswitch/vswitch.ovsschema")
INSTALLED = SCHEMA.exists() and shutil.which("ovs-vswitchd") is not None
PATIENCE_S = 240.0
QUIET = ["-vconsole:off", "--no-chdir"]


def wait_for(condition, what):
    """Return what a condition gives once it is true; fail with what() when patience ends."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


def free_port():
    """Return a port of loopback that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Database:
    """An ovsdb-server with one database."""

    def __init__(self, folder, name, schema):
        self.remote = f"unix:{folder}/{name}.sock"
        subprocess.run(["ovsdb-tool", "create", folder / f"{name}.db", schema], check=True)
        self.process = subprocess.Popen(
            ["ovsdb-server", f"--remote=p{self.remote}", f"--unixctl={folder}/{name}.ctl", *QUIET,
             f"--log-file={folder}/{name}.log", folder / f"{name}.db"])
        wait_for(lambda: (folder / f"{name}.sock").exists(), lambda: f"no ovsdb-server for {name}")

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)


class Switch:
    """Open vSwitch as agents find it on a compute node, with br-int and, for the OVS agent, br-phys."""

    def __init__(self, folder):
        self.folder = folder
        # By this name ovs-vsctl, which agents call, finds it in its run-time folder.
        self.database = Database(folder, "db", SCHEMA)
        self.remote = self.database.remote
        self.vsctl("--no-wait", "init")
        self.process = subprocess.Popen(
            [shutil.which("ovs-vswitchd"), "--enable-dummy=override", "--disable-system", f"--unixctl={folder}/vs.ctl",
             f"--log-file={folder}/vs.log", *QUIET, self.remote],
            env={"OVS_RUNDIR": str(folder), "PATH": "/usr/bin:/bin"})
        self.add_bridge("br-int")

    def vsctl(self, *words):
        command = ["ovs-vsctl", f"--db={self.remote}", *[str(word) for word in words]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def add_bridge(self, name):
        self.vsctl("add-br", name, "--", "set", "bridge", name, "datapath_type=netdev", "fail_mode=secure")

    def plug(self, name, port_id, mac, bridge="br-int", also=()):
        """Plug a VM in as Nova does, with what else is to stand in its interface from the beginning."""
        self.vsctl("add-port", bridge, name, "--", "set", "Interface", name, f"external_ids:iface-id={port_id}",
                   f'external_ids:attached-mac="{mac}"', "external_ids:iface-status=active", *also)

    def interfaces(self):
        """Return all interfaces by name, maps as dicts."""
        text = self.vsctl("--format=json", "--columns=name,type,external_ids,other_config,options,"
                          "ingress_policing_rate", "list", "Interface")
        table = json.loads(text)
        return {row[0]: dict(zip(table["headings"], map(plain, row))) for row in table["data"]}

    def shim(self, name):
        """Return the shim's keys of an interface by their names without prefix; None: there is no such interface."""
        row = self.interfaces().get(name)
        if row is None:
            return None
        return {key[len("shim-"):]: value for key, value in row["external_ids"].items() if key.startswith("shim-")}

    def qos_types(self):
        """Return the types of all QoS rows."""
        return sorted(self.vsctl("--bare", "--columns=type", "list", "QoS").split())

    def flows(self, bridge):
        command = ["ovs-ofctl", "-OOpenFlow13", "dump-flows", f"unix:{self.folder}/{bridge}.mgmt"]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.database.stop()


class Watch:
    """What stands in external_ids of an interface, every time that it changes."""

    def __init__(self, switch, name):
        self.process = subprocess.Popen(
            ["ovsdb-client", "monitor", switch.remote, "Open_vSwitch", "Interface", "name,external_ids",
             "--format=json", "--no-headings"], stdout=subprocess.PIPE, text=True)
        self.name, self.seen = name, []
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        wait_for(lambda: self.seen, lambda: f"{name} is not there")

    def _read(self):
        for line in self.process.stdout:
            for row in json.loads(line)["data"]:
                if row[1] in ("initial", "new", "insert") and row[2] == self.name:
                    self.seen.append(dict(row[3][1]))

    def stop(self):
        self.process.terminate()
        self.thread.join()
        return self.seen


def plain(value):
    """Return OVSDB's JSON for a map as a dict, for a set as a list, and other values as they are."""
    if isinstance(value, list) and value[0] in ("map", "set"):
        return dict(value[1]) if value[0] == "map" else value[1]
    return value


class Process:
    """A process of Neutron's environment, some of which are commanded by lines of JSON; ended by SIGKILL."""

    def __init__(self, folder, name, python, extensions, *argv):
        self.log = folder / f"{name}.log"
        self.output = folder / f"{name}.err"
        with open(self.output, "ab") as output:
            self.process = subprocess.Popen(
                [python, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True, cwd=folder,
                env={**os.environ, "PYTHONPATH": str(extensions), "HOME": str(folder), "OVS_RUNDIR": str(folder)})

    def call(self, method, **values):
        """Command the process and return its answer."""
        self.process.stdin.write(json.dumps([method, values]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.last_words()
        return json.loads(line)

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def last_words(self):
        """Return the ends of what the process wrote."""
        return "\n".join(path.read_text()[-4000:] for path in (self.log, self.output) if path.exists())


def write_settings(path, settings):
    """Write an oslo.config file: options by group."""
    path.write_text("\n".join(line for group, options in settings.items() for line in (
        f"[{group}]", *(f"{name} = {value}" for name, value in options.items()))) + "\n")
