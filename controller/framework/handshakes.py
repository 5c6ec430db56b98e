# SPDX-License-Identifier: Apache-2.0
"""Handshakes of TLS beside the thread that serves all: OpenSSL reckons in a thread of its own, for one at a time.

A handshake with a key of RSA takes a processor some milliseconds. OpenSSL lets other threads of Python run meanwhile,
so what is left for the thread that serves all is to wait for the peer's next words.
"""

import socket
import ssl
from typing import Any, Callable

from eventlet import tpool
from eventlet.hubs import trampoline

THREADS = 1  # of OpenSSL; what is left of the machine's processors is others'

tpool.set_num_threads(THREADS)


def shake_hands(sock: Any) -> None:
    """Do the handshake of a green socket of TLS, while others run.

    Raises OSError, socket.timeout among them, once the peer says what it may not, or nothing for the socket's timeout.
    """
    step: Callable[..., None] = super(type(sock), sock).do_handshake
    while True:
        try:
            tpool.execute(step)
            return
        except ssl.SSLWantReadError:
            trampoline(sock, read=True, timeout=sock.gettimeout(), timeout_exc=socket.timeout("timed out"))
        except ssl.SSLWantWriteError:
            trampoline(sock, write=True, timeout=sock.gettimeout(), timeout_exc=socket.timeout("timed out"))
