# SPDX-License-Identifier: Apache-2.0
"""Which of the controller's settings change while it runs.

What can change without a restart is in LIVE; what else differs is named, and stays as it was.  A setting whose being
there at all decides how the controller listens, such as a certificate, may change its value only (KEPT).
"""

import contextlib
from typing import Any, Callable, ContextManager, Optional, Sequence

from sdngcc import reload
from sdngcc.controller.settings import Settings
from sdngcc.controller.settings.files import check_files
from sdngcc.logs import LOGS

KEPT = frozenset({
    "key_file", "rest_token_file", "rest_tls_cert", "rest_tls_key",
    "openflow_tls_key", "openflow_tls_cert", "openflow_tls_ca", "underlay_file",
})  # fmt: skip
LIVE = KEPT | LOGS | {
    "key_other_file", "openflow_tls_crl", "rest_hosts", "rest_event_clients", "audit_file",
    "openflow_connections_a_peer", "openflow_silence_s", "ovsdb_connections_a_peer",
}  # fmt: skip


class Reloader(reload.Reloader[Settings]):
    """Reads the controller's settings again.

    ``check`` raises SettingsError for files that cannot be used. It may let others run: who asks to read again
    meanwhile waits for ``turn``, a lock.
    """

    def __init__(
        self,
        current: Settings,
        load: Callable[[], Settings],
        parts: Sequence[Callable[[Settings], Callable[[], None]]],
        check: Callable[[Settings], None] = check_files,
        turn: Optional[ContextManager[Any]] = None,
    ) -> None:
        super().__init__(current, load, check, parts, LIVE, KEPT)
        self._turn = contextlib.nullcontext() if turn is None else turn

    def run(self, by: str) -> reload.Outcome:
        """Read again, log and return what came of it; whatever is wrong leaves everything as it was."""
        with self._turn:
            return super().run(by)
