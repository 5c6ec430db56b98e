# SPDX-License-Identifier: Apache-2.0
"""What REST takes and answers, as the models that validate it and that the OpenAPI document is made of.

Rates are bit/s, sizes bytes; null is "not known", never zero.
"""

import ipaddress
from typing import Annotated, Any, Literal, Optional, Union

import pydantic

from sdngcc.controller.databases.health import Kind
from sdngcc.controller.databases.health import State as DatabaseState
from sdngcc.controller.databases.stored import LAWS, Law

WEIGHT_MAX = 65535
BULK_MAX = 500  # changes of one request
RATE_MIN_BPS = 8_000
RATE_MAX_BPS = 800_000_000_000
PAGE_MAX = 1000

DATAPATH_PATTERN = "^[0-9a-f]{16}$"
PLACE_PATTERN = "^[0-9a-f]{16}:[0-9]{1,10}$"
MAC_PATTERN = "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"

State = Literal["active", "congested", "inactive", "unknown"]
DatapathId = Annotated[str, pydantic.Field(pattern=DATAPATH_PATTERN, description="datapath id, 16 hex digits")]
Count = Annotated[int, pydantic.Field(ge=0)]


class Answer(pydantic.BaseModel):
    """A document REST answers with."""

    model_config = pydantic.ConfigDict(extra="forbid")


class StoredPolicy(Answer):
    """What the hypervisor's OVSDB has set for a VM, in the column that counts; what is not set has its default."""

    weight: Optional[int] = None
    min: Optional[int] = pydantic.Field(None, description="bit/s")
    max: Optional[int] = pydantic.Field(None, description="bit/s")
    law: Optional[str] = None


class Setting(Answer):
    """A value of a VM's policy, and where it is from."""

    value: Union[int, str, None] = pydantic.Field(
        description="rates in bit/s; null: it cannot be read, and the last good one stays in force"
    )
    origin: str = pydantic.Field(description="table and column of OVSDB, or `default`")


class Configured(Answer):
    """What the hypervisor's ovs-vswitchd is told to give a VM."""

    weight: Setting
    min: Setting
    max: Setting
    law: Setting
    complaint: Optional[str] = pydantic.Field(description="what ovs-vswitchd says it cannot obey (shim-error)")


class InForce(Answer):
    """What the shim has in force; null when it has not told."""

    weight: Optional[int]
    min: Optional[int] = pydantic.Field(description="bit/s")
    max: Optional[int] = pydantic.Field(description="bit/s")


class Candidate(Answer):
    """One of several VMs that a name fits."""

    id: str
    switch: DatapathId
    port_name: str
    place: str = pydantic.Field(description="<switch>:<port name>; names this VM and no other")
    macs: list[str]
    addresses: list[str]


class Refusal(Answer):
    """Why a request was not carried out."""

    error: str
    field: Optional[str] = pydantic.Field(None, description="field, parameter or header at fault")
    allowed: Optional[str] = None
    in_force: Optional[InForce] = pydantic.Field(None, description="policy that stays")
    candidates: Optional[list[Candidate]] = None


class Allowed(Answer):
    """Addresses that port security lets a port use beside its own; other ports may be allowed the same."""

    addresses: str = pydantic.Field(description="one address, or a network such as 10.0.0.0/24")
    mac: Optional[str] = pydantic.Field(description="with which they are used; null: the port's own")


class Subport(Answer):
    """A port of a trunk, whose frames pass by the VM's interface with a VLAN."""

    id: str
    trunk_vlan: Count = pydantic.Field(description="at the VM's interface")
    name: Optional[str]
    network: Optional[str]
    network_id: Optional[str]
    macs: list[str]
    addresses: list[str]
    allowed: list[Allowed]
    floating: list[str]


