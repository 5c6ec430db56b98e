# SPDX-License-Identifier: Apache-2.0
"""sFlow version 5 datagrams, as far as CE and ports need (sFlow.org, "sFlow Version 5", July 2004).

Everything is XDR: 32-bit words in network order, opaque data padded to words.

    datagram  5, address type, address, sub-agent, sequence, uptime in ms, n, then n samples
    sample    enterprise and format, length, data        1 flow, 2 counters, 3 and 4 the same expanded
    record    enterprise and format, length, data        in flow samples: 1 sampled header
                                                         in counter samples: 1 interface, 1004 OpenFlow port, 1005 name

Expanded samples keep classes and values in words of their own; compact ones have the class in the upper bits:
8 of a data source, 2 of an interface.  Samples and records of other kinds are passed over by their length.
"""

import enum
import struct
from typing import NamedTuple, Optional, Union

DATAGRAM_MAX_BYTES = 65535
SAMPLES_MAX = 1024
RECORDS_MAX = 64
ETHERNET, IPV4, IPV6 = 1, 11, 12  # protocols of a sampled header
CE = 3

_VLANS = (b"\x81\x00", b"\x88\xa8", b"\x91\x00")
_VLANS_MAX = 4
_IPV4_TYPE, _IPV6_TYPE = b"\x08\x00", b"\x86\xdd"
_INTERFACE = struct.Struct("!IIQIIQIIIIIIQIIIIII")


class Kind(enum.Enum):
    """Why a datagram is refused."""

    TRUNCATED = "truncated"
    VERSION = "version"
    ADDRESS = "address_type"
    LENGTH = "length"  # of a sample or record: not a multiple of 4, or not what its content needs
    COUNT = "count"  # more samples or records than any agent sends
    TRAILING = "trailing"  # bytes after the last sample
    VALUE = "value"  # a sampling rate of 0


