# SPDX-License-Identifier: Apache-2.0
"""REST under /v1: what every machine gets and why, and its policy.  Rates are bit/s, as in Open vSwitch.

Errors are JSON: {"error": what, "field": which, "allowed": range, "in_force": what stays}.
"""

import json
from collections.abc import Mapping
from typing import Any, Optional, Protocol

import falcon
import pydantic

from sdngcc.controller.engine import Engine
from sdngcc.controller.experimenter import KINDS
from sdngcc.controller.inventory import VmRecord, vm_view
from sdngcc.controller.ovsdb import PolicyError

WEIGHT_MAX = 65535
RATE_MIN_BPS = 8_000
RATE_MAX_BPS = 800_000_000_000
BODY_MAX_BYTES = 4096

_ALLOWED = {
    "weight": f"a whole number from 1 to {WEIGHT_MAX}, or null for the default of 1",
    "min": f"bit/s, 0 for no guarantee or {RATE_MIN_BPS} to {RATE_MAX_BPS}, or null for the default of 0",
    "max": f"bit/s, 0 for no ceiling or {RATE_MIN_BPS} to {RATE_MAX_BPS}, or null for the default of 0",
}


class Policy(Protocol):
    """Where policy is kept; ovsdb.Policy is one."""

    remotes: tuple[str, ...]

    def read(self, dpid: int, name: str) -> Optional[dict[str, int]]:
        """Return what is stored for a port; None when the port is not known."""

    def guarantees(self, dpid: int, name: str) -> tuple[int, Optional[int]]:
        """Return what a bridge's other machines are guaranteed, and its uplink's capacity if known."""

    def write(self, dpid: int, name: str, changes: Mapping[str, Optional[int]]) -> None:
        """Store changes for a port; raises PolicyError."""


def _rate(value: Optional[int]) -> Optional[int]:
    if value is not None and value != 0 and not RATE_MIN_BPS <= value <= RATE_MAX_BPS:
        raise ValueError("out of range")
    return value


