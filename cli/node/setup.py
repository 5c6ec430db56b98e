# SPDX-License-Identifier: Apache-2.0
"""Sets a compute node up: steps that each say what they do and why, and how they are taken back.

A plan holds the steps that are still to be done, so that a second set-up does nothing. What a step changes is recorded
before it is changed. No flow, fail mode or controller of a bridge with ports is touched: forwarding stays as it is.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from sdngcc.node import boot
from sdngcc.node.facts import Facts, Interface, read_devices, read_facts, read_key
from sdngcc.node.findings import WITHOUT_KEY, fq_settings
from sdngcc.node.host import Host, HostError, as_list
from sdngcc.node.queues import as_documents, commands, from_documents, restoring, senders
from sdngcc.node.record import FILE, FOLDER, Record, Wanted, read_record, write_record

# The bridge by which a host speaks with its controller: it has no ports, so its controller forwards nothing.
BRIDGE = "br-sdngcc"
# Laws that a controller tells rates of, which asks hosts who talks to whom.
CONTROLLED = ("sdngcc", "maxmin")
DEFAULT_KEY_FILE = "/etc/sdn-gcc/key"
# What a target of a controller or a manager begins with.
TARGETS = ("tcp:", "ssl:", "unix:")


class SetupError(Exception):
    """What was asked for cannot be done; the text says what was wrong, what is allowed and what stays in force."""


@dataclass(frozen=True)
class Step:
    """One change."""

    name: str
    """Of the thing that it changes, as in the record: kind and words with spaces between them."""
    why: str
    argv: Tuple[Tuple[str, ...], ...] = ()
    """Commands that make it."""
    text: str = ""
    """What the file is to hold, if it is one."""
    former: Any = None
    """What is there now."""

    def lines(self) -> List[str]:
        """Return what is typed to do the same by hand."""
        if self.name.startswith("file "):
            return [f"{'write' if self.text else 'rm'} {self.name.partition(' ')[2]}"]
        return [shlex.join(one) for one in self.argv]


def _ovs(*words: str) -> Tuple[str, ...]:
    return ("ovs-vsctl", "--timeout=30", *words)


def _key_step(table: str, row: str, key: str, value: str, now: Optional[str], why: str) -> List[Step]:
    """Return the step that sets a key of other_config, none if it has the value."""
    if now == value:
        return []
    # Values may hold what ovs-vsctl would take for its own: in quotes they do not.
    text = value if value.replace("/", "").replace("-", "").replace(".", "").isalnum() else f'"{value}"'
    return [Step(f"key {table} {row} {key}", why, (_ovs("set", table, row, f"other_config:{key}={text}"),), former=now)]


class _Planner:
    """Makes the steps for what is wanted out of what there is."""

    def __init__(self, host: Host, facts: Facts, wanted: Wanted, law: str) -> None:
        self._host, self._facts, self._wanted, self._law = host, facts, wanted, law
        self._by_name = {one.name: one for one in facts.interfaces}
        self._rows: Dict[str, Dict[str, str]] = {
            row["name"]: row["other_config"] for row in host.table("Interface", "name", "other_config")}

    def plan(self) -> List[Step]:
        """Return all steps that are still to be done."""
        uplinks = self._interfaces(self._wanted.uplinks)
        steps = self._roles(uplinks)
        steps += self._qos(uplinks)
        steps += self._queues()
        if self._wanted.boots:
            steps += self._boots()
        if self._wanted.controller:
            steps += self._controller(self._wanted.controller)
        if self._wanted.manager:
            steps += self._manager(self._wanted.manager)
        # What limits comes last: all that it needs is there then.
        return steps + self._settings()

    def _interfaces(self, names: Sequence[str]) -> List[Interface]:
        """Return the interfaces of names, which may be those of ports (bonds of Open vSwitch)."""
        return [one for name in names for one in self._facts.interfaces if name in (one.name, one.port)]

    def _set(self, device: str, key: str, value: str, why: str) -> List[Step]:
        return _key_step("Interface", device, key, value, self._rows.get(device, {}).get(key), why)

    def _roles(self, uplinks: List[Interface]) -> List[Step]:
        steps: List[Step] = []
        for one in uplinks:
            steps += self._set(one.name, "shim-role", "uplink", f"VMs share what {one.name} can send")
            if self._wanted.capacity is not None:
                steps += self._set(one.name, "shim-capacity", str(self._wanted.capacity),
                                   f"the capacity of {one.name}, bit/s, in place of its link's speed")
        for name in self._wanted.vms:
            steps += self._set(name, "shim-role", "vm", f"{name} leads to a virtual machine")
        return steps

    def _qos(self, uplinks: List[Interface]) -> List[Step]:
        rows = {row["name"]: row["qos"] for row in self._host.table("Port", "name", "qos")}
        kinds = {row["_uuid"]: row["type"] for row in self._host.table("QoS", "_uuid", "type")}
        steps = []
        for port in dict.fromkeys(one.port for one in uplinks):
            now = as_list(rows.get(port, []))
            if now and kinds.get(now[0]) != "linux-noop":
                raise SetupError(
                    f"port {port} has a QoS of type {kinds.get(now[0])}, by which Open vSwitch would replace fq; "
                    f"allowed: none or linux-noop; run `ovs-vsctl clear Port {port} qos` if nobody needs it; it stays "
                    "in force")
            if not now:
                steps.append(Step(
                    f"qos {port}", f"Open vSwitch leaves the queues of {port} alone, one without our series too",
                    (_ovs("set", "Port", port, "qos=@noop", "--", "--id=@noop", "create", "QoS", "type=linux-noop"),),
                    former=None))
        return steps

    def _queues(self) -> List[Step]:
        if self._facts.settings.get("shim-limiter") == "police":
            return []
        return queue_steps(self._facts, self._devices_above())

    def _devices_above(self) -> List[str]:
        return [one.name for name in self._wanted.uplinks for one in self._interfaces([name])] + [
            name for name in self._wanted.uplinks if not self._interfaces([name])]

    def _boots(self) -> List[Step]:
        host = self._host
        names = sorted({name for top in self._devices_above() for name in
                        (top, *(one.name for one in senders(self._facts.devices, top)))})
        program = host.program("sdngcc") or "/usr/bin/sdngcc"
        steps = []
        for file, text, why in (
                (boot.UNIT_FILE, boot.unit_text(program), "fq is put back after a boot and a restart of Open vSwitch"),
                (boot.RULES_FILE, boot.rules_text(names), "and when a device or a queue comes anew")):
            if host.read(file) != text:
                steps.append(Step(f"file {file}", why, text=text, former=host.read(file)))
        if steps or self._facts.unit != "enabled":
            steps.append(Step(f"unit {boot.UNIT}", "systemd and udev read them",
                              (("systemctl", "daemon-reload"), ("systemctl", "enable", boot.UNIT),
                               ("udevadm", "control", "--reload")),
                              former=self._facts.unit == "enabled"))
        return steps

    def _controller(self, target: str) -> List[Step]:
        here = [one.target for one in self._facts.controllers if one.bridge == BRIDGE]
        if here == [target]:
            return []
        exists = any(row["name"] == BRIDGE for row in self._host.table("Bridge", "name"))
        words = _ovs("--may-exist", "add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "fail_mode=secure",
                     "--", "set-controller", BRIDGE, target)
        return [Step(f"controller {BRIDGE}", f"the controller speaks with this host by the bridge {BRIDGE}, which has "
                     "no ports, so it forwards nothing", (words,), former=here if exists else None)]

    def _manager(self, target: str) -> List[Step]:
        rows = self._host.table("Manager", "target")
        if any(row["target"] == target for row in rows):
            return []
        words = _ovs("--id=@m", "create", "Manager", f'target="{target}"', "--", "add", "Open_vSwitch", ".",
                     "manager_options", "@m")
        return [Step(f"manager {target}", "the controller reads VMs' names in this host's database; managers that are "
                     "there stay", (words,), former=None)]

    def _settings(self) -> List[Step]:
        now, steps = self._facts.settings, []
        if self._wanted.key_file:
            steps += _key_step("Open_vSwitch", ".", "shim-key-file", self._wanted.key_file, now.get("shim-key-file"),
                               "the key signs what controllers and shims say")
        if self._wanted.controller and self._law in CONTROLLED:
            steps += _key_step("Open_vSwitch", ".", "shim-conversations", "true", now.get("shim-conversations"),
                               "a controller that does not forward asks this host who talks to whom")
        if self._wanted.law:
            steps += _key_step("Open_vSwitch", ".", "shim-law", self._wanted.law, now.get("shim-law"),
                               "from here on VMs are limited")
        return steps


def queue_steps(facts: Facts, tops: Sequence[str]) -> List[Step]:
    """Return the steps that put fq at each queue that uplinks send by. Raises QueueError."""
    wanted = fq_settings(facts.settings)
    steps = []
    for device in {one.name: one for top in tops for one in senders(facts.devices, top)}.values():
        made = commands(device, wanted)
        if made:
            keeps = "the queues stay apart" if device.queues > 1 else "it has one queue"
            steps.append(Step(f"queues {device.name}", f"fq lets packets of {device.name} leave at their time; {keeps}",
                              tuple(tuple(one) for one in made), former=as_documents(device.qdiscs)))
    return steps


def check_wanted(host: Host, facts: Facts, wanted: Wanted) -> None:
    """Raise SetupError if what is wanted cannot be had."""
    if facts.missing:
        raise SetupError(f"{facts.missing[0]}; nothing was changed")
    if not facts.vswitchd.version:
        raise SetupError("ovs-vswitchd does not run; start it first (`systemctl start openvswitch-switch`); nothing "
                         "was changed")
    names = {one.name for one in facts.interfaces}
    ports = {one.port for one in facts.interfaces}
    for name in wanted.uplinks:
        if name not in names | ports and name not in facts.devices:
            raise SetupError(f"--uplink {name}: there is no such port and no such device; there are "
                             f"{_listed(sorted(names | set(facts.devices)))}; nothing was changed")
    for name in wanted.vms:
        if name not in names:
            raise SetupError(f"--vms {name}: no bridge has that port; there are {_listed(sorted(names))}; nothing was "
                             "changed")
    both = sorted(set(wanted.uplinks) & set(wanted.vms))
    if both:
        raise SetupError(f"{both[0]} is named by --uplink and by --vms; a port has one role; nothing was changed")
    for option, target in (("--controller", wanted.controller), ("--manager", wanted.manager)):
        if target is not None and not target.startswith(TARGETS):
            raise SetupError(f"{option} {target}: that is no target; allowed: tcp:ADDRESS:PORT, ssl:ADDRESS:PORT, "
                             "unix:FILE; nothing was changed")
    _check_law(host, facts, wanted)
    if wanted.boots and not (host.exists("/run/systemd/system") and host.program("systemctl")):
        raise SetupError("systemd does not run here, so nothing would put fq back after a boot; allowed: "
                         "--until-boot; nothing was changed")


def _check_law(host: Host, facts: Facts, wanted: Wanted) -> None:
    laws = known_laws()
    if wanted.law is not None and laws and wanted.law not in laws:
        raise SetupError(f"--law {wanted.law}: there is no such law; there are {', '.join(laws)}, none; "
                         f"{facts.settings.get('shim-law', 'none')} stays in force")
    if wanted.law is not None and not facts.vswitchd.has_shim:
        raise SetupError("the ovs-vswitchd that runs is not this project's, so it would ignore a law; install the "
                         "packages with the series first (docs/packages.md); nothing was changed")
    if wanted.key_file:
        fault = read_key(host, wanted.key_file).fault
        if fault:
            raise SetupError(f"--key-file {wanted.key_file}: {fault}; copy the controller's key there, or make one by "
                             "`openssl rand -hex 16`; nothing was changed")
    elif wanted.law is not None and wanted.law not in WITHOUT_KEY and "shim-key-file" not in facts.settings:
        raise SetupError(f"--law {wanted.law} needs a key, and neither --key-file names one nor is there "
                         f"{DEFAULT_KEY_FILE}; laws without a key: {', '.join(WITHOUT_KEY)}; nothing was changed")


def known_laws() -> List[str]:
    """Return the laws that the kernel's datapath has, none if it has no shim."""
    from sdngcc.shim.netlink import ShimClient, ShimError

    try:
        with ShimClient() as client:
            return list(client.settings_get().laws)
    except (ShimError, OSError):
        return []


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def plan(host: Host, facts: Facts, wanted: Wanted) -> List[Step]:
    """Return the steps that are to be done. Raises SetupError, QueueError and HostError; nothing is changed."""
    check_wanted(host, facts, wanted)
    law = wanted.law or facts.settings.get("shim-law", "none")
    return _Planner(host, facts, wanted, law).plan()


