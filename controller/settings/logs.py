# SPDX-License-Identifier: Apache-2.0
"""Where the log goes, and how much of it."""

import pathlib
from typing import Literal, Optional

import pydantic


class Logs(pydantic.BaseModel):
    """Where the log goes, and how much of it."""

    log_file: Optional[pathlib.Path] = pydantic.Field(None, description="file the log goes to; none: standard error")
    log_level: Literal["debug", "info", "warning", "error"] = pydantic.Field(
        "info", description="the least level that is written; debug has what the framework does, too"
    )
    log_format: Literal["text", "json"] = pydantic.Field("text", description="lines of text, or a JSON object a line")
    log_file_bytes: int = pydantic.Field(
        100_000_000, ge=0, le=1_000_000_000_000, description="a file this long is put aside; 0: never"
    )
    log_files: int = pydantic.Field(5, ge=1, le=1000, description="files put aside that are kept, the latest ones")
