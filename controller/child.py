# SPDX-License-Identifier: Apache-2.0
"""The controller's end of a process beside it, which does what could hold up the event loop: starts it, reads its
lines, ends it.

It waits by select() only, which lets other greenlets run where the standard library is patched. The process is to end
when its standard input does, which is when the controller dies, however it dies.
"""

import os
import select
import subprocess
import sys
from typing import Iterator, Mapping, Optional

_CHUNK_BYTES = 65_536
_START_S = 30.0


class Child:
    """A process that runs a module, is given ``orders`` once, a line, and writes lines to its standard output.

    Its log lines go to this process's standard error. Raises OSError when it cannot be started.
    """

    def __init__(self, module: str, orders: bytes, line_max: int, environment: Mapping[str, str]) -> None:
        """``line_max`` bytes a line has at most; ``environment`` is added to this process's."""
        self._module = module
        self._line_max = line_max
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **environment},
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._rest = b""
        try:
            self._send(orders)
            os.set_blocking(self._output.fileno(), False)
        except BaseException:
            self.close()
            raise

    def _send(self, data: bytes) -> None:
        descriptor = self._input.fileno()
        os.set_blocking(descriptor, False)
        while data:
            if not select.select([], [descriptor], [], _START_S)[1]:
                raise TimeoutError(f"{self._module} took nothing for {_START_S:g} s")
            data = data[os.write(descriptor, data[:_CHUNK_BYTES]) :]

    def lines(self, wait_s: float) -> Optional[Iterator[bytes]]:
        """Return the lines that came within a time, at the earliest; None when the process has ended.

        Raises ValueError for a line that is too long.
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
        if len(self._rest) > self._line_max:
            raise ValueError(f"a line of {self._module} is too long")
        return iter(whole)

    def close(self) -> None:
        """End the process; it has nothing to lose."""
        self._process.kill()
        self._input.close()
        self._output.close()
        self._process.poll()
