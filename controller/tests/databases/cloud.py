# SPDX-License-Identifier: Apache-2.0
"""OVN's own databases and ovn-northd, and a reader of the cloud with what it tells."""

import collections
import shutil
import subprocess
import time

from sdngcc.controller.child import Child
from sdngcc.controller.databases import neutron_orders, ovn, ports
from sdngcc.controller.databases.cloud import CloudDatabase, readings
from sdngcc.controller.network.directory import Directory
from sdngcc.controller.settings import Settings
from sdngcc.testbed.programs import data

from ..processes import PATIENCE_S, wait_for

SCHEMAS = data("ovn")
OVN = SCHEMAS.joinpath("ovn-sb.ovsschema").exists() and all(
    map(shutil.which, ("ovn-northd", "ovn-nbctl", "ovn-sbctl", "ovsdb-server"))
)
QUIET = ["-vconsole:off", "--no-chdir"]


class Server:
    """An ovsdb-server of its own; ``words`` are more of its command line."""

    def __init__(self, folder, name, schema, *words):
        self.remote = f"unix:{folder}/{name}.sock"
        self._socket = folder / f"{name}.sock"
        self._command = ["ovsdb-server", f"--remote=p{self.remote}", f"--unixctl={folder}/{name}.ctl", *QUIET,
                         f"--log-file={folder}/{name}.log", *map(str, words), folder / f"{name}.db"]  # fmt: skip
        if schema is not None:
            subprocess.run(["ovsdb-tool", "create", folder / f"{name}.db", schema], check=True)
        self.start()

    def start(self):
        self.process = subprocess.Popen(self._command)
        wait_for(self._socket.exists, lambda: f"{self.remote} does not start")

    def stop(self):
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self._socket.unlink(missing_ok=True)


class Central:
    """Northbound and Southbound database, and the ovn-northd between them."""

    def __init__(self, folder, *words):
        self.north = Server(folder, "nb", SCHEMAS / "ovn-nb.ovsschema")
        self.south = Server(folder, "sb", SCHEMAS / "ovn-sb.ovsschema", *words)
        self._northd = subprocess.Popen(
            ["ovn-northd", f"--ovnnb-db={self.north.remote}", f"--ovnsb-db={self.south.remote}", *QUIET,
             f"--unixctl={folder}/northd.ctl", f"--log-file={folder}/northd.log"])  # fmt: skip

    def nb(self, *words):
        """Change the Northbound database, and wait until ovn-northd has followed."""
        command = ["ovn-nbctl", f"--db={self.north.remote}", "--wait=sb", f"--timeout={PATIENCE_S:.0f}", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def sb(self, *words):
        command = ["ovn-sbctl", f"--db={self.south.remote}", f"--timeout={PATIENCE_S:.0f}", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def network(self, name, *words, shown="blue"):
        """Make a logical switch as Neutron does."""
        self.nb("ls-add", f"neutron-{name}", "--", "set", "Logical_Switch", f"neutron-{name}",
                f"external_ids:neutron\\:network_name={shown}", *words)  # fmt: skip

    def port(self, network, port_id, addresses, project="p1", name="web"):
        """Make a logical port as Neutron does."""
        given = {"neutron:port_name": name, "neutron:project_id": project, "neutron:device_id": f"server-{name}",
                 "neutron:network_name": f"neutron-{network}", "neutron:revision_number": "3"}  # fmt: skip
        ids = [f"external_ids:{key.replace(':', chr(92) + ':')}={value!r}".replace("'", '"') for key, value in
               given.items() if value]  # fmt: skip
        self.nb("lsp-add", f"neutron-{network}", port_id, "--", "lsp-set-addresses", port_id, addresses,
                "--", "set", "Logical_Switch_Port", port_id, *ids)  # fmt: skip

    def key(self, network):
        """Return a network's tunnel key."""
        return int(self.sb("--bare", "--columns=tunnel_key", "find", "Datapath_Binding",
                           f"external_ids:name=neutron-{network}"))  # fmt: skip

    def stop(self):
        self._northd.kill()
        self._northd.wait(PATIENCE_S)
        self.north.stop()
        self.south.stop()


class Followed:
    """A reader's real process, whose lines are taken while something is waited for."""

    def __init__(self, directory=None, orders=None, **settings):
        """``orders`` are values of the reader's orders in place of those that settings mean."""
        self.directory = Directory() if directory is None else directory
        self.counters = collections.Counter()
        self.changes = 0
        self.said = collections.Counter()
        (self.reading,) = readings(Settings(notify=False, **settings))
        if orders is not None:
            kind = (ovn if self.reading.source == "ovn" else neutron_orders).Orders
            given = kind.load(self.reading.orders)._replace(**orders)
            self.reading = self.reading._replace(orders=given.dump())
        self.database = CloudDatabase(
            self.reading, self.directory, self.counters, time.monotonic_ns, lambda: None
        )
        self.start()

    def start(self):
        self._reader = Child(self.reading.module, self.reading.orders, ports.LINE_MAX_BYTES, {})

    def until(self, condition):
        """Take what the reader says until a condition holds."""

        def holds():
            lines = self._reader.lines(0.05)
            assert lines is not None, "the reader ended"
            for line in lines:
                self.said[type(ports.parse(line)).__name__] += 1
                for gone in self.database.take(line, time.monotonic_ns()):
                    self.database.drop(gone)
            return condition()

        wait_for(holds, lambda: f"{self.database.health} {self.directory._ports} {self.counters}")

    def until_port(self, port_id, **expected):
        """Take what the reader says until a port is known so; return it."""

        def known():
            port = self.directory.find(port_id)
            return port is not None and port._asdict() == {**port._asdict(), **expected}

        self.until(known)
        return self.directory.find(port_id)

    def until_whole(self):
        """Take what the reader says until it has told all."""
        self.until(lambda: self.said["Whole"])

    def kill(self):
        self._reader.close()

    def close(self):
        self._reader.close()
