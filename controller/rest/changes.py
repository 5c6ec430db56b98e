# SPDX-License-Identifier: Apache-2.0
"""Changes of policy: checked and stored for one bridge at a time, all of them or none, with a record of each.

Bridges do not wait for each other: each has a lock of its own, held while its changes are checked and stored.
"""

import dataclasses
from typing import Any, Mapping, NamedTuple, NoReturn, Optional, Sequence, TypeVar, Union

import falcon
import pydantic

from sdngcc.controller.databases.client import OutcomeUnknown, PolicyError
from sdngcc.controller.databases.stored import Value
from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.rest import bulk_models, models
from sdngcc.controller.rest.audit import AuditError
from sdngcc.controller.rest.records import SentToMachine
from sdngcc.controller.rest.reporter import Reporter, Stored
from sdngcc.controller.rest.resource import RestContext, refuse

Changes = Mapping[str, Optional[Value]]
Body = TypeVar("Body", bound=pydantic.BaseModel)


class Asker(NamedTuple):
    """Who asks for a change, as the audit log shows it."""

    who: str
    address: Optional[str]


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What is to be changed of a machine: what is left out stays, None goes back to the default."""

    vm: VmRecord
    changes: Changes


def read_model(
    request: falcon.Request,
    body: bytes,
    model: type[Body],
    stays: Optional[models.InForce] = None,
    allowed: Mapping[str, str] = models.ALLOWED,
) -> Body:
    """Return the body of a request; one that is not what the model says is refused, with the policy that stays.

    ``allowed`` has what each field of the model may hold, in words.
    """
    details: dict[str, Any] = {} if stays is None else {"in_force": stays}
    kind = (request.content_type or "").partition(";")[0].strip().lower()
    if kind != falcon.MEDIA_JSON:
        text = f'Content-Type "{kind}" is not taken'
        raise refuse(415, text, field="Content-Type", allowed=falcon.MEDIA_JSON, **details)
    try:
        return model.model_validate_json(body)
    except pydantic.ValidationError as error:
        fault = error.errors()[0]
    if not fault["loc"]:
        names = ", ".join(model.model_fields)
        raise refuse(400, f"body is no JSON object: {fault['msg']}", allowed=names, **details)
    field, name = _name_fault(fault["loc"])
    if fault["type"] == "extra_forbidden":
        inner = model if len(fault["loc"]) == 1 else bulk_models.BulkEntry
        raise refuse(
            422, f'unknown field "{field}"', field=field, allowed=", ".join(inner.model_fields), **details
        )
    missing = fault["type"] == "missing"
    text = f"{field} is missing" if missing else f"{field} of {_shorten(fault['input'])} is not allowed"
    raise refuse(422, text, field=field, allowed=allowed[name], **details)


def _name_fault(location: tuple[Union[int, str], ...]) -> tuple[str, str]:
    """Return the field that is at fault, such as changes[3].min, and its last name, of a fault's location."""
    if len(location) == 1 or not isinstance(location[1], int):  # what follows then are variants of one field
        return str(location[0]), str(location[0])
    entry = f"{location[0]}[{location[1]}]"
    return (f"{entry}.{location[2]}", str(location[2])) if len(location) > 2 else (entry, "entry")


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def in_force(vm: VmRecord) -> models.InForce:
    """Return the policy that a machine's shim has in force."""
    reading = vm.reading
    if reading is None:
        return models.InForce(weight=None, min=None, max=None)
    return models.InForce(weight=reading.weight, min=reading.min_rate * 8, max=reading.max_rate * 8)


def record_refusal(
    context: RestContext, reporter: Reporter, vms: Sequence[VmRecord], asker: Asker, refusal: falcon.HTTPStatus
) -> None:
    """Record that nothing was changed of some machines, and why."""
    error = models.Refusal.model_validate_json(refusal.text or "").error
    for vm in vms:
        stays = context.policy.read(vm.place[0], vm.name)
        reporter.record_change(vm, stays, stays, *asker, error, "refused")


