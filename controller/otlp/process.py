# SPDX-License-Identifier: Apache-2.0
"""The controller's end of the receiver's process."""

from sdngcc.controller.child import Child
from sdngcc.controller.otlp.records import LINE_MAX_BYTES, Orders

_ENVIRONMENT = {
    "GRPC_VERBOSITY": "NONE",  # a line for each handshake that fails would let anybody fill the log
    "MALLOC_ARENA_MAX": "2",  # each takes addresses, which are bounded
}


class Receiver(Child):
    """A receiver's process.

    Raises OSError when it cannot be started.
    """

    def __init__(self, orders: Orders) -> None:
        super().__init__("sdngcc.controller.otlp.receiver", orders.dump(), LINE_MAX_BYTES, _ENVIRONMENT)
