# SPDX-License-Identifier: Apache-2.0
"""The file of the network beneath, followed while the controller runs."""

import logging
import pathlib
from typing import Callable, Optional

from sdngcc.configuration import SettingsError, stamp
from sdngcc.controller.network import underlay
from sdngcc.controller.network.underlay import Underlay
from sdngcc.controller.settings import Settings

LOG = logging.getLogger(__name__)

Read = Callable[[pathlib.Path], Optional[Underlay]]


class UnderlayFile:
    """Looks whether the file changed; one that cannot be used leaves the graph as it is.

    ``read`` returns what a file says, or raises SettingsError. It may let others run: a large file takes seconds.
    """

    def __init__(self, path: Optional[pathlib.Path], read: Read = underlay.read) -> None:
        """Follow a file that was read already; None: there is none."""
        self.fault: Optional[str] = None  # why the file as it is now is not in force
        self.changes = 0  # that came into force
        self.refused = 0
        self._path = path
        self._read = read
        self._seen = None if path is None else stamp(path)

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """Return what lets the file that settings name be followed; another one is read at the next look."""

        def commit() -> None:
            if settings.underlay_file != self._path:
                self._path, self._seen = settings.underlay_file, None

        return commit

    def follow(self, apply: Callable[[Underlay], None]) -> None:
        """Read the file if it changed, and hand what it says to ``apply``, which may raise ValueError against it."""
        path = self._path
        if path is None:
            return
        seen = stamp(path)
        if seen == self._seen and (seen is not None or self.fault is not None):
            return
        self._seen = seen
        try:
            found = self._read(path)
            assert found is not None
            apply(found)
        except ValueError as error:  # SettingsError is one
            self.refused += 1
            named = str(error) if isinstance(error, SettingsError) else f"underlay_file {path}: {error}"
            self.fault = named
            LOG.error("%s; the graph as it was stays in force", named)
            return
        self.fault = None
        self.changes += 1
        LOG.info("underlay_file %s: %d switches, %d hosts and %d links are in force now", path, len(found.switches),
                 len(set(found.hosts.values())), len(found.links))  # fmt: skip
