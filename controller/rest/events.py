# SPDX-License-Identifier: Apache-2.0
"""Server-sent events: what moves, to whoever listens (WHATWG HTML, section 9.2).

Each event goes to a queue a client.  A client that does not take its events in time is cut off rather than waited for:
it may come back with Last-Event-ID and gets what it missed, or the event `gap` when that is no longer known.

One address has a part of the streams only.  Where all are taken, one of the address that has most goes for a newcomer
of an address that has fewer, so that nobody is shut out by others.
"""

import collections
import queue
import re
import time
from typing import Any, Callable, Counter, Iterator, NamedTuple, Optional, Sequence

import falcon
import pydantic

from sdngcc.controller.rest import event_models, models
from sdngcc.controller.rest.connections import Phase
from sdngcc.controller.rest.resource import CONNECTION, Operation, Resource, Route, read_query, refuse

HEARTBEAT_S = 15.0
QUEUE_MAX = 64
HISTORY_MAX = 256
HISTORY_MAX_BYTES = 16 << 20
RETRY_MS = 2000
STREAMS_LEAST = 4  # that one address may have, however few there may be in all
STALLED_S = 10.0  # a client that took nothing of what waits for it for so long is cut off
_PIECE_ITEMS = 256

_HEARTBEAT = b": still here\n\n"


# The JSON of an event in pieces of some 64 kB, so that nothing makes, copies or sends megabytes in one go.
Pieces = Sequence[bytes]


class Snapshot(NamedTuple):
    """An event that a newcomer gets first."""

    kind: str
    data: Pieces


class Joiner:
    """Puts JSON texts together, one by one, as the items of a list in a document."""

    def __init__(self, head: bytes) -> None:
        """Begin with what comes before the list's items, its bracket among it."""
        self.empty = True
        self._pieces = [head]
        self._some: list[bytes] = []

    def add(self, item: bytes) -> None:
        """Add an item."""
        self._some.append(item if self.empty else b"," + item)
        self.empty = False
        if len(self._some) == _PIECE_ITEMS:
            self._join()

    def _join(self) -> None:
        self._pieces.append(b"".join(self._some))
        self._some.clear()

    def end(self, tail: bytes) -> Pieces:
        """Return the document, which ends with what comes after the items, the list's bracket among it."""
        if self._some:
            self._join()
        return (*self._pieces, tail)


