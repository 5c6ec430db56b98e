# SPDX-License-Identifier: Apache-2.0
"""What is known of switches and virtual machines: the operator's view.

A virtual machine is a port of a hypervisor bridge.  Its id is the interface's external_ids:iface-id (the
Neutron port id under OpenStack) when OVSDB can be read, else "<datapath id in hex>:<port name>".
"""

import dataclasses
from typing import Optional

from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.numbering import Hearing
from sdngcc.controller.wire.experimenter import VM_ACTIVE, VmReading, vm_reading


@dataclasses.dataclass
class Answer:
    """What a bridge told of its machines."""

    entries: bytes = b""  # of VM_STATE, one a machine
    time_ns: int = 0  # when it came
    clock_ns: int = 0  # when it was read, by the bridge's clock; 0: it did not say


@dataclasses.dataclass
class VmRecord:
    """A virtual machine; rates in bytes/s."""

    place: Hop
    id: str
    name: str  # of its port
    answer: Answer = dataclasses.field(default_factory=Answer)  # of its bridge, which has an entry of it ...
    row: int = -1  # ... at this place; -1: in none yet
    notices: int = 0  # messages sent to it
    marks: int = 0  # marks in them
    hearing: Hearing = dataclasses.field(default_factory=Hearing)  # how it takes them
    # The entries that its reading was made of, and the reading.
    _read: tuple[bytes, Optional[VmReading]] = dataclasses.field(default=(b"", None), repr=False)

    @property
    def reading(self) -> Optional[VmReading]:
        """Return its last VM_STATE entry, which is read when somebody asks for it."""
        if self.row >= 0 and self._read[0] is not self.answer.entries:
            self._read = (self.answer.entries, vm_reading(self.answer.entries, self.row))
        return self._read[1]

    @property
    def read_ns(self) -> int:
        """Return when that came; 0: there is none."""
        return self.answer.time_ns if self.row >= 0 else 0

    @property
    def clock_ns(self) -> int:
        """Return when that was read, by its bridge's clock; 0: there is none, or nobody knows."""
        return self.answer.clock_ns if self.row >= 0 else 0

    @property
    def bridge_id(self) -> str:
        """Return the name no other machine has: "<datapath id in hex>:<port name>"."""
        return f"{self.place[0]:016x}:{self.name}"

    @property
    def iface_id(self) -> Optional[str]:
        """Return its interface's external_ids:iface-id; None when OVSDB has none or cannot be read."""
        return None if self.id == self.bridge_id else self.id

    @property
    def sent_rate(self) -> int:
        """Return what it sent over the shim's last period."""
        return self.reading.sent_rate if self.reading else 0

    @property
    def weight(self) -> int:
        """Return its weight."""
        return self.reading.weight if self.reading else 1

    @property
    def active(self) -> bool:
        """Tell whether the shim holds a share for it."""
        return bool(self.reading and self.reading.flags & VM_ACTIVE)


@dataclasses.dataclass
class SwitchRecord:
    """A connected switch."""

    dpid: int
    since_ns: int
    settled: bool = False  # links had time to be found
    hypervisor: bool = False
    vm_state: Optional[bool] = None  # whether it answers VM_STATE; None: not known yet
    marks: Optional[bool] = None  # whether it answers PORT_MARKS
    state_xid: int = 0  # of the VM_STATE request not answered yet; 0: none
    state_asked_ns: int = 0
    state_rests_ns: int = 0  # it is not asked for VM_STATE before
    state_ns: int = 0  # when VM_STATE was last answered
    answer: Answer = dataclasses.field(default_factory=Answer)  # the last one
    answer_revision: int = -1  # ``revision`` when all machines of the answer had been found
    revision: int = 0  # grows when machines came or went, or are others as far as sharing goes
    paths: Optional[bool] = None  # whether it answers HOST_PATHS: machines may be told by path
    paths_xid: int = 0  # of the HOST_PATHS request not answered yet; 0: none
    paths_asked_ns: int = 0
    paths_rest_ns: int = 0  # it is not asked for HOST_PATHS before
    path_entries: bytes = b""  # of the last HOST_PATHS; rows.PATH
    vms: dict[int, VmRecord] = dataclasses.field(default_factory=dict)  # by port
    uplinks: set[int] = dataclasses.field(default_factory=set)

    def lose(self, number: int) -> None:
        """Forget the machine at a port, if there is one."""
        if self.vms.pop(number, None) is not None:
            self.revision += 1