class PolicyChange(pydantic.BaseModel):
    """The body of PUT /v1/vms/<id>: what is left out stays, null goes back to the default."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    weight: Optional[int] = pydantic.Field(None, ge=1, le=WEIGHT_MAX)
    min: Optional[int] = None
    max: Optional[int] = None

    _check_rates = pydantic.field_validator("min", "max")(_rate)


def _fail(status: str, error: str, **details: Any) -> falcon.HTTPStatus:
    return falcon.HTTPStatus(status, text=json.dumps({"error": error, **details}))


class _Resource:
    def __init__(self, engine: Engine, policy: Policy) -> None:
        self._engine = engine
        self._policy = policy

    def _find(self, vm_id: str) -> VmRecord:
        for switch in self._engine.switches.values():
            for vm in switch.vms.values():
                if vm.id == vm_id:
                    return vm
        raise _fail(falcon.HTTP_404, f'no virtual machine has the id "{vm_id}"', field="id")

    def _view(self, vm: VmRecord) -> dict[str, Any]:
        engine = self._engine
        hosts = engine.relations.hosts_at(vm.place)
        targets = sorted({target for host in hosts for target in engine.relations.targets(host.mac)})
        return vm_view(
            vm,
            engine.clock(),
            {
                "macs": [_mac(host.mac) for host in hosts],
                "addresses": sorted(_ip(address) for host in hosts for address in host.addresses),
                "destinations": [_mac(target) for target in targets],
                "stored": self._policy.read(vm.place[0], vm.name),
            },
        )


def _mac(mac: bytes) -> str:
    return ":".join(f"{byte:02x}" for byte in mac)


def _ip(address: bytes) -> str:
    import ipaddress

    value = ipaddress.IPv6Address(address)
    return str(value.ipv4_mapped or value)


class Vms(_Resource):
    """GET /v1/vms."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """List all machines."""
        switches = self._engine.switches.values()
        vms = [vm for switch in switches for vm in switch.vms.values()]
        response.media = {"vms": [self._view(vm) for vm in sorted(vms, key=lambda vm: (vm.id, vm.place))]}


class Vm(_Resource):
    """GET and PUT /v1/vms/<id>."""

    def on_get(self, request: falcon.Request, response: falcon.Response, vm_id: str) -> None:
        """Show one machine."""
        response.media = self._view(self._find(vm_id))

    def on_put(self, request: falcon.Request, response: falcon.Response, vm_id: str) -> None:
        """Change weight, min or max; what is stored comes back."""
        vm = self._find(vm_id)
        stored = self._policy.read(*self._port(vm))
        if stored is None:
            remotes = ", ".join(self._policy.remotes) or "none"
            raise _fail(
                falcon.HTTP_409,
                f"no OVSDB remote has port {vm.name} of switch {vm.place[0]:016x}; setting ovsdb names: {remotes}",
                in_force=self._in_force(vm),
            )
        changes = self._read_changes(request, vm)
        after = {**stored, **changes}
        low, high = after.get("min") or 0, after.get("max") or 0
        if high and low > high:
            raise _fail(
                falcon.HTTP_422,
                f"min of {low} bit/s is above max of {high} bit/s",
                field="min" if "min" in changes else "max",
                allowed="min <= max, unless max is 0 (no ceiling)",
                in_force=self._in_force(vm),
            )
        others, capacity = self._policy.guarantees(*self._port(vm))
        if "min" in changes and capacity is not None and low + others > capacity:
            raise _fail(
                falcon.HTTP_422,
                f"min of {low} bit/s and the {others} bit/s guaranteed to the bridge's other machines "
                f"are above the uplink's {capacity} bit/s",
                field="min",
                allowed=f"0 to {max(0, capacity - others)}",
                in_force=self._in_force(vm),
            )
        try:
            self._policy.write(*self._port(vm), changes)
        except PolicyError as error:
            raise _fail(falcon.HTTP_503, str(error), in_force=self._in_force(vm)) from None
        response.media = self._view(vm)

    @staticmethod
    def _port(vm: VmRecord) -> tuple[int, str]:
        return vm.place[0], vm.name

    def _in_force(self, vm: VmRecord) -> dict[str, Optional[int]]:
        reading = vm.reading
        if reading is None:
            return {"weight": None, "min": None, "max": None}
        return {"weight": reading.weight, "min": reading.min_rate * 8, "max": reading.max_rate * 8}

    def _read_changes(self, request: falcon.Request, vm: VmRecord) -> dict[str, Optional[int]]:
        in_force = self._in_force(vm)
        body = request.bounded_stream.read(BODY_MAX_BYTES + 1)
        if len(body) > BODY_MAX_BYTES:
            raise _fail(falcon.HTTP_413, f"body is longer than {BODY_MAX_BYTES} bytes", in_force=in_force)
        try:
            change = PolicyChange.model_validate_json(body)
        except pydantic.ValidationError as error:
            fault = error.errors()[0]
            field = str(fault["loc"][0]) if fault["loc"] else None
            if fault["type"] == "extra_forbidden":
                raise _fail(
                    falcon.HTTP_422,
                    f'unknown field "{field}"',
                    field=field,
                    allowed="weight, min, max",
                    in_force=in_force,
                ) from None
            if field is None:
                raise _fail(
                    falcon.HTTP_400,
                    f"body is no JSON object: {fault['msg']}",
                    allowed="weight, min, max",
                    in_force=in_force,
                ) from None
            raise _fail(
                falcon.HTTP_422,
                f"{field} of {fault['input']!r} is not allowed",
                field=field,
                allowed=_ALLOWED.get(field, ""),
                in_force=in_force,
            ) from None
        return change.model_dump(exclude_unset=True)


class Ports(_Resource):
    """GET /v1/ports."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """List the ports of all switches with their counters."""
        engine = self._engine
        shown = []
        for dpid in sorted(engine.switches):
            readings = engine.source.readings(dpid)
            for number, port in sorted(engine.topology.ports.get(dpid, {}).items()):
                peer = engine.topology.peer(dpid, number)
                view: dict[str, Any] = {
                    "switch": f"{dpid:016x}",
                    "port": number,
                    "name": port.name,
                    "up": port.up,
                    "peer": {"switch": f"{peer[0]:016x}", "port": peer[1]} if peer else None,
                    "sources": len(engine.relations.sources_behind((dpid, number), engine.topology)),
                    "marks": None,
                }
                reading = readings.get(number)
                if reading:
                    view.update(
                        queues=[name for bit, name in KINDS.items() if reading.kinds & bit],
                        marks=reading.marks if reading.kinds else None,
                        tx_packets=reading.packets,
                        tx_bytes=reading.bytes,
                        drops=reading.drops,
                        backlog_bytes=reading.backlog_bytes,
                        backlog_packets=reading.backlog_packets,
                    )
                shown.append(view)
        response.media = {"ports": shown}


class Switches(_Resource):
    """GET /v1/switches."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """List the connected switches and how their polls go."""
        engine = self._engine
        shown = []
        for dpid, switch in sorted(engine.switches.items()):
            poll = engine.monitor.polls.get(dpid)
            shown.append(
                {
                    "switch": f"{dpid:016x}",
                    "hypervisor": switch.hypervisor,
                    "settled": switch.settled,
                    "reports_marks": switch.marks,
                    "reports_vms": switch.vm_state,
                    "vms": sorted(vm.id for vm in switch.vms.values()),
                    "links": [
                        {"port": near[1], "switch": f"{far[0]:016x}", "peer_port": far[1]}
                        for one, other in engine.topology.links()
                        for near, far in ((one, other), (other, one))
                        if near[0] == dpid
                    ],
                    "poll": poll
                    and {
                        "period_ms": 1000.0 if poll.idle else poll.factor * engine.monitor.period_ns / 1e6,
                        "polls": poll.polls,
                        "replies": poll.replies,
                        "skipped": poll.skipped,
                        "lost": poll.lost,
                        "reply_max_us": poll.reply_max_ns // 1000,
                    },
                }
            )
        response.media = {"switches": shown}


class SettingsView(_Resource):
    """GET /v1/settings."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Show the settings in force; of the key only the file's name."""
        response.media = self._engine.settings.model_dump(mode="json")


