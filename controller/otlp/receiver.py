# SPDX-License-Identifier: Apache-2.0
"""The receiver of OpenTelemetry metrics (OTLP over gRPC), a process of its own beside the controller.

gRPC's threads and the controller's event loop do not go together, and whoever exports could hold up the loop for as
long as a message takes to decode. Here that costs others nothing: this process decodes, refuses what is not as it must
be, and writes what is left to its standard output (records.py). Its memory is bounded; when it dies, the controller
starts another.

Every export that can be read, of a certificate that counts, is answered with success, refused points or not: SONiC's
countersyncd ends when a collector tells it of rejected points. Where the controller cannot follow, the oldest lines
give way, for counters that follow say more than they; those are counted as ``queue_full``.

It ends when its standard input does, which is when the controller dies, however it dies.
"""

import collections
import os
import pathlib
import resource
import signal
import sys
import threading
import time
from concurrent import futures
from typing import Any, Callable, Optional

import grpc
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

from sdngcc.configuration import SettingsError
from sdngcc.controller.otlp import metrics
from sdngcc.controller.otlp.calls import Calls, read_core
from sdngcc.controller.otlp.records import Orders, export_lines, listening_line, refusals_line
from sdngcc.controller.otlp.revocation import Revocation

EXPORT = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
MESSAGE_MAX_BYTES = 4 << 20  # decoded or not; countersyncd's largest export is some 1.5 MB
MEMORY_MAX_BYTES = 4 << 30  # of addresses, gRPC's threads and libraries among them
DESCRIPTORS_MAX = 1024
THREADS = 4
WAITING_MAX = 64  # exports that wait for a thread; others are told to come again
LINES_MAX = 4096
REFUSALS_EVERY_S = 0.5
STREAMS_A_CONNECTION = 16
IDLE_MS = 300_000  # a connection without exports ends

OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_MAX_BYTES),
    ("grpc.max_send_message_length", 65_536),
    ("grpc.max_metadata_size", 8192),
    ("grpc.max_concurrent_streams", STREAMS_A_CONNECTION),
    ("grpc.max_connection_idle_ms", IDLE_MS),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.so_reuseport", 0),
    ("grpc.enable_channelz", 1),  # for calls.py
    # A compressed message of some kB can stand for gigabytes: none is taken.
    ("grpc.compression_enabled_algorithms_bitset", 1),
)


class Lines:
    """Lines for the controller: a bounded queue and the thread that writes them.

    ``look`` returns what else was refused since it was called last.
    """

    def __init__(
        self, descriptor: int, look: Callable[[], "collections.Counter[str]"] = collections.Counter
    ) -> None:
        self._look = look
        self._look_s = 0.0  # when it is called next
        self.refused: collections.Counter[str] = collections.Counter()
        self._descriptor = descriptor
        self._waiting: collections.deque[bytes] = collections.deque()
        self._changed = threading.Condition()

    def put(self, lines: list[bytes], refused: "collections.Counter[str]") -> None:
        """Queue lines; add to what was refused."""
        with self._changed:
            self.refused.update(refused)
            self._waiting.extend(lines)
            while len(self._waiting) > LINES_MAX:
                self._waiting.popleft()
                self.refused["queue_full"] += 1
            self._changed.notify()

    def write_always(self) -> None:
        """Write until the controller reads no more; what was refused at least twice a second."""
        try:
            while True:
                with self._changed:
                    if not self._waiting:
                        self._changed.wait(REFUSALS_EVERY_S)
                    lines = list(self._waiting)
                    self._waiting.clear()
                    if time.monotonic() >= self._look_s:
                        self._look_s = time.monotonic() + REFUSALS_EVERY_S
                        self.refused.update(self._look())
                    if self.refused:
                        lines.append(refusals_line(dict(self.refused)))
                        self.refused.clear()
                for line in lines:
                    _write(self._descriptor, line)
        except OSError:
            os._exit(0)  # the controller is gone


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def speakers(switches: dict[str, int], certificate_names: list[str]) -> dict[str, int]:
    """Return the switches that a peer may speak for: one whose certificate names a switch, for that one only."""
    own = {name: switches[name] for name in certificate_names if name in switches}
    return own or switches


def read_export(
    data: bytes, peer: str, certificate_names: list[str], switches: dict[str, int]
) -> tuple[list[bytes], "collections.Counter[str]"]:
    """Return the lines for the controller, and what was refused, of one export; raises DecodeError.

    A switch is known by host.name of the resource, else by the peer's address.
    """
    refused: collections.Counter[str] = collections.Counter()
    request = metrics_service_pb2.ExportMetricsServiceRequest.FromString(data)
    allowed = speakers(switches, certificate_names)
    lines = []
    for one in request.resource_metrics:
        name = metrics.host_of(one.resource) or peer
        if name not in switches:
            refused["switch_unknown"] += 1
        elif name not in allowed:
            refused["switch_foreign"] += 1
        else:
            lines += export_lines(switches[name], metrics.read(one.scope_metrics, refused))
    return lines, refused


