# SPDX-License-Identifier: Apache-2.0
"""Texts from outside, such as names of ports and VMs, as they may be shown to people."""

from __future__ import annotations

from typing import Any


def shown(text: Any) -> str:
    """Return a text without what a terminal would obey or a reader could not see.

    Each such character stands as its escape sequence: ``\\x1b``, ``\\u202e``.
    """
    whole = str(text)
    if whole.isprintable():
        return whole
    return "".join(one if one.isprintable() else _escaped(ord(one)) for one in whole)


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
