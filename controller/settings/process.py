# SPDX-License-Identifier: Apache-2.0
"""The process itself: where switches connect to it, and what it runs on."""

import pathlib
from typing import Literal, Optional

import pydantic


class Process(pydantic.BaseModel):
    """The process itself: where switches connect to it, and what it runs on."""

    framework: Literal["auto", "ryu", "os-ken"] = pydantic.Field(
        "auto", description="OpenFlow library the controller runs on; auto: Ryu where it is installed, else os-ken"
    )
    openflow: str = pydantic.Field("127.0.0.1:6653", description="address and port switches connect to")
    openflow_tls_key: Optional[pathlib.Path] = pydantic.Field(
        None, description="private key; with it switches connect by TLS only, and ssl: remotes use it too"
    )
    openflow_tls_cert: Optional[pathlib.Path] = pydantic.Field(None, description="certificate of that key")
    openflow_tls_ca: Optional[pathlib.Path] = pydantic.Field(
        None, description="certificate of the authority that signed the switches' (and databases') certificates"
    )
    trace_file: Optional[pathlib.Path] = pydantic.Field(None, description="JSON lines of notifications and poll counts")
    event_hub: Literal["selects", "poll", "epolls"] = pydantic.Field(
        "selects",
        description="eventlet hub; selects is exact to the microsecond but serves at most 1000 connections",
    )