class CloudPort(Answer):
    """What databases of the cloud say of a VM's port; null: nothing."""

    name: Optional[str]
    device: Optional[str] = pydantic.Field(description="id of the server")
    server: Optional[str] = pydantic.Field(description="name of the server, where Nova is asked for it")
    network: Optional[str]
    network_id: Optional[str]
    vlan: Optional[Count] = pydantic.Field(description="of its network on the wire")
    tunnel_key: Optional[Count] = pydantic.Field(description="of its network on the wire")
    macs: list[str]
    addresses: list[str]
    tenant: Optional[str]
    allowed: list[Allowed]
    floating: list[str] = pydantic.Field(description="floating addresses that are its own, whoever translates them")
    subports: list[Subport] = pydantic.Field(description="of the trunk whose parent port it is")


class Vm(Answer):
    """A virtual machine: a port of a hypervisor's bridge."""

    id: str = pydantic.Field(description="external_ids:iface-id, else <switch>:<port name>")
    switch: DatapathId
    port: Count
    port_name: str
    iface_id: Optional[str] = pydantic.Field(description="external_ids:iface-id, OpenStack's port id")
    state: State
    uplink_port: Optional[Count]
    weight: Optional[Count]
    min_bps: Optional[Count] = pydantic.Field(description="guarantee; 0: none")
    max_bps: Optional[Count] = pydantic.Field(description="ceiling; 0: none")
    rate_bps: Optional[Count] = pydantic.Field(description="what it may send now")
    share_bps: Optional[Count] = pydantic.Field(description="its part of the uplink")
    sent_bps: Optional[Count] = pydantic.Field(description="what it sent over the shim's last period")
    tx_bytes: Optional[Count]
    tx_packets: Optional[Count]
    drops: Optional[Count] = pydantic.Field(description="packets its limiter dropped")
    messages_sent: Count = pydantic.Field(description="notices this controller sent it")
    marks_sent: Count = pydantic.Field(description="marks in them")
    messages_accepted: Optional[Count] = pydantic.Field(description="by its shim, from all controllers and peers")
    messages_refused: Optional[Count]
    marks_accepted: Optional[Count]
    age_ms: Optional[Count] = pydantic.Field(description="since the bridge told all this")
    macs: list[str]
    addresses: list[str]
    destinations: list[str] = pydantic.Field(description="Ethernet addresses it talks to")
    tenant: Optional[str] = pydantic.Field(
        description="shim-tenant of its port, else the project of the cloud's port; null: it stands for itself"
    )
    cloud: Optional[CloudPort] = pydantic.Field(description="null: in no database of a cloud the controller follows")
    stored: Optional[StoredPolicy] = pydantic.Field(description="null: in no OVSDB the controller follows")
    configured: Optional[Configured] = pydantic.Field(description="null: in no OVSDB the controller follows")


class Vms(Answer):
    """A page of VMs, by switch and port."""

    vms: list[Vm]
    total: Count = pydantic.Field(description="VMs that fit the filters, on all pages")
    next: Optional[str] = pydantic.Field(description="value of `after` for the next page; null: this is the last")


class End(Answer):
    """One end of a link."""

    switch: DatapathId
    port: Count


class Port(Answer):
    """A port of a switch."""

    switch: DatapathId
    port: Count
    name: str
    up: bool
    peer: Optional[End] = pydantic.Field(description="other end of its link, when a switch is there")
    sources: Count = pydantic.Field(description="sources whose packets leave by it")
    queues: list[str] = pydantic.Field(description="kinds of queue that count marks")
    marks: Optional[Count] = pydantic.Field(description="since the switch started; null: no mark counter")
    ce_arrived: Optional[Count] = pydantic.Field(description="packets that came in with CE; null: not counted")
    marks_per_s: Optional[float] = pydantic.Field(description="over the last second")
    congested: Optional[bool] = pydantic.Field(description="whether marks were set in the last second")
    tx_bps: Optional[float] = pydantic.Field(description="sent, over the last second")
    tx_packets: Optional[Count]
    tx_bytes: Optional[Count]
    drops: Optional[Count]
    backlog_bytes: Optional[Count]
    backlog_packets: Optional[Count]


class Ports(Answer):
    """A page of ports, by switch and number."""

    ports: list[Port]
    total: Count
    next: Optional[str]


class SwitchLink(Answer):
    """A link as one of its switches sees it."""

    port: Count
    switch: DatapathId = pydantic.Field(description="datapath id of the other end")
    peer_port: Count


