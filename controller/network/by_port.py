# SPDX-License-Identifier: Apache-2.0
"""What is known of ports by datapath id and port name, kept by switch: a change at one concerns that one only."""

from typing import Any, Iterator, Mapping, TypeVar, Union

Known = TypeVar("Known")
Port = tuple[int, str]  # datapath id and port name
BySwitch = Mapping[int, Mapping[str, Known]]  # by datapath id, then port name


class ByPort(Mapping[Port, Known]):
    """Values by port.

    ``by_switch`` has them by datapath id, then port name, and is not changed any more: what two of these have in common
    may be the same objects, so that they are compared in time proportional to the switches, not to the ports.
    """

    def __init__(self, by_switch: BySwitch[Known]) -> None:
        self.by_switch = by_switch

    def __getitem__(self, port: Port) -> Known:
        """Return a port's value; raises KeyError."""
        return self.by_switch[port[0]][port[1]]

    def __iter__(self) -> Iterator[Port]:
        """Yield the ports."""
        for dpid, names in self.by_switch.items():
            for name in names:
                yield dpid, name

    def __len__(self) -> int:
        """Return the number of ports."""
        return sum(map(len, self.by_switch.values()))

    def __repr__(self) -> str:
        """Return it as a dict shows itself."""
        return repr(dict(self))


def by_switch(values: Union[ByPort[Known], Mapping[Port, Known]]) -> BySwitch[Known]:
    """Return values by datapath id, then port name."""
    if isinstance(values, ByPort):
        return values.by_switch
    found: dict[int, dict[str, Known]] = {}
    for (dpid, name), value in values.items():
        found.setdefault(dpid, {})[name] = value
    return found


def moved(before: BySwitch[Any], after: BySwitch[Any]) -> list[int]:
    """Return the switches that have other values than before."""
    if before is after:
        return []
    found = [dpid for dpid, values in after.items() if not _same(before.get(dpid), values)]
    return found + [dpid for dpid in before if dpid not in after]


def _same(one: Any, other: Any) -> bool:
    return one is other or one == other
