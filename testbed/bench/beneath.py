# SPDX-License-Identifier: Apache-2.0
"""How long the controller is busy at a stretch when the file of the network beneath changes, where others forward.

The network is that of size.py, its links from a file; each VM sends to others, as its host's shim tells.
"""

import json
import pathlib
import random
import struct
from typing import Callable, Dict, List, Tuple

from sdngcc.controller.network import underlay
from sdngcc.controller.network.underlay import Underlay
from sdngcc.controller.wire import experimenter
from sdngcc.controller.wire.experimenter import PeerReading
from sdngcc.controller.wire.packets import mapped
from sdngcc.testbed.bench.size import TARGETS, Hop, Row, Site

_RATE_MBPS = 25_000.0
_UPLINK = 2
_FIRST_VM = 10

Ends = Tuple[Hop, Hop]


class Beneath(Site):
    """The network of size.py, whose bridges are hosts' and whose links are a file's."""

    def __init__(self, folder: pathlib.Path, switches: int, vms: int) -> None:
        self._folder = folder
        path = folder / "underlay.json"
        path.write_text("{}")
        super().__init__(folder, switches, vms, forwarding="none", mark_source="shim", underlay_file=path)
        self._vms_of: Dict[int, List[int]] = {}  # numbers of the VMs, by host
        for number, (dpid, _) in enumerate(self.places):
            self._vms_of.setdefault(dpid, []).append(number)
        chance = random.Random(1)
        self._targets = {
            number: [other for other in chance.sample(range(vms), TARGETS + 1) if other != number][:TARGETS]
            for number in range(vms)
        }

    def read(self, links: List[Ends], mbps: float = _RATE_MBPS) -> Underlay:
        """Return what a file says that has some links."""
        hosts, fabric = set(self.bridges), [*self.leaves, *self.spines]
        path = self._folder / "underlay.json"
        path.write_text(json.dumps({
            "switches": {f"s{dpid:x}": {"datapath": f"{dpid:016x}"} for dpid in fabric},
            "hosts": {f"h{dpid:x}": {"datapath": f"{dpid:016x}"} for dpid in self.bridges},
            "links": [{"ends": [f"{'h' if dpid in hosts else 's'}{dpid:x}:{port}" for dpid, port in ends],
                       "mbps": mbps} for ends in links],
        }))  # fmt: skip
        found = underlay.read(path)
        assert found is not None
        return found

    def take(self, found: Underlay) -> Callable[[], None]:
        """Return the step that takes another file."""
        return lambda: self.engine.set_underlay(found)

    def build(self) -> None:
        """Take the file, connect all hosts, and let each VM talk to its destinations."""
        self.pause()
        self.engine.set_underlay(self.read(self.links))
        self.work_off()
        for dpid in self.bridges:
            self.engine.switch_up(dpid, {})
            self._answer_machines(dpid)
        for generation in (1, 2):  # the first reading is a baseline
            for dpid in self.bridges:
                self._tell_peers(dpid, generation)
            self.work_off()
        self.engine.outbox.drain()
        self.go_on()

    def _answer_machines(self, dpid: int) -> None:
        counts = (experimenter.VM_ACTIVE, 10**8, 10**8, 0, 0, 10**6, *[0] * 6)
        entries = [
            experimenter.encode_vm_state(experimenter.VmReading(_FIRST_VM + at, _UPLINK, 1, *counts))
            for at, _ in enumerate(self._vms_of.get(dpid, ()))
        ]
        xid = self.engine.switches[dpid].state_xid
        reply = experimenter.encode_reply(xid, experimenter.HOST_VMS, 1, _boot(dpid), self.clock(), entries)
        self.engine.multipart(dpid, reply)

    def _tell_peers(self, dpid: int, generation: int) -> None:
        """Let a host tell what its VMs sent; conversations are those of another poll's answer."""
        entries = [
            experimenter.encode_peer(
                PeerReading(_FIRST_VM + at, _UPLINK, 0, _address(target), _address(number), bytes(16), 5,
                            generation * 10**6, generation * 1000, 0, 0, 0)
            )
            for at, number in enumerate(self._vms_of.get(dpid, ()))
            for target in self._targets[number]
        ]  # fmt: skip
        assert self.engine.hosting is not None
        reply = experimenter.Reply(experimenter.HOST_PEERS, generation, _boot(dpid), self.clock(), [b"".join(entries)])
        self.engine.hosting.hosts.conversations.take(dpid, reply)


def _boot(dpid: int) -> int:
    return 1000 + dpid


def _address(number: int) -> bytes:
    return mapped(b"\x0a" + struct.pack("!I", number)[1:])


def recabled(site: Beneath) -> List[Ends]:
    """Return the links with those of each leaf one spine further."""
    spines = site.spines
    return [
        (near, (spines[(spines.index(far[0]) + 1) % len(spines)], far[1])) if far[0] in spines else (near, far)
        for near, far in site.links
    ]


def moved(site: Beneath) -> List[Ends]:
    """Return the links with all hosts one leaf further."""
    leaves = site.leaves
    return [
        (near, far) if near[0] in leaves else (near, (leaves[(leaves.index(far[0]) + 1) % len(leaves)], far[1]))
        for near, far in site.links
    ]


def measure(switches: int, vms: int, folder: pathlib.Path) -> List[Row]:
    """Build the network and return its rows."""
    site = Beneath(folder, switches, vms)
    site.build()
    site.work_off(1.0)
    return rows(site)


def rows(site: Beneath) -> List[Row]:
    """Let the file change, again and again; return a row each time."""
    count = len(site.links)
    same, faster = site.read(site.links), site.read(site.links, 2 * _RATE_MBPS)
    fabric, hosts = site.read(recabled(site)), site.read(moved(site))
    return [
        site.row(f"file beneath: the same {count} links", site.take(same)),
        site.row("file beneath: all links twice as fast", site.take(faster)),
        site.row("file beneath: leaves' links to spines moved", site.take(fabric)),
        site.row("file beneath: all hosts at other leaves", site.take(hosts)),
    ]
