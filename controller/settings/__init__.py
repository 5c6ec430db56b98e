# SPDX-License-Identifier: Apache-2.0
"""Settings of the controller, a group a file: the command line, the environment, then a TOML, JSON or YAML file.

A key ``period_us`` is set in the file by that name, in the environment as SDNGCC_CONTROLLER_PERIOD_US
(lists with commas).  SDNGCC_CONTROLLER_CONFIG names the file.  An unknown key is refused.
"""

import os
import pathlib
from typing import Any, Callable, Mapping, Optional

import pydantic

from sdngcc import configuration
from sdngcc.configuration import SettingsError
from sdngcc.controller.settings.databases import Databases
from sdngcc.controller.settings.messages import Messages
from sdngcc.controller.settings.network import NetworkSettings
from sdngcc.controller.settings.process import Process
from sdngcc.controller.settings.rates import Rates
from sdngcc.controller.settings.rest import Rest
from sdngcc.controller.settings.sources import MarkSources
from sdngcc.controller.settings.values import check_private, is_loopback, read_secret, split_address
from sdngcc.logs import Logs

PREFIX = "SDNGCC_CONTROLLER_"
RETIRED = {"event_hub": "there is one hub now, exact to the microsecond, without a bound of its own; leave the key out"}


class Settings(Rates, MarkSources, Messages, NetworkSettings, Databases, Rest, Process, Logs):
    """All settings with their defaults."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    @pydantic.field_validator("rest", "openflow", "ovsdb_listen", "sflow_listen", "otlp_listen")
    @classmethod
    def _check_address(cls, value: str, info: pydantic.ValidationInfo) -> str:
        if value or info.field_name not in ("rest", "ovsdb_listen"):
            split_address(value)
        return value

    @pydantic.model_validator(mode="after")
    def _check_together(self) -> "Settings":
        if self.multipath == "flow" and self.mark_source == "openflow-ce":
            raise ValueError("multipath flow does not go with mark_source openflow-ce: a group's port is not known")
        if self.forwarding == "none":
            self._check_without_forwarding()
        elif self.mark_source == "shim":
            raise ValueError("mark_source shim needs forwarding none: hosts are asked then who talks to whom")
        elif self.underlay_file is not None:
            raise ValueError("underlay_file needs forwarding none: else links are found by LLDP")
        both = set(self.hypervisors) & set(self.fabric)
        if both:
            raise ValueError(f"datapath {min(both):016x} is named in both hypervisors and fabric")
        for source, key in (
            ("sflow", "sflow_agents"), ("sflow-rt", "sflow_agents"), ("sonic", "sonic_redis"), ("otlp", "otlp_switches")
        ):  # fmt: skip
            if self.mark_source == source and not getattr(self, key):
                raise ValueError(f"{key} is needed for mark_source {source}")
        if self.by_path and self.decision == "marks" and self.division != "bytes":
            raise ValueError(f"by_path needs division bytes, not {self.division}: marks go by what a port carries")
        if self.levels and not self._tells_wholes():
            raise ValueError("levels needs decision marks without by_path: it is told of all that a machine sends")
        if self.levels and not self._divides_by_bytes():
            raise ValueError("levels needs division bytes and message_version v1: it goes by what a port carries")
        if self.by_path and self.message_version == "v0":
            raise ValueError("by_path needs message_version v1: v0 names no path")
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
        _check_exporters(self)
        if self.ovsdb_listen and missing and not is_loopback(split_address(self.ovsdb_listen)[0]):
            raise ValueError(f"ovsdb_listen {self.ovsdb_listen}: beyond loopback it needs {', '.join(tls)}")
        if self.admit_file is not None and missing:
            raise ValueError(f"admit_file: certificates are shown with {', '.join(tls)} only")
        if self.openflow_tls_crl is not None and missing:
            raise ValueError(f"openflow_tls_crl: certificates are shown with {', '.join(tls)} only")
        for name in ("ovsdb", "cluster", "ovn_sb"):
            if missing and any(remote.startswith("ssl:") for remote in getattr(self, name)):
                raise ValueError(f"{name}: an ssl: remote needs {', '.join(tls)}")
        if self.neutron_cloud and self.neutron_endpoint:
            raise ValueError("neutron_cloud does not go with neutron_endpoint: one names the Neutron to ask")
        if self.nova_names and not self.neutron_cloud:
            raise ValueError("nova_names: Nova is found by neutron_cloud only, which names credentials")
        if self.cluster and self.tenant_file is not None:
            raise ValueError("tenant_file does not go with cluster: the cluster's database keeps tenants' policy")
        if self.cluster and self.key_file is None:
            raise ValueError("key_file is needed for cluster: controllers know each other's link discovery by it")
        return self


    def _tells_wholes(self) -> bool:
        return self.decision == "marks" and not self.by_path

    def _divides_by_bytes(self) -> bool:
        return self.division == "bytes" and self.message_version != "v0"

    @property
    def tells_levels(self) -> bool:
        """Tell whether machines are told levels beside marks."""
        return self._tells_wholes() and self._divides_by_bytes() if self.levels is None else self.levels

    def _check_without_forwarding(self) -> None:
        """Raise ValueError for what needs flows or packets of the controller's own."""
        if self.mark_source == "openflow-ce":
            raise ValueError("mark_source openflow-ce does not go with forwarding none: it counts by flows of its own")
        if self.message_version == "v0":
            raise ValueError("message_version v0 does not go with forwarding none: a host takes v1 messages only")


def _check_exporters(chosen: Settings) -> None:
    tls = ("otlp_tls_key", "otlp_tls_cert", "otlp_tls_ca")
    missing = [name for name in tls if getattr(chosen, name) is None]
    if missing and len(missing) < len(tls):
        raise ValueError(f"{' and '.join(missing)}: needed with the other otlp_tls settings")
    if missing and chosen.otlp_tls_crl is not None:
        raise ValueError(f"otlp_tls_crl: certificates are shown with {', '.join(tls)} only")
    if missing and chosen.mark_source == "otlp" and not is_loopback(split_address(chosen.otlp_listen)[0]):
        raise ValueError(f"{', '.join(tls)} are needed when otlp_listen is beyond loopback ({chosen.otlp_listen})")


def load(
    path: Optional[pathlib.Path] = None,
    environment: Mapping[str, str] = os.environ,
    chosen: Optional[Mapping[str, Any]] = None,
) -> Settings:
    """Return the settings of a file, overridden by the environment, and that by ``chosen``.

    Raises SettingsError naming every key that is unknown, out of range or given twice.
    """
    return configuration.load(Settings, PREFIX, path, environment, chosen, RETIRED)


_adopted: Optional[Settings] = None
_load_again: Callable[[], Settings] = load


def adopt(chosen: Settings, load_again: Callable[[], Settings] = load) -> None:
    """Make settings the ones that current() returns, for an application that a framework constructs.

    ``load_again`` returns what they are by now, or raises SettingsError.
    """
    global _adopted, _load_again
    _adopted, _load_again = chosen, load_again


def current() -> Settings:
    """Return the adopted settings, else those of the environment; raises SettingsError as load() does."""
    return _adopted or load()


def read_again() -> Settings:
    """Return the settings as file and environment have them now; raises SettingsError as load() does."""
    return _load_again()


__all__ = [
    "PREFIX", "Settings", "SettingsError", "adopt", "check_private", "current", "is_loopback", "load", "read_again",
    "read_secret", "split_address",
]  # fmt: skip