class Status(_Resource):
    """GET /v1/status."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Show counters since the start, and whether every switch is settled."""
        engine = self._engine
        switches = engine.switches.values()
        response.media = {
            "uptime_s": round((engine.clock() - engine.started_ns) / 1e9, 3),
            "ready": bool(switches) and all(switch.settled for switch in switches),
            "switches": len(switches),
            "vms": sum(len(switch.vms) for switch in switches),
            "hosts": len(engine.relations.hosts),
            "pairs": engine.relations.pair_count(),
            "links": len(engine.topology.links()),
            "mark_source": {
                "name": engine.source.name,
                "semantics": engine.source.semantics.value,
                "resets": engine.source.resets,
                "restarts": engine.source.restarts,
            },
            "polls": engine.poll_counts(),
            "counters": dict(sorted(engine.counters.items())),
            "forwarding": dict(sorted(engine.forwarder.counters.items())),
        }


def _not_found(req: falcon.Request, resp: falcon.Response, **_: str) -> None:
    raise _fail(
        falcon.HTTP_404,
        f"nothing is at {req.path}",
        allowed="/v1/vms, /v1/vms/<id>, /v1/ports, /v1/switches, /v1/settings, /v1/status",
    )


def _as_json(request: falcon.Request, response: falcon.Response, error: falcon.HTTPError) -> None:
    response.content_type = falcon.MEDIA_JSON
    response.text = json.dumps({"error": error.description or error.title})


def make_app(engine: Engine, policy: Policy) -> falcon.App:
    """Return the WSGI application."""
    app: falcon.App = falcon.App()
    app.set_error_serializer(_as_json)
    for path, resource in (
        ("/v1/vms", Vms),
        ("/v1/vms/{vm_id}", Vm),
        ("/v1/ports", Ports),
        ("/v1/switches", Switches),
        ("/v1/settings", SettingsView),
        ("/v1/status", Status),
    ):
        app.add_route(path, resource(engine, policy))
    app.add_sink(_not_found)
    return app