class Poll(Answer):
    """How the polls of a switch go."""

    period_ms: float
    polls: Count
    replies: Count
    skipped: Count = pydantic.Field(description="turns left out because an answer was owed")
    lost: Count
    reply_max_us: Count


class Switch(Answer):
    """A connected switch."""

    switch: DatapathId
    hypervisor: bool
    settled: bool = pydantic.Field(description="its links had time to be found")
    reports_marks: Optional[bool]
    reports_vms: Optional[bool]
    vms: list[str]
    links: list[SwitchLink]
    poll: Optional[Poll] = pydantic.Field(description="null: not polled")


class Switches(Answer):
    """All connected switches."""

    switches: list[Switch]


class TopologyLink(Answer):
    """A link and how it fares each way."""

    ends: tuple[End, End]
    congested: tuple[Optional[bool], Optional[bool]] = pydantic.Field(description="by the end that sends")
    tx_bps: tuple[Optional[float], Optional[float]] = pydantic.Field(description="by the end that sends")


class TopologySwitch(Answer):
    """A switch as the topology shows it."""

    switch: DatapathId
    hypervisor: bool
    vms: Count


class Topology(Answer):
    """Switches and the links between them."""

    version: Count = pydantic.Field(description="grows with each change of paths")
    switches: list[TopologySwitch]
    links: list[TopologyLink]


class StaleMarks(Answer):
    """A switch whose marks come too seldom for what is decided by them."""

    switch: DatapathId
    interval_ms: float = pydantic.Field(description="between news of it, as measured")
    silent: bool = pydantic.Field(description="news of it has ceased")


class Source(Answer):
    """Where marks come from."""

    name: str
    semantics: str = pydantic.Field(description="what a mark counted means")
    freshness_ms: float = pydantic.Field(description="how old a count may be when it is read")
    measured_ms: Optional[float] = pydantic.Field(description="between news of a switch, of the slowest; null: none")
    usable_ms: float = pydantic.Field(description="the same beyond which the decision should not be used")
    stale: list[StaleMarks] = pydantic.Field(description="switches beyond it, the first 64")
    resets: Count
    restarts: Count
    faults: dict[str, int] = pydantic.Field(description="what was refused or missing, by kind")
    origins: list[dict[str, Any]] = pydantic.Field(description="what feeds a source that is not polled")


class Database(Answer):
    """A database that the controller works with."""

    remote: str
    kind: Kind
    state: DatabaseState
    fault: Optional[str] = pydantic.Field(description="what is wrong with it or its node beyond its state, or null")
    since_s: float = pydantic.Field(description="how long it has been so")
    changes: Count = pydantic.Field(description="of the state, since the controller started")


class Lease(Answer):
    """This controller's lease of the cluster."""

    held: bool
    since_s: float = pydantic.Field(description="how long it has been held, or not")
    switches: Count = pydantic.Field(description="switches it acts for")


class IdConflict(Answer):
    """Two connections that said they are the same switch; addresses are those seen last."""

    switch: DatapathId
    kept: str
    refused: str
    count: Count


class Connections(Answer):
    """Switches' connections."""

    open: Count
    unready: Count = pydantic.Field(description="those of them whose handshake is not done")
    limit: Count
    limit_a_peer: Count
    refused: dict[str, int] = pydantic.Field(description="refused or ended, by reason (docs/security.md)")
    unserved: Count = pydantic.Field(description="messages left out because nobody asked for them")
    id_conflicts: list[IdConflict] = pydantic.Field(description="the last 64 pairs of addresses")


class ReloadOutcome(Answer):
    """What came of reading settings and files again."""

    time: str = pydantic.Field(description="RFC 3339, UTC")
    by: str = pydantic.Field(description="SIGHUP, or the name of a token")
    result: Literal["done", "failed"] = pydantic.Field(description="failed: all stayed as it was")
    changed: list[str] = pydantic.Field(description="settings that got another value")
    error: Optional[str] = pydantic.Field(description="what was wrong, a line each")


