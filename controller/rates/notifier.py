# SPDX-License-Identifier: Apache-2.0
"""Notices made into control messages.

Each is a packet-out at the machine's own hypervisor bridge, or, where this controller does not forward, an entry of a
VM_MESSAGES or PATH_MESSAGES that ovs-vswitchd hands to the machine's shim.  What a machine is told by path goes in
messages of version 2, all else in those of the version that is set.
"""

import collections
from typing import Optional, Sequence

import numpy as np
import numpy.typing as npt

from sdngcc.controller import native
from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.network.relations import Relations
from sdngcc.controller.rates.batch import Batch
from sdngcc.controller.rates.fronts import Fronts
from sdngcc.controller.rates.numbering import Numbering
from sdngcc.controller.settings import Settings
from sdngcc.controller.wire import experimenter, message

MESSAGES_XID = 0x80000002  # no request has it
MOST = 600  # in one VM_MESSAGES, which may have 64 KiB
MOST_PATHS = 48  # in one PATH_MESSAGES, each of up to 1,336 bytes and 8

Counts = npt.NDArray[np.int64]


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
        self.key = settings.read_key()
        self._settings = settings
        self._version = int(settings.message_version[1:])
        self._relations = relations
        self._counters = counters
        self._fronts = Fronts(settings, relations)

    def address(self, batch: Batch) -> Batch:
        """Return what of a batch machines can be told, with their addresses; who is not known is told nothing."""
        numbers = self._fronts.find(batch.places, batch.pairs)
        if -1 in numbers:
            hosts = self._relations.hosts
            without = [pair for pair, number in zip(batch.pairs, numbers) if number < 0]
            self._counters["notices_without_address"] += sum(pair[0] in hosts for pair in without)
            some = [row for row, number in enumerate(numbers) if number >= 0]
            batch, numbers = batch.select(some), [numbers[row] for row in some]
        self._fronts.fill(batch.rows, numbers)
        return batch

    def pack(self, batch: Batch, vms: Sequence[VmRecord]) -> list[tuple[int, bytes]]:
        """Return for each bridge, or host, the OpenFlow messages that tell its machines an addressed batch.

        ``vms`` are the machines, those of one bridge together.
        """
        if not vms:
            return []
        rows = batch.rows
        rows["version"] = np.where(rows["end"] > rows["first"], 2, self._version)
        counts = np.maximum(1, -(-(rows["end"].astype(np.int64) - rows["first"]) // message.ENTRIES_MAX))
        sequence = self.numbering.reserve(int(counts[rows["version"] > 0].sum()))
        rows["epoch"] = [self.numbering.epoch_for(vm.hearing) for vm in vms]
        for vm, messages, marks in zip(vms, counts.tolist(), batch.marks.tolist()):
            vm.notices += messages
            vm.marks += marks
        data, ends = native.compose(
            rows, counts, self._fronts.blob, batch.entries, self.key, self._settings.sender_id, sequence
        )
        self._counters["notices"] += len(ends)
        if self._settings.forwarding == "none":
            return self._hand_over(vms, rows["version"], counts, data, ends)
        bridges = [vm.place[0] for vm in vms]
        begins = [row for row, dpid in enumerate(bridges) if not row or dpid != bridges[row - 1]]
        after = ends[np.cumsum(counts) - 1].tolist()  # where the messages of each machine end
        bounds = [0, *(after[row - 1] for row in begins[1:]), len(data)]
        return [(bridges[row], data[first:end]) for row, first, end in zip(begins, bounds, bounds[1:])]

    @staticmethod
    def _hand_over(
        vms: Sequence[VmRecord], versions: "npt.NDArray[np.uint8]", counts: Counts, data: bytes, ends: native.Ends
    ) -> list[tuple[int, bytes]]:
        """Return the experimenter messages that hand ``data`` to the machines of hosts."""
        found: dict[int, tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]] = {}  # in all; by path
        first = 0
        for vm, version, end in zip(
            np.repeat(np.array(vms, object), counts), np.repeat(versions, counts).tolist(), ends.tolist()
        ):
            dpid, port = vm.place
            found.setdefault(dpid, ([], []))[version == 2].append((port, data[first:end]))
            first = end
        return [
            (
                dpid,
                b"".join(
                    make(MESSAGES_XID, some[begin : begin + most])
                    for make, some, most in (
                        (experimenter.vm_messages, wholes, MOST),
                        (experimenter.path_messages, paths, MOST_PATHS),
                    )
                    for begin in range(0, len(some), most)
                ),
            )
            for dpid, (wholes, paths) in found.items()
        ]
