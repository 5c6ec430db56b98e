# SPDX-License-Identifier: Apache-2.0
"""sFlow version 5 datagrams, as far as CE and ports need (sFlow.org, "sFlow Version 5", July 2004).

Everything is XDR: 32-bit words in network order, opaque data padded to words.

    datagram  5, address type, address, sub-agent, sequence, uptime in ms, n, then n samples
    sample    enterprise and format, length, data        1 flow, 2 counters, 3 and 4 the same expanded
    record    enterprise and format, length, data        in flow samples: 1 sampled header
                                                         in counter samples: 1 interface, 1004 OpenFlow port, 1005 name

Expanded samples keep classes and values in words of their own; compact ones have the class in the upper bits:
8 of a data source, 2 of an interface.  Samples and records of other kinds are passed over by their length.

Agents differ from that: they pad behind a last record or sample, tell lengths that are no multiple of 4 and pad such
parts or do not, or name no interface but the data source.  So each sample and each record is read within its own
length, and what cannot be read is passed over and counted by kind; only a datagram whose head cannot be read is
refused whole.
"""

import collections
import enum
import struct
from typing import Iterator, NamedTuple, Optional, Union

DATAGRAM_MAX_BYTES = 65535
SAMPLES_MAX = 1024
RECORDS_MAX = 64
RATE_MAX = 1 << 24  # one packet in so many; samples rarer than that tell nothing of a period
ETHERNET, IPV4, IPV6 = 1, 11, 12  # protocols of a sampled header
CE = 3
IF_INDEX = 0  # class of a data source that is an interface

_VLANS = (b"\x81\x00", b"\x88\xa8", b"\x91\x00")
_VLANS_MAX = 4
_IPV4_TYPE, _IPV6_TYPE = b"\x08\x00", b"\x86\xdd"
_INTERFACE = struct.Struct("!IIQIIQIIIIIIQIIIIII")
_PART_HEAD_BYTES = 8


class Kind(enum.Enum):
    """Why a datagram is refused, or a part of it passed over."""

    TRUNCATED = "truncated"
    VERSION = "version"
    ADDRESS = "address_type"
    LENGTH = "length"  # no multiple of 4
    COUNT = "count"  # more samples or records than any agent sends
    TRAILING = "trailing"  # bytes after the last sample, or after a sample's last record
    VALUE = "value"  # a sampling rate of 0, or beyond RATE_MAX
    FORMAT = "format"  # a sample of a kind that is not read here


class DatagramError(ValueError):
    """A datagram, or a part of one, that cannot be read."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Source(NamedTuple):
    """Where samples are taken: a class (IF_INDEX: an interface) and the number in it."""

    kind: int
    number: int


class FlowSample(NamedTuple):
    """One sampled packet."""

    source: Source
    sequence: int
    rate: int  # one packet in so many is sampled
    pool: int  # packets that could have been sampled, modulo 2^32; 0: not told
    input: Optional[int]  # ifIndex; None: unknown or several
    output: Optional[int]
    ecn: Optional[int]  # None: not IP, or cut off before


class CounterSample(NamedTuple):
    """Counters of one interface."""

    source: Source
    sequence: int
    compact: bool  # the data source's index has 24 bits only
    if_index: Optional[int] = None
    speed: int = 0  # bytes/s, as the device tells; 0: not told
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
    skipped: "collections.Counter[Kind]"  # what was passed over


class _Words:
    """A cursor over XDR; what is passed over is counted in ``skipped``."""

    def __init__(self, data: bytes, skipped: "collections.Counter[Kind]") -> None:
        self._data = data
        self._place = 0
        self.skipped = skipped

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

    def opaque(self) -> bytes:
        """Return data behind its length; of one that is cut off what is there."""
        size = self.word()
        if size > self.left:
            self.skipped[Kind.TRUNCATED] += 1
        return self.take(min(size, self.left))

    def parts(self, most: int) -> Iterator[tuple[int, "_Words"]]:
        """Yield format and content of the samples or records that follow, after how many there are."""
        number = self.word()
        if number > most:
            self.skipped[Kind.COUNT] += 1
        for _ in range(min(number, most)):
            if self.left < _PART_HEAD_BYTES:
                self.skipped[Kind.TRUNCATED] += 1
                return
            kind, length = self.word(), self.word()
            if length > self.left:
                self.skipped[Kind.TRUNCATED] += 1
                yield kind, _Words(self.take(self.left), collections.Counter())
                return
            content = _Words(self.take(length), self.skipped)
            if length % 4:
                self.skipped[Kind.LENGTH] += 1
                self._pad(-length % 4)
            yield kind, content
        if self.left and number <= most:
            self.skipped[Kind.TRAILING] += 1

    def _pad(self, size: int) -> None:
        """Pass over padding; some agents leave it out, which shows where only without it another part fits."""
        size = min(size, self.left)
        if self._fits(size) or not self._fits(0):
            self._place += size

    def _fits(self, ahead: int) -> bool:
        place = self._place + ahead
        if len(self._data) - place < _PART_HEAD_BYTES:
            return len(self._data) == place
        return int.from_bytes(self._data[place + 4 : place + 8], "big") <= len(self._data) - place - _PART_HEAD_BYTES


def origin(data: bytes) -> tuple[bytes, int]:
    """Return the agent's address and its sub-agent, before anything else is read; raises DatagramError."""
    return _head(_Words(data, collections.Counter()))


