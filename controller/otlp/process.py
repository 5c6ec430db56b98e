# SPDX-License-Identifier: Apache-2.0
"""The controller's end of the receiver's process: starts it, reads its lines, ends it.

It waits by select() only, which lets other greenlets run where the standard library is patched.
"""

import os
import select
import subprocess
import sys
from typing import Iterator, Optional

from sdngcc.controller.otlp.records import LINE_MAX_BYTES, Orders

_CHUNK_BYTES = 65_536
_START_S = 30.0
_ENVIRONMENT = {
    "GRPC_VERBOSITY": "NONE",  # a line for each handshake that fails would let anybody fill the log
    "MALLOC_ARENA_MAX": "2",  # each takes addresses, which are bounded
}


class Receiver:
    """A receiver's process; its log lines go to this process's standard error.

    Raises OSError when it cannot be started.
    """

    def __init__(self, orders: Orders) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sdngcc.controller.otlp.receiver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **_ENVIRONMENT},
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._rest = b""
        try:
            self._send(orders.dump())
            os.set_blocking(self._output.fileno(), False)
        except BaseException:
            self.close()
            raise

    def _send(self, data: bytes) -> None:
        descriptor = self._input.fileno()
        os.set_blocking(descriptor, False)
        while data:
            if not select.select([], [descriptor], [], _START_S)[1]:
                raise TimeoutError(f"the receiver took nothing for {_START_S:g} s")
            data = data[os.write(descriptor, data[:_CHUNK_BYTES]) :]

    def lines(self, wait_s: float) -> Optional[Iterator[bytes]]:
        """Return the lines that came within a time, at the earliest; None when the process has ended.

        Raises ValueError for a line longer than LINE_MAX_BYTES.
        """
        descriptor = self._output.fileno()
        if not select.select([descriptor], [], [], wait_s)[0]:
            return iter(())
        try:
            data = os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            return iter(())
        if not data:
            return None
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_MAX_BYTES:
            raise ValueError("a receiver's line is too long")
        return iter(whole)

    def close(self) -> None:
        """End the process; it has nothing to lose."""
        self._process.kill()
        self._input.close()
        self._output.close()
        self._process.poll()
