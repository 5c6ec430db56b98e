# SPDX-License-Identifier: Apache-2.0
"""Queuing disciplines of uplinks: what is there, what obeys departure times, and what brings it about.

A pacing limiter gives packets a departure time, which only fq obeys. A device with one queue takes fq as its root. A
device with several has mq or mqprio as its root, one leaf a queue, and each leaf is to be fq: fq as the root would send
all queues through one lock. A bond or a VLAN device queues nothing itself; the devices below it do.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Mapping, Sequence, Tuple

# Packets in all flows of an fq, least packets of one flow, hash buckets.
FQ_LIMIT = 100_000
FQ_FLOW_LIMIT = 2_000
FQ_BUCKETS = 1024
# Roots that have a leaf for each queue of the device.
PER_QUEUE = ("mq", "mqprio")
# The handle that a root gets where the kernel's own has none: leaves cannot be named without it.
ROOT_HANDLE = "1:"
# The handle of a queuing discipline that the kernel attached by itself.
KERNELS_OWN = "0:"
# Where ingress and clsact are attached; they queue nothing.
_INGRESS = "ffff:fff1"

# Options of `tc qdisc` by kind, as they stand in its JSON: name there -> word of the command. Others are flags.
_OPTIONS: Dict[str, Dict[str, str]] = {
    "pfifo_fast": {},
    "pfifo": {"limit": "limit"},
    "bfifo": {"limit": "limit"},
    "fq": {"limit": "limit", "flow_limit": "flow_limit", "buckets": "buckets", "orphan_mask": "orphan_mask",
           "quantum": "quantum", "initial_quantum": "initial_quantum"},
    "fq_codel": {"limit": "limit", "flows": "flows", "quantum": "quantum", "target": "target", "interval": "interval",
                 "memory_limit": "memory_limit", "drop_batch": "drop_batch"},
}
_MICROSECONDS = ("target", "interval")


class QueueError(ValueError):
    """A queuing discipline that someone set up and that could not be restored; the text says which."""


@dataclass(frozen=True)
class Qdisc:
    """A queuing discipline as `tc -j qdisc show` tells of it."""

    kind: str
    handle: str
    """``0:`` for what the kernel attached by itself."""
    parent: str
    """Empty for the root of its device."""
    options: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Device:
    """A network device."""

    name: str
    lower: Tuple[str, ...]
    """Devices that it sends by: members of a bond, the parent of a VLAN device."""
    queues: int
    """Queues that it sends from."""
    qdiscs: Tuple[Qdisc, ...]

    @property
    def root(self) -> Qdisc:
        """Return the root; ``noqueue`` where none is shown."""
        return next((one for one in self.qdiscs if not one.parent), Qdisc("noqueue", KERNELS_OWN, ""))

    def leaf(self, number: int) -> Qdisc:
        """Return what the number-th queue, from 0, has below a root with leaves; ``none`` if nothing."""
        # tc leaves out the number of a root that the kernel attached by itself.
        parent = class_of("" if self.root.handle == KERNELS_OWN else self.root.handle, number)
        return next((one for one in self.qdiscs if one.parent.lstrip("0") == parent),
                    Qdisc("none", KERNELS_OWN, parent))


@dataclass(frozen=True)
class FqSettings:
    """What an fq must have at least."""

    limit: int = FQ_LIMIT
    flow_limit: int = FQ_FLOW_LIMIT

    def words(self) -> List[str]:
        """Return the words of `tc qdisc` for it."""
        return ["fq", "limit", str(self.limit), "flow_limit", str(self.flow_limit), "buckets", str(FQ_BUCKETS)]

    def admits(self, one: Qdisc) -> bool:
        """Return whether a queuing discipline is an fq with room enough."""
        return (one.kind == "fq" and int(one.options.get("limit", 0)) >= self.limit
                and int(one.options.get("flow_limit", 0)) >= self.flow_limit)


def settings_for(waiting_max: int) -> FqSettings:
    """Return what an fq needs where so many packets of a VM may wait (``shim-waiting-max``); 0: any number.

    One connection may be all that waits of a VM, and it is one flow to fq.
    """
    if waiting_max == 0:
        return FqSettings(flow_limit=FQ_LIMIT)
    return FqSettings(limit=max(FQ_LIMIT, waiting_max), flow_limit=max(FQ_FLOW_LIMIT, waiting_max * 3 // 2))


def class_of(handle: str, number: int) -> str:
    """Return the class of the number-th queue, from 0, below a root: tc counts from 1, hexadecimally."""
    return f"{handle or ':'}{number + 1:x}"


def parse(document: Sequence[Mapping[str, Any]]) -> Tuple[Qdisc, ...]:
    """Return what `tc -j qdisc show dev DEVICE` lists; ingress and clsact are left out."""
    return tuple(sorted(
        (Qdisc(str(one["kind"]), str(one.get("handle", KERNELS_OWN)),
               "" if one.get("root") else str(one.get("parent", "")), dict(one.get("options") or {}))
         for one in document if one.get("parent") != _INGRESS), key=lambda one: (len(one.parent), one.parent)))


def senders(devices: Mapping[str, Device], name: str) -> List[Device]:
    """Return the devices that queue what a device sends: itself, or all below it that have none below."""
    found: List[Device] = []
    left, seen = [name], set()
    while left:
        one = devices.get(left.pop(0))
        if one is None or one.name in seen:
            continue
        seen.add(one.name)
        if one.lower:
            left += one.lower
        else:
            found.append(one)
    return found


def without_fq(device: Device, wanted: FqSettings) -> Dict[str, str]:
    """Return what of a device does not obey departure times: by place the kind that is there; empty if all does."""
    root = device.root
    if root.kind in PER_QUEUE:
        leaves = ((number, device.leaf(number)) for number in range(device.queues))
        return {f"queue {number}": _described(leaf, wanted) for number, leaf in leaves if not wanted.admits(leaf)}
    if device.queues > 1:
        return {"root": f"{root.kind} for {device.queues} queues together"}
    return {} if wanted.admits(root) else {"root": _described(root, wanted)}


def _described(one: Qdisc, wanted: FqSettings) -> str:
    if one.kind == "fq" and not wanted.admits(one):
        return f"fq with limit {one.options.get('limit')}, flow_limit {one.options.get('flow_limit')}"
    return one.kind


def check_restorable(device: Device) -> None:
    """Raise QueueError if a device has a queuing discipline that could not be restored later."""
    for one in device.qdiscs:
        if one.handle == KERNELS_OWN or one.kind in _OPTIONS or (one.kind in PER_QUEUE and not one.parent):
            continue
        raise QueueError(
            f"{device.name} has the queuing discipline {one.kind} (handle {one.handle}), which someone set up and "
            f"which would be lost; allowed: what the kernel attaches by itself, {', '.join((*PER_QUEUE, *_OPTIONS))}; "
            f"remove it first, by `tc qdisc del dev {device.name} root`, or by `ovs-vsctl clear Port {device.name} "
            "qos` where Open vSwitch made it; it stays in force")


def commands(device: Device, wanted: FqSettings) -> List[List[str]]:
    """Return the commands that give each queue of a device an fq; none where all is so already.

    Raises QueueError.
    """
    if not without_fq(device, wanted):
        return []
    check_restorable(device)
    replace = ["tc", "qdisc", "replace", "dev", device.name]
    root, made = device.root, []
    if device.queues == 1 and root.kind not in PER_QUEUE:
        return [[*replace, "root", *wanted.words()]]
    handle = root.handle
    if root.kind not in PER_QUEUE or root.handle == KERNELS_OWN:
        handle = ROOT_HANDLE
        made.append([*replace, "root", "handle", handle, "mq"])
        return made + [[*replace, "parent", class_of(handle, number), *wanted.words()]
                       for number in range(device.queues)]
    return [[*replace, "parent", class_of(handle, number), *wanted.words()]
            for number in range(device.queues) if not wanted.admits(device.leaf(number))]


def _arguments(one: Qdisc) -> List[str]:
    """Return the words of `tc qdisc` that make one of _OPTIONS as it is."""
    known, words = _OPTIONS[one.kind], []
    for name, value in one.options.items():
        if name in known and not isinstance(value, (dict, list)):
            # The kernel counts in units of 1.024 us and rounds down, to set and to show.
            words += [known[name], f"{value + 1}us" if name in _MICROSECONDS else str(value)]
    if one.kind == "fq":
        words.append("pacing" if one.options.get("pacing", True) else "nopacing")
    if one.kind == "fq_codel":
        words.append("ecn" if one.options.get("ecn") else "noecn")
    return [one.kind, *words]


def restoring(device: Device, former: Sequence[Qdisc]) -> List[List[str]]:
    """Return the commands that give a device back what it had, none if it has it."""
    if device.qdiscs == tuple(former):
        return []
    base = ["tc", "qdisc"]
    root = next((one for one in former if not one.parent), Qdisc("noqueue", KERNELS_OWN, ""))
    # What the kernel attaches by itself, leaves too, comes back when what stands in its place goes.
    made = [] if device.root.handle == KERNELS_OWN or root.kind == "mqprio" else [
        [*base, "del", "dev", device.name, "root"]]
    if root.handle == KERNELS_OWN:
        return made
    add = [*base, "replace", "dev", device.name]
    if root.kind not in PER_QUEUE:
        return [*made, [*add, "root", "handle", root.handle, *_arguments(root)]]
    if root.kind == "mq":
        made.append([*add, "root", "handle", root.handle, "mq"])
    for leaf in former:
        if leaf.parent and leaf.kind in _OPTIONS and (leaf.handle != KERNELS_OWN or root.kind == "mqprio"):
            own = [] if leaf.handle == KERNELS_OWN else ["handle", leaf.handle]
            made.append([*add, "parent", leaf.parent, *own, *_arguments(leaf)])
    return made


def as_documents(qdiscs: Sequence[Qdisc]) -> List[Dict[str, Any]]:
    """Return queuing disciplines as JSON has them."""
    return [asdict(one) for one in qdiscs]


def from_documents(documents: Sequence[Mapping[str, Any]]) -> List[Qdisc]:
    """Return what as_documents() made of queuing disciplines. Raises KeyError."""
    return [Qdisc(one["kind"], one["handle"], one["parent"], dict(one["options"])) for one in documents]
