# SPDX-License-Identifier: Apache-2.0
"""Virtual machines: what each gets, and its policy."""

import falcon
import pydantic

from sdngcc.controller.databases.client import OutcomeUnknown, PolicyError
from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.rest import lookup, models
from sdngcc.controller.rest.audit import AuditError
from sdngcc.controller.rest.resource import (
    Operation,
    PendingChange,
    Resource,
    RestContext,
    Route,
    dpid_text,
    page,
    read_body,
    read_query,
    refuse,
    reply,
    vm_state,
)

BODY_MAX_BYTES = 4096


def show(context: RestContext, vm: VmRecord) -> models.Vm:
    """Return a machine as REST shows it."""
    relations, reading = context.engine.relations, vm.reading
    hosts = relations.hosts_at(vm.place)
    targets = sorted({target for host in hosts for target in relations.targets(host.mac)})
    stored = context.policy.read(vm.place[0], vm.name)
    return models.Vm(
        id=vm.id,
        switch=dpid_text(vm.place[0]),
        port=vm.place[1],
        port_name=vm.name,
        iface_id=vm.iface_id,
        state=vm_state(vm),
        messages_sent=vm.notices,
        marks_sent=vm.marks,
        uplink_port=reading and reading.uplink,
        weight=reading and reading.weight,
        min_bps=reading and reading.min_rate * 8,
        max_bps=reading and reading.max_rate * 8,
        rate_bps=reading and reading.rate * 8,
        share_bps=reading and reading.share * 8,
        sent_bps=reading and reading.sent_rate * 8,
        tx_bytes=reading and reading.tx_bytes,
        tx_packets=reading and reading.tx_packets,
        drops=reading and reading.drops,
        messages_accepted=reading and reading.messages,
        messages_refused=reading and reading.refused,
        marks_accepted=reading and reading.message_marks,
        age_ms=reading and (context.engine.clock() - vm.read_ns) // 1_000_000,
        macs=[lookup.mac_text(host.mac) for host in hosts],
        addresses=sorted(lookup.ip_text(address) for host in hosts for address in host.addresses),
        destinations=[lookup.mac_text(target) for target in targets],
        stored=None if stored is None else models.StoredPolicy(**stored),
    )


