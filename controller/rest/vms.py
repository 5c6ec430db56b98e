# SPDX-License-Identifier: Apache-2.0
"""Virtual machines: what each gets, and its policy."""

from typing import Optional

import falcon

from sdngcc.controller.network.directory import CloudPort, Directory, Trunk
from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.rest import bulk, bulk_models, lookup, models
from sdngcc.controller.rest.changes import (
    Asker,
    BridgeChange,
    Wanted,
    in_force,
    read_model,
    record_refusal,
)
from sdngcc.controller.rest.resource import (
    Operation,
    Resource,
    RestContext,
    Route,
    dpid_text,
    page,
    read_body,
    read_query,
    reply,
    reply_list,
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
        macs=lookup.macs(relations, [host.mac for host in hosts]),
        addresses=sorted(lookup.ip_text(address) for host in hosts for address in host.addresses),
        destinations=lookup.macs(relations, targets),
        tenant=context.engine.tenants.name_of(vm),
        cloud=_cloud(context.engine.directory, vm.iface_id),
        stored=None if stored is None else models.StoredPolicy(**stored),
        configured=_configured(context, vm),
    )


def _cloud(directory: Directory, port_id: Optional[str]) -> Optional[models.CloudPort]:
    """Return what databases of the cloud say of a port and of those that pass by it, None when they have neither."""
    behind = directory.behind(port_id)
    if not behind:
        return None
    port = directory.find(port_id) or CloudPort(port_id or "")
    return models.CloudPort(
        name=port.name or None,
        device=port.device or None,
        server=port.server or None,
        network=port.network or None,
        network_id=port.network_id or None,
        vlan=next((vlan for vlan, key in port.segments if not key), None),
        tunnel_key=next((key for _, key in port.segments if key), None),
        macs=[lookup.mac_text(mac) for mac in port.macs],
        addresses=[lookup.ip_text(address) for address in port.addresses],
        tenant=port.tenant or None,
        allowed=_allowed(port),
        floating=_floating(port),
        subports=[_subport(one, one.trunk) for one in behind if one.id != port_id and one.trunk],
    )


def _allowed(port: CloudPort) -> list[models.Allowed]:
    return [
        models.Allowed(addresses=lookup.range_text(one.address, one.bits), mac=lookup.mac_text(one.mac) or None)
        for one in port.allowed
    ]


def _floating(port: CloudPort) -> list[str]:
    return [lookup.ip_text(address) for address in lookup.floating(port)]


def _subport(port: CloudPort, trunk: Trunk) -> models.Subport:
    return models.Subport(
        id=port.id,
        trunk_vlan=trunk.vlan,
        name=port.name or None,
        network=port.network or None,
        network_id=port.network_id or None,
        macs=[lookup.mac_text(mac) for mac in port.macs],
        addresses=[lookup.ip_text(address) for address in port.addresses],
        allowed=_allowed(port),
        floating=_floating(port),
    )


def _configured(context: RestContext, vm: VmRecord) -> Optional[models.Configured]:
    explained = context.policy.explain(vm.place[0], vm.name)
    if explained is None:
        return None
    settings = {key: models.Setting(value=one.value, origin=one.origin) for key, one in explained.settings.items()}
    return models.Configured(**settings, complaint=explained.complaint)


class Vms(Resource):
    """/v1/vms."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """List the machines that fit all filters."""
        query = read_query(request, models.VmQuery)
        context = self._context
        among = context.vms_in_turns() if query.name is None else lookup.find_all(context, query.name)
        found = [vm for vm in among if self._fits(vm, query)]
        shown, following = page(found, query, lambda vm: vm.place)
        answer = models.Vms(vms=[], total=len(found), next=following)
        reply_list(response, context, answer, "vms", (show(context, vm) for vm in shown))

    def _fits(self, vm: VmRecord, query: models.VmQuery) -> bool:
        relations = self._engine.relations
        return (
            (query.switch is None or int(query.switch, 16) == vm.place[0])
            and (query.port is None or query.port == vm.name)
            and (query.iface_id is None or query.iface_id == vm.iface_id)
            and (query.state is None or query.state == vm_state(vm))
            and (query.tenant is None or query.tenant == self._engine.tenants.name_of(vm))
            and (query.network is None or self._is_in(vm, query.network))
            and (query.mac is None or lookup.has_mac(relations, vm, lookup.mac_bytes(query.mac) or b""))
            and (query.ip is None or lookup.has_ip(relations, vm, lookup.ip_bytes(query.ip) or b""))
        )

    def _is_in(self, vm: VmRecord, network: str) -> bool:
        behind = self._engine.directory.behind(vm.iface_id)
        return any(network in (port.network, port.network_id) for port in behind)

    def on_patch(self, request: falcon.Request, response: falcon.Response) -> None:
        """Change the policy of many machines; the answer tells what came of each."""
        read_query(request, models.Query)
        body = read_body(request, bulk.BODY_MAX_BYTES)
        asker = Asker(request.context.who, request.remote_addr)
        answer = bulk.Bulk(self._context, self._reporter, asker).run(request, body)
        response.status = falcon.HTTP_200 if answer.stored == len(answer.results) else falcon.HTTP_207
        reply(response, answer)


class Vm(Resource):
    """/v1/vms/<any name of a machine>."""

    def on_get(self, request: falcon.Request, response: falcon.Response, vm: str) -> None:
        """Show one machine."""
        read_query(request, models.Query)
        reply(response, show(self._context, lookup.find(self._context, vm)))

    def on_put(self, request: falcon.Request, response: falcon.Response, vm: str) -> None:
        """Change weight, min, max or law; what is stored comes back."""
        read_query(request, models.Query)
        context, body = self._context, read_body(request, BODY_MAX_BYTES)
        found, asker = lookup.find(context, vm), Asker(request.context.who, request.remote_addr)
        try:
            changes = read_model(request, body, models.PolicyChange, in_force(found)).model_dump(exclude_unset=True)
        except falcon.HTTPStatus as refusal:
            record_refusal(context, self._reporter, [found], asker, refusal)
            raise
        self._change(response, Wanted(found, changes), asker)

    def on_delete(self, request: falcon.Request, response: falcon.Response, vm: str) -> None:
        """Take back all that is set for a machine; what holds then comes back."""
        read_query(request, models.Query)
        found = lookup.find(self._context, vm)
        changes = dict.fromkeys(models.PolicyChange.model_fields)
        self._change(response, Wanted(found, changes), Asker(request.context.who, request.remote_addr))

    def _change(self, response: falcon.Response, wanted: Wanted, asker: Asker) -> None:
        BridgeChange(self._context, self._reporter, [wanted], asker).store()
        reply(response, show(self._context, wanted.vm))


ROUTES = (
    Route(
        "/v1/vms",
        Vms,
        {
            "get": Operation("List virtual machines.", models.Vms, models.VmQuery),
            "patch": Operation(
                "Change the policy of many virtual machines: those of one bridge all or none, each bridge for itself.",
                bulk_models.BulkAnswer,
                body=bulk_models.BulkChange,
                refusals=(400, 404, 408, 409, 413, 415),
                others={207: bulk_models.BulkAnswer},
            ),
        },
    ),
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
            "delete": Operation(
                "Take back a virtual machine's policy: all that is set for it where this controller sets it. The "
                "machine itself is left alone.",
                models.Vm,
                refusals=(404, 409, 503, 504),
            ),
        },
    ),
)
