# SPDX-License-Identifier: Apache-2.0
"""SipHash-2-4 (Aumasson and Bernstein, 2012), the tag of control messages.

v0..v3 start as the key folded with constants.  Each 8-byte little-endian word m of the data is mixed by
v3 ^= m, two rounds, v0 ^= m; the last word carries the length in its top byte.  v2 ^= 0xff and four more
rounds give v0 ^ v1 ^ v2 ^ v3.

One text at a time that is some ten microseconds of Python for each 8 bytes of it; of many texts numpy mixes the words
at one place of all of them at once.
"""

import struct
from typing import Sequence

import numpy as np
import numpy.typing as npt

_Words = npt.NDArray[np.uint64]

FEW = 24  # texts for which numpy is not worth while
_MASK = 0xFFFFFFFFFFFFFFFF
_WORD = struct.Struct("<Q")
_BEGIN = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_BITS = np.uint64(64)
_FIRST = np.array([[13], [16]], np.uint64)
_SECOND = np.array([[17], [21]], np.uint64)
_HALF = np.array([32], np.uint64)


def siphash24(key: bytes, data: bytes) -> int:
    """Return the 64-bit SipHash-2-4 of ``data`` under a 16-byte ``key``.

    Raises ValueError when the key is not 16 bytes.
    """
    k0, k1 = _key(key)
    v0, v1, v2, v3 = (one ^ part for one, part in zip((k0, k1, k0, k1), _BEGIN))
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


def siphash24_all(key: bytes, texts: Sequence[bytes]) -> list[int]:
    """Return siphash24() of each text.

    Raises ValueError when the key is not 16 bytes.
    """
    if len(texts) < FEW:
        return [siphash24(key, text) for text in texts]
    k0, k1 = _key(key)
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]), reverse=True)
    lengths = np.array([len(texts[number]) for number in order])
    width = int(lengths[0]) // 8 * 8 + 8
    data = np.frombuffer(bytearray(b"".join(texts[number].ljust(width, b"\0") for number in order)), np.uint8)
    data = data.reshape(len(order), width)
    data[np.arange(len(order)), lengths // 8 * 8 + 7] = lengths & 0xFF
    words = np.ascontiguousarray(data.view("<u8").T).astype(np.uint64, copy=False)
    # Texts with a word at a place stand in front of those that have ended.
    counts = np.searchsorted(-(lengths // 8), -np.arange(len(words)), side="right").tolist()
    even, odd = np.empty((2, len(order)), np.uint64), np.empty((2, len(order)), np.uint64)  # v0 and v2, v1 and v3
    even[0], odd[0], even[1], odd[1] = (one ^ part for one, part in zip((k0, k1, k0, k1), _BEGIN))
    for word, count in zip(words, counts):
        odd[1, :count] ^= word[:count]
        _rounds(even[:, :count], odd[:, :count], 2)
        even[0, :count] ^= word[:count]
    even[1] ^= np.uint64(0xFF)
    _rounds(even, odd, 4)
    tags = even[0] ^ even[1] ^ odd[0] ^ odd[1]
    found = np.empty(len(order), np.uint64)
    found[order] = tags
    return [int(tag) for tag in found]


def _rounds(even: _Words, odd: _Words, count: int) -> None:
    """Do so many rounds, in place."""
    crossed = even[::-1]
    for _ in range(count):
        even += odd
        _turn(odd, _FIRST)
        odd ^= even
        _turn(even[0], _HALF)
        crossed += odd
        _turn(odd, _SECOND)
        odd ^= crossed
        _turn(even[1], _HALF)


def _turn(words: _Words, by: _Words) -> None:
    """Rotate words to the left, in place."""
    low = words >> (_BITS - by)
    words <<= by
    words |= low


def _key(key: bytes) -> tuple[int, int]:
    """Return a key as two words."""
    if len(key) != 16:
        raise ValueError(f"SipHash key has {len(key)} bytes; it must have 16")
    first, second = struct.unpack("<QQ", key)
    return first, second
