# SPDX-License-Identifier: Apache-2.0
"""One database with policy: a client by python-ovs' IDL whose every wait, and every connection's cost, is bounded.

A change is sent only after the database answered an echo, so one that is away or hung is told of before anything is on
its way.  Once a change was sent and its answer does not come, nobody knows what becomes of it: the connection is reset,
so that nothing more of it can be sent, and what the database says after the next connection decides (Doubt).
"""

import logging
import time
from typing import Any, Callable, Mapping, Optional

from sdngcc.controller.databases.health import TABLES_NS, Health, Kind, Liveness, State
from sdngcc.controller.databases.transport import BOUNDS, Bounds, Gate, Replica, all_of
from sdngcc.controller.framework.admission import Reason

PROBE_TIMEOUT_S = 2.0  # for the echo before a change
COMMIT_TIMEOUT_S = 4.0  # for a change, with all that it waits for
_POLL_S = 0.005

LOG = logging.getLogger(__name__)


class PolicyError(RuntimeError):
    """Policy that was not stored, and will not be by this request; the text says why."""


class OutcomeUnknown(RuntimeError):
    """Policy that was sent and may be stored or not; ``doubt`` finds out later."""

    def __init__(self, text: str, doubt: "Doubt") -> None:
        super().__init__(text)
        self.doubt = doubt


class Doubt:
    """A change whose answer never came; ``holds`` tells whether the database, as read last, has it."""

    def __init__(self, client: "Client", holds: Callable[[], bool]) -> None:
        self._client = client
        self._holds = holds
        self._connection = client.connection

    def is_of(self, client: "Client") -> bool:
        """Tell whether the change went to a client's database."""
        return self._client is client

    def resolve(self) -> Optional[bool]:
        """Return whether the change was stored; None while that is not known.

        It is known once another connection has read all tables and the database answered on it after that: what the
        reset connection still held has been processed, or is lost, by then.
        """
        client = self._client
        if not client.ready or client.connection == self._connection or not client.has_answered_since_read:
            return None
        return self._holds()


