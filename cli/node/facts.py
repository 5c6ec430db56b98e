# SPDX-License-Identifier: Apache-2.0
"""What there is on a compute node: kernels, modules, Open vSwitch, its database, devices, the key."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass, field, replace
from typing import Any, Dict, List, Mapping, Optional, Tuple

from sdngcc.node.host import Host, HostError, as_list
from sdngcc.node.queues import Device, parse

# Modules with the shim: the one beside the kernel's own openvswitch.ko, and the patched openvswitch.ko.
BESIDE, PATCHED = "sdngcc", "openvswitch"
# Where DKMS and administrators put modules that go before the kernel's own.
_OVERRIDES = ("updates", "extra")
# Debian's package of ovs-vswitchd, and what marks one with this project's series.
PACKAGE, OURS = "openvswitch-switch", "sdngcc"
# Flows of a controller that forwards have cookies that begin so.
COOKIE = "cookie=0x5347"
# The link to the bus of a device on hardware.
_BUS = "/sys/class/net/{}/device"
# A key: 128 bits.
_KEY = re.compile(r"[0-9a-fA-F]{32}")
# What an Interface's keys are called.
PREFIX = "shim-"


@dataclass(frozen=True)
class Kernel:
    """An installed kernel."""

    release: str
    """As of `uname -r`."""
    module: str
    """File of a module with the shim, empty if there is none."""


@dataclass(frozen=True)
class Vswitchd:
    """The ovs-vswitchd of this machine."""

    version: str
    """Of the one that runs, empty if none does."""
    has_shim: bool
    """Whether the one that runs has this project's series."""
    package: str = ""
    """Installed version of Debian's package, empty without one."""
    candidate: str = ""
    """The version that apt would install next."""
    replaced: bool = False
    """Whether the program's file is another one than the one that runs."""


@dataclass(frozen=True)
class Interface:
    """An Interface of Open vSwitch."""

    name: str
    port: str
    bridge: str
    type: str
    iface_id: str
    """The cloud's id of the VM's port, empty if none."""
    role: str
    """What ``shim-role`` says, empty if it says nothing."""
    is_physical: bool
    """Whether it is a device on a hardware bus."""
    is_tap: bool
    error: str
    """``shim-error`` of its status."""
    unfit: bool
    """Whether the shim says that its queuing discipline does not obey departure times."""

    @property
    def effective_role(self) -> str:
        """Return the role that it has: by shim-role, or what ovs-vswitchd takes it for."""
        if self.role:
            return self.role
        if self.iface_id:
            return "vm"
        tunnel = self.type not in ("", "system", "internal", "patch", "tap", "dpdk", "dpdkvhostuser",
                                   "dpdkvhostuserclient")
        return "uplink" if tunnel or (self.is_physical and self.type in ("", "system")) else "none"


@dataclass(frozen=True)
class Controller:
    """A controller of a bridge."""

    bridge: str
    target: str
    is_connected: bool
    error: str
    forwards: bool
    """Whether the bridge has flows of a controller of this project."""


@dataclass(frozen=True)
class Key:
    """The file with the key that signs what shims and controllers say."""

    file: str
    fault: str
    """Why it cannot be used, empty if it can."""


@dataclass(frozen=True)
class Facts:
    """All that there is on a node."""

    running: str
    """Release of the kernel that runs."""
    kernels: Tuple[Kernel, ...]
    """Installed kernels, the oldest first."""
    module: str
    """The module with the shim that is loaded, empty if none is."""
    vswitchd: Vswitchd
    user_space: bool
    """Whether all bridges forward in user space, where no module is needed."""
    interfaces: Tuple[Interface, ...] = ()
    devices: Mapping[str, Device] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    """Keys ``shim-*`` of Open_vSwitch."""
    error: str = ""
    """What ovs-vswitchd says of them: ``shim-error``."""
    alarm: str = ""
    """What the packages' own check says after a boot: ``external_ids:sdngcc-error``."""
    law: str = ""
    """The law that the datapath has, empty if it tells none."""
    key: Optional[Key] = None
    """None if no key is named."""
    controllers: Tuple[Controller, ...] = ()
    unit: str = ""
    """State of sdngcc-node.service as systemd has it: enabled, failed or empty if there is none."""
    missing: Tuple[str, ...] = ()
    """What could not be asked, and why."""


