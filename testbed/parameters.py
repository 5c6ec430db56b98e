# SPDX-License-Identifier: Apache-2.0
"""What a run can be asked for: names, units, ranges, defaults; and the reading of ``name=value`` settings."""

from __future__ import annotations

from typing import Annotated, Any, Dict, List, Literal, Optional, Sequence, Tuple, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sdngcc.testbed.ovs.versions import OvsVersion
from sdngcc.testbed.presets import PRESETS, PUBLISHED, describe_refusal
from sdngcc.testbed.settings import ParameterError as ParameterError
from sdngcc.testbed.settings import make, read_settings
from sdngcc.topologies.placement import hypervisor_of

Protocol = Literal["tcp", "reno", "cubic", "dctcp", "bbr", "udp"]
# The kernel of the machine that has what others have not or are built without: BBR, AccECN.
NEWEST = "7.3"
Percent = Annotated[float, Field(ge=0, le=100)]
Law = Literal["none", "static", "sdngcc", "maxmin", "hygenicc", "eyeq", "seawall", "scc", "vcc", "elasticswitch"]
# The laws that a controller steers.
CONTROLLED = ("sdngcc", "maxmin")
# Bytes of a full frame as queues count it, and as a link does: preamble, FCS and gap are 24 more.
FRAME_BYTES = 1514
WIRE_BYTES = FRAME_BYTES + 24
# Outer Ethernet, IPv4 and UDP headers of a packet in a Geneve tunnel of OVN, and Geneve's own with one option.
GENEVE_BYTES = 14 + 20 + 8 + 8 + 8


