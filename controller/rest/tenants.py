# SPDX-License-Identifier: Apache-2.0
"""Tenants: what all machines of each get together, and its policy."""

from typing import Annotated, Callable, Iterable, Literal, Optional, Union

import falcon
import pydantic

from sdngcc.controller.databases.client import OutcomeUnknown, PolicyError
from sdngcc.controller.databases.tenants import (
    RATE_MAX_BPS,
    RATE_MIN_BPS,
    TENANTS_MAX,
    WEIGHT_MAX,
    Changes,
    changed,
)
from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.network.tenants import NAME_IN_WORDS, NAME_PATTERN, Policy, is_name
from sdngcc.controller.rates.hierarchy import Tenant as Shares
from sdngcc.controller.rest import models
from sdngcc.controller.rest.audit import AuditError
from sdngcc.controller.rest.changes import read_model
from sdngcc.controller.rest.models import Answer, Count
from sdngcc.controller.rest.records import Sent, Subject
from sdngcc.controller.rest.resource import (
    Operation,
    Resource,
    RestContext,
    Route,
    read_body,
    read_query,
    refuse,
    reply,
    vm_state,
)

BODY_MAX_BYTES = 4096
_LOCK = -1  # among those of bridges: a change of one tenant's policy waits for that of another

Name = Annotated[str, pydantic.Field(pattern=NAME_PATTERN)]


class StoredTenant(Answer):
    """What is stored for a tenant; a key that is not set has its default."""

    weight: Optional[int] = None
    min: Optional[int] = pydantic.Field(None, description="bit/s")
    max: Optional[int] = pydantic.Field(None, description="bit/s")


class Member(Answer):
    """A VM of a tenant."""

    id: str
    place: str = pydantic.Field(description="<switch>:<port name>; names this VM and no other")
    state: models.State
    weight: Optional[Count] = pydantic.Field(description="beside the tenant's other VMs")
    rate_bps: Optional[Count] = pydantic.Field(description="what it may send now")
    sent_bps: Optional[Count] = pydantic.Field(description="what it sent over the shim's last period")


class Tenant(Answer):
    """A tenant: all VMs whose ports have its name as shim-tenant, wherever they run."""

    name: Name
    weight: Optional[Count] = pydantic.Field(description="beside other tenants; null: its VMs stand for themselves")
    min_bps: Count = pydantic.Field(description="guarantee of all its VMs together; 0: none")
    max_bps: Count = pydantic.Field(description="cap of all its VMs together; 0: none")
    applied: bool = pydantic.Field(description="false: `decision` is marks, which divides nothing by tenant")
    vms: Count
    active: Count = pydantic.Field(description="VMs that send")
    hypervisors: Count = pydantic.Field(description="bridges where they are")
    rate_bps: Count = pydantic.Field(description="what its active VMs may send now, together")
    sent_bps: Count = pydantic.Field(description="what its VMs sent over their shims' last periods, together")
    stored: Optional[StoredTenant] = pydantic.Field(description="null: nothing is stored for it")


class TenantDetails(Tenant):
    """A tenant with its VMs."""

    members: list[Member] = pydantic.Field(description="by switch and port")


class Tenants(Answer):
    """A page of tenants by name: those that have VMs, and those that something is stored for."""

    tenants: list[Tenant]
    total: Count
    next: Optional[str] = pydantic.Field(description="value of `after` for the next page; null: this is the last")


class TenantQuery(models.Query):
    """Which page of the list of tenants."""

    limit: Annotated[int, pydantic.Field(ge=1, le=models.PAGE_MAX), models.Decimal] = pydantic.Field(
        models.PAGE_MAX, description="longest page"
    )
    after: Optional[models.Name] = pydantic.Field(None, description="`next` of the page before")


Rate = Union[Literal[0], Annotated[int, pydantic.Field(ge=RATE_MIN_BPS, le=RATE_MAX_BPS)]]