def apply(host: Host, wanted: Optional[Wanted], steps: Sequence[Step], say: Callable[[Step], None]) -> None:
    """Do steps one after the other, recording what was there before. Raises HostError naming the one that failed."""
    record = read_record(host)
    if wanted is not None and record.wanted != wanted:
        record = replace(record, wanted=wanted)
        write_record(host, record)
    for step in steps:
        say(step)
        if record.remember(step.name, step.former):
            write_record(host, record)
        if step.text:
            host.write(step.name.partition(" ")[2], step.text)
        for argv in step.argv:
            host.run(argv)


def reapply(host: Host) -> List[Step]:
    """Return the steps that put fq back where the last set-up wanted it. Raises HostError and QueueError."""
    record = read_record(host)
    if record.wanted is None:
        raise HostError(f"{host.path(FILE)}: nothing was set up; `sdngcc node setup --uplink DEVICE` does")
    facts = read_facts(host, whole=False)
    tops = [one.name for name in record.wanted.uplinks for one in facts.interfaces if name in (one.name, one.port)]
    return queue_steps(facts, [*tops, *(name for name in record.wanted.uplinks if name not in tops)])


def undo_order(record: Record) -> List[str]:
    """Return the names of what was changed in the order in which it is taken back: the last change first.

    Queues come last of all: Open vSwitch deletes a port's queuing discipline when its QoS goes.
    """
    return sorted(reversed(record.former), key=lambda name: name.startswith("queues "))