class BridgeChange:
    """Changes of machines of one bridge."""

    def __init__(self, context: RestContext, reporter: Reporter, wanted: Sequence[Wanted], asker: Asker) -> None:
        self._context = context
        self._reporter = reporter
        self._wanted = wanted
        self._asker = asker
        self._dpid = wanted[0].vm.place[0]
        self._before: list[Stored] = []

    def store(self) -> None:
        """Check and store all changes, and record each.

        Raises the refusal to be answered, 504 where nobody knows whether they are stored; otherwise nothing is.
        """
        context, vms = self._context, [one.vm for one in self._wanted]
        places = {vm.place for vm in vms}
        with context.locks.hold(self._dpid) as held:
            self._reporter.settle()
            self._before = [context.policy.read(*self._port(vm)) for vm in vms]
            context.being_changed |= places
            try:
                self._check_free(held)
                self._write()
            except falcon.HTTPStatus as refusal:
                record_refusal(context, self._reporter, vms, self._asker, refusal)
                raise
            except OutcomeUnknown as unknown:
                self._leave_open(unknown)
            finally:
                context.being_changed -= places
            for vm, before in zip(vms, self._before):
                self._reporter.record_change(vm, before, context.policy.read(*self._port(vm)), *self._asker)

    def _port(self, vm: VmRecord) -> tuple[int, str]:
        return self._dpid, vm.name

    def _check_free(self, held: bool) -> None:
        """Refuse the changes while an earlier one is under way."""
        for one in self._wanted:
            if held and one.vm.place not in self._context.pending:
                continue
            why = f"of {one.vm.id} was sent and not answered yet" if held else "at this bridge is still being stored"
            raise refuse(503, f"an earlier change {why}; this one was not begun", in_force=in_force(one.vm))

    def _leave_open(self, unknown: OutcomeUnknown) -> NoReturn:
        for one, before in zip(self._wanted, self._before):
            record = self._reporter.record_change(one.vm, before, None, *self._asker, str(unknown), "unknown")
            change = SentToMachine(before, *self._asker, record.time, unknown.doubt, one.vm)
            self._context.pending[one.vm.place] = change
        raise refuse(504, str(unknown), in_force=in_force(self._wanted[0].vm)) from None

    def _write(self) -> None:
        """Check the changes against what is stored, and store them."""
        self._check()
        changes = {one.vm.name: one.changes for one in self._wanted}
        try:
            self._context.audit.check()
            self._context.policy.write(self._dpid, changes, self._check)
        except (AuditError, PolicyError) as error:
            raise refuse(503, str(error), in_force=in_force(self._wanted[0].vm)) from None

    def _check(self) -> None:
        """Refuse changes that do not go with what is stored."""
        guaranteed = sum(self._check_one(one) for one in self._wanted)
        raising = [one for one in self._wanted if "min" in one.changes]
        others, capacity = self._context.policy.guarantees(self._dpid, {one.vm.name for one in self._wanted})
        if raising and capacity is not None and guaranteed + others > capacity:
            vm = raising[0].vm
            of = f"min of {guaranteed} bit/s" if len(self._wanted) == 1 else f"min of all named, {guaranteed} bit/s,"
            raise refuse(
                409,
                f"{of} and the {others} bit/s guaranteed to the bridge's other machines "
                f"are above the uplink's {capacity} bit/s",
                field="min",
                allowed=f"0 to {max(0, capacity - others)}",
                in_force=in_force(vm),
            )

    def _check_one(self, wanted: Wanted) -> int:
        """Refuse a change that contradicts itself or a port that is not known; return the guarantee after it."""
        vm, policy = wanted.vm, self._context.policy
        explained = policy.explain(*self._port(vm))
        if explained is None:
            remotes = ", ".join(policy.remotes) or "none"
            raise refuse(
                409,
                f"no OVSDB remote has port {vm.name} of switch {self._dpid:016x}; setting ovsdb names: {remotes}",
                in_force=in_force(vm),
            )
        stored = {key: setting.value for key, setting in explained.settings.items()}
        low, high = (int({**stored, **wanted.changes}[key] or 0) for key in ("min", "max"))
        if high and low > high:
            raise refuse(
                409,
                f"min of {low} bit/s is above max of {high} bit/s",
                field="min" if "min" in wanted.changes else "max",
                allowed="min <= max, unless max is 0 (no ceiling)",
                in_force=in_force(vm),
            )
        return low
