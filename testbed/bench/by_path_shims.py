# SPDX-License-Identifier: Apache-2.0
"""Shims of a large network for by_path.py: they obey control messages, and answer what they are asked, in arrays.

A machine sends to each of its destinations what it wants, no more than its path's rate (the lowest that any port told
within TIMEOUT_NS), and in all no more than its own bucket's: the rate it was told, or its share of its uplink.
"""

import dataclasses
import struct
from typing import Dict, List, Tuple

import numpy as np
import numpy.typing as npt

from sdngcc.controller.rates.by_path import teller
from sdngcc.controller.wire import experimenter, openflow, rows
from sdngcc.controller.wire.experimenter import PATH_LIMITED, VM_ACTIVE

Hop = Tuple[int, int]
Floats = npt.NDArray[np.float64]

TIMEOUT_NS = 200_000_000  # rate-timeout
FREE = 1e12  # bytes/s: what a port that told nothing allows
_MESSAGE = 14 + 20  # bytes before a control message in its frame
_V1_RATE, _V2_RATE, _V2_ENTRIES, _TAG = 72, 40, 48, 8


@dataclasses.dataclass
class Sender:
    """A machine."""

    place: Hop
    pairs: List[int]  # by number


class Shims:
    """All shims; pairs are numbered, and sorted by their machines, machines by their places.

    ``ways`` has for each pair the ports that tell rates, ``addresses`` its destination, 16 bytes; ``capacity`` is that
    of a hypervisor's uplink, bytes/s.
    """

    def __init__(
        self, senders: List[Sender], ways: List[List[Hop]], addresses: List[bytes], capacity: float, demands: Floats
    ) -> None:
        self.demands = demands
        self.machines = {sender.place: number for number, sender in enumerate(senders)}
        self._of = np.repeat(np.arange(len(senders)), [len(sender.pairs) for sender in senders])
        self._bridges: Dict[int, Tuple[int, int]] = {}
        for number, sender in enumerate(senders):
            first, _ = self._bridges.get(sender.place[0], (number, number))
            self._bridges[sender.place[0]] = (first, number + 1)
        self._first_pair = np.searchsorted(self._of, np.arange(len(senders) + 1))
        pairs: List[int] = []
        self._entries: Dict[Tuple[int, bytes, int], int] = {}  # by machine, destination and teller
        tellers = {hop: teller(hop) for way in ways for hop in way}
        for pair, way in enumerate(ways):
            for hop in way:
                self._entries[self._of[pair], addresses[pair], tellers[hop]] = len(pairs)
                pairs.append(pair)
        self._pairs = np.array(pairs, np.intp)
        self._told, self._until_ns = np.full(len(self._pairs), FREE), np.zeros(len(self._pairs), np.int64)
        self._states, self._paths = np.zeros(len(senders), rows.STATE), np.zeros(len(ways), rows.PATH)
        self._states["port"] = [sender.place[1] for sender in senders]
        self._states["uplink"] = self._states["weight"] = 1
        self._states["flags"] = VM_ACTIVE
        counts = {dpid: end - first for dpid, (first, end) in self._bridges.items()}
        self._states["share"] = [int(capacity / counts[sender.place[0]]) for sender in senders]
        self._heads = self._states["share"].astype(float)
        self._heads_ns = np.zeros(len(senders), np.int64)
        self._paths["prefix"] = np.array(addresses, "V16")
        self._paths["bits"] = 128
        self._paths["port"] = self._states["port"][self._of]
        self._there = np.zeros(len(ways), np.bool_)
        self._now_ns = 0

    def send(self, wanted: Floats, now_ns: int) -> Floats:
        """Let all send for a period what they want, bytes/s by pair, as far as they may; return what they do."""
        self._now_ns = now_ns
        live = self._until_ns > now_ns
        limits = np.full(len(wanted), FREE)
        np.minimum.at(limits, self._pairs[live], self._told[live])
        self._there = limits < FREE
        sent = np.minimum(wanted, limits)
        total = np.bincount(self._of, sent, len(self._heads))
        heads = np.where(self._heads_ns > now_ns, self._heads, self._states["share"].astype(float))
        over = total > heads
        sent *= np.where(over, heads / np.maximum(total, 1), 1)[self._of]
        states, paths = self._states, self._paths
        states["rate"], states["sent_rate"] = heads, np.minimum(total, heads)
        states["drops"][over] += 1
        paths["flags"] = PATH_LIMITED * (wanted > limits)
        paths["rate"], paths["sent_rate"] = limits, sent
        paths["tx_bytes"] += (sent * 0.005).astype(">u8")
        return sent

    def answer(self, dpid: int, request: bytes) -> List[bytes]:
        """Return the messages that answer a request for machines' state or paths."""
        xid, kind, _, _, _ = experimenter.decode_request(request)
        first, end = self._bridges.get(dpid, (0, 0))
        if kind == experimenter.VM_STATE:
            found = self._states[first:end]
        else:
            some = slice(self._first_pair[first], self._first_pair[end])
            found = self._paths[some][self._there[some]]
        size, most = found.dtype.itemsize, 65_000 // found.dtype.itemsize
        answers = []
        for at in range(0, max(1, len(found)), most):
            data = found[at : at + most].tobytes()
            entries = [data[place : place + size] for place in range(0, len(data), size)]
            more = at + most < len(found)
            answers.append(experimenter.encode_reply(xid, kind, 1, 1, self._now_ns, entries, more))
        return answers

    def hear(self, dpid: int, data: bytes) -> int:
        """Take packet-outs for the machines of a bridge; return how many control messages were in them."""
        at = count = 0
        while at < len(data):
            length, actions = struct.unpack_from("!H", data, at + 2)[0], struct.unpack_from("!H", data, at + 16)[0]
            if data[at + 1] == openflow.OFPT_PACKET_OUT:
                port = struct.unpack_from("!I", data, at + 28)[0]
                count += self._obey(self.machines.get((dpid, port), -1), data[at + 24 + actions : at + length])
            at += length
        return count

    def _obey(self, machine: int, frame: bytes) -> int:
        if machine < 0 or frame[23] != 253:
            return 0
        text, until_ns = frame[_MESSAGE:], self._now_ns + TIMEOUT_NS
        self._states["messages"][machine] += 1
        rate = struct.unpack_from("!Q", text, _V1_RATE if text[2] == 1 else _V2_RATE)[0]
        if rate:
            self._heads[machine], self._heads_ns[machine] = rate, until_ns
        if text[2] == 2:
            entries = np.frombuffer(text[_V2_ENTRIES:-_TAG], rows.ENTRY)
            for prefix, who, told in zip(entries["prefix"], entries["teller"].tolist(), entries["rate"].tolist()):
                place = self._entries[machine, prefix.tobytes(), who]
                self._told[place], self._until_ns[place] = told, until_ns
        return 1
