# SPDX-License-Identifier: Apache-2.0
"""What a controller inside the machine says of itself by REST; asked by a plain socket, which needs no imports."""

from __future__ import annotations

import json
import socket
from typing import Any, Dict, List, Optional, Sequence

# Longest wait for an answer, seconds.
ANSWER_S = 10.0


def ask(port: int, path: str) -> Optional[Dict[str, Any]]:
    """Return what the controller at a port answers to a GET, whatever its status; None while it does not listen."""
    try:
        with socket.create_connection(("127.0.0.1", port), ANSWER_S) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
    except ConnectionError:
        return None
    found: Dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return found


def hindrances(port: int, datapaths: Sequence[str]) -> List[str]:
    """Return what keeps the controller at a port from its work with bridges, by their datapath ids; none: it is ready.

    A bridge is wanting until it is connected and its links had time to be found.
    """
    answer = ask(port, "/v1/readyz")
    if answer is None:
        return ["rest"]
    causes: List[str] = list(answer["causes"])
    if not causes:
        shown = ask(port, "/v1/switches") or {"switches": []}
        settled = {switch["switch"] for switch in shown["switches"] if switch["settled"]}
        causes += [f"switch {dpid}" for dpid in sorted(set(datapaths) - settled)]
    return causes
