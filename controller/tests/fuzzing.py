# SPDX-License-Identifier: Apache-2.0
"""What programs that fuzz a parser share: a bound on its steps, inputs to begin with, and how a test runs them."""

import collections
import contextlib
import os
import pathlib
import socket
import subprocess
import sys


class Steps:
    """Raises AssertionError inside what takes more lines of Python than allowed; counts no library in C."""

    def __init__(self, allowed):
        self._left = allowed

    def __call__(self, frame, event, argument):
        if event == "line":
            self._left -= 1
            assert self._left > 0, f"too many steps in {frame.f_code.co_name}"
        return self


@contextlib.contextmanager
def steps(size, least=5000):
    """Bound what happens inside by the size of the input, in bytes; not while something else traces, as coverage does.

    ``least`` lines may be taken whatever the size.
    """
    if sys.gettrace() is not None:
        yield
        return
    sys.settrace(Steps(least + 40 * size))
    try:
        yield
    finally:
        sys.settrace(None)


# Other ends of answering()'s sockets: closed with what they were sent unread, they would break their answers off.
_others = collections.deque(maxlen=128)


def answering(data):
    """Return a socket whose other end has sent bytes, 100 kB at most, and nothing after them; None: it is silent."""
    near, far = socket.socketpair()
    if data is not None:
        far.sendall(data)
        far.shutdown(socket.SHUT_WR)
    _others.append(far)
    return near


def fuzz(take, seeds):
    """Give take inputs until libFuzzer's options, of the command line, say to stop; its folder gets the seeds first."""
    import atheris

    for argument in sys.argv[1:]:
        folder = pathlib.Path(argument)
        if not argument.startswith("-") and folder.is_dir():
            for number, seed in enumerate(seeds):
                (folder / f"seed-{number}").write_bytes(seed)
    atheris.Setup(sys.argv, take)
    atheris.Fuzz()


def run(program, corpus, runs, *options):
    """Run a fuzzing program, a module of sdngcc, with a folder; AssertionError with what it found."""
    command = [sys.executable, "-m", f"sdngcc.{program}", f"-runs={runs}", *options]
    environment = {**os.environ, "SDNGCC_CONTROLLER_NOTIFY": "false"}
    done = subprocess.run([*command, str(corpus)], capture_output=True, text=True, env=environment, cwd=corpus)
    assert done.returncode == 0 and f"Done {runs} runs" in done.stderr, done.stdout + done.stderr[-4000:]