class Reload(Answer):
    """How reading settings and files again went."""

    done: Count
    failed: Count
    last: Optional[ReloadOutcome] = pydantic.Field(description="null: it was never asked for")
    restart_needed: list[str] = pydantic.Field(description="settings that differ from those in force")


class DatabaseConnections(Answer):
    """Connections of databases to this controller."""

    open: Count
    unready: Count = pydantic.Field(description="those of them that have not said yet which node they are")
    limit: Count
    limit_a_peer: Count
    refused: dict[str, int] = pydantic.Field(description="refused or ended, by reason (docs/security.md)")
    nodes: Count = pydantic.Field(description="nodes known, those that are gone included")
    conflicts: Count = pydantic.Field(description="claims of a node's name or bridge that somebody else has")


class Status(Answer):
    """States and counters since the start."""

    uptime_s: float
    ready: bool = pydantic.Field(description="the controller can do its work: nothing is in not_ready")
    not_ready: list[str] = pydantic.Field(description="what keeps it from its work")
    warnings: list[str] = pydantic.Field(description="what keeps it from a part of its work")
    databases: list[Database]
    lease: Optional[Lease] = pydantic.Field(description="null: it is in no cluster")
    switches: Count
    vms: Count
    hosts: Count
    pairs: Count
    links: Count
    event_clients: Count
    rest_connections: dict[str, int] = pydantic.Field(description="of REST, by what they wait for")
    message_epoch: Count = pydantic.Field(description="of control messages, seconds since 1970")
    message_epoch_raised: Count = pydantic.Field(description="times it was raised because machines refused messages")
    message_sequence: Count = pydantic.Field(description="of the last control message, over all machines")
    connections: Connections
    reload: Reload
    database_connections: Optional[DatabaseConnections] = pydantic.Field(description="null: ovsdb_listen is empty")
    admit_file_fault: Optional[str] = pydantic.Field(
        description="why admit_file as it is now is not in force, but what it was before; null: it is, or there is none"
    )
    underlay_file_fault: Optional[str] = pydantic.Field(description="the same of underlay_file")
    mark_source: Source
    polls: dict[str, int]
    counters: dict[str, int]
    forwarding: dict[str, int]


class AuditRecord(Answer):
    """One change of policy, or another action on the controller; or an attempt."""

    time: str = pydantic.Field(description="RFC 3339, UTC")
    who: str = pydantic.Field(description="name of the token, loopback, or ovsdb: stored there by somebody else")
    address: Optional[str] = pydantic.Field(description="where the request came from")
    action: Literal["policy", "reload", "drain", "resume"] = "policy"
    vm: Optional[str] = None
    place: Optional[str] = pydantic.Field(None, description="of the VM, <switch>:<port name>")
    tenant: Optional[str] = pydantic.Field(None, description="whose policy it is, if not a VM's")
    before: Optional[StoredPolicy] = None
    after: Optional[StoredPolicy] = None
    result: Literal["stored", "refused", "unknown", "done"] = pydantic.Field(
        description="unknown: it was sent and not answered; a later record that settles this one tells. "
        "Stored is said of policy, done of other actions"
    )
    error: Optional[str] = None
    settles: Optional[str] = pydantic.Field(None, description="time of the unknown record whose outcome this one is")


class Audit(Answer):
    """The last changes of policy, and other actions, oldest first."""

    records: list[AuditRecord]


def integral(value: Any) -> Any:
    """Take 4.0 for 4, as JSON does, but no true or false for 1 or 0, as Python does."""
    if isinstance(value, bool):
        raise ValueError("a number is needed")
    return int(value) if isinstance(value, float) and value.is_integer() else value


Rate = Union[Literal[0], Annotated[int, pydantic.Field(ge=RATE_MIN_BPS, le=RATE_MAX_BPS)]]


