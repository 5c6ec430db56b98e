# SPDX-License-Identifier: Apache-2.0
"""An OVSDB server that answers as one does, and then sends what none should."""

import itertools
import json
import socket
import threading
import uuid
from typing import Any, Callable, Iterator

DPID = "00000000000000a1"


def _row(table: str, number: int, **columns: Any) -> tuple[str, dict[str, Any]]:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{table}{number}")), {"new": columns}


def tables(ports: int = 1, size: int = 0) -> dict[str, Any]:
    """Return a bridge with so many ports, each with so many bytes beside its name, as a monitor's reply has them."""
    interfaces = dict(
        _row("Interface", number, name=f"tap{number}", type="", ifindex=number + 1, options=["map", []],
             external_ids=["map", [["iface-id", f"neutron-{number}"], ["more", "x" * size]]],
             other_config=["map", []], status=["map", []])
        for number in range(ports)
    )  # fmt: skip
    found = dict(
        _row("Port", number, name=f"tap{number}", interfaces=["uuid", interface], tag=["set", []],
             other_config=["map", []])
        for number, interface in enumerate(interfaces)
    )  # fmt: skip
    bridge = _row("Bridge", 0, name="br0", datapath_id=DPID, ports=["set", [["uuid", one] for one in found]])
    system = _row("Open_vSwitch", 0, other_config=["map", []])
    return {"Interface": interfaces, "Port": found, "Bridge": dict([bridge]), "Open_vSwitch": dict([system])}