def undo(host: Host, say: Callable[[Step], None]) -> int:
    """Take back all that set-ups changed and forget it; return how many steps there were. Raises HostError.

    What was taken back before a step failed is no part of the record any more.
    """
    record = read_record(host)
    count = 0
    for name in undo_order(record):
        for step in undo_steps(host, name, record.former[name]):
            say(step)
            count += 1
            for argv in step.argv:
                host.run(argv)
            if step.text:
                host.write(name.partition(" ")[2], step.text)
            elif not step.argv:
                host.remove(name.partition(" ")[2])
        del record.former[name]
        write_record(host, record)
    host.remove(FILE)
    host.remove_if_empty(FOLDER)
    return count


def undo_steps(host: Host, name: str, former: Any) -> List[Step]:
    """Return the steps that give one thing its former state, none where there is nothing to do. Raises HostError."""
    kind, *rest = name.split(" ")
    undoer = _UNDO.get(kind)
    if undoer is None:
        raise HostError(f"{host.path(FILE)}: nothing is known of a change of {name}")
    return undoer(host, name, rest, former)


def _undo_key(_: Host, name: str, words: List[str], former: Any) -> List[Step]:
    table, row, key = words
    if former is None:
        return [Step(name, "as it was: not set", (_ovs("--if-exists", "remove", table, row, "other_config", key),))]
    return [Step(name, f"as it was: {former}",
                 (_ovs("--if-exists", "set", table, row, f'other_config:{key}="{former}"'),))]


