# SPDX-License-Identifier: Apache-2.0
"""What every resource of REST shares: the controller behind it, how requests are read and refusals said."""

import bisect
import contextlib
import dataclasses
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Optional, Protocol, TypeVar

import falcon
import pydantic

from sdngcc.controller.cluster.drain import Drain
from sdngcc.controller.databases.cloud import CloudDatabase
from sdngcc.controller.databases.health import Health
from sdngcc.controller.databases.stored import Explained, Value
from sdngcc.controller.databases.tenants import NoStore, TenantStore
from sdngcc.controller.engine import Engine
from sdngcc.controller.framework.admission import Admission
from sdngcc.controller.framework.allowlist import AllowList
from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.network.topology import Hop, Port
from sdngcc.controller.network.underlay_file import UnderlayFile
from sdngcc.controller.reload import Reloader
from sdngcc.controller.rest import models
from sdngcc.controller.rest.audit import AuditLog
from sdngcc.controller.rest.connections import Phase
from sdngcc.controller.rest.live import Live
from sdngcc.controller.rest.records import SentToMachine
from sdngcc.controller.settings.rest import Role
from sdngcc.controller.wire.experimenter import VM_CONGESTED

if TYPE_CHECKING:
    from sdngcc.controller.framework.managers import ManagerListener
    from sdngcc.controller.rest.reporter import Reporter

# Items shown before other work gets its turn.
_TURN = 4

# Key of a request's environment: the connection it came by (server.Asking); not there without a socket.
CONNECTION = "sdngcc.connection"

# Longest wait for another change at the same bridge.
LOCK_TIMEOUT_S = 4.0

# When a client may come again after 503, unless something else is said.
RETRY_S = 2

Item = TypeVar("Item")
Asked = TypeVar("Asked", bound=models.Query)


class Policy(Protocol):
    """Where policy is kept; ovsdb.Policy is one."""

    remotes: tuple[str, ...]

    def health(self) -> list[Health]:
        """Return the state of each database."""

    def read(self, dpid: int, name: str) -> Optional[dict[str, Optional[Value]]]:
        """Return what is set for a port; None when the port is not known."""

    def explain(self, dpid: int, name: str) -> Optional[Explained]:
        """Return where each value of a port's policy is from; None when the port is not known."""

    def guarantees(self, dpid: int, names: Collection[str]) -> tuple[int, Optional[int]]:
        """Return what machines of a bridge with other names are guaranteed, and its uplink's capacity if known."""

    def write(
        self, dpid: int, changes: Mapping[str, Mapping[str, Optional[Value]]], check: Callable[[], None]
    ) -> None:
        """Store changes for a bridge's ports that ``check`` does not refuse; raises PolicyError or OutcomeUnknown."""


class ClusterState(Protocol):
    """What REST shows of a cluster; runner.Cluster is one."""

    health: Health
    lease_changed_ns: int  # when the lease was got or lost last

    def is_live(self) -> bool:
        """Tell whether this controller holds a lease now."""

    def acting_for(self) -> int:
        """Return how many switches it acts for."""


