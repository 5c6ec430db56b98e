# SPDX-License-Identifier: Apache-2.0
"""Which of the controller's settings change while it runs.

What can change without a restart is in LIVE; what else differs is named, and stays as it was.  A setting whose being
there at all decides how the controller listens, such as a certificate, may change its value only (KEPT).
"""

from typing import Callable, Sequence

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
    """Reads the controller's settings again."""

    def __init__(
        self,
        current: Settings,
        load: Callable[[], Settings],
        parts: Sequence[Callable[[Settings], Callable[[], None]]],
    ) -> None:
        super().__init__(current, load, check_files, parts, LIVE, KEPT)
