# SPDX-License-Identifier: Apache-2.0
"""An Open vSwitch inside the virtual machine: ovsdb-server and ovs-vswitchd, with one network namespace's datapath."""

from __future__ import annotations

from typing import Dict, Sequence

from sdngcc.testbed.virtual.processes import run, sleep_until

FOLDER = "/run/openvswitch"
# ovs-vswitchd 3.1 counts CPUs at most every 10 s of uptime: started before, it finds none and loses every upcall.
VSWITCHD_UPTIME_S = 11.0


class OpenVSwitch:
    """One Open vSwitch.

    files are its programs and its schema by name (Artifacts.ovs). within is what goes before a command so that it runs
    in the namespace; ``/run/openvswitch`` must be this Open vSwitch's own there. preload is what ovs-vswitchd has
    loaded before its libraries, if anything.
    """

    def __init__(self, files: Dict[str, str], within: Sequence[str] = (), preload: str = "") -> None:
        self.files = files
        self.within = tuple(within)
        self.preload = preload

    def start(self) -> None:
        """Start both processes with an empty database; RuntimeError when one does not start."""
        self._run("ovsdb-tool", "create", f"{FOLDER}/conf.db", self.files["schema"])
        self._run("ovsdb-server", f"{FOLDER}/conf.db", f"--remote=punix:{FOLDER}/db.sock", "--pidfile", "--detach",
                  f"--log-file={FOLDER}/ovsdb-server.log")
        self.vsctl("--no-wait", "init")
        sleep_until(VSWITCHD_UPTIME_S)
        loaded = ["env", f"LD_PRELOAD={self.preload}"] if self.preload else []
        run([*self.within, *loaded, self.files["ovs-vswitchd"], "--pidfile", "--detach",
             f"--log-file={FOLDER}/ovs-vswitchd.log"])

    def vsctl(self, *words: str) -> str:
        """Run ovs-vsctl and return its output; RuntimeError when it fails."""
        return self._run("ovs-vsctl", *words)

    def ofctl(self, *words: str) -> str:
        """Run ovs-ofctl and return its output; RuntimeError when it fails."""
        return self._run("ovs-ofctl", *words)

    def appctl(self, *words: str) -> str:
        """Let ovs-vswitchd do a command and return what it says; RuntimeError when it fails."""
        return self._run("ovs-appctl", *words)

    def _run(self, program: str, *words: str) -> str:
        return run([*self.within, self.files[program], *words])
