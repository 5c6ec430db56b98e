# SPDX-License-Identifier: Apache-2.0
"""Listening sockets that are this process's alone."""

from typing import Any

import eventlet
from eventlet.green import socket

from sdngcc.controller.settings import SettingsError, split_address

_BACKLOG = 1024


def listen(key: str, text: str) -> Any:
    """Return a green socket that listens at the address of a setting.

    Raises SettingsError naming the setting, the address and what can be done.  eventlet would share a port that another
    process of the same user listens at (SO_REUSEPORT), and the kernel would part switches between the two.
    """
    host, port = split_address(text)
    try:
        return eventlet.listen(
            (host, port), socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=_BACKLOG, reuse_port=False
        )
    except OSError as error:
        raise SettingsError(
            f"{key} {text}: cannot listen ({error.strerror or error}); `ss -ltnp sport = :{port}` shows who does: "
            f"stop that process, or set another {key}"
        ) from None