class Client:
    """One who listens: an iterable of bytes for WSGI.  ``abort`` ends its connection whatever it waits for."""

    def __init__(self, broker: "Broker", first: list[bytes], abort: Callable[[], None], peer: str = "") -> None:
        """``peer`` is the address it came from."""
        self.peer = peer
        self.taken_s = broker.clock()  # when it took something last, or had nothing to take
        self._broker = broker
        self._ready = collections.deque(first)
        self._abort = abort
        self._queue = broker.make_queue(QUEUE_MAX)
        self._over = False

    def put(self, event: Pieces) -> bool:
        """Queue an event; False when the client is too slow."""
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            return False
        return True

    @property
    def waiting(self) -> int:
        """Return how many pieces and events wait for it."""
        return len(self._ready) + int(self._queue.qsize())

    def cut(self) -> None:
        """End the connection."""
        self._over = True
        self._abort()

    def end(self) -> None:
        """Let the stream end after what is queued, if it has room to hear of it."""
        self._over = True
        self.put(())

    def __iter__(self) -> Iterator[bytes]:
        """Return itself."""
        return self

    def __next__(self) -> bytes:
        """Return the next piece of an event, or a comment after HEARTBEAT_S of silence."""
        self.taken_s = self._broker.clock()
        if not self._ready:
            if self._over:
                raise StopIteration
            try:
                self._ready.extend(self._queue.get(timeout=HEARTBEAT_S))
            except queue.Empty:
                return _HEARTBEAT
            if not self._ready:
                raise StopIteration
        return self._ready.popleft()

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
        tell_cut: Callable[[str, str], None] = lambda peer, why: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``tell_cut`` is given the address of a client that was cut off, and why; ``clock`` returns seconds."""
        self.clients: set[Client] = set()
        self.make_queue = make_queue
        self.clients_max = clients_max
        self.clock = clock
        self._tell_cut = tell_cut
        self._epoch = epoch
        self._counters = counters
        self._number = 0
        self._history: collections.deque[tuple[int, Pieces]] = collections.deque()
        self._history_bytes = 0
        self._forgotten = 0  # number of the last event that was kept and is no longer

    def publish(self, kind: str, answer: pydantic.BaseModel) -> None:
        """Send an event to all, and keep it for those who come back."""
        self.publish_data(kind, [answer.model_dump_json().encode()])

    def publish_data(self, kind: str, data: Pieces, keep: bool = True) -> None:
        """Send an event, whose JSON is given, to all; ``keep`` it for those who come back."""
        self._number += 1
        event = self._encode(kind, data)
        if keep:
            self._history.append((self._number, event))
            self._history_bytes += sum(map(len, event))
            while len(self._history) > HISTORY_MAX or self._history_bytes > HISTORY_MAX_BYTES:
                self._forgotten, gone = self._history.popleft()
                self._history_bytes -= sum(map(len, gone))
        for client in [client for client in self.clients if not client.put(event)]:
            self._cut(client, f"{QUEUE_MAX} events wait that it does not read")

    def sweep(self) -> None:
        """Cut off who reads nothing of what waits."""
        now = self.clock()
        for client in list(self.clients):
            if not client.waiting:
                client.taken_s = now
            elif now - client.taken_s > STALLED_S:
                self._cut(client, f"it read nothing for {STALLED_S:g} s, though events wait for it")

    def _cut(self, client: Client, why: str) -> None:
        self._counters["event_clients_cut"] += 1
        self.leave(client)
        client.cut()
        self._tell_cut(client.peer, why)

    @property
    def clients_a_peer(self) -> int:
        """Return how many streams one address may have."""
        return max(STREAMS_LEAST, self.clients_max // 4)

    def _make_room(self, peer: str) -> bool:
        """Return whether an address may have another stream; one of another address may be cut off for it."""
        having = collections.Counter(client.peer for client in self.clients)
        if peer and having[peer] >= self.clients_a_peer:
            return False
        if len(self.clients) < self.clients_max:
            return True
        if not peer:
            return False  # its address is not known
        crowd, most = max(having.items(), key=lambda one: one[1], default=("", 0))
        if most <= having[peer] + 1:
            return False
        slowest = min((one for one in self.clients if one.peer == crowd), key=lambda one: (-one.waiting, one.taken_s))
        self._cut(slowest, "all streams are taken, and its address has most of them")
        return True

    def _encode(self, kind: str, data: Pieces) -> Pieces:
        first, *others = data
        head = f"id: {self._epoch}-{self._number}\nevent: {kind}\ndata: ".encode() + first
        return (head, *others, b"\n\n") if others else (head + b"\n\n",)

    def join(
        self, last_id: Optional[str], snapshots: list[Snapshot], abort: Callable[[], None], peer: str = ""
    ) -> Optional[Client]:
        """Add a client of an address; None when there are too many.

        Raises ValueError for an id no controller gives.
        """
        missed = self._missed(last_id) if last_id else []
        if not self._make_room(peer):
            return None
        first = [f"retry: {RETRY_MS}\n\n".encode(), *missed]
        for snapshot in snapshots:
            first += self._encode(snapshot.kind, snapshot.data)
        client = Client(self, first, abort, peer)
        self.clients.add(client)
        return client

    def _missed(self, last_id: str) -> Pieces:
        """Return the kept events after an id, or the event `gap`."""
        found = re.fullmatch(r"([0-9]{1,20})-([0-9]{1,20})", last_id)
        if not found:
            raise ValueError(last_id)
        last = int(found[2])
        if int(found[1]) != self._epoch or last > self._number or last < self._forgotten:
            return self._encode("gap", [event_models.GapEvent(last_event_id=last_id).model_dump_json().encode()])
        return [piece for number, event in self._history if number > last for piece in event]

    def leave(self, client: Client) -> None:
        """Remove a client."""
        self.clients.discard(client)

    def close(self) -> None:
        """Let all streams end."""
        for client in list(self.clients):
            client.end()


class Events(Resource):
    """/v1/events."""

    def on_head(self, request: falcon.Request, response: falcon.Response) -> None:
        """Say of what type the stream is, and begin none."""
        read_query(request, models.Query)
        response.content_type = "text/event-stream"

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Stream events until the client leaves."""
        read_query(request, models.Query)
        last_id = request.get_header("Last-Event-ID")
        try:
            client = self._reporter.join(last_id, _abort(request), _peer(request))
        except ValueError:
            raise refuse(
                422, f'Last-Event-ID "{last_id}" is none of ours', field="Last-Event-ID", allowed="the id of an event"
            ) from None
        if client is None:
            self._engine.counters["event_clients_refused"] += 1
            broker = self._reporter.broker
            error = (
                f"{len(broker.clients)} clients listen already; allowed are {broker.clients_max} (setting "
                f"rest_event_clients), and {broker.clients_a_peer} of one address"
            )
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


def _peer(request: falcon.Request) -> str:
    """Return the address that a request came from."""
    asking = request.env.get(CONNECTION)
    return "" if asking is None else str(asking.peer)


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