class PolicyChange(pydantic.BaseModel):
    """The body of PUT: what is left out stays, null goes back to the default."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    weight: Optional[Annotated[int, pydantic.Field(ge=1, le=WEIGHT_MAX)]] = pydantic.Field(
        None, description="part of uplinks and congested ports; null: 1"
    )
    min: Optional[Rate] = pydantic.Field(None, description="guarantee, bit/s; 0 or null: none")
    max: Optional[Rate] = pydantic.Field(None, description="ceiling, bit/s; 0 or null: none")
    law: Optional[Law] = pydantic.Field(None, description="of this VM alone; null: that of its host")

    _take_integral = pydantic.field_validator("weight", "min", "max", mode="before")(integral)


ALLOWED = {
    "draining": "true to hand all switches over, false to take switches again",
    "vm": "1 to 255 characters: any name of a VM",
    "changes": f"a list of 1 to {BULK_MAX} changes",
    "entry": "an object with vm and what is to be changed",
    "weight": f"a whole number from 1 to {WEIGHT_MAX}, or null for the default of 1",
    "min": f"bit/s, 0 for no guarantee or {RATE_MIN_BPS} to {RATE_MAX_BPS}, or null for the default of 0",
    "max": f"bit/s, 0 for no ceiling or {RATE_MIN_BPS} to {RATE_MAX_BPS}, or null for the default of 0",
    "law": f"{', '.join(LAWS)}, or null for that of the host",
}


def _decimal(value: Any) -> Any:
    """Refuse what Python reads as a number but nobody else does, such as 1_0."""
    if isinstance(value, str) and not (value.isascii() and value.isdecimal()):
        raise ValueError("not a whole number")
    return value


def _address(value: str) -> str:
    if "%" in value:
        raise ValueError("an address with a scope")
    ipaddress.ip_address(value)
    return value


def _boolean(value: Any) -> Any:
    if value not in ("true", "false"):
        raise ValueError("neither true nor false")
    return value == "true"


Decimal = pydantic.BeforeValidator(_decimal)
Address = Annotated[
    str,
    pydantic.AfterValidator(_address),
    pydantic.WithJsonSchema({"anyOf": [{"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"}]}),
]
Flag = Annotated[bool, pydantic.BeforeValidator(_boolean)]
Name = Annotated[str, pydantic.Field(min_length=1, max_length=255)]


class Query(pydantic.BaseModel):
    """Parameters of a request; others are refused."""

    model_config = pydantic.ConfigDict(extra="forbid")


class PageQuery(Query):
    """Which page of a long list."""

    limit: Annotated[int, pydantic.Field(ge=1, le=PAGE_MAX), Decimal] = pydantic.Field(
        PAGE_MAX, description="longest page"
    )
    after: Optional[Annotated[str, pydantic.Field(pattern=PLACE_PATTERN)]] = pydantic.Field(
        None, description="`next` of the page before"
    )


class VmQuery(PageQuery):
    """Filters of the list of VMs; all given must fit."""

    name: Optional[Name] = pydantic.Field(
        None, description="id, MAC, IP address, port name, port id or name in the cloud"
    )
    mac: Optional[Annotated[str, pydantic.Field(pattern=MAC_PATTERN)]] = None
    ip: Optional[Address] = None
    port: Optional[Name] = pydantic.Field(None, description="name of its port in Open vSwitch")
    iface_id: Optional[Name] = pydantic.Field(None, description="external_ids:iface-id, OpenStack's port id")
    switch: Optional[DatapathId] = None
    state: Optional[State] = None
    tenant: Optional[Name] = pydantic.Field(None, description="its tenant")
    network: Optional[Name] = pydantic.Field(None, description="name or id of its network in the cloud")


class PortQuery(PageQuery):
    """Filters of the list of ports; all given must fit."""

    switch: Optional[DatapathId] = None
    congested: Optional[Flag] = None
    name: Optional[Name] = None


IN_WORDS = {
    "limit": f"a whole number from 1 to {PAGE_MAX}",
    "after": "`next` of the page before, such as 00000000000000a1:3",
    "mac": "six pairs of hex digits with colons",
    "ip": "an IPv4 or IPv6 address without scope",
    "switch": "16 lower-case hex digits",
    "state": "active, congested, inactive, unknown",
    "congested": "true, false",
    "n": "a whole number from 1 to 1000",
}


def in_words(field: str) -> str:
    """Return what a parameter may hold."""
    return IN_WORDS.get(field, "1 to 255 characters")