def peer_address(peer: str) -> str:
    """Return the IP address of a peer as gRPC names it: ipv4:10.0.0.1:5000, ipv6:%5Bfe80::1%5D:5000."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return ""
    address = rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")
    mapped = "::ffff:"
    return address[len(mapped) :] if address.startswith(mapped) and "." in address else address


class Service(grpc.GenericRpcHandler):  # type: ignore[misc]
    """MetricsService/Export; messages come as bytes, so that what cannot be decoded is counted here."""

    def __init__(self, orders: Orders, lines: Lines, calls: Calls, revocation: Optional[Revocation]) -> None:
        self._orders = orders
        self._lines = lines
        self._calls = calls
        self._revocation = revocation
        self._answer = metrics_service_pb2.ExportMetricsServiceResponse().SerializeToString()

    def service(self, handler_call_details: Any) -> Optional[Any]:
        """Return the handler of a call, None for calls that there are not."""
        self._calls.begin()
        if handler_call_details.method != EXPORT:
            self._calls.known()
            self._lines.put([], collections.Counter(call_unknown=1))
            return None
        return grpc.unary_unary_rpc_method_handler(self._export)

    def _export(self, data: bytes, context: Any) -> bytes:
        self._calls.known()
        told = context.auth_context()
        names = [
            name.decode("utf-8", "replace")
            for key in ("x509_common_name", "x509_subject_alternative_name")
            for name in told.get(key, ())
        ]
        if self._revocation is not None:
            own, others = (b"".join(told.get(key, ())) for key in ("x509_pem_cert", "x509_pem_cert_chain"))
            refusal = self._revocation.judge(own, others)
            if refusal is not None:
                self._lines.put([], collections.Counter({refusal.kind: 1}))
                context.abort(grpc.StatusCode.UNAUTHENTICATED, refusal.words)
        try:
            lines, refused = read_export(data, peer_address(context.peer()), names, self._orders.switches)
        except DecodeError:
            self._lines.put([], collections.Counter(malformed=1))
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "this is no ExportMetricsServiceRequest")
        self._lines.put(lines, refused)
        return self._answer


def serve(orders: Orders, lines: Lines, calls: Calls) -> tuple[Any, int]:
    """Return a server that runs, and the port it listens at.

    Raises OSError when the address cannot be had, SettingsError when the lists of revoked certificates cannot be used.
    """

    def tell(fault: str) -> None:
        print(f"otlp: {fault}", file=sys.stderr, flush=True)
        lines.put([], collections.Counter(lists_unusable=1))

    revocation = None
    if orders.authority is not None and orders.lists is not None:
        revocation = Revocation(orders.authority, pathlib.Path(orders.lists), tell)
    server = grpc.server(
        futures.ThreadPoolExecutor(THREADS), options=OPTIONS, maximum_concurrent_rpcs=THREADS + WAITING_MAX
    )
    server.add_generic_rpc_handlers((Service(orders, lines, calls, revocation),))
    try:
        if orders.key is None or orders.certificate is None or orders.authority is None:
            port = server.add_insecure_port(orders.address)
        else:
            credentials = grpc.ssl_server_credentials(
                [(orders.key.encode(), orders.certificate.encode())], orders.authority.encode(), True
            )
            port = server.add_secure_port(orders.address, credentials)
    except RuntimeError:
        port = 0
    if not port:
        raise OSError(f"{orders.address} cannot be listened at; another process may have it")
    server.start()
    return server, port


def limit() -> None:
    """Bound what this process can take."""
    for kind, most in ((resource.RLIMIT_AS, MEMORY_MAX_BYTES), (resource.RLIMIT_NOFILE, DESCRIPTORS_MAX)):
        _, hard = resource.getrlimit(kind)
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (bound, hard))


def main(read_line: Callable[[], bytes] = sys.stdin.buffer.readline) -> int:
    """Receive until standard input ends; return the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's
    limit()
    orders = Orders.load(read_line())
    calls = Calls(read_core)
    lines = Lines(sys.stdout.fileno(), calls.refused)
    try:
        server, port = serve(orders, lines, calls)
    except (OSError, SettingsError) as error:
        print(f"otlp: {error}", file=sys.stderr)
        return 1
    lines.put([listening_line(port)], collections.Counter())
    threading.Thread(target=lines.write_always, daemon=True).start()
    while read_line():
        pass
    server.stop(0)
    return 0


if __name__ == "__main__":
    # Not sys.exit(): that would wait for exports under way.
    status = main()
    sys.stderr.flush()
    os._exit(status)
