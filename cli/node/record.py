# SPDX-License-Identifier: Apache-2.0
"""The record of what ``sdngcc node setup`` found and changed, so that it can be taken back."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from sdngcc.node.host import Host, HostError

# In a folder that is root's: the controller's account, which has one of its own, must not decide what root does.
FOLDER = "/var/lib/sdngcc-node"
FILE = f"{FOLDER}/node.json"
SCHEMA = 1


@dataclass(frozen=True)
class Wanted:
    """What a node is to be set up with; None: left as it is."""

    uplinks: Tuple[str, ...]
    vms: Tuple[str, ...] = ()
    law: Optional[str] = None
    key_file: Optional[str] = None
    capacity: Optional[int] = None
    """Of each uplink, bit/s."""
    controller: Optional[str] = None
    manager: Optional[str] = None
    boots: bool = True
    """Whether it is to outlive a boot."""


@dataclass
class Record:
    """What was wanted, and for each thing that was changed, by its name, what it was before."""

    wanted: Optional[Wanted] = None
    former: Dict[str, Any] = field(default_factory=dict)
    """In the order of the changes: name -> what was there."""

    def remember(self, name: str, former: Any) -> bool:
        """Keep what was there before the first change of a thing; return whether it was the first."""
        if name in self.former:
            return False
        self.former[name] = former
        return True


def read_record(host: Host) -> Record:
    """Return the record, empty without one. Raises HostError: who can write it decides what root does."""
    path = host.path(FILE)
    try:
        with open(path, encoding="utf-8") as file:
            state = os.fstat(file.fileno())
            document = json.load(file)
    except FileNotFoundError:
        return Record()
    except (OSError, ValueError) as error:
        raise HostError(f"{path} cannot be read: {error}") from None
    if state.st_uid != os.geteuid() or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HostError(f"{path} is not believed: it belongs to user {state.st_uid} with mode "
                        f"{stat.S_IMODE(state.st_mode):o}; allowed: this user's own, written by nobody else")
    try:
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']}")
        given: Optional[Dict[str, Any]] = document["wanted"]
        wanted = None if given is None else Wanted(
            **{**given, "uplinks": tuple(given["uplinks"]), "vms": tuple(given["vms"])})
        former: List[List[Any]] = document["former"]
        return Record(wanted, {name: value for name, value in former})
    except (KeyError, TypeError, ValueError) as error:
        raise HostError(f"{path} is no record of this version ({error})") from None


def write_record(host: Host, record: Record) -> None:
    """Keep the record. Raises HostError."""
    document = {"schema": SCHEMA, "wanted": record.wanted and asdict(record.wanted),
                "former": [list(one) for one in record.former.items()]}
    host.write(FILE, json.dumps(document, indent=1) + "\n", mode=0o600)
