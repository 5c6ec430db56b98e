# SPDX-License-Identifier: Apache-2.0
"""Whether a compute node is as it should be: facts in, findings out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, List, Literal, Mapping, Tuple

from sdngcc.node.facts import OURS, PACKAGE, Facts, Interface
from sdngcc.node.queues import FqSettings, senders, settings_for, without_fq

Level = Literal["ok", "warning", "fault"]

# The default of shim-waiting-max, packets.
WAITING_MAX = 1024
# Laws whose messages are signed, so that they need a key; static and none have no messages.
WITHOUT_KEY = ("none", "static")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    """``fault``: VMs are not limited as the settings say; ``warning``: they will not be, or may not be."""
    subject: str
    text: str
    hint: str = ""
    """What to do about it, empty where there is nothing to do."""


def is_good(findings: List[Finding]) -> bool:
    """Return whether there is neither a warning nor a fault."""
    return all(one.level == "ok" for one in findings)


def fq_settings(settings: Mapping[str, str]) -> FqSettings:
    """Return what an fq needs with these keys of Open_vSwitch."""
    text = settings.get("shim-waiting-max", "")
    return settings_for(int(text) if text.isdigit() else WAITING_MAX)


def _module(facts: Facts) -> Iterator[Finding]:
    if facts.user_space:
        yield Finding("ok", "module", "all bridges forward in user space, which needs no module")
        return
    if facts.module:
        yield Finding("ok", "module", f"{facts.module}.ko, which has the shim, is loaded on Linux {facts.running}")
    elif any(one.release == facts.running and one.module for one in facts.kernels):
        yield Finding("fault", "module", f"the module with the shim is built for Linux {facts.running} and not loaded: "
                      "VMs are not limited", "run `modprobe sdngcc`; `dmesg` tells why it fails, and with Secure Boot "
                      "the key must be enrolled (docs/packages.md)")
    else:
        yield Finding("fault", "module", f"no module with the shim is built for Linux {facts.running}, which runs: "
                      "VMs are not limited", _build_hint(facts.running))


def _build_hint(release: str) -> str:
    return (f"install linux-headers-{release}, which has the module built; if that fails, "
            "/var/lib/dkms/*/*/build/make.log tells why")


def _kernels(facts: Facts) -> Iterator[Finding]:
    if facts.user_space or not facts.kernels:
        return
    newest = facts.kernels[-1]
    if newest.release == facts.running:
        return
    if newest.module:
        yield Finding("ok", "kernel", f"the module is built for Linux {newest.release}, the newest one, too")
    else:
        yield Finding("warning", "kernel", f"no module with the shim is built for Linux {newest.release}, the newest "
                      "installed kernel: VMs will not be limited after the next boot", _build_hint(newest.release))


def _vswitchd(facts: Facts) -> Iterator[Finding]:
    one = facts.vswitchd
    if not one.version:
        yield Finding("fault", "vswitchd", "ovs-vswitchd does not run, or does not answer",
                      "run `systemctl start openvswitch-switch` as root")
        return
    if not one.has_shim:
        yield Finding("fault", "vswitchd", f"the ovs-vswitchd that runs ({one.package or one.version}) is not this "
                      "project's: it ignores shim-* keys", "a distribution's update may have replaced it; install the "
                      "packages with the series again (docs/packages.md)")
    else:
        yield Finding("ok", "vswitchd", f"{one.package or one.version} runs, with this project's series")
    if one.has_shim and one.package and OURS not in one.package:
        yield Finding("warning", "vswitchd", f"the installed package {PACKAGE} {one.package} is not this project's: it "
                      "takes over at the next restart", "install the packages with the series again")
    elif one.replaced:
        yield Finding("warning", "vswitchd", "the program's file was replaced after it had started: another version "
                      "runs after the next restart", "run `systemctl restart openvswitch-switch`")
    if OURS in one.package and one.candidate and OURS not in one.candidate:
        yield Finding("warning", "vswitchd", f"the next upgrade replaces {PACKAGE} {one.package} by {one.candidate}, "
                      "which has no shim", f"run `apt-mark hold {PACKAGE} openvswitch-common`, and build the packages "
                      "anew from the newer source")


def _settings(facts: Facts) -> Iterator[Finding]:
    law = facts.settings.get("shim-law", "none")
    if facts.error:
        yield Finding("fault", "settings", f"ovs-vswitchd refuses settings: {facts.error}",
                      "`ovs-vsctl get Open_vSwitch . other_config` lists them")
    if facts.alarm:
        yield Finding("fault", "alarm", facts.alarm, "")
    own = any(one.role == "vm" for one in facts.interfaces)
    if law == "none":
        yield Finding("fault" if own else "warning", "law", "no law is set: no VM is limited, but those with a law of "
                      "their own", "`sdngcc node setup --law LAW`, or ovs-vsctl set Open_vSwitch . "
                      "other_config:shim-law=LAW")
    elif facts.law and facts.law != law:
        yield Finding("fault", "law", f"{law} is asked for and {facts.law} is in force",
                      "`ovs-appctl shim/show` says why")
    elif not facts.law:
        yield Finding("fault", "law", f"{law} is asked for and the datapath has none", "")
    else:
        yield Finding("ok", "law", f"{law} is in force")
    if facts.key is not None and facts.key.fault:
        yield Finding("fault", "key", f"{facts.key.file}: {facts.key.fault}", "copy the controller's key there, or "
                      "make one by `openssl rand -hex 16`; mode 640")
    elif facts.key is not None:
        yield Finding("ok", "key", f"{facts.key.file} holds a key")
    elif law not in WITHOUT_KEY:
        yield Finding("fault", "key", f"law {law} needs a key and none is named: messages are refused",
                      "`sdngcc node setup --key-file FILE`")


def _roles(facts: Facts) -> Iterator[Finding]:
    by_role: dict[str, List[Interface]] = {"vm": [], "uplink": [], "none": []}
    for one in facts.interfaces:
        by_role.setdefault(one.effective_role, []).append(one)
        if one.error:
            yield Finding("fault", "port", f"{one.name}: {one.error}",
                          f"`ovs-vsctl get Interface {one.name} other_config` shows its keys")
    uplinks, vms = by_role["uplink"], by_role["vm"]
    if uplinks:
        yield Finding("ok", "uplinks", ", ".join(one.name for one in uplinks))
    else:
        yield Finding("fault", "uplinks", "no port has the role uplink: nothing is limited",
                      "`sdngcc node setup --uplink DEVICE`")
    if vms:
        yield Finding("ok", "VMs", _some([one.name for one in vms]))
    else:
        yield Finding("warning", "VMs", "no port has the role vm: there is nobody to limit",
                      "`sdngcc node setup --vms DEVICES`, or set external_ids:iface-id as clouds do")
    loose = [one.name for one in by_role["none"] if one.is_tap and not one.role]
    if loose:
        yield Finding("warning", "VMs", f"{_some(loose)}: taps without a role, which nothing limits",
                      "`sdngcc node setup --vms`; shim-role=none says that it is meant so")


def _some(names: List[str]) -> str:
    """Return names as a text: the first ones of many."""
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _queues(facts: Facts) -> Iterator[Finding]:
    if facts.settings.get("shim-limiter", "pace") == "police":
        yield Finding("ok", "queues", "shim-limiter=police needs no queuing discipline")
        return
    wanted = fq_settings(facts.settings)
    for name in (one.name for one in facts.interfaces if one.effective_role == "uplink"):
        below = senders(facts.devices, name)
        if not below and name not in facts.devices:
            yield Finding("ok", "queues", f"{name} is no device of this machine: look at what is below it by yourself")
        for device in below:
            lacking = without_fq(device, wanted)
            of = "" if device.name == name else f" (below {name})"
            if not lacking:
                count = f"{device.queues} queues, each" if device.queues > 1 else "1 queue,"
                yield Finding("ok", "queues", f"{device.name}{of}: {count} with fq")
                continue
            kinds: dict[str, List[str]] = {}
            for place, kind in lacking.items():
                kinds.setdefault(kind, []).append(place)
            told = "; ".join(f"{_places(places)} {'has' if len(places) == 1 else 'have'} {kind}"
                             for kind, places in kinds.items())
            yield Finding("fault", "queues", f"{device.name}{of}: {told}, and departure times need fq at each queue",
                          "`sdngcc node setup` puts it there, and again after each boot")
    for one in facts.interfaces:
        if one.unfit:
            yield Finding("fault", "queues", f"{one.name}: shim_qdisc=unfit, so the shim delays no packet there")


def _places(places: List[str]) -> str:
    if len(places) == 1:
        return f"the {places[0]}" if places[0] == "root" else places[0]
    return "queues " + _some([place.removeprefix("queue ") for place in places])


def _controllers(facts: Facts) -> Iterator[Finding]:
    for one in facts.controllers:
        forwards = "it forwards there" if one.forwards else "it forwards nothing there"
        if one.is_connected:
            yield Finding("ok", "controller", f"{one.bridge}: {one.target} is connected; {forwards}")
        else:
            why = f" ({one.error})" if one.error else ""
            yield Finding("warning", "controller", f"{one.bridge}: {one.target} is not connected{why}; {forwards}",
                          "`systemctl status sdngcc-controller` on its machine")


def _boot(facts: Facts) -> Iterator[Finding]:
    if facts.unit == "failed":
        yield Finding("warning", "boot", "sdngcc-node.service failed", "`journalctl -u sdngcc-node` tells why")
    elif facts.unit and facts.unit != "enabled":
        yield Finding("warning", "boot", f"sdngcc-node.service is {facts.unit}: fq is gone after the next boot",
                      "run `systemctl enable sdngcc-node`")
    elif facts.unit:
        yield Finding("ok", "boot", "sdngcc-node.service puts fq back after a boot")
    elif any(one.effective_role == "uplink" and one.name in facts.devices for one in facts.interfaces):
        yield Finding("warning", "boot", "nothing of sdn-gcc puts fq back after a boot",
                      "`sdngcc node setup` sets that up; leave it if your own network configuration has fq")


_PARTS: Tuple = (_module, _kernels, _vswitchd, _roles, _queues, _settings, _controllers, _boot)


def judge(facts: Facts) -> List[Finding]:
    """Return what there is to say about a node: each thing that was looked at, faults and warnings among them."""
    found = [Finding("fault", "node", f"{one}", "is this root, and does ovsdb-server run?") for one in facts.missing]
    for part in _PARTS:
        if facts.missing and part in (_roles, _queues, _settings, _controllers):
            continue
        found += part(facts)
    return found
