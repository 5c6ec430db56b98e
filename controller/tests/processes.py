# SPDX-License-Identifier: Apache-2.0
"""A switch that speaks OpenFlow 1.3 over TCP, and the controller's own process beside it.

Nothing here sleeps for a fixed time: what is to happen is waited for, however busy the machine is.
"""

import json
import os
import pathlib
import random
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any, Callable, Optional

from sdngcc.controller.wire import experimenter, openflow

PATIENCE_S = 240.0
KEY = bytes(range(16))


# Ports that tests may listen on: below those that the kernel gives to connections, whoever makes them.
PORTS = range(20_000, 32_000)
# Names in the abstract socket namespace, one for each port this process took: tests in other processes keep off them.
_taken: list[socket.socket] = []


def free_port() -> int:
    """Return a port of loopback, for TCP or UDP, that no other test of this machine gets while this process lives."""
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0sdngcc-test-port-{port}")
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as sock:
                    sock.bind(("127.0.0.1", port))
        except OSError:
            name.close()
            continue
        _taken.append(name)
        return port
    raise AssertionError(f"no port of {PORTS} is free")


def wait_for(condition: Callable[[], Any], what: Callable[[], str]) -> Any:
    """Return what a condition gives once it is true; fail with ``what()`` after four minutes."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, what()
        time.sleep(0.01)


class Turns:
    """A lock that tells how many came for it."""

    def __init__(self) -> None:
        self.came = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self.came += 1
        self._lock.acquire()

    def __exit__(self, *_: Any) -> None:
        self._lock.release()


class Controller:
    """`sdngcc controller` in a process of its own."""

    def __init__(
        self,
        folder: pathlib.Path,
        framework: str,
        name: str = "controller",
        descriptors: Optional[int] = None,
        **settings: Any,
    ) -> None:
        """``descriptors`` is how many files the process may have open, None as many as this one."""
        self.folder, self.name = folder, name
        self.address = ("127.0.0.1", free_port())
        self.url = f"http://127.0.0.1:{free_port()}"
        self.trace = folder / f"{name}.trace"
        self._log = folder / f"{name}.log"
        key_file = folder / "key"
        key_file.write_text(KEY.hex())
        chosen = {
            "KEY_FILE": key_file,
            "OPENFLOW": f"127.0.0.1:{self.address[1]}",
            "REST": self.url[len("http://") :],
            "SETTLE_MS": "50",
            "PERIOD_US": "20000",
            "TRACE_FILE": self.trace,
            **{key.upper(): text for key, text in settings.items()},
        }
        self._environment = {**os.environ, **{f"SDNGCC_CONTROLLER_{key}": str(text) for key, text in chosen.items()}}
        limit = ["prlimit", f"--nofile={descriptors}:{descriptors}"] if descriptors else []
        self._command = [*limit, sys.executable, "-m", "sdngcc.main", "controller", "--framework", framework]
        self.start()

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)
        self.await_listening()

    def await_listening(self) -> None:
        def listening() -> bool:
            assert self.process.poll() is None, self.log()
            try:
                socket.create_connection(self.address, timeout=1).close()
            except OSError:
                return False
            return True

        wait_for(listening, self.log)

    def log(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        self.process.wait(PATIENCE_S)

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def metrics(self) -> str:
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())

    def put(self, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        return self._change(urllib.request.Request(self.url + path, json.dumps(body).encode(), headers, method="PUT"))

    def delete(self, path: str) -> Any:
        return self._change(urllib.request.Request(self.url + path, method="DELETE"))

    def _change(self, request: urllib.request.Request) -> Any:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)


class WireSwitch:
    """An OpenFlow 1.3 switch with ports and counters, and no more; a thread serves its connections."""

    def __init__(self, dpid: int, ports: dict[int, bytes]) -> None:
        self.dpid, self.ports = dpid, ports
        self.marks: dict[int, experimenter.PortReading] = {}
        self.vms: dict[int, experimenter.VmReading] = {}
        self.generation = 1
        self.polls = 0
        self.overlapped = 0  # polls that came while another of the same kind was unanswered in the buffer
        self.packet_outs: list[tuple[int, bytes]] = []
        self.role_generation: Optional[int] = None
        self.refused = 0  # messages that a slave may not send
        self.senders: list[tuple[float, int, bytes]] = []  # control messages: when, port of the controller, frame
        self.flows: dict[bytes, tuple[int, bytes, bytes]] = {}  # match and priority -> cookie, match, instructions
        self.mute = False  # half-dead: the connection stands, nothing is answered
        self.lock = threading.RLock()
        self.lines: list[_Line] = []

    def connect(
        self, address: tuple[str, int], source: str = "127.0.0.1", context: Optional[ssl.SSLContext] = None
    ) -> "_Line":
        line = _Line(self, address, source, context)
        self.lines.append(line)
        return line

    def packet_in(self, port: int, frame: bytes) -> None:
        fields = struct.pack("!HHIHH", 1, 12, 0x80000004, port >> 16, port & 0xFFFF) + bytes(4)
        body = struct.pack("!IHBBQ", 0xFFFFFFFF, len(frame), 0, 0, 0) + fields + bytes(2) + frame
        for line in list(self.lines):
            if line.role != openflow.ROLE_SLAVE or line.hears_all:
                line.send(10, 0, body)

    def close(self) -> None:
        for line in self.lines:
            line.close()


class _Line:
    """One connection of a switch to one controller."""

    def __init__(
        self, switch: WireSwitch, address: tuple[str, int], source: str, context: Optional[ssl.SSLContext]
    ) -> None:
        self.switch, self.address = switch, address
        self.role = openflow.ROLE_EQUAL
        self.hears_all = False
        self.alive = True
        self._sock = socket.create_connection(address, timeout=PATIENCE_S, source_address=(source, 0))
        self.name = "{}:{}".format(*self._sock.getsockname())
        if context is not None:
            self._sock = context.wrap_socket(self._sock)
        self._sock.settimeout(PATIENCE_S)
        self.send(0, 1, b"")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def send(self, kind: int, xid: int, body: bytes) -> None:
        try:
            self._sock.sendall(struct.pack("!BBHI", 4, kind, 8 + len(body), xid) + body)
        except OSError:
            self.alive = False

    def close(self) -> None:
        self.alive = False
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._thread.join(PATIENCE_S)
        self._sock.close()

    def _serve(self) -> None:
        buffer = b""
        while self.alive:
            try:
                chunk = self._sock.recv(65536)
            except OSError:
                chunk = b""
            if not chunk:
                self.alive = False
                return
            buffer += chunk
            asked = 0
            while len(buffer) >= 8:
                length = struct.unpack_from("!H", buffer, 2)[0]
                if len(buffer) < length:
                    break
                data, buffer = buffer[:length], buffer[length:]
                if not self.switch.mute:
                    with self.switch.lock:
                        before = self.switch.polls
                        self._take(data)
                        asked += self.switch.polls - before
            self.switch.overlapped += max(0, asked - 1)

    def _take(self, data: bytes) -> None:
        switch = self.switch
        kind, xid = data[1], struct.unpack_from("!I", data, 4)[0]
        if kind == 2:
            self.send(3, xid, data[8:])
        elif kind == 5:
            self.send(6, xid, struct.pack("!QIBB2xII", switch.dpid, 0, 1, 0, 0x47, 0))
        elif kind in (openflow.OFPT_PACKET_OUT, openflow.OFPT_FLOW_MOD) and self.role == openflow.ROLE_SLAVE:
            switch.refused += 1
            self.send(openflow.OFPT_ERROR, xid, struct.pack("!HH", 1, 10) + data[:64])  # OFPBRC_IS_SLAVE
        elif kind == openflow.OFPT_PACKET_OUT:
            self._packet_out(data)
        elif kind == openflow.OFPT_FLOW_MOD:
            self._flow_mod(data)
        elif kind == openflow.OFPT_ROLE_REQUEST:
            self._role(xid, *struct.unpack_from("!I4xQ", data, 8))
        elif kind == openflow.OFPT_SET_ASYNC:
            self.hears_all = bool(struct.unpack_from("!II", data, 8)[1])
        elif kind == openflow.OFPT_MULTIPART_REQUEST:
            part = struct.unpack_from("!H", data, 8)[0]
            if part == 13:
                body = b"".join(
                    struct.pack("!I4x6s2x16sIIIIIIII", port, bytes([2, 0, 0, 0, 9, port]), name, *[0] * 8)
                    for port, name in switch.ports.items()
                )
                self.send(19, xid, struct.pack("!HH4x", 13, 0) + body)
            elif part == openflow.OFPMP_FLOW:
                self._flow_statistics(xid, *struct.unpack_from("!QQ", data, 32))
            elif part == openflow.OFPMP_EXPERIMENTER:
                self._experimenter(data)

    def _packet_out(self, data: bytes) -> None:
        length = struct.unpack_from("!H", data, 16)[0]
        port, frame = struct.unpack_from("!I", data, 28)[0], data[24 + length :]
        self.switch.packet_outs.append((port, frame))
        if (frame[12:14] == b"\x08\x00" and frame[23] == 253) or (frame[12:14] == b"\x86\xdd" and frame[20] == 253):
            self.switch.senders.append((time.monotonic(), self.address[1], frame))

    def _flow_mod(self, data: bytes) -> None:
        cookie, mask = struct.unpack_from("!QQ", data, 8)
        matched = struct.unpack_from("!H", data, 50)[0]
        end = 48 + (matched + 7) // 8 * 8
        if data[24] not in (0, 0xFF):
            return  # there is no other table than 0
        if data[25] == 3:
            kept = {key: flow for key, flow in self.switch.flows.items() if flow[0] & mask != cookie & mask}
            self.switch.flows = kept
        else:
            self.switch.flows[data[30:32] + data[48:end]] = (cookie, data[48:end], data[end:])

    def _flow_statistics(self, xid: int, cookie: int, mask: int) -> None:
        body = b""
        for known, match, instructions in self.switch.flows.values():
            if known & mask == cookie & mask:
                length = 48 + len(match) + len(instructions)
                body += struct.pack("!H22xQQQ", length, known, 0, 0) + match + instructions
        self.send(openflow.OFPT_MULTIPART_REPLY, xid, struct.pack("!HH4x", openflow.OFPMP_FLOW, 0) + body)

    def _role(self, xid: int, role: int, generation: int) -> None:
        switch = self.switch
        if role in (openflow.ROLE_MASTER, openflow.ROLE_SLAVE):
            known = switch.role_generation
            if known is not None and (generation - known) % 2**64 >= 2**63:
                self.send(openflow.OFPT_ERROR, xid, struct.pack("!HH", 11, 0))
                return
            switch.role_generation = generation
        if role == openflow.ROLE_MASTER:
            for line in switch.lines:
                if line.role == openflow.ROLE_MASTER:
                    line.role = openflow.ROLE_SLAVE
        self.role = role or self.role
        generation = switch.role_generation if switch.role_generation is not None else 2**64 - 1
        self.send(openflow.OFPT_ROLE_REPLY, xid, struct.pack("!I4xQ", self.role, generation))

    def _experimenter(self, data: bytes) -> None:
        switch = self.switch
        xid, kind, *_ = experimenter.decode_request(data)
        if kind == experimenter.PORT_MARKS:
            switch.polls += 1
            entries = [experimenter.encode_port_marks(reading) for reading in switch.marks.values()]
        else:
            entries = [experimenter.encode_vm_state(reading) for reading in switch.vms.values()]
        now = time.monotonic_ns()
        reply = experimenter.encode_reply(xid, kind, switch.generation, 9, now, entries)
        self.send(reply[1], xid, reply[8:])
