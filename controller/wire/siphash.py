# SPDX-License-Identifier: Apache-2.0
"""SipHash-2-4 (Aumasson and Bernstein, 2012), the tag of control messages: that of the C core."""

from sdngcc.controller import native


def siphash24(key: bytes, data: bytes) -> int:
    """Return the 64-bit SipHash-2-4 of ``data`` under a 16-byte ``key``.

    Raises ValueError when the key is not 16 bytes.
    """
    return native.tags(key, (data,))[0]
