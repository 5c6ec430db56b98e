# SPDX-License-Identifier: Apache-2.0
"""Notices made into control messages.

Each is a packet-out at the machine's own hypervisor bridge, or, where this controller does not forward, an entry of a
VM_MESSAGES or PATH_MESSAGES that ovs-vswitchd hands to the machine's shim.  What a machine is told by path goes in
messages of version 2, all else in those of the version that is set.
"""

import collections
import functools
import itertools
from typing import NamedTuple, Optional, Sequence

from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.rates.by_path import PathMarks, Telling, teller
from sdngcc.controller.rates.division import Notice
from sdngcc.controller.rates.numbering import Numbering
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire import experimenter, message, openflow, packets

MESSAGES_XID = 0x80000002  # no request has it
MOST = 600  # in one VM_MESSAGES, which may have 64 KiB
MOST_PATHS = 48  # in one PATH_MESSAGES, each of up to 1,336 bytes and 8

_U32_MAX = 0xFFFFFFFF
_ENTRIES_BYTES = message.ENTRIES_MAX * message.ENTRY_BYTES


class Composed(NamedTuple):
    """A control message for a machine."""

    port: int  # the machine's: of its bridge, or the index of its device
    pair: Pair
    address: bytes  # the machine's
    peer: bytes
    payload: bytes  # of all but version 0 without its tag
    version: int  # 0, 1 or 2


def _marks(path: PathMarks) -> bytes:
    """Return the entry that tells the marks of a path."""
    entry = message.PathEntry(
        teller(path.point),
        path.name.first,
        path.name.bits,
        weight_total=min(path.weight_total, _U32_MAX),
        marks=min(path.marks, _U32_MAX),
        interval_ns=min(path.interval_ns, _U32_MAX),
    )
    return message.pack_entry(entry, message.TYPE_MARKS)


@functools.lru_cache(1 << 16)
def _in_front(port: int, pair: Pair, address: bytes, peer: bytes, protocol: int, length: int) -> bytes:
    """Return what a packet-out has in front of a message of some bytes."""
    return openflow.packet_out(packets.message_frame(*pair, address, peer, protocol, bytes(length)), (port,))[:-length]


class Notifier:
    """Composes messages under the operator's ``key``; numbers them.

    Raises SettingsError when the key file is unusable.
    """

    def __init__(
        self,
        settings: Settings,
        relations: Relations,
        counters: "collections.Counter[str]",
        epoch: Optional[int] = None,
    ) -> None:
        self.numbering = Numbering(epoch)
        self._settings = settings
        self._relations = relations
        self._counters = counters
        self.key = settings.read_key()

    def knows(self, mac: bytes) -> bool:
        """Tell whether a host of that Ethernet address is known."""
        return mac in self._relations.hosts

    def compose(self, telling: Telling, vm: VmRecord) -> list[Composed]:
        """Return the messages that tell a machine, none when it has no address to be told at."""
        notice, version = telling.whole, self._settings.message_version
        host, other = self._relations.hosts[telling.pair[0]], self._relations.hosts.get(telling.pair[1])
        address = host.address(True)
        ipv4 = address is not None
        if address is None:
            address = host.address(False)
        if address is None and version == "v1" and len(host.mac) == 6:
            # Known from flows only (cluster/adopt.py); the message leaves at its port whatever the address.
            address = packets.link_local(host.mac)
        if address is None or (version == "v0" and not ipv4):
            self._counters["notices_without_address"] += 1
            return []
        peer = (other.address(ipv4) if other else None) or address
        if telling.paths or telling.marks:
            payloads = self._by_path(telling, vm, address)
        else:
            payloads = [self._payload(notice, vm, address, peer)] if notice else []
        vm.notices += len(payloads)
        vm.marks += sum(one.marks for one in (*((notice,) if notice else ()), *telling.marks))
        self._counters["notices"] += len(payloads)
        number = 2 if telling.paths or telling.marks else int(version[1:])
        return [Composed(telling.vm[1], telling.pair, address, peer, payload, number) for payload in payloads]

    def _payload(self, notice: Notice, vm: VmRecord, address: bytes, peer: bytes) -> bytes:
        """Return the message of a notice, a tag it has without it."""
        if self._settings.message_version == "v0":
            return message.encode_v0(notice.marks)
        epoch, sequence = self.numbering.next(vm.hearing)
        return message.body_v1(
            message.Message(
                vm=address,
                peer=peer,
                marks=min(notice.marks, _U32_MAX),
                interval_ns=notice.interval_ns,
                rate=notice.rate,
                weight_total=min(notice.weight_total, _U32_MAX),
                point_datapath=notice.point[0],
                point_port=notice.point[1],
                sender=self._settings.sender_id,
                epoch=epoch,
                sequence=sequence,
                type=message.TYPE_RATE if notice.rate else message.TYPE_MARKS,
            )
        )

    def _by_path(self, telling: Telling, vm: VmRecord, address: bytes) -> list[bytes]:
        """Return the messages, without tags, that tell a machine by path; the first has the rate of all it sends."""
        rate, payloads, sender = telling.whole.rate if telling.whole else 0, [], self._settings.sender_id
        kind = message.TYPE_MARKS if telling.marks else message.TYPE_RATE
        entries = telling.paths or b"".join(_marks(path) for path in telling.marks)
        for first in range(0, len(entries), _ENTRIES_BYTES):
            epoch, sequence = self.numbering.next(vm.hearing)
            head = message.PathMessage(address, (), rate, sender, epoch, sequence, kind)
            payloads.append(message.frame_v2(head, entries[first : first + _ENTRIES_BYTES]))
            rate = 0
        return payloads

    def pack(self, composed: Sequence[tuple[int, Composed]]) -> list[tuple[int, bytes]]:
        """Return for each bridge, or host, the OpenFlow messages that bring composed ones to its machines.

        Composed ones come with the datapath id of their bridge, those of one bridge together.
        """
        sealed = iter(message.seal([one.payload for _, one in composed if one.version], self.key))
        ready = [(dpid, one._replace(payload=next(sealed)) if one.version else one) for dpid, one in composed]
        pack = self._hand_over if self._settings.forwarding == "none" else self._packet_outs
        return [
            (dpid, pack([one for _, one in some])) for dpid, some in itertools.groupby(ready, key=lambda pair: pair[0])
        ]

    def _packet_outs(self, composed: Sequence[Composed]) -> bytes:
        """Return the packet-outs that bring composed ones to the machines of a bridge."""
        protocol, data = self._settings.protocol, []
        for one in composed:
            data.append(_in_front(one.port, one.pair, one.address, one.peer, protocol, len(one.payload)))
            data.append(one.payload)
        return b"".join(data)

    @staticmethod
    def _hand_over(composed: Sequence[Composed]) -> bytes:
        """Return the experimenter messages that hand composed ones to the machines of a host."""
        wholes = [(one.port, one.payload) for one in composed if one.version != 2]
        paths = [(one.port, one.payload) for one in composed if one.version == 2]
        return b"".join(
            (
                *(
                    experimenter.vm_messages(MESSAGES_XID, wholes[first : first + MOST])
                    for first in range(0, len(wholes), MOST)
                ),
                *(
                    experimenter.path_messages(MESSAGES_XID, paths[first : first + MOST_PATHS])
                    for first in range(0, len(paths), MOST_PATHS)
                ),
            )
        )
