# SPDX-License-Identifier: Apache-2.0
"""The tracker and its agents on the wire: UDP between hosts, a Unix datagram socket for each VM's workload.

docs/tracker.md has the datagrams. Nothing here decides anything.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import selectors
import socket
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from sdngcc.tracker.decision import Choice, Factors, Flow, peer_weights, reference_weight
from sdngcc.tracker.settings import Settings

# Hexadecimal digits of a datagram's tag: 128 bits.
TAG_DIGITS = 32
# Longest datagram.
DATAGRAM_BYTES = 65_507
# An answer may be so many periods late.
LATE = 16
# A workload that has registered nothing for so long has nothing to send, seconds.
REGISTERED_S = 1.0

Tunnel = Tuple[str, str]
"""A VM's device and the address it sends to."""
SetWeight = Callable[[str, str, int], bool]


class Refused(ValueError):
    """A datagram is not what it should be; it changes nothing."""


def pack(message: Dict[str, Any], key: bytes) -> bytes:
    """Return the datagram of a message."""
    body = json.dumps(message, sort_keys=True).encode()
    return hmac.new(key, body, hashlib.sha256).hexdigest()[:TAG_DIGITS].encode() + body


def unpack(data: bytes, key: bytes) -> Dict[str, Any]:
    """Return the message of a datagram; raises Refused when its tag or its form is wrong."""
    tag, body = data[:TAG_DIGITS], data[TAG_DIGITS:]
    if not hmac.compare_digest(tag, hmac.new(key, body, hashlib.sha256).hexdigest()[:TAG_DIGITS].encode()):
        raise Refused("the tag is wrong: another key, or not from us")
    message = json.loads(body)
    if not isinstance(message, dict):
        raise Refused("an object is wanted")
    return message


def read_flows(data: bytes) -> Tuple[str, List[Flow]]:
    """Return the address and the flows that a workload registered; raises Refused."""
    try:
        message = json.loads(data)
        peer = socket.inet_ntop(*_packed(str(message["peer"])))
        flows = [Flow(int(left), int(deadline_us) / 1e6) for left, deadline_us in message["flows"]]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise Refused(f"registration: {error!r}") from None
    if any(flow.left < 0 for flow in flows):
        raise Refused("registration: a flow has less than 0 bytes left")
    return peer, flows


def _packed(address: str) -> Tuple[int, bytes]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return family, socket.inet_pton(family, address)


def _udp(address: str) -> socket.socket:
    """Return a bound UDP socket; address is HOST:PORT."""
    host, _, port = address.rpartition(":")
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((host.strip("[]"), int(port)))
    sock.setblocking(False)
    return sock


class Tracker:
    """Answers each host's sums with the factors. A standby is a second one: hosts tell all of them."""

    def __init__(self, settings: Settings, listen: str) -> None:
        """Listen at HOST:PORT. Raises OSError when that is not possible."""
        self._key = settings.key
        self._factors = Factors({name: one.decision() for name, one in settings.divisions.items()})
        self._newest: Dict[str, Tuple[int, int]] = {}
        self.socket = _udp(listen)
        self.address = "{}:{}".format(*self.socket.getsockname()[:2])
        self.refused = 0
        """Datagrams that changed nothing."""

    def serve(self, now_s: float) -> None:
        """Answer what has come."""
        while True:
            try:
                data, sender = self.socket.recvfrom(DATAGRAM_BYTES)
            except BlockingIOError:
                return
            try:
                message = unpack(data, self._key)
                order = (int(message["epoch"]), int(message["sequence"]))
                host = str(message["host"])
                if order <= self._newest.get(host, (0, 0)):
                    raise Refused(f"host {host}: an old datagram")
                self._factors.tell(host, {str(name): float(total) for name, total in message["sums"].items()}, now_s)
            except (ValueError, KeyError, TypeError, AttributeError):
                self.refused += 1
                continue
            self._newest[host] = order
            answer = {"epoch": order[0], "sequence": order[1], "factors": self._factors.factors(now_s)}
            self.socket.sendto(pack(answer, self._key), sender)

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