def version_key(release: str) -> List[Tuple[int, int, str]]:
    """Return what versions are ordered by: numbers by value, and a `~` before everything."""
    parts = re.findall(r"\d+|[^\d]+", release)
    return [(1, int(part), "") if part.isdigit() else (-1 if part.startswith("~") else 0, 0, part) for part in parts]


def module_of(host: Host, release: str) -> str:
    """Return the file of the module with the shim that a kernel would load, empty if there is none.

    A patched openvswitch.ko is found by its place, for the kernel's own stands elsewhere.
    """
    base = f"/lib/modules/{release}"
    for place in (*_OVERRIDES, "kernel", "."):
        for name in (BESIDE, PATCHED):
            if name == PATCHED and place not in _OVERRIDES:
                continue
            pattern = f"{name}.ko*" if place == "." else f"**/{name}.ko*"
            found = sorted(host.path(f"{base}/{place}").glob(pattern))
            if found:
                return f"/{found[0].relative_to(host.path('/'))}"
    return ""


def read_kernels(host: Host) -> Tuple[Kernel, ...]:
    """Return the installed kernels: those that can boot, or where none is in /boot those with modules."""
    releases = [name.removeprefix("vmlinuz-") for name in host.names("/boot", "vmlinuz-*")]
    releases = [one for one in releases if host.exists(f"/lib/modules/{one}")] or host.names("/lib/modules")
    return tuple(Kernel(one, module_of(host, one)) for one in sorted(releases, key=version_key))


def read_module(host: Host) -> str:
    """Return which module with the shim is loaded, empty if none is."""
    from sdngcc.shim.netlink import ShimClient, ShimError

    if host.exists(f"/sys/module/{BESIDE}"):
        return BESIDE
    try:
        with ShimClient():
            return PATCHED
    except (ShimError, OSError):
        return ""


def _candidate(text: str) -> str:
    found = re.search(r"^\s*Candidate:\s*(\S+)", text, re.MULTILINE)
    return found.group(1) if found and found.group(1) != "(none)" else ""


