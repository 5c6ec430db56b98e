# SPDX-License-Identifier: Apache-2.0
"""What every resource of REST shares: the controller behind it, how requests are read and refusals said."""

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Iterable, Optional, Protocol, TypeVar

import falcon
import pydantic

from sdngcc.controller.engine import Engine
from sdngcc.controller.framework.admission import Admission
from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rest import models
from sdngcc.controller.rest.audit import AuditLog
from sdngcc.controller.rest.live import Live
from sdngcc.controller.wire.experimenter import VM_CONGESTED

if TYPE_CHECKING:
    from sdngcc.controller.rest.reporter import Reporter

# Items shown before other work gets its turn.
_TURN = 20

Item = TypeVar("Item")
Asked = TypeVar("Asked", bound=models.Query)


class Policy(Protocol):
    """Where policy is kept; ovsdb.Policy is one."""

    remotes: tuple[str, ...]

    def read(self, dpid: int, name: str) -> Optional[dict[str, int]]:
        """Return what is stored for a port; None when the port is not known."""

    def guarantees(self, dpid: int, name: str) -> tuple[int, Optional[int]]:
        """Return what a bridge's other machines are guaranteed, and its uplink's capacity if known."""

    def write(
        self, dpid: int, name: str, changes: Mapping[str, Optional[int]], check: Callable[[], None]
    ) -> None:
        """Store changes for a port that ``check`` does not refuse; raises PolicyError."""


def _go_on() -> None:
    """Let nothing else have its turn."""


@dataclasses.dataclass
class RestContext:
    """What the resources look at.

    ``pause`` lets other work of the process go on; ``changing`` is held while policy is checked and stored, so that two
    changes cannot each pass a check that both together would fail.
    """

    engine: Engine
    policy: Policy
    live: Live
    audit: AuditLog
    pause: Callable[[], Any] = _go_on
    changing: ContextManager[Any] = dataclasses.field(default_factory=contextlib.nullcontext)
    being_changed: set[Hop] = dataclasses.field(default_factory=set)  # machines whose policy is being stored
    admission: Admission = dataclasses.field(default_factory=Admission)  # of switches' connections

    def vms(self) -> list[VmRecord]:
        """Return all machines by switch and port."""
        found = [vm for switch in self.engine.switches.values() for vm in switch.vms.values()]
        return sorted(found, key=lambda vm: vm.place)

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


class Resource:
    """A resource of REST."""

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


@dataclasses.dataclass(frozen=True)
class Route:
    """A path, in falcon's terms, with what answers there."""

    path: str
    resource: type[Resource]
    operations: Mapping[str, Operation]


def refuse(status: int, error: str, header: Optional[tuple[str, str]] = None, **details: Any) -> falcon.HTTPStatus:
    """Return a refusal to be raised, with one more header if need be; ``details`` are fields of models.Refusal."""
    refusal = models.Refusal(error=error, **details)
    headers = {"Content-Type": falcon.MEDIA_JSON, **dict([header] if header else [])}
    return falcon.HTTPStatus(
        falcon.code_to_http_status(status), headers=headers, text=refusal.model_dump_json(exclude_unset=True)
    )


def reply(response: falcon.Response, answer: pydantic.BaseModel) -> None:
    """Answer with a document."""
    response.content_type = falcon.MEDIA_JSON
    response.data = answer.model_dump_json().encode()


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


def page(items: list[Item], query: models.PageQuery, place: Callable[[Item], tuple[int, int]]) -> tuple[
    list[Item], Optional[str]
]:
    """Return the page asked for of a list sorted by place, and the name of the next one."""
    start = 0
    if query.after is not None:
        dpid, _, port = query.after.partition(":")
        last = (int(dpid, 16), int(port))
        start = next((number for number, item in enumerate(items) if place(item) > last), len(items))
    shown = items[start : start + query.limit]
    if start + query.limit >= len(items):
        return shown, None
    dpid_shown, port_shown = place(shown[-1])
    return shown, f"{dpid_shown:016x}:{port_shown}"


def dpid_text(dpid: int) -> str:
    """Return a datapath id as REST shows it."""
    return f"{dpid:016x}"
