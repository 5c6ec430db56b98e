# SPDX-License-Identifier: Apache-2.0
"""The shim in ovs-vswitchd's own datapath, asked and told what ShimClient asks and tells the kernel's.

It has no netlink: settings and ports go by the database, which ovs-vswitchd has obeyed when ovs-vsctl returns, and
``ovs-appctl shim/show --json`` tells what there is.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from types import SimpleNamespace
from typing import Any, Dict, List, Mapping, Optional, Sequence

from sdngcc.shim.netlink import Limiter, Port, ShimRefused

# Keys of Open_vSwitch:other_config in other units than the kernel's, by the kernel's name: the key, and the divisor.
SCALED = {"period": ("shim-period-us", 1000), "horizon": ("shim-horizon-us", 1000),
          "inactive": ("shim-inactive-ms", 1000000), "peer_idle": ("shim-peer-idle-ms", 1000000)}
# Where keys of messages are written.
KEY_FOLDER = "/run"
TABLES = Dict[str, List[Dict[str, str]]]


def _run(*argv: str) -> str:
    """Run a program and return its output; RuntimeError when it fails."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{argv}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def _text(value: Any) -> str:
    """Return a value as the database has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class UserspaceClient:
    """What tests use of ShimClient, with the same names, units and errors."""

    def settings_set(self, *, of: Optional[str] = None, knobs: Optional[Mapping[str, int]] = None,
                     **values: Any) -> None:
        """Change the settings named; ShimRefused when one is not in force then."""
        keys: Dict[str, str] = {}
        files = []
        for name, value in values.items():
            if value is None:
                continue
            if name in ("key", "key_other"):
                path, key = os.path.join(KEY_FOLDER, name), f"shim-{name.replace('_', '-')}-file"
                files.append(key)
                if not any(value):
                    continue  # the database has no key of zeros
                with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
                    file.write(value.hex() + "\n")
                keys[key] = path
            elif name in SCALED:
                key, unit = SCALED[name]
                keys[key] = str(value // unit)
            else:
                keys[f"shim-{name.replace('_', '-')}"] = _text(value)
        for name, number in (knobs or {}).items():
            keys["-".join(["shim-knob", *([of] if of else []), name])] = str(number)
        # The same path with another key in it is no change that the database shows.
        for key in files:
            _run("ovs-vsctl", "remove", "Open_vSwitch", ".", "other_config", key)
        if keys:
            _run("ovs-vsctl", "set", "Open_vSwitch", ".",
                 *(f"other_config:{key}={value}" for key, value in keys.items()))
        self._complain("Open_vSwitch")

    def settings_get(self) -> SimpleNamespace:
        """Return some of the settings in force: law, key_set, key_other_set."""
        shown = {row["setting"]: row["value"] for row in self._tables()["Settings in force"]}
        return SimpleNamespace(law=shown["law"], key_set=shown["key"] == "set",
                               key_other_set=shown["key-other"] == "set")

    def port_set(self, device: str, *, addresses: Optional[Sequence[str]] = None, **values: Any) -> None:
        """Create or change a port; ShimRefused when that is not in force then."""
        keys = {}
        for name, value in values.items():
            if value is not None:
                bits = 8 if name in ("min_rate", "max_rate", "capacity") else 0
                keys[f"shim-{name.replace('_', '-')}"] = str(value * bits) if bits else _text(value)
        if addresses is not None:
            keys["shim-addresses"] = " ".join(addresses)
        _run("ovs-vsctl", "set", "Interface", device,
             *(f"other_config:{key}=\"{value}\"" for key, value in keys.items()))
        self._complain(device)

    def port_del(self, device: str) -> None:
        """Take a port's role and state back."""
        _run("ovs-vsctl", "clear", "Interface", device, "other_config")

    def ports(self) -> List[Port]:
        """Return the ports that have a role, with their counters."""
        tables = self._tables()
        stats: Dict[str, Dict[str, int]] = {}
        for row in tables["Counters"]:
            stats.setdefault(row["port"], {})[row["counter"][len("shim_"):]] = int(row["value"])
        return [Port(ifindex=socket.if_nametoindex(row["port"]), name=row["port"], role=row["role"],
                     weight=int(row["weight"]), min_rate=int(row["min"]) // 8, max_rate=int(row["max"]) // 8,
                     capacity=int(row["capacity"]) // 8, stats=stats[row["port"]], qdisc=row["qdisc"])
                for row in tables["Ports (rates in bit/s)"]]

    def port_get(self, device: str) -> Port:
        """Return a port; ShimRefused if it has no role."""
        for port in self.ports():
            if port.name == device:
                return port
        raise ShimRefused(2, f"port: {device} has no role")

    def limiters(self) -> List[Limiter]:
        """Return the limiters of all pairs of a VM and an uplink that it has sent to."""
        ports = {port.name: port for port in self.ports()}
        found = []
        for row in self._tables()["Limiters (rates in bit/s)"]:
            vm = ports[row["vm"]]
            found.append(Limiter(
                vm=vm.ifindex, uplink=socket.if_nametoindex(row["uplink"]), rate=int(row["rate"]) // 8,
                share=int(row["share"]) // 8, sent_rate=int(row["sent"]) // 8, tx_bytes=int(row["tx_bytes"]),
                tx_packets=int(row["tx_packets"]), drops=int(row["drops"]), active=row["state"] != "inactive",
                congested=row["state"] == "congested", time=0, weight=vm.weight or 1, min_rate=vm.min_rate or 0,
                max_rate=vm.max_rate or 0, messages=vm.stats["messages"], message_marks=vm.stats["message_marks"],
                refused=sum(count for name, count in vm.stats.items() if name.startswith("refused_"))))
        return found

    @staticmethod
    def _tables() -> TABLES:
        """Return the tables of shim/show by caption: of each row its cells by column."""
        tables: TABLES = {}
        for line in _run("ovs-appctl", "shim/show", "--json").splitlines():
            table = json.loads(line)
            tables[table["caption"]] = [dict(zip(table["headings"], row)) for row in table["data"]]
        return tables

    def _complain(self, name: str) -> None:
        """Raise ShimRefused if there is something to complain about what stands under a name."""
        for row in self._tables().get("Not in force", []):
            if row["name"] == name:
                raise ShimRefused(22, row["complaints"])
