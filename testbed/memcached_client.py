# SPDX-License-Identifier: Apache-2.0
"""Stores values in a memcached server at a steady rate and writes down how long each took.

``python -m sdngcc.testbed.memcached_client ADDRESS RATE SECONDS OUT``: RATE requests a second for SECONDS over one
connection of the pymemcache library. A request is due every 1 / RATE seconds whether the last one has ended or not,
and its time counts from when it was due. OUT gets a line ``due_ns took_ns`` for each, times from the first.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import List, Tuple

from pymemcache.client.base import Client

# The paper's sizes, bytes.
KEY_BYTES, VALUE_BYTES = 32, 6000
PORT = 11211


def store(address: str, rate: float, seconds: float) -> List[Tuple[int, int]]:
    """Store until seconds have passed; return due time and duration of each request, ns.

    Raises OSError or pymemcache's MemcacheError when the server does not answer as it should.
    """
    client = Client((address, PORT), no_delay=True, default_noreply=False)
    value = b"v" * VALUE_BYTES
    times: List[Tuple[int, int]] = []
    start = time.monotonic_ns()
    while True:
        due = round(len(times) / rate * 1e9)
        if due >= seconds * 1e9 or time.monotonic_ns() - start >= seconds * 1e9:
            break
        wait = start + due - time.monotonic_ns()
        if wait > 0:
            time.sleep(wait / 1e9)
        if not client.set(f"{len(times):0{KEY_BYTES}d}", value):
            raise OSError(f"{address} did not store a value")
        times.append((due, time.monotonic_ns() - start - due))
    client.close()
    return times


def main() -> int:
    """Do what the arguments say."""
    address, rate, seconds, out = sys.argv[1:]
    times = store(address, float(rate), float(seconds))
    Path(out).write_text("".join(f"{due} {took}\n" for due, took in times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