class DatagramError(ValueError):
    """A datagram that cannot be read."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class FlowSample(NamedTuple):
    """One sampled packet."""

    source: int  # data source, class in the upper 8 bits
    sequence: int
    rate: int  # one packet in so many is sampled
    input: Optional[int]  # ifIndex; None: unknown or several
    output: Optional[int]
    ecn: Optional[int]  # None: not IP, or cut off before


class CounterSample(NamedTuple):
    """Counters of one interface."""

    source: int
    sequence: int
    if_index: Optional[int] = None
    out_bytes: Optional[int] = None
    out_packets: Optional[int] = None  # unicast, 32 bits
    out_drops: Optional[int] = None  # 32 bits
    dpid: Optional[int] = None
    port: Optional[int] = None
    name: Optional[str] = None


class Datagram(NamedTuple):
    """What an agent sent at once."""

    agent: bytes  # IPv4 or IPv6 address
    sub: int
    sequence: int
    uptime_ms: int
    samples: list[Union[FlowSample, CounterSample]]


class _Words:
    """A cursor over XDR."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._place

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise DatagramError(Kind.TRUNCATED, f"{size} bytes wanted, {self.left} left")
        self._place += size
        return self._data[self._place - size : self._place]

    def word(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def opaque(self, size: int) -> bytes:
        data = self.take(size)
        self.take(-size % 4)
        return data

    def part(self) -> tuple[int, "_Words"]:
        """Return the format of the next sample or record and its content."""
        kind, length = self.word(), self.word()
        if length % 4:
            raise DatagramError(Kind.LENGTH, f"sample or record of {length} bytes, no multiple of 4")
        return kind, _Words(self.take(length))

    def count(self, most: int) -> int:
        number = self.word()
        if number > most:
            raise DatagramError(Kind.COUNT, f"{number} parts; {most} at most")
        return number


def decode(data: bytes) -> Datagram:
    """Return what a datagram says; raises DatagramError."""
    words = _Words(data)
    version = words.word()
    if version != 5:
        raise DatagramError(Kind.VERSION, f"version {version}, not 5")
    kind = words.word()
    if kind not in (1, 2):
        raise DatagramError(Kind.ADDRESS, f"address type {kind}, neither IPv4 (1) nor IPv6 (2)")
    agent = words.take(4 if kind == 1 else 16)
    sub, sequence, uptime = words.word(), words.word(), words.word()
    samples: list[Union[FlowSample, CounterSample]] = []
    for _ in range(words.count(SAMPLES_MAX)):
        number, content = words.part()
        if number in (1, 3):
            samples.append(_flow(content, expanded=number == 3))
        elif number in (2, 4):
            samples.append(_counters(content, expanded=number == 4))
    if words.left:
        raise DatagramError(Kind.TRAILING, f"{words.left} bytes after the last sample")
    return Datagram(agent, sub, sequence, uptime, samples)


def _source(words: _Words, expanded: bool) -> int:
    if not expanded:
        return words.word()
    return (words.word() & 0xFF) << 24 | words.word() & 0xFFFFFF


def _interface(words: _Words, expanded: bool) -> Optional[int]:
    """Return an ifIndex; None when the packet came from or went to none, several, or an unknown one."""
    kind, value = (words.word(), words.word()) if expanded else divmod(words.word(), 1 << 30)
    return value if kind == 0 and value not in (0, 0x3FFFFFFF, 0xFFFFFFFF) else None


def _flow(words: _Words, expanded: bool) -> FlowSample:
    sequence, source, rate = words.word(), _source(words, expanded), words.word()
    if rate == 0:
        raise DatagramError(Kind.VALUE, "sampling rate 0")
    words.take(8)  # pool, drops
    came, went = _interface(words, expanded), _interface(words, expanded)
    ecn = None
    for _ in range(words.count(RECORDS_MAX)):
        number, content = words.part()
        if number == 1:
            protocol = content.word()
            content.take(8)  # length of the frame, bytes stripped
            ecn = ecn_of(protocol, content.opaque(content.word()))
    _end(words)
    return FlowSample(source, sequence, rate, came, went, ecn)


def _counters(words: _Words, expanded: bool) -> CounterSample:
    sample = CounterSample(sequence=words.word(), source=_source(words, expanded))
    for _ in range(words.count(RECORDS_MAX)):
        number, content = words.part()
        if number == 1:
            fields = _INTERFACE.unpack(content.take(_INTERFACE.size))
            sample = sample._replace(
                if_index=fields[0],
                out_bytes=_counter(fields[12], 64),
                out_packets=_counter(fields[13], 32),
                out_drops=_counter(fields[16], 32),
            )
        elif number == 1004:
            dpid = int.from_bytes(content.take(8), "big")
            sample = sample._replace(dpid=dpid, port=content.word())
        elif number == 1005:
            sample = sample._replace(name=content.opaque(content.word()).decode("utf-8", "replace"))
    _end(words)
    return sample


def _counter(value: int, bits: int) -> Optional[int]:
    """Return a counter; None for all ones, by which an agent says that it does not keep it."""
    return None if value == (1 << bits) - 1 else value


def _end(words: _Words) -> None:
    if words.left:
        raise DatagramError(Kind.LENGTH, f"{words.left} bytes after a sample's last record")


def ecn_of(protocol: int, header: bytes) -> Optional[int]:
    """Return the ECN field of a sampled header; None when it has none or is cut off before it."""
    place = 0
    if protocol == ETHERNET:
        place = 12
        for _ in range(_VLANS_MAX):
            if header[place : place + 2] not in _VLANS:
                break
            place += 4
        kind = header[place : place + 2]
        place += 2
        if kind not in (_IPV4_TYPE, _IPV6_TYPE):
            return None
        version = 4 if kind == _IPV4_TYPE else 6
    elif protocol in (IPV4, IPV6):
        version = 4 if protocol == IPV4 else 6
    else:
        return None
    if len(header) < place + 2 or header[place] >> 4 != version:
        return None
    return header[place + 1] & 3 if version == 4 else header[place + 1] >> 4 & 3