def _undo_qos(host: Host, name: str, words: List[str], _: Any) -> List[Step]:
    for row in host.table("Port", "name", "qos"):
        if row["name"] == words[0] and isinstance(row["qos"], str):
            return [Step(name, "as it was: no QoS", (_ovs("clear", "Port", words[0], "qos", "--", "--if-exists",
                                                          "destroy", "QoS", row["qos"]),))]
    return []


def _undo_queues(host: Host, name: str, words: List[str], former: Any) -> List[Step]:
    device = read_devices(host).get(words[0])
    made = [] if device is None else restoring(device, from_documents(former))
    return [Step(name, "as it was", tuple(tuple(one) for one in made))] if made else []


def _undo_file(_: Host, name: str, __: List[str], former: Any) -> List[Step]:
    return [Step(name, "as it was" if former else "it was not there", text=former or "")]


def _undo_unit(_: Host, name: str, words: List[str], former: Any) -> List[Step]:
    own = ("enable",) if former else ("disable", "--quiet")
    return [Step(name, "as it was", (("systemctl", *own, words[0]),))]


def _undo_controller(_: Host, name: str, words: List[str], former: Any) -> List[Step]:
    if former is None:
        return [Step(name, "the bridge was not there", (_ovs("--if-exists", "del-br", words[0]),))]
    back = ("set-controller", words[0], *former) if former else ("del-controller", words[0])
    return [Step(name, "as it was", (_ovs(*back),))]


def _undo_manager(host: Host, name: str, words: List[str], _: Any) -> List[Step]:
    return [Step(name, "as it was: not there",
                 (_ovs("remove", "Open_vSwitch", ".", "manager_options", row["_uuid"]),))
            for row in host.table("Manager", "_uuid", "target") if row["target"] == words[0]]


_UNDO: Dict[str, Callable[[Host, str, List[str], Any], List[Step]]] = {
    "key": _undo_key, "qos": _undo_qos, "queues": _undo_queues, "file": _undo_file, "unit": _undo_unit,
    "controller": _undo_controller, "manager": _undo_manager}
