# SPDX-License-Identifier: Apache-2.0
"""What a hypervisor's database says of a machine's policy, as its ovs-vswitchd reads it; plain values without a client.

A key may stand in three columns, and the first of COLUMNS that has it counts, as in vswitchd/shim-port.c of the
patches: a cloud's agent may write, and clear, Interface:other_config at will.
"""

import re
from typing import Any, Literal, Mapping, NamedTuple, Optional, Union, get_args

KEYS = {"weight": "shim-weight", "min": "shim-min-rate", "max": "shim-max-rate", "law": "shim-law"}
COLUMNS = ("Interface:other_config", "Interface:external_ids", "Port:other_config")
HOST_COLUMN = "Open_vSwitch:other_config"
Law = Literal["none", "static", "sdngcc", "maxmin", "hygenicc", "eyeq", "seawall", "scc", "vcc",
              "elasticswitch"]
LAWS: tuple[str, ...] = get_args(Law)
DEFAULTS: dict[str, Union[int, str]] = {"weight": 1, "min": 0, "max": 0, "law": "none"}

Value = Union[int, str]
Texts = Mapping[str, str]


class Setting(NamedTuple):
    """A value and where it is from; None: it cannot be read, and the last good one stays in force."""

    value: Optional[Value]
    origin: str  # one of COLUMNS, HOST_COLUMN or "default"


class Explained(NamedTuple):
    """A machine's policy by key, and what its ovs-vswitchd complains about; None: nothing."""

    settings: dict[str, Setting]
    complaint: Optional[str]


class Stored:
    """The keys of one interface; ``columns`` are those of COLUMNS, in this order."""

    def __init__(self, columns: tuple[Texts, ...]) -> None:
        self._columns = columns

    def text(self, column: str) -> Optional[str]:
        """Return the text of a key such as shim-role that counts; None when it is in no column."""
        return next((texts[column] for texts in self._columns if column in texts), None)

    def number(self, column: str) -> int:
        """Return the number that counts; 0 when there is none."""
        return _number(self.text(column)) or 0

    def policy(self) -> dict[str, Optional[Value]]:
        """Return what is set by a key of KEYS, rates in bit/s; the law `default` is the same as none set."""
        found = {}
        for key, column in KEYS.items():
            text = self.text(column)
            if text is not None and (key, text) != ("law", "default"):
                found[key] = _value(key, text)
        return found

    def own(self, key: str) -> Optional[str]:
        """Return the text of a key of KEYS where this project's controller writes it."""
        return self._columns[0].get(KEYS[key])

    def explain(self, host_law: Optional[str], complaint: Optional[str]) -> Explained:
        """Return each value that counts, and where it is from; ``host_law`` is that of all machines of the host."""
        policy = self.policy()
        found = {}
        for key, column in KEYS.items():
            if key in policy:
                origin = next(name for name, texts in zip(COLUMNS, self._columns) if column in texts)
                found[key] = Setting(policy[key], origin)
            elif key == "law" and host_law is not None:
                found[key] = Setting(host_law, HOST_COLUMN)
            else:
                found[key] = Setting(DEFAULTS[key], "default")
        return Explained(found, complaint)


def stored(interface: Any, port: Any) -> Stored:
    """Return the keys of a row of table Interface, of a row of table Port."""
    return Stored((interface.other_config, interface.external_ids, port.other_config))


def _value(key: str, text: str) -> Optional[Value]:
    return text if key == "law" else _number(text)


def _number(text: Optional[str]) -> Optional[int]:
    """Return a number of 64 bits; None for what ovs-vswitchd reads none in, too."""
    if text is None or not re.fullmatch("[0-9]{1,20}", text) or int(text) >= 1 << 64:
        return None
    return int(text)