class Client:
    """A client of the database at an OVSDB connection method, or at one of several with commas.

    ``kind``, ``name`` (default: ``remote``) and ``consequence`` are for its Health; ``leader_only`` asks no follower of
    several; ``tables_ns`` is that of Liveness.  ``sleep`` takes seconds and lets others run.  ``prepare`` is given each
    replica that is made, before it connects.  One change is stored at a time; those who wait for their turn wait for
    this database only.
    """

    def __init__(
        self,
        remote: str,
        schema: Mapping[str, Any],
        sleep: Callable[[float], Any],
        clock: Callable[[], int] = time.monotonic_ns,
        kind: Kind = "hypervisor",
        name: Optional[str] = None,
        consequence: str = "its machines keep their names and policy, changes of policy are refused",
        leader_only: bool = True,
        tables_ns: int = TABLES_NS,
        bounds: Bounds = BOUNDS,
        prepare: Callable[[Any], None] = lambda idl: None,
    ) -> None:
        from ovs.db.idl import Transaction
        from ovs.jsonrpc import Message

        self._kinds, self._message = Transaction, Message
        self.gate = Gate(bounds, sleep, clock)
        self.replica = Replica(remote, lambda: all_of(schema), self.gate, leader_only, prepare)
        self.health = Health(name or remote, kind, clock(), consequence)
        self._name = f"{kind} database {self.health.remote}"
        self._liveness = Liveness(clock(), tables_ns)
        self._clock = clock
        self._sleep = sleep
        self._busy = False
        self._read_by: Optional[int] = None  # the connection that read all tables
        self.has_answered_since_read = False

    @property
    def idl(self) -> Any:
        """What python-ovs keeps of the database."""
        return self.replica.idl

    @property
    def connection(self) -> int:
        """The number of the connection there is, or was last."""
        return self.gate.opened

    @property
    def ready(self) -> bool:
        """Whether there is a connection by which all tables were read."""
        return self.replica.ready

    @property
    def version(self) -> tuple[int, int]:
        """What differs after each change of the rows."""
        return self.replica.version

    @property
    def whole(self) -> bool:
        """Whether the rows are all of that version, and may be looked at."""
        return self.replica.whole

    def charge(self, work_ns: int) -> None:
        """Take processor time that the database's changes took from its part."""
        self.gate.charge(work_ns)

    def speaks_for(self, dpid: int) -> bool:
        """Tell whether what the database says of a bridge is believed."""
        return True

    def run(self) -> None:
        """Take in what the database sent, unless a change does so already."""
        if not self._busy:
            self._run()

    def _run(self) -> None:
        if self.replica.reading:
            return
        ended = self.replica.run()
        if ended is not None:
            self._tell_end(*ended)
        elif not self.gate.is_over():  # one that is given nothing now is not asked whether it lives
            self._judge()

    def _tell_end(self, reason: Reason, text: str) -> None:
        """Log why a connection was ended, and show it until one is sound for a while."""
        again = f"connecting again in {self.gate.hold_ns / 1e9:g} s"
        self.health.own_fault = f"closed the connection to it ({reason.value}): {text}; {again}"
        LOG.error("%s: %s; %s", self._name, self.health.own_fault, self.health.consequence)

    def _judge(self) -> None:
        """Look at whether the connection lives."""
        connection, now = self.replica.connection, self._clock()
        received = 0 if connection is None else self.replica.received()
        advice = self._liveness.look(connection, self.ready, received, now)
        self.health.become(self._state(advice.state), now)
        if self.ready:
            self._note_tables()
        if advice.cut:
            self.cut()
        elif advice.probe:
            self._probe()

    def _note_tables(self) -> None:
        """Take note that the connection there is has brought all tables."""
        if self.gate.forgive():
            self.health.own_fault = None
        if self._read_by != self.connection:
            self._read_by, self.has_answered_since_read = self.connection, False
            self._probe()
        elif self._liveness.answered():
            self.has_answered_since_read = True

    def end(self, reason: Reason, text: str) -> None:
        """End the connection there is, and say why."""
        transport = self.gate.transport
        if transport is not None and not transport.closed:
            transport.blame(reason, text)
            self.cut()

    def _state(self, judged: State) -> State:
        """Return the state as it is called for this kind of client."""
        return judged

    def _probe(self) -> None:
        """Ask for an echo, as the session itself would: it takes the answer away again."""
        request = self._message.create_request("echo", [])
        request.id = "echo"
        self._liveness.probed(self._clock())
        self.idl._session.send(request)

    def cut(self) -> None:
        """Reset the connection: what waits in it is discarded, here and in the kernel."""
        self.replica.cut()

    def store(self, change: Callable[[Any], None], holds: Callable[[], bool]) -> None:
        """Store what ``change`` makes of a new transaction; it is asked again when others changed what it expects.

        ``change`` may raise what it likes: nothing was sent then.  ``holds`` tells whether the tables have what is to
        be stored.  Raises PolicyError when nothing was, and nothing will be stored; OutcomeUnknown when the answer to
        what was sent does not come.
        """
        deadline = self._clock() + round(COMMIT_TIMEOUT_S * 1e9)
        while self._busy:
            self._wait(deadline, "another change to it is still being stored")
        self._busy = True
        try:
            self._await_echo()
            while self.replica.reading:
                self._wait(deadline, "what it sent is still being read")
            while not self._try(change, holds, deadline):
                self._wait(deadline, "others keep changing what this change expects")
                self._run()
                while not self.ready or self.replica.reading:
                    self._wait(deadline, "the connection broke")
                    self._run()
        finally:
            self._busy = False

    def _await_echo(self) -> None:
        """Wait until the database shows that it lives; raises PolicyError when it does not."""
        self._run()
        if not self.ready or self.health.state != "connected":
            raise PolicyError(f"{self.health.in_words()}; nothing was sent to it")
        self._probe()
        deadline = self._clock() + round(PROBE_TIMEOUT_S * 1e9)
        while not (self._liveness.answered() and self.ready):
            if self._clock() > deadline:
                text = f"{self._name} does not answer within {PROBE_TIMEOUT_S:g} s"
                raise PolicyError(f"{text}; nothing was sent to it")
            self._sleep(_POLL_S)
            self._run()

    def _try(self, change: Callable[[Any], None], holds: Callable[[], bool], deadline: int) -> bool:
        """Send a transaction and await its end; return False when the tables were no more as it expects."""
        transaction = self._kinds(self.idl)
        try:
            change(transaction)
        except BaseException:
            transaction.abort()
            raise
        sent_by = self.connection
        status = transaction.commit()
        while not self._is_read_anew() if sent_by != self.connection else status == self._kinds.INCOMPLETE:
            if self._clock() > deadline:
                raise self._doubt(holds)
            self._sleep(_POLL_S)
            self._run()
            status = transaction.commit()
        if sent_by != self.connection:
            return holds()  # the connection broke; the next one shows whether it was stored
        if status == self._kinds.TRY_AGAIN:
            return False
        if status not in (self._kinds.SUCCESS, self._kinds.UNCHANGED):
            raise PolicyError(f"OVSDB refused the change: {transaction.get_error() or status}")
        return True

    def _is_read_anew(self) -> bool:
        return self.ready and self._read_by == self.connection and self.has_answered_since_read

    def _doubt(self, holds: Callable[[], bool]) -> OutcomeUnknown:
        """Give up waiting for the answer to what was sent."""
        doubt = Doubt(self, holds)
        self.cut()
        return OutcomeUnknown(
            f"the change was sent to {self._name}, which does not answer within "
            f"{COMMIT_TIMEOUT_S:g} s: whether it is stored is unknown; the audit log will tell once it answers again",
            doubt,
        )

    def _wait(self, deadline: int, what: str) -> None:
        if self._clock() > deadline:
            raise PolicyError(f"{self._name}: {what}; no change was stored")
        self._sleep(_POLL_S)
