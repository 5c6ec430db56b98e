# SPDX-License-Identifier: Apache-2.0
"""Settings of the controller: a TOML or YAML file, then the environment, each checked by name and range.

A key ``period_us`` is set in the file by that name, in the environment as SDNGCC_CONTROLLER_PERIOD_US
(lists with commas).  SDNGCC_CONTROLLER_CONFIG names the file.  An unknown key is refused.
"""

import ipaddress
import os
import pathlib
import re
import ssl
from typing import Any, Literal, Mapping, Optional

import pydantic
import yaml

from sdngcc.controller.mappings import check_distinct, datapath_id, read_agent, read_capacity, read_port, read_switch

try:
    import tomllib
except ImportError:  # Python before 3.11
    import tomli as tomllib  # type: ignore[no-redef]

PREFIX = "SDNGCC_CONTROLLER_"
CONFIG_VARIABLE = PREFIX + "CONFIG"


class SettingsError(ValueError):
    """Settings that cannot be used; the text names each key, what is wrong and what is allowed."""


class Settings(pydantic.BaseModel):
    """All settings with their defaults."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    period_us: int = pydantic.Field(
        5000, ge=500, le=1_000_000, description="T_i, microseconds between two polls of a switch"
    )
    division: Literal["bytes", "sent", "equal"] = pydantic.Field(
        "bytes",
        description="how a port's marks are divided: by what each source sent through the port, by all it sent, "
        "or equally (the paper)",
    )
    pair_period_ms: int = pydantic.Field(
        100,
        ge=10,
        le=60_000,
        description="time between two readings of where machines send to, while their hypervisor's matter",
    )
    decision: Literal["marks", "maxmin"] = pydantic.Field(
        "marks",
        description="what machines are told: their part of the marks, or weighted max-min rates (law maxmin)",
    )
    capacity_mbps: Optional[float] = pydantic.Field(
        None, ge=0.001, le=800_000, description="Mb/s a fabric port carries; default: what its switch says"
    )
    capacities: tuple[str, ...] = pydantic.Field(
        (), description="the same of single ports, each <datapath id>/<port>=<Mb/s>"
    )
    headroom_percent: float = pydantic.Field(
        1.0, ge=0, le=50, description="part of a fabric port's capacity that explicit rates leave free"
    )
    mark_source: Literal["openflow", "openflow-ce", "sflow", "sflow-rt", "sonic"] = pydantic.Field(
        "openflow", description="where marks come from"
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
    multipath: Literal["destination", "pair", "flow"] = pydantic.Field(
        "destination",
        description="what chooses among equally short ways: a hash of the destination, of source and destination, "
        "or the switch's own of each flow (select groups)",
    )
    notify: bool = pydantic.Field(True, description="send messages; false only polls and shows")
    message_version: Literal["v0", "v1"] = pydantic.Field("v1", description="v0 is the paper's and can be forged")
    key_file: Optional[pathlib.Path] = pydantic.Field(
        None, description="file with the 32 hex digits of the message key; needed for v1"
    )
    protocol: int = pydantic.Field(253, ge=1, le=254, description="IP protocol of control messages")
    sender_id: int = pydantic.Field(1, ge=0, le=0xFFFFFFFF, description="id of this controller in its messages")
    round_deadline_us: int = pydantic.Field(
        800, ge=0, le=100_000, description="longest wait for the rates of hypervisors after marks were seen"
    )
    relation_idle_s: int = pydantic.Field(10, ge=1, le=3600, description="a pair silent for this long is forgotten")
    host_idle_s: int = pydantic.Field(300, ge=1, le=86400, description="a host without pairs this long is forgotten")
    lldp_period_ms: int = pydantic.Field(5000, ge=100, le=60_000, description="link discovery; three missed end a link")
    settle_ms: int = pydantic.Field(
        300, ge=0, le=10_000, description="a new port is taken for a host's after this long without LLDP"
    )
    packet_ins_a_second: int = pydantic.Field(
        1000,
        ge=1,
        le=1_000_000,
        description="packet-ins served a port and second; the rest is dropped and counted",
    )
    switch_packet_ins_a_second: int = pydantic.Field(
        20_000, ge=1, le=1_000_000, description="the same for all ports of a switch together, links included"
    )
    hypervisors: tuple[int, ...] = pydantic.Field(
        (), description="datapath ids of hypervisor bridges; others are recognised by their virtual machines"
    )
    fabric: tuple[int, ...] = pydantic.Field((), description="datapath ids that are never hypervisors")
    poll_hypervisors: bool = pydantic.Field(
        False, description="poll hypervisors' own ports every period too, and act on their marks"
    )
    ovsdb: tuple[str, ...] = pydantic.Field(
        (),
        description="OVSDB remotes of the hypervisors: unix:<path>, tcp:<address>:<port>",
    )
    cluster: tuple[str, ...] = pydantic.Field(
        (),
        description="OVSDB remotes of the database that controllers share switches by; none: this one is alone",
    )
    lease_ms: int = pydantic.Field(
        1000, ge=300, le=60_000, description="a controller of a cluster silent for this long loses its switches"
    )
    rest: str = pydantic.Field("127.0.0.1:8080", description="address and port of REST; empty: none")
    rest_token_file: Optional[pathlib.Path] = pydantic.Field(
        None, description="file of lines <name> <token>; each request bears a token then; needed off loopback"
    )
    rest_tls_cert: Optional[pathlib.Path] = pydantic.Field(None, description="PEM certificate (chain): REST by TLS")
    rest_tls_key: Optional[pathlib.Path] = pydantic.Field(None, description="PEM key of rest_tls_cert")
    rest_hosts: tuple[str, ...] = pydantic.Field(
        (), description="names REST may be called by, beside localhost and IP addresses"
    )
    rest_event_clients: int = pydantic.Field(32, ge=0, le=1000, description="most clients of /v1/events at a time")
    audit_file: Optional[pathlib.Path] = pydantic.Field(None, description="JSON lines: who changed which policy")
    framework: Literal["auto", "ryu", "os-ken"] = pydantic.Field(
        "auto", description="OpenFlow library the controller runs on; auto: Ryu where it is installed, else os-ken"
    )
    openflow: str = pydantic.Field("127.0.0.1:6653", description="address and port switches connect to")
    openflow_connections: int = pydantic.Field(
        4096, ge=1, le=1_000_000, description="most connections of switches at a time; open files may allow fewer"
    )
    openflow_connections_a_peer: int = pydantic.Field(
        1024, ge=1, le=1_000_000, description="most of them from one address"
    )
    openflow_silence_s: int = pydantic.Field(
        30, ge=3, le=3600, description="a connection ends when nothing was heard of it for this long; asked at a third"
    )
    openflow_tls_key: Optional[pathlib.Path] = pydantic.Field(
        None, description="private key; with it switches connect by TLS only, and ssl: remotes use it too"
    )
    openflow_tls_cert: Optional[pathlib.Path] = pydantic.Field(None, description="certificate of that key")
    openflow_tls_ca: Optional[pathlib.Path] = pydantic.Field(
        None, description="certificate of the authority that signed the switches' (and databases') certificates"
    )
    trace_file: Optional[pathlib.Path] = pydantic.Field(None, description="JSON lines of notifications and poll counts")

    @pydantic.field_validator("hypervisors", "fabric", mode="before")
    @classmethod
    def _read_datapath_ids(cls, value: Any) -> Any:
        return tuple(datapath_id(one) for one in value) if isinstance(value, (list, tuple)) else value

    @pydantic.field_validator("capacities")
    @classmethod
    def _check_capacities(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            read_capacity(text)
        return value

    @pydantic.field_validator("ovsdb", "cluster")
    @classmethod
    def _check_remotes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for remote in value:
            if not re.match(r"(unix|tcp|ssl):.+", remote):
                raise ValueError(f'"{remote}" is no OVSDB remote; unix:<path>, tcp:<address>:<port> and ssl:... are')
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

    @pydantic.field_validator("sflow_ports", "sonic_ports")
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

    @pydantic.field_validator("rest", "openflow", "sflow_listen")
    @classmethod
    def _check_address(cls, value: str, info: pydantic.ValidationInfo) -> str:
        if value or info.field_name != "rest":
            split_address(value)
        return value

    @pydantic.model_validator(mode="after")
    def _check_together(self) -> "Settings":
        if self.multipath == "flow" and self.mark_source == "openflow-ce":
            raise ValueError("multipath flow does not go with mark_source openflow-ce: a group's port is not known")
        both = set(self.hypervisors) & set(self.fabric)
        if both:
            raise ValueError(f"datapath {min(both):016x} is named in both hypervisors and fabric")
        for source, key in (("sflow", "sflow_agents"), ("sflow-rt", "sflow_agents"), ("sonic", "sonic_redis")):
            if self.mark_source == source and not getattr(self, key):
                raise ValueError(f"{key} is needed for mark_source {source}")
        if self.decision == "maxmin" and self.message_version == "v0":
            raise ValueError("decision maxmin needs message_version v1: v0 carries no rate")
        if self.notify and self.message_version == "v1" and self.key_file is None:
            raise ValueError("key_file is needed for message_version v1 (or set notify=false)")
        if self.rest and not is_loopback(split_address(self.rest)[0]) and self.rest_token_file is None:
            raise ValueError(f"rest_token_file is needed when rest is beyond loopback ({self.rest})")
        if (self.rest_tls_cert is None) != (self.rest_tls_key is None):
            raise ValueError("rest_tls_cert and rest_tls_key are needed together")
        tls = ("openflow_tls_key", "openflow_tls_cert", "openflow_tls_ca")
        missing = [name for name in tls if getattr(self, name) is None]
        if missing and len(missing) < len(tls):
            raise ValueError(f"{' and '.join(missing)}: needed with the other openflow_tls settings")
        for name in ("ovsdb", "cluster"):
            if missing and any(remote.startswith("ssl:") for remote in getattr(self, name)):
                raise ValueError(f"{name}: an ssl: remote needs {', '.join(tls)}")
        if self.cluster and self.key_file is None:
            raise ValueError("key_file is needed for cluster: controllers know each other's link discovery by it")
        return self

    def read_key(self) -> bytes:
        """Return the message key, zeros when none is set; raises SettingsError when its file is unusable."""
        if self.key_file is None:
            return bytes(16)
        try:
            text = self.key_file.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"key_file {self.key_file}: {error}") from None
        check_private("key_file", self.key_file)
        if not re.fullmatch(r"[0-9a-fA-F]{32}", text):
            raise SettingsError(f"key_file {self.key_file}: it must hold 32 hex digits and nothing else")
        return bytes.fromhex(text)


    def read_tokens(self) -> dict[str, str]:
        """Return REST's tokens by name, none without a file; raises SettingsError when its file is unusable."""
        path = self.rest_token_file
        if path is None:
            return {}
        try:
            lines = path.read_text("ascii").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"rest_token_file {path}: {error}") from None
        check_private("rest_token_file", path)
        tokens: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            found = re.fullmatch(r"([A-Za-z0-9_.@-]{1,64})\s+([!-~]{32,256})\s*", line)
            if not found or found[1] in tokens:
                raise SettingsError(
                    f"rest_token_file {path}, line {number}: allowed is <name> <token>, each name once, "
                    "a token of 32 to 256 printable characters"
                )
            tokens[found[1]] = found[2]
        if not tokens:
            raise SettingsError(f"rest_token_file {path}: it holds no token")
        return tokens

    def read_tls(self) -> Optional[ssl.SSLContext]:
        """Return what REST needs for TLS, None without a certificate; raises SettingsError when a file is unusable."""
        if self.rest_tls_cert is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.rest_tls_cert, self.rest_tls_key)
        except OSError as error:  # ssl.SSLError is one
            files = f"rest_tls_cert {self.rest_tls_cert}, rest_tls_key {self.rest_tls_key}"
            raise SettingsError(f"{files}: {error}") from None
        return context


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_private(key: str, path: pathlib.Path) -> None:
    """Raise SettingsError naming the setting when everybody may read or write a file that holds a secret."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise SettingsError(f"{key} {path}: {error}") from None
    if mode & 0o007:
        raise SettingsError(f"{key} {path}: everybody may use it (mode {mode & 0o777:o}); allowed: 640")


def read_secret(key: str, path: Optional[pathlib.Path]) -> Optional[str]:
    """Return the one line of a file that a setting names, None without one; raises SettingsError."""
    if path is None:
        return None
    try:
        text = path.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{key} {path}: {error}") from None
    check_private(key, path)
    if not text or "\n" in text:
        raise SettingsError(f"{key} {path}: it must hold one line and nothing else")
    return text


def split_address(text: str) -> tuple[str, int]:
    """Return (address, port) of "127.0.0.1:8080" or "[::1]:8080"; raises ValueError naming what is wrong."""
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]]+)):([0-9]+)", text)
    if not found or not 0 <= int(found[3]) <= 65535:
        raise ValueError(f'"{text}" is no <address>:<port> with a port of 0 to 65535')
    return found[1] or found[2], int(found[3])


def _read_file(path: pathlib.Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
        values = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"settings file {path}: {error}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SettingsError(f"settings file {path}: it must hold keys and values, not a {type(values).__name__}")
    return values


def load(
    path: Optional[pathlib.Path] = None,
    environment: Mapping[str, str] = os.environ,
    chosen: Optional[Mapping[str, Any]] = None,
) -> Settings:
    """Return the settings of a file (.toml, else YAML), overridden by the environment, and that by ``chosen``.

    Raises SettingsError naming every key that is unknown or out of range.
    """
    if path is None and environment.get(CONFIG_VARIABLE):
        path = pathlib.Path(environment[CONFIG_VARIABLE])
    values = _read_file(path) if path else {}
    for name in environment:
        if not name.startswith(PREFIX) or name == CONFIG_VARIABLE:
            continue
        key = name[len(PREFIX) :].lower()
        text = environment[name]
        field = Settings.model_fields.get(key)
        listed = field is not None and "tuple" in str(field.annotation).lower()
        values[key] = [one.strip() for one in text.split(",") if one.strip()] if listed else text
    values.update(chosen or {})
    try:
        return Settings.model_validate(values)
    except pydantic.ValidationError as error:
        lines = []
        for fault in error.errors():
            key = ".".join(str(part) for part in fault["loc"]) or "settings"
            reason = "unknown key" if fault["type"] == "extra_forbidden" else fault["msg"]
            shown = "" if fault["type"] in ("extra_forbidden", "value_error") else f" (got {fault['input']!r})"
            lines.append(f"{key}: {reason}{shown}")
        known = ", ".join(sorted(Settings.model_fields))
        hint = f"\nknown keys: {known}" if any("unknown key" in line for line in lines) else ""
        raise SettingsError("\n".join(lines) + hint) from None


_adopted: Optional[Settings] = None


def adopt(chosen: Settings) -> None:
    """Make settings the ones that current() returns, for an application that a framework constructs."""
    global _adopted
    _adopted = chosen


def current() -> Settings:
    """Return the adopted settings, else those of the environment; raises SettingsError as load() does."""
    return _adopted or load()
