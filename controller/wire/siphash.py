# SPDX-License-Identifier: Apache-2.0
"""SipHash-2-4 (Aumasson and Bernstein, 2012), the tag of control messages.

v0..v3 start as the key folded with constants.  Each 8-byte little-endian word m of the data is mixed by
v3 ^= m, two rounds, v0 ^= m; the last word carries the length in its top byte.  v2 ^= 0xff and four more
rounds give v0 ^ v1 ^ v2 ^ v3.
"""

import struct

_MASK = 0xFFFFFFFFFFFFFFFF
_WORD = struct.Struct("<Q")


def siphash24(key: bytes, data: bytes) -> int:
    """Return the 64-bit SipHash-2-4 of ``data`` under a 16-byte ``key``.

    Raises ValueError when the key is not 16 bytes.
    """
    if len(key) != 16:
        raise ValueError(f"SipHash key has {len(key)} bytes; it must have 16")
    k0, k1 = struct.unpack("<QQ", key)
    v0 = k0 ^ 0x736F6D6570736575
    v1 = k1 ^ 0x646F72616E646F6D
    v2 = k0 ^ 0x6C7967656E657261
    v3 = k1 ^ 0x7465646279746573
    whole = len(data) & ~7
    tail = data[whole:] + bytes(7 - (len(data) & 7)) + bytes([len(data) & 0xFF])
    words = [word for (word,) in _WORD.iter_unpack(data[:whole] + tail)]
    last = len(words)
    # One round is written out once: a call a round would double the time of a message.
    for index in range(last + 1):
        if index < last:
            word, rounds = words[index], 2
            v3 ^= word
        else:
            word, rounds = 0, 4
            v2 ^= 0xFF
        for _ in range(rounds):
            v0 = (v0 + v1) & _MASK
            v2 = (v2 + v3) & _MASK
            v1 = (v1 << 13 & _MASK | v1 >> 51) ^ v0
            v3 = (v3 << 16 & _MASK | v3 >> 48) ^ v2
            v0 = v0 << 32 & _MASK | v0 >> 32
            v2 = (v2 + v1) & _MASK
            v0 = (v0 + v3) & _MASK
            v1 = (v1 << 17 & _MASK | v1 >> 47) ^ v2
            v3 = (v3 << 21 & _MASK | v3 >> 43) ^ v0
            v2 = v2 << 32 & _MASK | v2 >> 32
        v0 ^= word
    return v0 ^ v1 ^ v2 ^ v3
