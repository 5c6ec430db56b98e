# SPDX-License-Identifier: Apache-2.0
"""What systemd is told of a program that runs for long: ready, reloading, stopping, alive (sd_notify(3)).

Without NOTIFY_SOCKET in the environment nothing is told.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Mapping, Optional


class Supervisor:
    """Tells systemd, without ever waiting for it; ``environment`` is as systemd sets it."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        # A name that begins with @ is of the abstract namespace, whose names begin with a zero.
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self.watchdog_s = _read_watchdog(environment) if path else None

    def ready(self, status: str) -> None:
        """Say that the program does its work, again after reloading(); ``status`` is for whoever asks systemctl."""
        self._tell(f"READY=1\nSTATUS={_one_line(status)}")

    def reloading(self) -> None:
        """Say that settings are read again; ready() is to follow."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """Say that the program is about to end."""
        self._tell("STOPPING=1")

    def alive(self, status: str) -> None:
        """Say that the program still does its work; to be called each half of ``watchdog_s``."""
        self._tell(f"WATCHDOG=1\nSTATUS={_one_line(status)}")

    def _tell(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.sendto(text.encode(), self._address)
        except OSError:
            pass  # whoever does not listen is not told


def _read_watchdog(environment: Mapping[str, str]) -> Optional[float]:
    """Return after how many seconds without a word systemd would end this process; None: it would not."""
    pid, text = environment.get("WATCHDOG_PID", ""), environment.get("WATCHDOG_USEC", "")
    if not text.isdecimal() or int(text) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(text) / 1e6


def _one_line(text: str) -> str:
    return " ".join(text.split())