class Parameters(BaseModel):
    """One run. The paper's set-up is the default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    law: Law = Field("sdngcc", description="control law of the shim; none: no shim")
    preset: Literal["mended", "published"] = Field(
        "mended", description="published: knobs and parameters that are not set make the law its paper's own algorithm "
        "(docs/laws.md says which); mended: ours")
    senders: int = Field(4, ge=1, le=64, description="sending VMs, the tagged one among them")
    tagged: Protocol = Field("tcp", description="what the tagged VM sends")
    competitor: Tuple[Protocol, ...] = Field(
        ("tcp",), min_length=1, description="what the other VMs send; a list goes round (tcp is reno)")
    weights: Tuple[int, ...] = Field((1,), min_length=1, description="VMs' weights, tagged first; a list goes round")
    guarantees: Tuple[float, ...] = Field(
        (0,), min_length=1, description="Mb/s each VM is never cut below, tagged first, 0: none; a list goes round")
    maximums: Tuple[float, ...] = Field(
        (0,), min_length=1, description="Mb/s each VM never exceeds, tagged first, 0: none; a list goes round")
    divisions: Tuple[int, ...] = Field(
        (0,), min_length=1, description="division each VM belongs to, tagged first; a list goes round")
    tenant_sizes: Tuple[int, ...] = Field(
        (), description="VMs of each tenant, the first ones are the first tenant's; the rest have none")
    tenant_weights: Tuple[int, ...] = Field(
        (0,), min_length=1, description="tenants' weights, 0: none, VMs stand for themselves; a list goes round")
    tenant_guarantees: Tuple[float, ...] = Field(
        (0,), min_length=1, description="Mb/s all VMs of a tenant together are guaranteed, 0: none; a list goes round")
    tenant_maximums: Tuple[float, ...] = Field(
        (0,), min_length=1, description="Mb/s all VMs of a tenant together never exceed, 0: none; a list goes round")
    link_mbps: int = Field(1000, ge=10, le=10000, description="rate of every link, Mb/s")
    uplink_mbps: Optional[int] = Field(
        None, ge=10, le=10000, description="rate of the senders' uplinks, Mb/s (topology dumbbell; laws none, "
        "sdngcc, vcc); none: "
        "that of every link")
    rtt_us: int = Field(100, ge=10, le=100000, description="round-trip time without queues, us")
    buffer_packets: int = Field(100, ge=10, le=10000, description="buffer of a marking port, 1500-byte packets")
    mark_percent: int = Field(20, ge=1, le=90, description="marking threshold, percent of the buffer")
    red: Tuple[Annotated[float, Field(ge=0)], ...] = Field(
        (), description="topology dumbbell: RED of the marking port instead of a threshold, as tc-red has it: limit, "
        "min and max in bytes, burst in packets, probability")
    phases: Tuple[float, float, float] = Field(
        (10, 10, 10), description="seconds of: competitors alone, all, tagged alone")
    on_off_ms: Tuple[float, ...] = Field(
        (1, 10, 100, 1000), min_length=1, description="experiment on-off: periods of UDP that sends for half of each, "
        "one after the other, ms")
    load: Tuple[Annotated[float, Field(ge=1, le=200)], ...] = Field(
        (60,), min_length=1, description="experiment tournament: what well-behaved tenants send, percent of their "
        "shares; divisions-load: what DS and CS each bring, percent of half of the link; several come in runs of their "
        "own")
    period_ms: float = Field(5, ge=0.5, le=1000, description="T_i: the controller reads the marks this often, ms")
    division: Literal["bytes", "sent", "equal"] = Field(
        "bytes", description="how marks are divided among sources: by bytes through the port, by all they sent")
    mark_source: Literal["openflow", "openflow-ce", "sflow", "shim"] = Field(
        "openflow", description="where the controller has marks from; shim: from the receiving hypervisors, the only "
        "source with fabric linux, and its default")
    mark_delay_ms: int = Field(
        0, ge=0, le=10000, description="marks are sampled this often, ms, and as late at the controller; 0: at once")
    fabric: Literal["openflow", "linux"] = Field(
        "openflow", description="fabric switches; openflow: bridges that the controller forwards on, as it does on "
        "hypervisors; linux: plain Linux bridges, and hypervisors that are hosts of their own, whose bridges the "
        "controller leaves alone")
    agent: Literal["none", "neutron", "ovn"] = Field(
        "none", description="fabric linux: who owns the hypervisors' bridges; none: nobody; neutron: "
        "neutron-openvswitch-agent; ovn: ovn-controller")
    network: Literal["flat", "vlan", "geneve"] = Field(
        "flat", description="fabric linux: how tenants' packets cross the fabric; flat: as they are, and there is one "
        "tenant (agent none); vlan, geneve (agent ovn): a tenant for each receiver")
    ce_refresh: bool = Field(
        True, description="mark_source openflow-ce: the controller has flow counters brought up to date at each poll")
    sflow_sampling: int = Field(10, ge=1, le=65535, description="mark_source sflow: one packet in so many is sampled")
    multipath: Literal["destination", "pair", "flow"] = Field(
        "destination", description="topology spines: what chooses between the two ways")
    datapath: Literal["patched", "beside", "netdev"] = Field(
        "patched", description="what the shim is part of; patched: openvswitch.ko; beside: sdngcc.ko, beside an "
        "unmodified openvswitch.ko; netdev: ovs-vswitchd, hypervisors' bridges have datapath_type=netdev")
    ovs: OvsVersion = Field("3.1", description="version of Open vSwitch, with the series for it")
    kernel: Literal["6.1", "6.12", "7.3"] = Field("6.1", description="Linux of the machine")
    by_path: bool = Field(False, description="laws maxmin, sdngcc: VMs are told by path, not as a whole")
    levels: Optional[bool] = Field(
        None, description="law sdngcc: VMs are told levels beside marks; default: with division=bytes, by_path=false")
    limiter: Literal["pace", "police"] = Field("pace", description="what happens to a packet over the rate")
    edge: Literal["none", "htb", "borrow", "police"] = Field(
        "none", description="law none: what hosts hold sending VMs to static_mbps with; htb: a queue each of OVS' "
        "linux-htb at the uplink; borrow: the same, and what the uplink has spare; police: OVS' ingress policing")
    guest_ecn: bool = Field(False, description="the tagged VM and tcp competitors negotiate ECN")
    accecn: bool = Field(False, description="with guest_ecn, AccECN is offered and accepted (kernel 7.3)")
    rack_tlp: bool = Field(
        True, description="guests' TCP finds losses by time and probes, too (RFC 8985); false: by duplicate ACKs "
        "and timeouts alone, as before Linux 3.10")
    gso: bool = Field(False, description="VMs send 64 KiB packets")
    backpressure: bool = Field(
        True, description="guests' sockets wait for packets in the fabric, as in one kernel; false: as VMs do not")
    static_mbps: Optional[float] = Field(
        None, ge=0.1, le=10000, description="law static, or edge: each VM's rate, Mb/s; default: its maximum, or an "
        "equal part of the link")
    udp_mbps: Optional[float] = Field(
        None, ge=0.1, le=10000, description="rate of a udp sender, Mb/s on the wire; default: the link's")
    topology: Literal["dumbbell", "star", "racks", "spines", "parking-lot"] = Field(
        "dumbbell", description="dumbbell; star: a port of the switch to each host marks, and rxN has the weight, "
                                "guarantee and maximum of vmN; two racks and a core; two leaves "
                                "under two spines; two bottlenecks in a row")
    vms_per_hypervisor: int = Field(1, ge=1, le=64, description="sending VMs on a hypervisor")
    hosts: Optional[int] = Field(
        None, ge=1, le=64, description="sending hypervisors, VMs go round them; default: by vms_per_hypervisor")
    racks: int = Field(2, ge=2, le=8, description="topology racks: so many; VMs, or hosts, go round them")
    receivers: int = Field(1, ge=1, le=64, description="receiving VMs; senders go round")
    destinations: int = Field(1, ge=1, le=64, description="receivers each VM but the tagged one sends to")
    flows: int = Field(
        1, ge=1, le=256, description="TCP connections of each VM but the tagged one to each of its destinations")
    loss: Tuple[Percent, ...] = Field(
        (0,), min_length=1, description="feedback lost on its way, percent; several come in turn, at loss_at_s")
    loss_at_s: Tuple[float, ...] = Field(
        (0,), min_length=1, description="since when each percentage of loss is in force, s from the start")
    loss_of: Literal["feedback", "marks"] = Field(
        "feedback", description="law vcc: what is lost; feedback: ACKs with ECE, of 100 percent CE; marks: CE alone")
    handshake: Literal["start", "early"] = Field(
        "start", description="TCP connects when its flow starts, or before the run as in a simulator without SYNs")
    initial_window: Optional[int] = Field(
        None, ge=1, le=1000, description="experiments of SCC: segments that a TCP begins with; default: Linux's 10")
    rto_min_ms: Optional[float] = Field(
        None, ge=1, le=200, description="experiments of SCC: least retransmission timeout of a TCP, whose receivers "
        "acknowledge at once then, ms; default: Linux's 200")
    generator: Literal["own", "iperf"] = Field("own", description="traffic generator; iperf is slow here")
    sample_us: int = Field(2000, ge=100, le=100000, description="the queue is read this often, us")
    limit_sample_ms: int = Field(100, ge=2, le=100, description="the rate limits are read this often, ms")
    burst_us: Optional[int] = Field(
        None, ge=0, le=10000, description="what a rate sends in that time leaves in one go, and whole, us; 0: single "
        "segments; default: the shim's")
    burst_bytes: Optional[int] = Field(
        None, ge=1514, le=16777216, description="limiter or edge police: depth of the bucket; default: the shim's; "
        "edge: 0.8 s of the rate, as Neutron has it")
    horizon_us: Optional[int] = Field(
        None, ge=100, le=10000000, description="limiter pace: longest wait of a packet, us; default: the shim's")
    ahead: bool = Field(
        False, description="limiter pace: small packets and young flows of a VM leave ahead of its bulk (shim-ahead)")
    shim_period_us: Optional[int] = Field(
        None, ge=100, le=1000000, description="T of the law in the shim, us; default: the law's")
    controllers: int = Field(
        1, ge=1, le=4, description="controllers that share the switches by a database of three ovsdb-servers")
    kill_controller_at_s: Optional[float] = Field(
        None, ge=0, description="the controller is killed then, s from the start; of several the one that owns the "
                                "bottleneck's switch; default: never")
    restart_controller_at_s: Optional[float] = Field(
        None, ge=0, description="and started again then, s from the start; default: never")
    knobs: Dict[str, int] = Field(default_factory=dict, description="knob.<name>=<n>: a knob of the law")

    @model_validator(mode="before")
    @classmethod
    def _choose_source(cls, values: Any) -> Any:
        """Let the only mark source of a fabric be its default."""
        if (isinstance(values, dict) and values.get("fabric") == "linux" and "mark_source" not in values
                and values.get("law", "sdngcc") in CONTROLLED):
            return {**values, "mark_source": "shim"}
        return values

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, values: Any) -> Any:
        """Let a law's literal preset say what nobody set."""
        if not isinstance(values, dict) or values.get("preset") != PUBLISHED:
            return values
        law = values.get("law", "sdngcc")
        if law not in get_args(Law):
            return values
        if law not in PRESETS:
            raise ValueError(describe_refusal(law))
        preset = PRESETS[law]
        return {**preset.parameters, **values, "knobs": {**preset.knobs, **values.get("knobs", {})}}

    @field_validator("competitor", "weights", "phases", "guarantees", "maximums", "divisions", "loss", "loss_at_s",
                     "tenant_sizes", "tenant_weights", "tenant_guarantees", "tenant_maximums", "on_off_ms", "load",
                     "red", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """Let a comma-separated text stand for a list, and a number for a list of one."""
        if isinstance(value, (int, float)):
            return (value,)
        return tuple(value.split(",")) if isinstance(value, str) else value

    @field_validator("weights")
    @classmethod
    def _check_weights(cls, value: Tuple[int, ...]) -> Tuple[int, ...]:
        if not all(1 <= weight <= 65535 for weight in value):
            raise ValueError("each weight is from 1 to 65535")
        return value

    @field_validator("tenant_sizes")
    @classmethod
    def _check_sizes(cls, value: Tuple[int, ...]) -> Tuple[int, ...]:
        if not all(size >= 1 for size in value):
            raise ValueError("each tenant has 1 VM or more")
        return value

    @field_validator("tenant_weights")
    @classmethod
    def _check_tenant_weights(cls, value: Tuple[int, ...]) -> Tuple[int, ...]:
        if not all(0 <= weight <= 65535 for weight in value):
            raise ValueError("each weight is from 0 (none) to 65535")
        return value

    @field_validator("tenant_guarantees", "tenant_maximums")
    @classmethod
    def _check_tenant_rates(cls, value: Tuple[float, ...]) -> Tuple[float, ...]:
        if not all(0 <= rate <= 640000 for rate in value):
            raise ValueError("each rate is from 0 (none) to 640000 Mb/s")
        return value

    @field_validator("guarantees", "maximums")
    @classmethod
    def _check_rates(cls, value: Tuple[float, ...]) -> Tuple[float, ...]:
        if not all(0 <= rate <= 10000 for rate in value):
            raise ValueError("each rate is from 0 (none) to 10000 Mb/s")
        return value

    @field_validator("on_off_ms")
    @classmethod
    def _check_on_off(cls, value: Tuple[float, ...]) -> Tuple[float, ...]:
        if not all(1 <= period <= 10000 for period in value):
            raise ValueError("each period is from 1 to 10000 ms")
        return value

    @field_validator("divisions")
    @classmethod
    def _check_divisions(cls, value: Tuple[int, ...]) -> Tuple[int, ...]:
        if not all(0 <= division <= 65535 for division in value):
            raise ValueError("each division is a number from 0 to 65535")
        return value

    @field_validator("phases")
    @classmethod
    def _check_phases(cls, value: Tuple[float, float, float]) -> Tuple[float, float, float]:
        if any(not 0 <= length <= 3600 or round(length * 10) != length * 10 for length in value) or not value[1]:
            raise ValueError("each phase is from 0 to 3600 s in steps of 0.1 s, the second longer than 0")
        return value

    @model_validator(mode="after")
    def _check_whole(self) -> Parameters:
        if self.destinations > self.receivers:
            raise ValueError(f"destinations={self.destinations} needs as many receivers; there are {self.receivers}")
        restart, kill = self.restart_controller_at_s, self.kill_controller_at_s
        if restart is not None and (kill is None or restart <= kill):
            raise ValueError("restart_controller_at_s needs an earlier kill_controller_at_s")
        if kill is not None and self.law not in CONTROLLED:
            raise ValueError(f"kill_controller_at_s needs {' or '.join(f'law={law}' for law in CONTROLLED)}")
        if self.mark_source != "openflow" and self.law not in CONTROLLED:
            raise ValueError(f"mark_source needs {' or '.join(f'law={law}' for law in CONTROLLED)}")
        if self.mark_delay_ms and self.law not in CONTROLLED:
            raise ValueError(f"mark_delay_ms needs {' or '.join(f'law={law}' for law in CONTROLLED)}")
        if self.controllers > 1 and self.law not in CONTROLLED:
            raise ValueError(f"controllers needs {' or '.join(f'law={law}' for law in CONTROLLED)}")
        if self.controllers > 1 and self.mark_source == "sflow":
            raise ValueError("mark_source=sflow goes with one controller here: switches export to one address")
        if self.limit_sample_ms * 1000 % self.sample_us and "limit_sample_ms" in self.model_fields_set:
            raise ValueError(f"limit_sample_ms must be a multiple of sample_us={self.sample_us}")
        if self.senders == 1 and self.phases[0]:
            raise ValueError("with senders=1 nobody competes: phases must begin with 0")
        if self.knobs and self.law == "none":
            raise ValueError("knob.* needs a law")
        if self.edge != "none" and (self.law != "none" or self.fabric != "openflow" or self.datapath == "netdev"):
            raise ValueError(f"edge={self.edge} needs law=none, fabric=openflow and a datapath of the kernel; they are "
                             f"{self.law}, {self.fabric}, {self.datapath}")
        if self.uplink_mbps is not None and (self.topology != "dumbbell" or self.law not in ("none", "sdngcc", "vcc")):
            raise ValueError("uplink_mbps needs topology=dumbbell and law=vcc, law=sdngcc or law=none; they are "
                             f"{self.topology}, {self.law}")
        self._check_red()
        if self.hosts is not None and self.hosts > self.senders:
            raise ValueError(f"hosts={self.hosts} needs as many senders; there are {self.senders}")
        if self.hosts is not None and self.vms_per_hypervisor != 1:
            raise ValueError("hosts and vms_per_hypervisor cannot both be given")
        newer = [name for name, wanted in (("accecn", self.accecn), ("bbr", "bbr" in (self.tagged, *self.competitor)))
                 if wanted and self.kernel != NEWEST]
        if newer:
            raise ValueError(f"{' and '.join(newer)} needs kernel={NEWEST}; it is {self.kernel}")
        if self.accecn and not self.guest_ecn:
            raise ValueError("accecn needs guest_ecn=true: no guest negotiates ECN")
        self._check_loss()
        self._check_fabric()
        if self.topology == "parking-lot" and (self.vms_per_hypervisor != 1 or self.hosts is not None):
            raise ValueError("topology=parking-lot has one VM on each hypervisor: no vms_per_hypervisor, no hosts")
        if self.topology == "parking-lot" and (self.receivers % 3 or self.destinations != 1):
            raise ValueError(f"topology=parking-lot needs destinations=1 and receivers for each of three groups: 3, 6, "
                             f"...; receivers={self.receivers}, destinations={self.destinations}")
        self._check_guarantees()
        self._check_tenants()
        self._check_by_path()
        self._check_levels()
        return self

    def _check_red(self) -> None:
        if self.red and (len(self.red) != 5 or not self.red[1] < self.red[2] <= self.red[0] or self.red[4] > 1):
            raise ValueError("red has limit, min, max, burst and probability, min below max, max no more than limit, "
                             f"probability at most 1; not {','.join(f'{value:g}' for value in self.red)}")
        if self.red and self.topology != "dumbbell":
            raise ValueError(f"red needs topology=dumbbell; it is {self.topology}")

    def _check_tenants(self) -> None:
        if sum(self.tenant_sizes) > self.senders:
            raise ValueError(f"tenant_sizes add up to {sum(self.tenant_sizes)} VMs; there are {self.senders}")
        policies = (*self.tenant_weights, *self.tenant_guarantees, *self.tenant_maximums)
        if any(policies) and (self.law != "maxmin" or not self.tenant_sizes):
            raise ValueError("tenant_weights, tenant_guarantees and tenant_maximums need law=maxmin and tenant_sizes")
        for number in range(len(self.tenant_sizes)):
            low, high = self.tenant_guarantee_mbps(number), self.tenant_maximum_mbps(number)
            if high and low > high:
                raise ValueError(f"tenant_guarantees: tenant{number + 1}'s {low:g} Mb/s is above its maximum of "
                                 f"{high:g}")

    def _check_by_path(self) -> None:
        if self.by_path and self.law not in CONTROLLED:
            raise ValueError(f"by_path needs law={' or '.join(sorted(CONTROLLED))}, not {self.law}")
        if self.by_path and self.law == "sdngcc" and self.division != "bytes":
            raise ValueError(f"by_path needs division=bytes, not {self.division}")

    def _may_tell_levels(self) -> bool:
        return self.law == "sdngcc" and self.division == "bytes" and not self.by_path

    @property
    def tells_levels(self) -> bool:
        """Tell whether VMs are told levels beside marks."""
        return self._may_tell_levels() if self.levels is None else self.levels

    def _check_levels(self) -> None:
        if self.levels and not self._may_tell_levels():
            raise ValueError("levels needs law=sdngcc, division=bytes and by_path=false, not "
                             f"{self.law}, {self.division} and {str(self.by_path).lower()}")

    def _check_loss(self) -> None:
        if self.loss_of == "marks" and self.law != "vcc":
            raise ValueError(f"loss_of=marks needs law=vcc; it is {self.law}")
        if len(self.loss) != len(self.loss_at_s):
            raise ValueError(f"loss has {len(self.loss)} percentages, loss_at_s {len(self.loss_at_s)} times; each "
                             "percentage needs its time")
        if self.loss_at_s[0] or any(later <= earlier for earlier, later in zip(self.loss_at_s, self.loss_at_s[1:])):
            raise ValueError("loss_at_s must begin with 0 and grow")

    def _check_fabric(self) -> None:
        linux, controlled = self.fabric == "linux", self.law in CONTROLLED
        if controlled and linux != (self.mark_source == "shim"):
            raise ValueError("mark_source=shim goes with fabric=linux, and no other does; they are "
                             f"{self.mark_source}, {self.fabric}")
        if self.datapath == "netdev" and (linux or self.gso):
            raise ValueError("datapath=netdev needs fabric=openflow and gso=false: ovs-vswitchd cuts no packets; they "
                             f"are {self.fabric}, {str(self.gso).lower()}")
        if linux and self.topology == "spines":
            raise ValueError("topology=spines has two ways, and a fabric of plain bridges one: fabric=linux needs "
                             "dumbbell, star, racks or parking-lot")
        if linux and self.controllers > 1:
            raise ValueError(f"fabric=linux goes with one controller here; controllers={self.controllers}")
        networks = {"none": ("flat",), "neutron": ("vlan",), "ovn": ("vlan", "geneve")}[self.agent]
        if self.network not in networks:
            raise ValueError(f"agent={self.agent} needs network={' or '.join(networks)}; it is {self.network}")
        if self.agent == "none":
            return
        if not linux or self.law == "none":
            raise ValueError(f"agent={self.agent} needs fabric=linux and a law; they are {self.fabric}, {self.law}")
        if any(self.loss):
            raise ValueError(f"loss needs agent=none; it is {self.agent}")
        if self.destinations > 1:
            raise ValueError(f"agent={self.agent} has a tenant for each receiver: destinations must be 1, not "
                             f"{self.destinations}")

    def _check_guarantees(self) -> None:
        granted: Dict[str, float] = {}
        if self.topology == "star":
            granted["receivers"] = sum(self.guarantee_mbps(index) for index in range(self.receivers))
            if granted["receivers"] > self.link_mbps:
                raise ValueError(f"guarantees: those of the receivers add up to {granted['receivers']:g} Mb/s; "
                                 f"their uplink has {self.link_mbps}")
        for index, vm in enumerate(self.vm_names):
            guarantee, maximum = self.guarantee_mbps(index), self.maximum_mbps(index)
            if maximum and guarantee > maximum:
                raise ValueError(f"guarantees: {vm}'s {guarantee:g} Mb/s is above its maximum of {maximum:g}")
            host = self.hypervisor(index)
            granted[host] = granted.get(host, 0) + guarantee
            if granted[host] > self.link_mbps:
                raise ValueError(f"guarantees: those on the hypervisor of {vm} add up to {granted[host]:g} Mb/s; "
                                 f"its uplink has {self.link_mbps}")
        # One Open vSwitch cannot know which of its uplinks a VM will use.
        if self.fabric == "openflow" and self.law != "none" and sum(granted.values()) > self.link_mbps:
            raise ValueError(f"guarantees: all add up to {sum(granted.values()):g} Mb/s, and with fabric=openflow one "
                             f"Open vSwitch has all hypervisors, with uplinks of {self.link_mbps}; fabric=linux gives "
                             "each its own")

    @property
    def duration_s(self) -> float:
        """Length of the run, seconds."""
        return round(sum(self.phases), 1)

    @property
    def inner_part(self) -> float:
        """Part of what a full frame takes of a link that is the VM's own; links do not count the tags of VLANs."""
        return WIRE_BYTES / (WIRE_BYTES + (GENEVE_BYTES if self.network == "geneve" else 0))

    @property
    def vm_names(self) -> List[str]:
        """Sending VMs, the tagged one first."""
        return [f"vm{number}" for number in range(1, self.senders + 1)]

    def weight(self, index: int) -> int:
        """Return the weight of the index-th VM (0: tagged)."""
        return self.weights[index % len(self.weights)]

    def guarantee_mbps(self, index: int) -> float:
        """Return what the index-th VM is never cut below, Mb/s; 0: no guarantee."""
        return self.guarantees[index % len(self.guarantees)]

    def maximum_mbps(self, index: int) -> float:
        """Return what the index-th VM never exceeds, Mb/s; 0: no maximum."""
        return self.maximums[index % len(self.maximums)]

    def fixed_mbps(self, index: int) -> float:
        """Return what a limit that never changes allows the index-th VM, Mb/s."""
        return self.maximum_mbps(index) or self.static_mbps or self.link_mbps / self.senders

    def division_of(self, index: int) -> int:
        """Return the number of the index-th VM's division."""
        return self.divisions[index % len(self.divisions)]

    def tenant_of(self, index: int) -> Optional[int]:
        """Return the number (0: tenant1) of the index-th VM's tenant; None: it has none."""
        for number, size in enumerate(self.tenant_sizes):
            index -= size
            if index < 0:
                return number
        return None

    def tenant_weight(self, number: int) -> int:
        """Return the weight of a tenant; 0: none."""
        return self.tenant_weights[number % len(self.tenant_weights)]

    def tenant_guarantee_mbps(self, number: int) -> float:
        """Return what all VMs of a tenant are guaranteed together, Mb/s; 0: nothing."""
        return self.tenant_guarantees[number % len(self.tenant_guarantees)]

    def tenant_maximum_mbps(self, number: int) -> float:
        """Return what all VMs of a tenant never exceed together, Mb/s; 0: no maximum."""
        return self.tenant_maximums[number % len(self.tenant_maximums)]

    def receivers_of(self, index: int) -> List[int]:
        """Return the numbers (0: rx1) of the receivers the index-th VM sends to; the tagged VM sends to one."""
        count = 1 if index == 0 else self.destinations
        return [(index + number) % self.receivers for number in range(count)]

    def hypervisor(self, index: int) -> str:
        """Return the hypervisor of the index-th VM."""
        return hypervisor_of(self.topology, index, self.vms_per_hypervisor, self.hosts, self.racks)

    def protocol(self, index: int) -> str:
        """Return what the index-th VM sends: reno, cubic, dctcp, bbr or udp."""
        name = self.tagged if index == 0 else self.competitor[(index - 1) % len(self.competitor)]
        return "reno" if name == "tcp" else name


def parse_settings(settings: Sequence[str], defaults: Dict[str, Any]) -> Parameters:
    """Return the parameters that ``name=value`` settings make of the defaults; the last of equal names counts.

    Raises ParameterError naming each setting refused and what is allowed.
    """
    parameters = make_parameters(read_settings(settings, Parameters, defaults))
    if parameters.knobs:
        # It compiles the laws, which most settings need not.
        from sdngcc.shim.knobs import laws
        from sdngcc.testbed.knobs import check_knobs

        check_knobs(parameters.law, [law.name for law in laws()], parameters.knobs)
    return parameters


def make_parameters(values: Dict[str, Any]) -> Parameters:
    """Return validated parameters; raises ParameterError naming each value refused and why."""
    return make(Parameters, values)