class TenantChange(pydantic.BaseModel):
    """The body of PUT: what is left out stays, null goes back to the default."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    weight: Optional[Annotated[int, pydantic.Field(ge=1, le=WEIGHT_MAX)]] = pydantic.Field(
        None, description="part of congested ports beside other tenants; null: the setting tenant_weight"
    )
    min: Optional[Rate] = pydantic.Field(None, description="guarantee, bit/s; 0 or null: none")
    max: Optional[Rate] = pydantic.Field(None, description="cap, bit/s; 0 or null: none")

    _take_integral = pydantic.field_validator("weight", "min", "max", mode="before")(models.integral)


ALLOWED = {
    "weight": f"a whole number from 1 to {WEIGHT_MAX}, or null for that of the setting tenant_weight",
    "min": f"bit/s, 0 for no guarantee or {RATE_MIN_BPS} to {RATE_MAX_BPS}, or null for the default of 0",
    "max": f"bit/s, 0 for no cap or {RATE_MIN_BPS} to {RATE_MAX_BPS}, or null for the default of 0",
}


def show(context: RestContext, name: str, vms: Iterable[VmRecord]) -> Tenant:
    """Return a tenant as REST shows it."""
    engine, policies, vms = context.engine, context.tenants.read(), list(vms)
    shares, stored = engine.tenants.shares.get(name, Shares()), policies.get(name)
    return Tenant(
        name=name,
        weight=shares.weight,
        min_bps=(stored or {}).get("min", 0),
        max_bps=(stored or {}).get("max", 0),
        applied=engine.settings.decision == "maxmin",
        vms=len(vms),
        active=sum(vm.active for vm in vms),
        hypervisors=len({vm.place[0] for vm in vms}),
        rate_bps=8 * sum(vm.reading.rate for vm in vms if vm.reading and vm.active),
        sent_bps=8 * sum(vm.sent_rate for vm in vms),
        stored=None if stored is None else StoredTenant(**stored),
    )


def show_details(context: RestContext, name: str, vms: list[VmRecord]) -> TenantDetails:
    """Return a tenant with its machines as REST shows it."""
    members = [
        Member(
            id=vm.id,
            place=vm.bridge_id,
            state=vm_state(vm),
            weight=vm.reading and vm.reading.weight,
            rate_bps=vm.reading and vm.reading.rate * 8,
            sent_bps=vm.reading and vm.reading.sent_rate * 8,
        )
        for vm in context.in_turns(vms)
    ]
    return TenantDetails(**dict(show(context, name, vms)), members=members)


class TenantList(Resource):
    """/v1/tenants."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """List the tenants."""
        query, context = read_query(request, TenantQuery), self._context
        found = context.engine.tenants.by_tenant(context.vms_in_turns())
        names = [name for name in found if query.after is None or name > query.after]
        shown = names[: query.limit]
        reply(
            response,
            Tenants(
                tenants=[show(context, name, found[name]) for name in context.in_turns(shown)],
                total=len(found),
                next=shown[-1] if len(names) > len(shown) else None,
            ),
        )


class OneTenant(Resource):
    """/v1/tenants/<name>."""

    def _vms(self, name: str) -> list[VmRecord]:
        tenants = self._engine.tenants
        return [vm for vm in self._context.vms() if tenants.name_of(vm) == name]

    def on_get(self, request: falcon.Request, response: falcon.Response, tenant: str) -> None:
        """Show one tenant."""
        read_query(request, models.Query)
        vms = self._vms(tenant)
        if not vms and tenant not in self._context.tenants.read():
            raise _unknown(tenant)
        reply(response, show_details(self._context, tenant, vms))

    def on_put(self, request: falcon.Request, response: falcon.Response, tenant: str) -> None:
        """Change weight, min or max; the tenant comes back as it is then."""
        read_query(request, models.Query)
        body = read_body(request, BODY_MAX_BYTES)

        def read() -> Changes:
            model = read_model(request, body, TenantChange, self._in_force(tenant), ALLOWED)
            return model.model_dump(exclude_unset=True)

        self._store(request, tenant, read)
        reply(response, show_details(self._context, tenant, self._vms(tenant)))

    def on_delete(self, request: falcon.Request, response: falcon.Response, tenant: str) -> None:
        """Remove what is stored for a tenant; it comes back as it is then."""
        read_query(request, models.Query)
        if tenant not in self._context.tenants.read():
            raise _unknown(tenant)
        self._store(request, tenant, lambda: None)
        reply(response, show_details(self._context, tenant, self._vms(tenant)))

    def _store(self, request: falcon.Request, name: str, read: Callable[[], Optional[Changes]]) -> None:
        """Store the changes that ``read`` returns, None: remove all, and record what came of it."""
        context, record = self._context, self._reporter.records.add
        subject, asker = Subject(tenant=name[:80]), (request.context.who, request.remote_addr)
        with context.locks.hold(_LOCK) as held:
            self._reporter.settle()
            before = context.tenants.read().get(name)
            try:
                self._check_free(name, held)
                self._write(name, read())
            except falcon.HTTPStatus as refusal:
                context.engine.counters["tenant_changes_refused"] += 1
                error = models.Refusal.model_validate_json(refusal.text or "").error
                record(subject, before, before, *asker, error, "refused")
                raise
            except OutcomeUnknown as unknown:
                time = record(subject, before, None, *asker, str(unknown), "unknown").time
                self._reporter.pending_tenants[name] = Sent(before, *asker, time, unknown.doubt)
                raise refuse(504, str(unknown), in_force=self._in_force(name)) from None
            context.engine.tenants.set_policies(dict(context.tenants.read()))
            record(subject, before, context.tenants.read().get(name), *asker)

    def _check_free(self, name: str, held: bool) -> None:
        """Refuse a name that none can have, and a change while an earlier one is under way."""
        if not is_name(name):
            raise refuse(422, f'"{name[:80]}" names no tenant', field="tenant", allowed=NAME_IN_WORDS)
        if not held or name in self._reporter.pending_tenants:
            why = "was sent and not answered yet" if held else "of a tenant is still being stored"
            raise refuse(503, f"an earlier change {why}; this one was not begun", in_force=self._in_force(name))

    def _write(self, name: str, changes: Optional[Changes]) -> None:
        def check(stored: Optional[Policy]) -> None:
            if changes is not None:
                self._check(name, stored, changes)

        try:
            self._context.audit.check()
            self._context.tenants.write(name, changes, check)
        except (AuditError, PolicyError) as error:
            raise refuse(503, str(error), in_force=self._in_force(name)) from None

    def _check(self, name: str, stored: Optional[Policy], changes: Changes) -> None:
        """Refuse a change that does not go with the settings, or with what is stored."""
        in_force, decision = self._in_force(name), self._engine.settings.decision
        wanted = [key for key, value in changes.items() if value]
        if wanted and decision != "maxmin":
            raise refuse(
                409,
                f"{wanted[0]} of a tenant is not held by decision {decision}, which divides marks among machines",
                field=wanted[0],
                allowed="0 or null, or decision: maxmin in the controller's settings",
                in_force=in_force,
            )
        after = changed(stored, changes)
        low, high = after.get("min", 0), after.get("max", 0)
        if high and low > high:
            raise refuse(
                409,
                f"min of {low} bit/s is above max of {high} bit/s",
                field="min" if "min" in changes else "max",
                allowed="min <= max, unless max is 0 (no cap)",
                in_force=in_force,
            )
        if stored is None and len(self._context.tenants.read()) >= TENANTS_MAX:
            raise refuse(
                409, f"policy is stored for {TENANTS_MAX} tenants", field="tenant",
                allowed=f"{TENANTS_MAX} at most; DELETE /v1/tenants/<name> makes room",
            )  # fmt: skip

    def _in_force(self, name: str) -> models.InForce:
        shares = self._engine.tenants.shares.get(name, Shares())
        stored = self._context.tenants.read().get(name, {})
        return models.InForce(weight=shares.weight, min=stored.get("min", 0), max=stored.get("max", 0))


def _unknown(name: str) -> falcon.HTTPStatus:
    return refuse(
        404,
        f'no port has shim-tenant "{name[:80]}", and nothing is stored for it',
        field="tenant",
        allowed="what GET /v1/tenants lists",
    )


ROUTES = (
    Route("/v1/tenants", TenantList, {"get": Operation("List tenants.", Tenants, TenantQuery)}),
    Route(
        "/v1/tenants/{tenant:path}",
        OneTenant,
        {
            "get": Operation("Show a tenant.", TenantDetails, refusals=(404,)),
            "put": Operation(
                "Change a tenant's policy: what is left out stays, null goes back to the default.",
                TenantDetails,
                body=TenantChange,
                refusals=(400, 408, 409, 413, 415, 503, 504),
            ),
            "delete": Operation(
                "Remove a tenant's policy; its machines stay its machines.", TenantDetails, refusals=(404, 503, 504)
            ),
        },
    ),
)