class Agent:
    """A host's part: hears its workloads, tells the trackers, sets weights of peers."""

    def __init__(self, settings: Settings, set_weight: SetWeight) -> None:
        """Open the sockets of the VMs. set_weight gets device, address and weight (0: none), and
        returns false when that cannot be now: it is tried again. Raises OSError.
        """
        self._settings = settings
        self._set_weight = set_weight
        self._divisions = {name: one.decision() for name, one in settings.divisions.items()}
        self._choice = Choice(len(settings.trackers), settings.takeover_ms / 1000)
        self._flows: Dict[Tunnel, Tuple[float, List[Flow]]] = {}
        self._set: Dict[Tunnel, int] = {}
        self._epoch, self._sequence = time.time_ns(), 0
        self._sockets = [_udp("[::1]:0" if tracker.startswith("[") else "0.0.0.0:0") for tracker in settings.trackers]
        self._workloads: Dict[str, socket.socket] = {}
        self.refused = 0
        """Datagrams that changed nothing."""
        for device, vm in settings.vms.items():
            if vm.register_path:
                self._workloads[device] = self._listen(vm.register_path)

    @staticmethod
    def _listen(path: str) -> socket.socket:
        if os.path.exists(path):
            os.unlink(path)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.bind(path)
        sock.setblocking(False)
        return sock

    def _hear_workloads(self, now_s: float) -> None:
        for device, sock in self._workloads.items():
            while True:
                try:
                    peer, flows = read_flows(sock.recv(DATAGRAM_BYTES))
                except BlockingIOError:
                    break
                except Refused:
                    self.refused += 1
                    continue
                self._flows[device, peer] = (now_s, flows)

    def _references(self, now_s: float) -> Dict[str, Dict[Tunnel, float]]:
        """Return W' of each tunnel, by division."""
        self._flows = {tunnel: told for tunnel, told in self._flows.items() if now_s - told[0] <= REGISTERED_S}
        found: Dict[str, Dict[Tunnel, float]] = {name: {} for name in self._divisions}
        for device, vm in self._settings.vms.items():
            for peer, reference in vm.peers.items():
                found[vm.division][device, peer] = reference
        for (device, peer), (_, flows) in self._flows.items():
            name = self._settings.vms[device].division
            found[name][device, peer] = reference_weight(self._divisions[name].objective, flows)
        return found

    def _put(self, wanted: Dict[Tunnel, int]) -> None:
        """Set the weights that changed; tunnels that are gone lose theirs."""
        for tunnel in [tunnel for tunnel in self._set if tunnel not in wanted]:
            self._set_weight(*tunnel, 0)
            del self._set[tunnel]
        for tunnel, weight in wanted.items():
            if self._set.get(tunnel) != weight and self._set_weight(*tunnel, weight):
                self._set[tunnel] = weight

    def hear_trackers(self, now_s: float) -> None:
        """Take the trackers' answers and follow the one to obey; without any, take all weights back."""
        answers: Dict[int, Dict[str, float]] = {}
        for index, sock in enumerate(self._sockets):
            while True:
                try:
                    message = unpack(sock.recv(DATAGRAM_BYTES), self._settings.key)
                    late = self._sequence - int(message["sequence"])
                    if message["epoch"] == self._epoch and 0 <= late < LATE:
                        answers[index] = {str(name): float(value) for name, value in message["factors"].items()}
                        self._choice.heard(index, now_s)
                except (BlockingIOError, ConnectionRefusedError):
                    break
                except (ValueError, KeyError, TypeError, AttributeError):
                    self.refused += 1
        current = self._choice.current(now_s)
        if current is None:
            self._put({})
        elif current in answers:
            wanted: Dict[Tunnel, int] = {}
            for name, references in self._references(now_s).items():
                wanted.update(peer_weights(references, answers[current].get(name, 0.0), self._divisions[name],
                                           self._divisions))
            self._put(wanted)

    def tell_trackers(self, now_s: float) -> None:
        """Hear the workloads and tell every tracker the sums of W'."""
        self._hear_workloads(now_s)
        self._sequence += 1
        sums = {name: sum(references.values()) for name, references in self._references(now_s).items()}
        data = pack({"host": self._settings.host, "epoch": self._epoch, "sequence": self._sequence, "sums": sums},
                    self._settings.key)
        for sock, tracker in zip(self._sockets, self._settings.trackers):
            host, _, port = tracker.rpartition(":")
            try:
                sock.sendto(data, (host.strip("[]"), int(port)))
            except OSError:
                # Not reachable now; the choice sees that it does not answer.
                continue

    def close(self) -> None:
        """Take all weights back and close the sockets."""
        self._put({})
        for sock in [*self._sockets, *self._workloads.values()]:
            sock.close()


def run_tracker(tracker: Tracker) -> None:
    """Serve until interrupted."""
    with selectors.DefaultSelector() as selector:
        selector.register(tracker.socket, selectors.EVENT_READ)
        while True:
            selector.select()
            tracker.serve(time.monotonic())


def run_agent(agent: Agent, period_s: float, until_s: Optional[float] = None) -> None:
    """Take a step each period until interrupted, or until the monotonic clock shows until_s."""
    due = time.monotonic()
    while until_s is None or due < until_s:
        now_s = time.monotonic()
        agent.hear_trackers(now_s)
        agent.tell_trackers(now_s)
        due = max(due + period_s, now_s)
        time.sleep(max(due - time.monotonic(), 0))
