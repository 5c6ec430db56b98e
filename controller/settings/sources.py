# SPDX-License-Identifier: Apache-2.0
"""Where marks come from; docs/sources has a page for each."""

import pathlib
import re
from typing import Literal, Optional

import pydantic

from sdngcc.controller.mappings import check_distinct, read_agent, read_port, read_sender, read_switch
from sdngcc.controller.settings.values import split_address


class MarkSources(pydantic.BaseModel):
    """Where marks come from; docs/sources has a page for each."""

    mark_source: Literal["openflow", "openflow-ce", "sflow", "sflow-rt", "sonic", "otlp", "shim"] = pydantic.Field(
        "openflow", description="where marks come from"
    )
    mark_delay_ms: int = pydantic.Field(
        0, ge=0, le=60_000, description="laboratory: marks are counted for so long and known as late; 0: at once"
    )
    ce_counter_age_ms: int = pydantic.Field(
        500, ge=0, le=60_000, description="openflow-ce: how old flow counters may be; Open vSwitch's max-revalidator"
    )
    ce_refresh: bool = pydantic.Field(
        False, description="openflow-ce: make Open vSwitch bring its flow counters up to date at each poll"
    )
    sflow_listen: str = pydantic.Field("127.0.0.1:6343", description="sflow: address and UDP port agents send to")
    sflow_agents: tuple[str, ...] = pydantic.Field(
        (), description="sflow, sflow-rt: <agent's IP address>[/<sub-agent>]=<datapath id>; others are refused"
    )
    sflow_senders: tuple[str, ...] = pydantic.Field(
        (), description="sflow: <agent's IP address>=<IP address or network> its datagrams come from, if not its own"
    )
    sflow_ports: tuple[str, ...] = pydantic.Field(
        (), description="sflow, sflow-rt: <datapath id>/<ifIndex>=<OpenFlow port>, where the agent does not tell"
    )
    sflow_window_ms: int = pydantic.Field(
        100, ge=5, le=10_000, description="sflow: samples of this long are handed on together"
    )
    sflow_rt_url: str = pydantic.Field("http://127.0.0.1:8008", description="sflow-rt: where its REST API is")
    sflow_rt_period_ms: int = pydantic.Field(
        500, ge=100, le=60_000, description="sflow-rt: time between two requests, and its smoothing (200 ms at least)"
    )
    sonic_redis: tuple[str, ...] = pydantic.Field(
        (), description="sonic: <address>:<port>=<datapath id> of each switch's Redis"
    )
    sonic_ports: tuple[str, ...] = pydantic.Field(
        (), description="sonic: <datapath id>/<SONiC's name>=<OpenFlow port>, where the names differ"
    )
    sonic_password_file: Optional[pathlib.Path] = pydantic.Field(
        None, description="sonic: file with the password of Redis; none: it needs none"
    )
    sonic_period_ms: int = pydantic.Field(
        100, ge=10, le=60_000, description="sonic: time between two readings of a database"
    )
    sonic_counter_age_ms: int = pydantic.Field(
        10_000, ge=0, le=600_000, description="sonic: polling interval of the counter group WRED_ECN_QUEUE"
    )

    otlp_listen: str = pydantic.Field(
        "127.0.0.1:4317", description="otlp: address and port metrics are exported to, by gRPC"
    )
    otlp_switches: tuple[str, ...] = pydantic.Field(
        (), description="otlp: <host.name or IP address>=<datapath id> of each switch; others are refused"
    )
    otlp_ports: tuple[str, ...] = pydantic.Field(
        (), description="otlp: <datapath id>/<SONiC's name>=<OpenFlow port>, where the names differ"
    )
    otlp_tls_key: Optional[pathlib.Path] = pydantic.Field(
        None, description="otlp: private key; with it exporters connect by TLS only, with certificates of their own"
    )
    otlp_tls_cert: Optional[pathlib.Path] = pydantic.Field(None, description="otlp: certificate of that key")
    otlp_tls_ca: Optional[pathlib.Path] = pydantic.Field(
        None, description="otlp: certificate of the authority that signed the exporters' certificates"
    )
    otlp_tls_crl: Optional[pathlib.Path] = pydantic.Field(
        None, description="otlp: file, or folder of files, with the lists of exporters' certificates that are revoked"
    )

    @pydantic.field_validator("otlp_switches")
    @classmethod
    def _check_exporters(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        check_distinct(read_switch(one).name for one in value)
        return value

    @pydantic.field_validator("sflow_agents", "sonic_redis")
    @classmethod
    def _check_switches(cls, value: tuple[str, ...], info: pydantic.ValidationInfo) -> tuple[str, ...]:
        named = [read_switch(one) for one in value]
        for one in named:
            if info.field_name == "sonic_redis":
                split_address(one.name)
            else:
                read_agent(one.name)
        # An sFlow agent may speak for several switches; a database is one switch's.
        check_distinct(one.name if info.field_name == "sonic_redis" else one for one in named)
        return value

    @pydantic.field_validator("sflow_senders")
    @classmethod
    def _check_senders(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        check_distinct(read_sender(one) for one in value)
        return value

    @pydantic.field_validator("sflow_ports", "sonic_ports", "otlp_ports")
    @classmethod
    def _check_ports(cls, value: tuple[str, ...], info: pydantic.ValidationInfo) -> tuple[str, ...]:
        named = [read_port(one) for one in value]
        for one in named:
            if info.field_name == "sflow_ports" and not re.fullmatch(r"[0-9]{1,10}", one.name):
                raise ValueError(f'"{one.name}" is no ifIndex; a number is')
        check_distinct(f"{one.dpid:x}/{one.name}" for one in named)
        return value

    @pydantic.field_validator("sflow_rt_url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        if not re.fullmatch(r"http://[^/@?#\s]+", value):
            raise ValueError(f'"{value}" is no http://<address>[:<port>]')
        return value
