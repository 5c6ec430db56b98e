# SPDX-License-Identifier: Apache-2.0
"""The databases of hypervisors, those of the cloud, and the one that controllers share."""

import pathlib
import re
from typing import Optional

import pydantic


class Databases(pydantic.BaseModel):
    """The databases of hypervisors, those of the cloud, and the one that controllers share."""

    ovsdb: tuple[str, ...] = pydantic.Field(
        (),
        description="OVSDB remotes of the hypervisors: unix:<path>, tcp:<address>:<port>",
    )
    ovsdb_listen: str = pydantic.Field(
        "", description="address and port where databases of hypervisors connect (ovs-vsctl set-manager); empty: none"
    )
    ovsdb_connections: int = pydantic.Field(
        1024, ge=1, le=100_000, description="most connections of databases at a time; open files may allow fewer"
    )
    ovsdb_connections_a_peer: int = pydantic.Field(16, ge=1, le=100_000, description="most of them from one address")
    admit_file: Optional[pathlib.Path] = pydantic.Field(
        None,
        description="lines <certificate's name> <datapath id>... or any: who may connect, and speak for which "
        "switches; none: whoever the authority signed, for any",
    )
    cluster: tuple[str, ...] = pydantic.Field(
        (),
        description="OVSDB remotes of the database that controllers share switches by; none: this one is alone",
    )
    lease_ms: int = pydantic.Field(
        1000, ge=300, le=60_000, description="a controller of a cluster silent for this long loses its switches"
    )

    tenant_file: Optional[pathlib.Path] = pydantic.Field(
        None, description="JSON: policy of tenants, where there is no cluster whose database keeps it"
    )

    ovn_sb: tuple[str, ...] = pydantic.Field(
        (),
        description="OVSDB remotes of OVN's Southbound database, of all its servers: names, addresses, networks and "
        "tenants of VMs",
    )
    neutron_cloud: str = pydantic.Field(
        "", description="cloud of neutron_clouds_file whose Neutron tells the same; needs openstacksdk; empty: none"
    )
    neutron_clouds_file: pathlib.Path = pydantic.Field(
        pathlib.Path("/etc/openstack/clouds.yaml"), description="YAML: clouds with credentials, as openstacksdk has it"
    )
    neutron_endpoint: str = pydantic.Field(
        "", description="http(s)://<address>[:<port>][/<path>] of a Neutron that asks nobody who they are; empty: none"
    )
    neutron_period_s: int = pydantic.Field(
        60, ge=5, le=3600, description="time between two times that Neutron is asked for all networks and ports"
    )
    nova_names: bool = pydantic.Field(False, description="ask the Nova of neutron_cloud for the names of servers, too")

    @pydantic.field_validator("neutron_endpoint")
    @classmethod
    def _check_endpoint(cls, value: str) -> str:
        if value and not re.fullmatch(r"https?://[^/@?#\s]+(/[^@?#\s]*)?", value):
            raise ValueError(f'"{value}" is no http(s)://<address>[:<port>][/<path>]')
        return value

    @pydantic.field_validator("ovsdb", "cluster", "ovn_sb")
    @classmethod
    def _check_remotes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for remote in value:
            if not re.match(r"(unix|tcp|ssl):.+", remote):
                raise ValueError(f'"{remote}" is no OVSDB remote; unix:<path>, tcp:<address>:<port> and ssl:... are')
        return value