def read_vswitchd(host: Host) -> Vswitchd:
    """Return what ovs-vswitchd runs and what is installed."""
    running = host.output(["ovs-appctl", "version"])
    known = host.output(["ovs-appctl", "list-commands"]) or ""
    asked = host.output(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", PACKAGE]) or ""
    status, _, package = asked.partition(" ")
    package = package if status == "installed" else ""
    replaced = False
    pid = (host.read("/run/openvswitch/ovs-vswitchd.pid") or "").strip()
    if running and pid.isdigit():
        try:
            replaced = os.readlink(host.path(f"/proc/{pid}/exe")).endswith(" (deleted)")
        except OSError:
            pass
    version = running.splitlines()[0].rpartition(" ")[2] if running else ""
    return Vswitchd(version, "shim/show" in known, package,
                    _candidate(host.output(["apt-cache", "policy", PACKAGE]) or "") if package else "", replaced)


def read_devices(host: Host) -> Dict[str, Device]:
    """Return the network devices of this machine by name."""
    found = {}
    for name in host.names("/sys/class/net"):
        base = f"/sys/class/net/{name}"
        if not host.exists(f"{base}/queues"):
            continue
        lower = tuple(one.removeprefix("lower_") for one in host.names(base, "lower_*"))
        listed = host.output(["tc", "-j", "qdisc", "show", "dev", name]) or "[]"
        try:
            qdiscs = parse(json.loads(listed))
        except (ValueError, KeyError, TypeError, AttributeError):
            qdiscs = ()
        found[name] = Device(name, lower, max(len(host.names(f"{base}/queues", "tx-*")), 1), qdiscs)
    return found


def read_key(host: Host, file: str) -> Key:
    """Return a key file and what is wrong with it; nothing of the key itself."""
    path = host.path(file)
    try:
        text = path.read_text(encoding="ascii").strip()
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return Key(file, "there is no such file")
    except (OSError, UnicodeDecodeError) as error:
        return Key(file, f"it cannot be read: {getattr(error, 'strerror', None) or 'it holds no text'}")
    if not _KEY.fullmatch(text):
        return Key(file, "it does not hold 32 hexadecimal digits")
    if mode & stat.S_IRWXO:
        return Key(file, f"everybody can read it (mode {mode:o}); allowed: mode 640 or less")
    return Key(file, "")


def _keys(row: Mapping[str, Any], port: Mapping[str, Any]) -> Dict[str, str]:
    """Return the keys shim-* that count for an Interface: its own, then external_ids, then its Port's."""
    merged: Dict[str, str] = {}
    for one in (port["other_config"], row["external_ids"], row["other_config"]):
        merged.update({key: value for key, value in one.items() if key.startswith(PREFIX)})
    return merged


def _interfaces(host: Host, bridges: List[Dict[str, Any]]) -> Tuple[Interface, ...]:
    ports = {one["_uuid"]: one for one in host.table("Port", "_uuid", "name", "interfaces", "other_config", "qos")}
    rows = {one["_uuid"]: one for one in host.table("Interface", "_uuid", "name", "type", "other_config",
                                                    "external_ids", "status")}
    found = []
    for bridge in bridges:
        for port in (ports[one] for one in as_list(bridge["ports"]) if one in ports):
            for row in (rows[one] for one in as_list(port["interfaces"]) if one in rows):
                status = row["status"]
                found.append(Interface(
                    row["name"], port["name"], bridge["name"], row["type"], row["external_ids"].get("iface-id", ""),
                    _keys(row, port).get("shim-role", ""), host.exists(_BUS.format(row["name"])),
                    status.get("driver_name") == "tun", status.get("shim-error", ""),
                    status.get("shim_qdisc") == "unfit"))
    return tuple(sorted(found, key=lambda one: (one.bridge, version_key(one.name))))


def _controllers(host: Host, bridges: List[Dict[str, Any]]) -> Tuple[Controller, ...]:
    rows = {one["_uuid"]: one for one in host.table("Controller", "_uuid", "target", "is_connected", "status")}
    found = []
    for bridge in bridges:
        mine = [rows[one] for one in as_list(bridge["controller"]) if one in rows]
        flows = host.output(["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", bridge["name"]]) if mine else None
        found += [Controller(bridge["name"], one["target"], one["is_connected"] is True,
                             one["status"].get("last_error", ""), COOKIE in (flows or "")) for one in mine]
    return tuple(found)


def _law(host: Host) -> str:
    """Return the law that the datapath has in force, empty if it tells none."""
    found = re.search(r"^\|?\s*law\s*\|?\s+(\S+)", host.output(["ovs-appctl", "shim/show"]) or "", re.MULTILINE)
    return found.group(1) if found else ""


def _unit(host: Host) -> str:
    if not host.exists("/etc/systemd/system/sdngcc-node.service") or not host.program("systemctl"):
        return ""
    if (host.output(["systemctl", "is-failed", "sdngcc-node.service"]) or "").strip() == "failed":
        return "failed"
    return (host.output(["systemctl", "is-enabled", "sdngcc-node.service"]) or "disabled").strip()


def read_facts(host: Host, whole: bool = True) -> Facts:
    """Return all that there is on a node; what could not be asked is named in ``missing``.

    whole: without it kernels, modules, packages and controllers are left out, which take longest to ask.
    """
    missing: List[str] = []
    root: Dict[str, Any] = {"other_config": {}, "external_ids": {}, "statistics": {}}
    bridges: List[Dict[str, Any]] = []
    interfaces: Tuple[Interface, ...] = ()
    controllers: Tuple[Controller, ...] = ()
    try:
        root = host.table("Open_vSwitch", "other_config", "external_ids", "statistics")[0]
        bridges = host.table("Bridge", "name", "datapath_type", "ports", "controller", "fail_mode")
        interfaces = _interfaces(host, bridges)
        controllers = _controllers(host, bridges) if whole else ()
    except (HostError, IndexError) as error:
        missing.append(f"Open vSwitch's database: {error}")
    settings = {key: value for key, value in root["other_config"].items() if key.startswith(PREFIX)}
    file = settings.get("shim-key-file")
    facts = Facts(
        running=os.uname().release, kernels=(), module="", vswitchd=Vswitchd("", False), interfaces=interfaces,
        user_space=bool(bridges) and all(one["datapath_type"] == "netdev" for one in bridges),
        devices=read_devices(host), settings=settings, error=root["statistics"].get("shim-error", ""),
        alarm=root["external_ids"].get("sdngcc-error", ""),
        key=read_key(host, file) if file else None, controllers=controllers, missing=tuple(missing))
    return facts if not whole else replace(
        facts, kernels=read_kernels(host), module=read_module(host), vswitchd=read_vswitchd(host), law=_law(host),
        unit=_unit(host))
