# SPDX-License-Identifier: Apache-2.0
"""Notices made into control messages.

Each is a packet-out at the machine's own hypervisor bridge, or, where this controller does not forward, an entry of a
VM_MESSAGES that ovs-vswitchd hands to the machine's shim.
"""

import collections
from typing import NamedTuple, Optional, Sequence

from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.network.relations import Pair, Relations
from sdngcc.controller.rates.division import Notice
from sdngcc.controller.rates.numbering import Numbering
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire import experimenter, message, openflow, packets

MESSAGES_XID = 0x80000002  # no request has it
MOST = 600  # in one VM_MESSAGES, which may have 64 KiB

_U32_MAX = 0xFFFFFFFF


class Composed(NamedTuple):
    """A control message for a machine."""

    port: int  # the machine's: of its bridge, or the index of its device
    pair: Pair
    address: bytes  # the machine's
    peer: bytes
    payload: bytes


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

    def compose(self, notice: Notice, vm: VmRecord, pair: Pair) -> Optional[Composed]:
        """Return the message of a notice, None when the machine has no address to be told at.

        ``pair`` is one of the machine's (source, destination) behind the congested port.
        """
        host, other = self._relations.hosts[pair[0]], self._relations.hosts.get(pair[1])
        ipv4 = host.address(True) is not None
        address = host.address(ipv4)
        version = self._settings.message_version
        if address is None and version == "v1" and len(host.mac) == 6:
            # Known from flows only (cluster/adopt.py); the message leaves at its port whatever the address.
            address = packets.link_local(host.mac)
        if address is None or (version == "v0" and not ipv4):
            self._counters["notices_without_address"] += 1
            return None
        peer = (other.address(ipv4) if other else None) or address
        if version == "v0":
            payload = message.encode_v0(notice.marks)
        else:
            epoch, sequence = self.numbering.next(vm.hearing)
            payload = message.encode_v1(
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
                ),
                self.key,
            )
        vm.notices += 1
        vm.marks += notice.marks
        self._counters["notices"] += 1
        return Composed(notice.vm[1], pair, address, peer, payload)

    def pack(self, composed: Sequence[Composed]) -> bytes:
        """Return the OpenFlow messages that bring composed ones to the machines of one bridge, or host."""
        if self._settings.forwarding == "none":
            entries = [(one.port, one.payload) for one in composed]
            return b"".join(
                experimenter.vm_messages(MESSAGES_XID, entries[first : first + MOST])
                for first in range(0, len(entries), MOST)
            )
        return b"".join(
            openflow.packet_out(
                packets.message_frame(*one.pair, one.address, one.peer, self._settings.protocol, one.payload),
                (one.port,),
            )
            for one in composed
        )
