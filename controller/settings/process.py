# SPDX-License-Identifier: Apache-2.0
"""The process itself: where switches connect to it, and what it runs on."""

import pathlib
from typing import Literal, Optional

import pydantic


class Process(pydantic.BaseModel):
    """The process itself: where switches connect to it, and what it runs on."""

    framework: Literal["auto", "ryu", "os-ken"] = pydantic.Field(
        "auto", description="OpenFlow library the controller runs on; auto: Ryu where it can be used, else os-ken"
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
    openflow_tls_crl: Optional[pathlib.Path] = pydantic.Field(
        None,
        description="file, or folder of files, with the lists (PEM) of certificates that the authorities have revoked; "
        "none: a certificate counts until it expires",
    )
    trace_file: Optional[pathlib.Path] = pydantic.Field(None, description="JSON lines of notifications and poll counts")