def _head(words: _Words) -> tuple[bytes, int]:
    version = words.word()
    if version != 5:
        raise DatagramError(Kind.VERSION, f"version {version}, not 5")
    kind = words.word()
    if kind not in (1, 2):
        raise DatagramError(Kind.ADDRESS, f"address type {kind}, neither IPv4 (1) nor IPv6 (2)")
    return words.take(4 if kind == 1 else 16), words.word()


def decode(data: bytes) -> Datagram:
    """Return what can be read of a datagram; raises DatagramError where its head cannot."""
    words = _Words(data, collections.Counter())
    agent, sub = _head(words)
    sequence, uptime = words.word(), words.word()
    if words.left < 4:
        raise DatagramError(Kind.TRUNCATED, "the number of samples is missing")
    samples: list[Union[FlowSample, CounterSample]] = []
    for number, content in words.parts(SAMPLES_MAX):
        try:
            if number in (1, 3):
                samples.append(_flow(content, expanded=number == 3))
            elif number in (2, 4):
                samples.append(_counters(content, expanded=number == 4))
            else:
                words.skipped[Kind.FORMAT] += 1
        except DatagramError as error:
            words.skipped[error.kind] += 1
    return Datagram(agent, sub, sequence, uptime, samples, words.skipped)


def _source(words: _Words, expanded: bool) -> Source:
    return Source(words.word(), words.word()) if expanded else Source(*divmod(words.word(), 1 << 24))


def _interface(words: _Words, expanded: bool) -> tuple[Optional[int], bool]:
    """Return an ifIndex, and whether the agent leaves it open.

    None where the packet came from or went to none, several, or an unknown one.
    """
    kind, value = (words.word(), words.word()) if expanded else divmod(words.word(), 1 << 30)
    known = kind == 0 and value not in (0, 0x3FFFFFFF, 0xFFFFFFFF)
    return value if known else None, kind == value == 0


def _flow(words: _Words, expanded: bool) -> FlowSample:
    sequence, source, rate = words.word(), _source(words, expanded), words.word()
    if not 0 < rate <= RATE_MAX:
        raise DatagramError(Kind.VALUE, f"sampling rate {rate}")
    pool, _ = words.word(), words.word()  # and drops
    (came, open_), (went, _) = _interface(words, expanded), _interface(words, expanded)
    if open_ and source.kind == IF_INDEX and source.number not in (0, went):
        came = source.number  # packets are sampled as they arrive there
    ecn = None
    for number, content in words.parts(RECORDS_MAX):
        if number == 1:
            try:
                protocol = content.word()
                content.take(8)  # length of the frame, bytes stripped
                ecn = ecn_of(protocol, content.opaque())
            except DatagramError as error:
                words.skipped[error.kind] += 1
    return FlowSample(source, sequence, rate, pool, came, went, ecn)


def _counters(words: _Words, expanded: bool) -> CounterSample:
    sample = CounterSample(sequence=words.word(), source=_source(words, expanded), compact=not expanded)
    for number, content in words.parts(RECORDS_MAX):
        try:
            if number == 1:
                fields = _INTERFACE.unpack(content.take(_INTERFACE.size))
                sample = sample._replace(
                    if_index=fields[0],
                    speed=fields[2] // 8,
                    out_bytes=_counter(fields[12], 64),
                    out_packets=_counter(fields[13], 32),
                    out_drops=_counter(fields[16], 32),
                )
            elif number == 1004:
                dpid = int.from_bytes(content.take(8), "big")
                sample = sample._replace(dpid=dpid, port=content.word())
            elif number == 1005:
                sample = sample._replace(name=content.opaque().decode("utf-8", "replace"))
        except DatagramError as error:
            words.skipped[error.kind] += 1
    return sample


def _counter(value: int, bits: int) -> Optional[int]:
    """Return a counter; None for all ones, by which an agent says that it does not keep it."""
    return None if value == (1 << bits) - 1 else value


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
