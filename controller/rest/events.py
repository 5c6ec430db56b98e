# SPDX-License-Identifier: Apache-2.0
"""Server-sent events: what moves, to whoever listens (WHATWG HTML, section 9.2).

Each event goes to a queue a client.  A client that does not take its events in time is cut off rather than waited for:
it may come back with Last-Event-ID and gets what it missed, or the event `gap` when that is no longer known.
"""

import collections
import queue
import re
from typing import Any, Callable, Counter, Iterator, NamedTuple, Optional

import falcon
import pydantic

from sdngcc.controller.rest import event_models, models
from sdngcc.controller.rest.connections import Phase
from sdngcc.controller.rest.resource import CONNECTION, Operation, Resource, Route, read_query, refuse

HEARTBEAT_S = 15.0
QUEUE_MAX = 64
HISTORY_MAX = 256
RETRY_MS = 2000

_HEARTBEAT = b": still here\n\n"


class Snapshot(NamedTuple):
    """An event that a newcomer gets first."""

    kind: str
    answer: pydantic.BaseModel


class Client:
    """One who listens: an iterable of bytes for WSGI.  ``abort`` ends its connection whatever it waits for."""

    def __init__(self, broker: "Broker", first: list[bytes], abort: Callable[[], None]) -> None:
        self._broker = broker
        self._first = first
        self._abort = abort
        self._queue = broker.make_queue(QUEUE_MAX)
        self._over = False

    def put(self, chunk: bytes) -> bool:
        """Queue an event; False when the client is too slow."""
        try:
            self._queue.put_nowait(chunk)
        except queue.Full:
            return False
        return True

    def cut(self) -> None:
        """End the connection."""
        self._over = True
        self._abort()

    def end(self) -> None:
        """Let the stream end after what is queued, if it has room to hear of it."""
        self._over = True
        self.put(b"")

    def __iter__(self) -> Iterator[bytes]:
        """Return itself."""
        return self

    def __next__(self) -> bytes:
        """Return the next event, or a comment after HEARTBEAT_S of silence."""
        if self._first:
            return self._first.pop(0)
        if self._over:
            raise StopIteration
        try:
            chunk: bytes = self._queue.get(timeout=HEARTBEAT_S)
        except queue.Empty:
            return _HEARTBEAT
        if not chunk:
            raise StopIteration
        return chunk

    def close(self) -> None:
        """Leave; WSGI calls it however the connection ended."""
        self._over = True
        self._broker.leave(self)


class Broker:
    """Numbers events, keeps the last ones and hands them on.

    ``epoch`` differs between runs of the controller: numbers of another run mean nothing here.  ``make_queue(size)``
    returns a queue as the standard library's, which waits as the process around it wants.
    """

    def __init__(
        self,
        epoch: int,
        clients_max: int,
        counters: "Counter[str]",
        make_queue: Callable[[int], Any] = queue.Queue,
    ) -> None:
        self.clients: set[Client] = set()
        self.make_queue = make_queue
        self.clients_max = clients_max
        self._epoch = epoch
        self._counters = counters
        self._number = 0
        self._history: collections.deque[tuple[int, bytes]] = collections.deque(maxlen=HISTORY_MAX)

    def publish(self, kind: str, answer: pydantic.BaseModel, keep: bool = True) -> None:
        """Send an event to all; ``keep`` it for those who come back."""
        self._number += 1
        chunk = self._encode(kind, answer)
        if keep:
            self._history.append((self._number, chunk))
        for client in [client for client in self.clients if not client.put(chunk)]:
            self._counters["event_clients_cut"] += 1
            self.leave(client)
            client.cut()

    def _encode(self, kind: str, answer: pydantic.BaseModel) -> bytes:
        return f"id: {self._epoch}-{self._number}\nevent: {kind}\ndata: {answer.model_dump_json()}\n\n".encode()

    def join(self, last_id: Optional[str], snapshots: list[Snapshot], abort: Callable[[], None]) -> Optional[Client]:
        """Add a client; None when there are too many.  Raises ValueError for an id no controller gives."""
        missed = self._missed(last_id) if last_id else []
        if len(self.clients) >= self.clients_max:
            return None
        first = [f"retry: {RETRY_MS}\n\n".encode(), *missed]
        first += [self._encode(snapshot.kind, snapshot.answer) for snapshot in snapshots]
        client = Client(self, first, abort)
        self.clients.add(client)
        return client

    def _missed(self, last_id: str) -> list[bytes]:
        """Return the kept events after an id, or the event `gap`."""
        found = re.fullmatch(r"([0-9]{1,20})-([0-9]{1,20})", last_id)
        if not found:
            raise ValueError(last_id)
        last = int(found[2])
        lost = len(self._history) == HISTORY_MAX and last < self._history[0][0] - 1
        if int(found[1]) != self._epoch or last > self._number or lost:
            return [self._encode("gap", event_models.GapEvent(last_event_id=last_id))]
        return [chunk for number, chunk in self._history if number > last]

    def leave(self, client: Client) -> None:
        """Remove a client."""
        self.clients.discard(client)

    def close(self) -> None:
        """Let all streams end."""
        for client in list(self.clients):
            client.end()


class Events(Resource):
    """/v1/events."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Stream events until the client leaves."""
        read_query(request, models.Query)
        broker, last_id = self._reporter.broker, request.get_header("Last-Event-ID")
        try:
            client = broker.join(last_id, self._reporter.snapshots(), _abort(request))
        except ValueError:
            raise refuse(
                422, f'Last-Event-ID "{last_id}" is none of ours', field="Last-Event-ID", allowed="the id of an event"
            ) from None
        if client is None:
            self._engine.counters["event_clients_refused"] += 1
            error = f"{broker.clients_max} clients listen already (setting rest_event_clients)"
            raise refuse(503, error, ("Retry-After", "10"))
        if CONNECTION in request.env:
            request.env[CONNECTION].enter(Phase.STREAM)
        request.env["eventlet.minimum_write_chunk_size"] = 0
        response.content_type = "text/event-stream"
        response.stream = client


def _abort(request: falcon.Request) -> Callable[[], None]:
    """Return what ends the connection of a request, even while it waits for its client to read."""
    asking = request.env.get(CONNECTION)
    return (lambda: None) if asking is None else asking.cut


ROUTES = (
    Route(
        "/v1/events",
        Events,
        {
            "get": Operation(
                "Server-sent events: vms, ports, switch, policy, notice, gap; their data are the schemas VmsEvent, "
                "PortsEvent, SwitchEvent, AuditRecord, NoticeEvent, GapEvent. A comment comes every 15 s.",
                None,
                refusals=(503,),
                media="text/event-stream",
            )
        },
    ),
)