def _text(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()


def update(monitor: str, rows: dict[str, Any]) -> bytes:
    """Return a message that tells of changed rows, by table."""
    return _text({"method": "update", "params": [monitor, rows], "id": None})


def endless_string(monitor: str) -> Iterator[bytes]:
    yield b'{"id":null,"method":"'
    yield from itertools.repeat(b"x" * 65_536)


def deep_nesting(monitor: str) -> Iterator[bytes]:
    yield b'{"id":null,"method":"x","params":'
    yield from itertools.repeat(b"[" * 65_536)


def updates(monitor: str) -> Iterator[bytes]:
    key, row = next(iter(tables()["Interface"].items()))
    for number in itertools.count():
        new = {**row["new"], "status": ["map", [["n", str(number)]]]}
        yield update(monitor, {"Interface": {key: {"old": {"status": ["map", []]}, "new": new}}}) * 50


def unknown_answers(monitor: str) -> Iterator[bytes]:
    for number in itertools.count():
        yield _text({"id": number, "result": [{"rows": []}] * 20, "error": None}) * 50


def rows(monitor: str) -> Iterator[bytes]:
    for number in itertools.count():
        some = dict(
            _row("Port", 1_000_000 + 100 * number + one, name=f"p{number}", interfaces=["set", []], tag=["set", []],
                 other_config=["map", []])
            for one in range(100)
        )  # fmt: skip
        yield update(monitor, {"Port": some})


def heavy_rows(monitor: str) -> Iterator[bytes]:
    for number in itertools.count():
        key, row = _row("Interface", 1_000_000 + number, name=f"p{number}", other_config=["map", [["x", "y" * 50_000]]])
        yield update(monitor, {"Interface": {key: row}})


def echoes(monitor: str) -> Iterator[bytes]:
    yield from itertools.repeat(_text({"method": "echo", "params": ["x" * 50_000], "id": "e"}))


def long_echoes(monitor: str) -> Iterator[bytes]:
    yield from itertools.repeat(_text({"method": "echo", "params": ["x" * 100_000], "id": "e"}))


def long_string(monitor: str) -> Iterator[bytes]:
    key, row = _row("Interface", 2_000_000, name="x" * 140_000)
    yield from itertools.repeat(update(monitor, {"Interface": {key: row}}))


def rows2(monitor: str) -> Iterator[bytes]:
    """Rows as servers of today tell them, each of which comes and goes."""
    for number in itertools.count():
        key, row = _row("Port", 1_000_000 + number, name=f"p{number}")
        for change in ({"insert": row["new"]}, {"modify": {"name": f"q{number}"}}, {"delete": None}):
            yield _text({"method": "update2", "params": [monitor, {"Port": {key: change}}], "id": None})


def rows3(monitor: str) -> Iterator[bytes]:
    """A bridge whose ports come and go."""
    [bridge] = tables()["Bridge"]
    ports = ["set", [["uuid", str(uuid.uuid5(uuid.NAMESPACE_OID, f"more{number}"))] for number in range(500)]]
    for number in itertools.count():
        last = str(uuid.UUID(int=number))
        change = {"Bridge": {bridge: {"modify": {"ports": ports}}}}
        yield _text({"method": "update3", "params": [monitor, last, change], "id": None})


def wide_columns(monitor: str) -> Iterator[bytes]:
    for number in itertools.count():
        pairs = [[f"k{number}-{one}", ""] for one in range(2000)]
        key, row = _row("Interface", 1_000_000, name="p", other_config=["map", pairs])
        yield update(monitor, {"Interface": {key: row}})


def many_columns(monitor: str) -> Iterator[bytes]:
    for number in itertools.count():
        key, row = _row("Interface", 1_000_000, **{f"column{number}-{one}": one for one in range(2000)})
        yield update(monitor, {"Interface": {key: row}})


def many_bridges(monitor: str) -> Iterator[bytes]:
    for number in itertools.count():
        row = _row("Bridge", 1 + number, name=f"b{number}", datapath_id=f"{number + 7:016x}", ports=["set", []])
        yield update(monitor, {"Bridge": dict([row])})


def brackets(monitor: str) -> Iterator[bytes]:
    yield b'{"id":null,"method":"x","params":['
    yield from itertools.repeat(b"[]," * 20_000)


def white_space(monitor: str) -> Iterator[bytes]:
    yield from itertools.repeat(b" \n" * 30_000)


def no_uuid(monitor: str) -> Iterator[bytes]:
    _, row = _row("Port", 0, name="p")
    yield from itertools.repeat(update(monitor, {"Port": {"p": row} | {f"q{one}": row for one in range(1000)}}))


def no_json(monitor: str) -> Iterator[bytes]:
    yield b'{"id":null,"method":tru}' * 1000


def no_message(monitor: str) -> Iterator[bytes]:
    yield from itertools.repeat(b'{"id":null}')


def odd_updates(monitor: str) -> Iterator[bytes]:
    yield from itertools.repeat(_text({"method": "update", "params": [monitor, [1]], "id": None}) + b'{"method":5}')


def slow_document(monitor: str) -> Iterator[bytes]:
    yield b'{"id":null,"method":"'


Flood = Callable[[str], Iterator[bytes]]


class HostileDatabase:
    """Listens at a port of loopback; ``flood`` makes what is sent after the tables, None nothing."""

    def __init__(self, flood: "Flood | None", early: bool = False, initial: "dict[str, Any] | None" = None) -> None:
        """``early``: the flood comes in place of the tables."""
        self.flood, self.early = flood, early
        self.initial = tables() if initial is None else initial
        self.connections = 0
        self._over = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.remote = f"tcp:127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while not self._over:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with sock:
                sock.settimeout(0.2)
                try:
                    self._speak(sock)
                except (OSError, ValueError):
                    pass

    def _speak(self, sock: socket.socket) -> None:
        decoder, text, flood = json.JSONDecoder(), "", self.flood
        pending, monitor = iter(()), ""
        if self.early and flood is not None:
            pending = flood("")
        while not self._over:
            try:
                data = sock.recv(65_536)
                if not data:
                    return
                text += data.decode()
            except TimeoutError:
                pass
            while text:
                try:
                    said, end = decoder.raw_decode(text)
                except ValueError:
                    break
                text = text[end:]
                answer, monitor = self._answer(said, monitor)
                sock.sendall(answer)
                if monitor and flood is not None and not self.early:
                    pending, flood = flood(monitor), None
            for chunk in pending:
                self._push(sock, chunk)
                if self._over:
                    return

    def _push(self, sock: socket.socket, data: bytes) -> None:
        while data and not self._over:
            try:
                data = data[sock.send(data) :]
            except TimeoutError:
                pass

    def _answer(self, said: dict[str, Any], monitor: str) -> tuple[bytes, str]:
        method = said.get("method")
        if method == "echo":
            return _text({"id": said["id"], "result": said["params"], "error": None}), monitor
        if method == "monitor":
            return _text({"id": said["id"], "result": self.initial, "error": None}), said["params"][1]
        if method is not None and said.get("id") is not None:
            return _text({"id": said["id"], "result": None, "error": "unknown method"}), monitor
        return b"", monitor