class Locks:
    """One lock for each hypervisor bridge: a change of policy waits for others at its own bridge only.

    ``make`` returns a lock whose acquire() takes a time-out in seconds.
    """

    def __init__(self, make: Callable[[], Any] = threading.Lock) -> None:
        self._make = make
        self._locks: dict[int, Any] = {}

    @contextlib.contextmanager
    def hold(self, dpid: int, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[bool]:
        """Hold a bridge's lock; yields False when it could not be had within ``timeout_s``."""
        lock = self._locks.setdefault(dpid, self._make())
        held = lock.acquire(True, timeout_s)
        try:
            yield held
        finally:
            if held:
                lock.release()


def _go_on() -> None:
    """Let nothing else have its turn."""


def _one_by_one(functions: Sequence[Callable[[], None]]) -> None:
    for function in functions:
        function()


@dataclasses.dataclass
class RestContext:
    """What the resources look at.

    ``pause`` lets other work of the process go on; a bridge's lock is held while its policy is checked and stored, so
    that two changes cannot each pass a check that both together would fail.
    """

    engine: Engine
    policy: Policy
    live: Live
    audit: AuditLog
    pause: Callable[[], Any] = _go_on
    run_all: Callable[[Sequence[Callable[[], None]]], None] = _one_by_one  # that wait for different databases
    cluster: Optional[ClusterState] = None
    locks: Locks = dataclasses.field(default_factory=Locks)
    being_changed: set[Hop] = dataclasses.field(default_factory=set)  # machines whose policy is being stored
    pending: dict[Hop, SentToMachine] = dataclasses.field(default_factory=dict)  # by machine
    tenants: TenantStore = dataclasses.field(default_factory=NoStore)  # where their policy is kept
    clouds: Sequence[CloudDatabase] = ()  # databases of the cloud
    rest_connections: Callable[[], dict[str, int]] = dict  # REST's own, by phase
    reloader: Optional[Reloader] = None
    drain: Optional[Drain] = None
    admission: Admission = dataclasses.field(default_factory=Admission)  # of switches' connections
    managers: Optional["ManagerListener"] = None  # where databases connect
    allowed: AllowList = dataclasses.field(default_factory=AllowList)  # certificates that are admitted
    underlay: UnderlayFile = dataclasses.field(default_factory=lambda: UnderlayFile(None))

    def vms(self) -> list[VmRecord]:
        """Return all machines by switch and port."""
        found = [vm for switch in self.engine.switches.values() for vm in switch.vms.values()]
        return sorted(found, key=lambda vm: vm.place)

    def vms_in_turns(self) -> Iterable[VmRecord]:
        """Yield all machines by switch and port, with other work between them as in_turns() has it.

        Of those that come or go meanwhile some are yielded and some are not.
        """
        switches = self.engine.switches
        return self.in_turns(
            vm for dpid in sorted(switches) if dpid in switches for _, vm in sorted(switches[dpid].vms.items())
        )

    def ports_in_turns(self) -> Iterable[tuple[Hop, Port]]:
        """Yield all ports of switches by their places, as vms_in_turns() does machines."""
        ports = self.engine.topology.ports
        return self.in_turns(
            ((dpid, number), port) for dpid in sorted(ports) for number, port in sorted(ports.get(dpid, {}).items())
        )

    def in_turns(self, items: Iterable[Item]) -> Iterable[Item]:
        """Yield items and let other work go on between them, so that a long list delays no poll."""
        for number, item in enumerate(items):
            if number % _TURN == _TURN - 1:
                self.pause()
            yield item


def vm_state(vm: VmRecord) -> models.State:
    """Return a machine's state in a word."""
    if vm.reading is None:
        return "unknown"
    if not vm.active:
        return "inactive"
    return "congested" if vm.reading.flags & VM_CONGESTED else "active"


class Head:
    """Lets HEAD be answered as GET is, without a body."""

    def __init_subclass__(cls) -> None:
        """Give a class that answers GET an answer to HEAD, unless it has one."""
        super().__init_subclass__()
        if hasattr(cls, "on_get") and not hasattr(cls, "on_head"):
            cls.on_head = cls.on_get  # type: ignore[attr-defined]  # falcon leaves the body out


class Resource(Head):
    """A resource of REST; ``operations``, by method in small letters, are those of its route."""

    operations: Mapping[str, "Operation"] = {}

    def __init__(self, context: RestContext, reporter: "Reporter") -> None:
        self._context = context
        self._reporter = reporter
        self._engine = context.engine


@dataclasses.dataclass(frozen=True)
class Operation:
    """One method of a path, for the OpenAPI document."""

    summary: str
    answer: Optional[type[pydantic.BaseModel]]  # None: not JSON
    query: type[models.Query] = models.Query
    body: Optional[type[pydantic.BaseModel]] = None
    refusals: tuple[int, ...] = ()  # statuses beside those that every operation has
    media: str = falcon.MEDIA_JSON
    role: Optional[Role] = None  # of the token it needs; None: read for GET, else operate
    open: bool = False  # needs no token
    others: Mapping[int, type[pydantic.BaseModel]] = dataclasses.field(default_factory=dict)  # by status


def role_needed(method: str, operation: Operation) -> Role:
    """Return the least role that an operation, by a method in small letters, needs."""
    return operation.role or (Role.READ if method == "get" else Role.OPERATE)


@dataclasses.dataclass(frozen=True)
class Route:
    """A path, in falcon's terms, with what answers there."""

    path: str
    resource: type[Resource]
    operations: Mapping[str, Operation]


def refuse(status: int, error: str, header: Optional[tuple[str, str]] = None, **details: Any) -> falcon.HTTPStatus:
    """Return a refusal to be raised, with one more header if need be; ``details`` are fields of models.Refusal."""
    refusal = models.Refusal(error=error, **details)
    again = {"Retry-After": str(RETRY_S)} if status == 503 else {}
    headers = {"Content-Type": falcon.MEDIA_JSON, **again, **dict([header] if header else [])}
    return falcon.HTTPStatus(
        falcon.code_to_http_status(status), headers=headers, text=refusal.model_dump_json(exclude_unset=True)
    )


def reply(response: falcon.Response, answer: pydantic.BaseModel) -> None:
    """Answer with a document."""
    response.content_type = falcon.MEDIA_JSON
    response.data = answer.model_dump_json().encode()


def reply_list(
    response: falcon.Response,
    context: RestContext,
    answer: pydantic.BaseModel,
    name: str,
    items: Iterable[pydantic.BaseModel],
) -> None:
    """Answer with a document whose list of that name, empty so far, is made and written item by item in turns."""
    written = [item.model_dump_json() for item in context.in_turns(items)]
    before, _, after = answer.model_dump_json().partition(f'"{name}":[]')
    response.content_type = falcon.MEDIA_JSON
    response.data = f'{before}"{name}":[{",".join(written)}]{after}'.encode()


def read_query(request: falcon.Request, model: type[Asked]) -> Asked:
    """Return the parameters of a request; one that is unknown, given twice or out of range is refused."""
    known = ", ".join(model.model_fields)
    for name, value in request.params.items():
        if name not in model.model_fields:
            raise refuse(422, f'unknown parameter "{name}"', field=name, allowed=known or "none")
        if isinstance(value, list):
            raise refuse(422, f"parameter {name} is given {len(value)} times", field=name, allowed="once")
    try:
        return model.model_validate(request.params)
    except pydantic.ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        raise refuse(
            422,
            f'parameter {name} of "{request.params[name]}" is not allowed',
            field=name,
            allowed=models.in_words(name),
        ) from None


def read_body(request: falcon.Request, longest: int) -> bytes:
    """Return the whole body of a request; one that is too long, or does not come in time, is refused."""
    asking, length = request.env.get(CONNECTION), request.content_length
    chunked = (request.get_header("Transfer-Encoding") or "").lower() == "chunked"
    body: Optional[bytes] = b""
    if length is None or length <= longest:
        if asking:
            asking.enter(Phase.BODY)
        try:
            body = request.stream.read(longest + 1 if chunked else length or 0)
        except (OSError, ValueError):
            body = None
        if asking:
            asking.enter(Phase.ANSWER)
    if body is not None and max(len(body), length or 0) <= longest and (chunked or len(body) == (length or 0)):
        return body
    if asking:
        asking.close_afterwards()
    if body is not None and max(len(body), length or 0) > longest:
        raise refuse(413, f"body is longer than {longest} bytes", allowed=f"up to {longest} bytes")
    raise refuse(408, "the body did not come whole", allowed=f"{Phase.BODY.longest_s:g} s for all of it")


def page(items: list[Item], query: models.PageQuery, place: Callable[[Item], tuple[int, int]]) -> tuple[
    list[Item], Optional[str]
]:
    """Return the page asked for of a list sorted by place, and the name of the next one."""
    start = 0
    if query.after is not None:
        dpid, _, port = query.after.partition(":")
        last = (int(dpid, 16), int(port))
        start = bisect.bisect_right(items, last, key=place)
    shown = items[start : start + query.limit]
    if start + query.limit >= len(items):
        return shown, None
    dpid_shown, port_shown = place(shown[-1])
    return shown, f"{dpid_shown:016x}:{port_shown}"


def dpid_text(dpid: int) -> str:
    """Return a datapath id as REST shows it."""
    return f"{dpid:016x}"