class Vms(Resource):
    """/v1/vms."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """List the machines that fit all filters."""
        query = read_query(request, models.VmQuery)
        found = self._context.vms() if query.name is None else lookup.find_all(self._context, query.name)
        found = [vm for vm in found if self._fits(vm, query)]
        shown, following = page(found, query, lambda vm: vm.place)
        vms = [show(self._context, vm) for vm in self._context.in_turns(shown)]
        reply(response, models.Vms(vms=vms, total=len(found), next=following))

    def _fits(self, vm: VmRecord, query: models.VmQuery) -> bool:
        relations = self._engine.relations
        return (
            (query.switch is None or int(query.switch, 16) == vm.place[0])
            and (query.port is None or query.port == vm.name)
            and (query.iface_id is None or query.iface_id == vm.iface_id)
            and (query.state is None or query.state == vm_state(vm))
            and (query.mac is None or lookup.has_mac(relations, vm, lookup.mac_bytes(query.mac) or b""))
            and (query.ip is None or lookup.has_ip(relations, vm, lookup.ip_bytes(query.ip) or b""))
        )


class Vm(Resource):
    """/v1/vms/<any name of a machine>."""

    def on_get(self, request: falcon.Request, response: falcon.Response, vm: str) -> None:
        """Show one machine."""
        read_query(request, models.Query)
        reply(response, show(self._context, lookup.find(self._context, vm)))

    def on_put(self, request: falcon.Request, response: falcon.Response, vm: str) -> None:
        """Change weight, min or max; what is stored comes back."""
        read_query(request, models.Query)
        context, body = self._context, read_body(request, BODY_MAX_BYTES)
        found, asker = lookup.find(context, vm), (request.context.who, request.remote_addr)
        with context.locks.hold(found.place[0]) as held:
            self._reporter.settle()
            before = context.policy.read(found.place[0], found.name)
            context.being_changed.add(found.place)
            try:
                changes = _read_changes(request, body, found)
                if not held or found.place in context.pending:
                    why = "was sent and not answered yet" if held else "at this bridge is still being stored"
                    raise refuse(503, f"an earlier change {why}; this one was not begun", in_force=_in_force(found))
                self._change(found, changes)
            except falcon.HTTPStatus as refusal:
                error = models.Refusal.model_validate_json(refusal.text or "").error
                self._reporter.record_change(found, before, before, *asker, error, "refused")
                raise
            except OutcomeUnknown as unknown:
                record = self._reporter.record_change(found, before, None, *asker, str(unknown), "unknown")
                context.pending[found.place] = PendingChange(found, before, *asker, record.time, unknown.doubt)
                raise refuse(504, str(unknown), in_force=_in_force(found)) from None
            finally:
                context.being_changed.discard(found.place)
            after = context.policy.read(found.place[0], found.name)
            self._reporter.record_change(found, before, after, *asker)
        reply(response, show(context, found))

    def _change(self, vm: VmRecord, changes: dict[str, "int | None"]) -> None:
        """Check a change against what is stored, and store it."""
        self._check(vm, changes)
        try:
            self._context.audit.check()
            self._context.policy.write(vm.place[0], vm.name, changes, lambda: self._check(vm, changes))
        except (AuditError, PolicyError) as error:
            raise refuse(503, str(error), in_force=_in_force(vm)) from None

    def _check(self, vm: VmRecord, changes: dict[str, "int | None"]) -> None:
        """Refuse a change that does not go with what is stored."""
        policy, port = self._context.policy, (vm.place[0], vm.name)
        stored = policy.read(*port)
        if stored is None:
            remotes = ", ".join(policy.remotes) or "none"
            raise refuse(
                409,
                f"no OVSDB remote has port {vm.name} of switch {vm.place[0]:016x}; setting ovsdb names: {remotes}",
                in_force=_in_force(vm),
            )
        after = {**stored, **changes}
        low, high = after.get("min") or 0, after.get("max") or 0
        if high and low > high:
            raise refuse(
                409,
                f"min of {low} bit/s is above max of {high} bit/s",
                field="min" if "min" in changes else "max",
                allowed="min <= max, unless max is 0 (no ceiling)",
                in_force=_in_force(vm),
            )
        others, capacity = policy.guarantees(*port)
        if "min" in changes and capacity is not None and low + others > capacity:
            raise refuse(
                409,
                f"min of {low} bit/s and the {others} bit/s guaranteed to the bridge's other machines "
                f"are above the uplink's {capacity} bit/s",
                field="min",
                allowed=f"0 to {max(0, capacity - others)}",
                in_force=_in_force(vm),
            )


def _in_force(vm: VmRecord) -> models.InForce:
    reading = vm.reading
    if reading is None:
        return models.InForce(weight=None, min=None, max=None)
    return models.InForce(weight=reading.weight, min=reading.min_rate * 8, max=reading.max_rate * 8)


def _read_changes(request: falcon.Request, body: bytes, vm: VmRecord) -> dict[str, "int | None"]:
    in_force, names = _in_force(vm), ", ".join(models.ALLOWED)
    kind = (request.content_type or "").partition(";")[0].strip().lower()
    if kind != falcon.MEDIA_JSON:
        raise refuse(
            415, f'Content-Type "{kind}" is not taken', field="Content-Type", allowed=falcon.MEDIA_JSON,
            in_force=in_force,
        )  # fmt: skip
    try:
        change = models.PolicyChange.model_validate_json(body)
    except pydantic.ValidationError as error:
        fault = error.errors()[0]
        if not fault["loc"]:
            raise refuse(
                400, f"body is no JSON object: {fault['msg']}", allowed=names, in_force=in_force
            ) from None
        field = str(fault["loc"][0])
        if fault["type"] == "extra_forbidden":
            raise refuse(422, f'unknown field "{field}"', field=field, allowed=names, in_force=in_force) from None
        raise refuse(
            422,
            f"{field} of {fault['input']!r} is not allowed",
            field=field,
            allowed=models.ALLOWED[field],
            in_force=in_force,
        ) from None
    return change.model_dump(exclude_unset=True)


ROUTES = (
    Route("/v1/vms", Vms, {"get": Operation("List virtual machines.", models.Vms, models.VmQuery)}),
    Route(
        "/v1/vms/{vm:path}",
        Vm,
        {
            "get": Operation("Show a virtual machine.", models.Vm, refusals=(404, 409)),
            "put": Operation(
                "Change a virtual machine's policy: what is left out stays, null goes back to the default.",
                models.Vm,
                body=models.PolicyChange,
                refusals=(400, 404, 408, 409, 413, 415, 503, 504),
            ),
        },
    ),
)
