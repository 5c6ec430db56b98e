# SPDX-License-Identifier: Apache-2.0
"""Control messages, and the key that signs them."""

import pathlib
import re
from typing import Literal, Optional

import pydantic

from sdngcc.controller.settings.values import SettingsError, check_private


class Messages(pydantic.BaseModel):
    """Control messages, and the key that signs them."""

    notify: bool = pydantic.Field(True, description="send messages; false only polls and shows")
    message_version: Literal["v0", "v1"] = pydantic.Field("v1", description="v0 is the paper's and can be forged")
    key_file: Optional[pathlib.Path] = pydantic.Field(
        None, description="file with the 32 hex digits of the message key; needed for v1"
    )
    key_other_file: Optional[pathlib.Path] = pydantic.Field(
        None, description="file with a second key, whose link discovery is taken while keys change"
    )
    protocol: int = pydantic.Field(253, ge=1, le=254, description="IP protocol of control messages")
    sender_id: int = pydantic.Field(1, ge=0, le=0xFFFFFFFF, description="id of this controller in its messages")

    def read_key(self) -> bytes:
        """Return the message key, zeros when none is set; raises SettingsError when its file is unusable."""
        return bytes(16) if self.key_file is None else _read_key("key_file", self.key_file)

    def read_other_key(self) -> Optional[bytes]:
        """Return the second key, None when none is set; raises SettingsError when its file is unusable."""
        return None if self.key_other_file is None else _read_key("key_other_file", self.key_other_file)


def _read_key(name: str, path: pathlib.Path) -> bytes:
    try:
        text = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{name} {path}: {error}") from None
    check_private(name, path)
    if not re.fullmatch(r"[0-9a-fA-F]{32}", text):
        raise SettingsError(f"{name} {path}: it must hold 32 hex digits and nothing else")
    return bytes.fromhex(text)
