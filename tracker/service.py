# SPDX-License-Identifier: Apache-2.0
"""The tracker and its agents on the wire: UDP between hosts, a Unix datagram socket for each VM's workload.

docs/tracker.md has the datagrams. Nothing here decides anything.
"""

from __future__ import annotations

import collections
import logging
import os
import selectors
import socket
import time
from typing import Callable, Counter, Dict, List, Tuple

from sdngcc.reload import Hangups
from sdngcc.tracker.datagrams import (
    DATAGRAM_BYTES,
    NUMBER_MAX,
    Answer,
    Refused,
    Sums,
    pack,
    read_registration,
    unpack,
)
from sdngcc.tracker.decision import Choice, Factors, Flow, peer_weights, reference_weight
from sdngcc.tracker.settings import Settings, SettingsError, is_loopback, split_address

# An answer may be so many periods late.
LATE = 16
# A workload that has registered nothing for so long has nothing to send, seconds.
REGISTERED_S = 1.0
# Datagrams read at a time, so that a flood of one kind does not keep the others from being heard.
BATCH = 1000
# Hosts of a tracker, and addresses that a VM registers flows to at a time.
HOSTS_MAX, PEERS_MAX = 4096, 1024

# A socket's name until it takes its place, and the longest name that the kernel takes.
BESIDE = ".new"
PATH_MAX_BYTES = 107

LOG = logging.getLogger(__name__)

Tunnel = Tuple[str, str]
"""A VM's device and the address it sends to."""
SetWeight = Callable[[str, str, int], bool]


def _udp(address: str) -> socket.socket:
    """Return a bound UDP socket; address is HOST:PORT."""
    host, port = split_address(address)
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((host, port))
    sock.setblocking(False)
    return sock


class Tracker:
    """Answers each host's sums with the factors. A standby is a second one: hosts tell all of them."""

    def __init__(self, settings: Settings) -> None:
        """Listen where the settings say. Raises OSError when that cannot be, SettingsError when it is not safe."""
        self._key = settings.read_key()
        if not self._key and not is_loopback(split_address(settings.listen)[0]):
            raise SettingsError(
                f"listen {settings.listen}: without a key only 127.0.0.1 and [::1] are allowed; set key_file"
            )
        self._factors = Factors(settings.decisions())
        self._newest: Dict[str, Tuple[int, int]] = {}
        self.socket = _udp(settings.listen)
        self.address = "{}:{}".format(*self.socket.getsockname()[:2])
        self.refused = 0
        """Datagrams that changed nothing."""

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """Read the key, and return what brings it and the divisions into force; raises SettingsError."""
        key = settings.read_key()

        def commit() -> None:
            self._key = key
            self._factors.set_divisions(settings.decisions())

        return commit

    def serve(self, now_s: float) -> None:
        """Answer what has come, up to BATCH datagrams."""
        for _ in range(BATCH):
            try:
                data, sender = self.socket.recvfrom(DATAGRAM_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                LOG.warning("nothing can be received at %s: %s", self.address, error)
                return
            try:
                answer = self._answer(data, now_s)
            except Refused as error:
                self.refused += 1
                LOG.warning("datagram of %s refused: %s", sender[0], error)
                continue
            try:
                self.socket.sendto(pack(answer, self._key), sender)
            except OSError as error:
                LOG.warning("host at %s cannot be answered: %s", sender[0], error)

    def _answer(self, data: bytes, now_s: float) -> Answer:
        """Take a host's sums and return the factors; raises Refused."""
        message = unpack(data, self._key, Sums)
        order = (message.epoch, message.sequence)
        if message.host not in self._newest and len(self._newest) >= HOSTS_MAX:
            raise Refused(f"one host more than {HOSTS_MAX}")
        if order <= self._newest.get(message.host, (0, 0)):
            raise Refused(f"an old datagram of host {message.host}")
        try:
            self._factors.tell(message.host, message.sums, now_s)
        except ValueError as error:
            raise Refused(str(error)) from None
        self._newest[message.host] = order
        return Answer(epoch=message.epoch, sequence=message.sequence, factors=self._factors.factors(now_s))

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


class Agent:
    """A host's part: hears its workloads, tells the trackers, sets weights of peers."""

    def __init__(self, settings: Settings, set_weight: SetWeight) -> None:
        """Open the sockets of the VMs. set_weight gets device, address and weight (0: none), and
        returns false when that cannot be now: it is tried again. Raises OSError, or SettingsError for the key.
        """
        self._settings = settings
        self._key = settings.read_key()
        self._set_weight = set_weight
        self._divisions = settings.decisions()
        self._choice = Choice(len(settings.trackers), settings.takeover_ms / 1000)
        self._flows: Dict[Tunnel, Tuple[float, List[Flow]]] = {}
        self._peers: Counter[str] = collections.Counter()  # of each device, in _flows
        self._set: Dict[Tunnel, int] = {}
        self._epoch, self._sequence = time.time_ns(), 0
        self._addresses = [split_address(tracker) for tracker in settings.trackers]
        self._sockets = [_udp(_own_address(host)) for host, _ in self._addresses]
        self._workloads: Dict[str, socket.socket] = {}  # by device
        self._paths: Dict[str, str] = {}  # of these
        self.refused = 0
        """Datagrams that changed nothing."""
        self.prepare(settings)()

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """Read the key and open the sockets of VMs that are new, and return what brings all of it into force.

        Raises SettingsError; nothing is changed then.
        """
        key = settings.read_key()
        wanted = {device: vm.register_path for device, vm in settings.vms.items() if vm.register_path}
        opened: Dict[str, socket.socket] = {}
        try:
            for device, path in wanted.items():
                if self._paths.get(device) != path:
                    opened[device] = _listen_beside(device, path)
        except SettingsError:
            for device, sock in opened.items():
                sock.close()
                _remove(wanted[device] + BESIDE)
            raise

        def commit() -> None:
            for device in [device for device, path in self._paths.items() if wanted.get(device) != path]:
                self._workloads.pop(device).close()
                if self._paths[device] not in wanted.values():
                    _remove(self._paths[device])
            for device, sock in opened.items():
                os.replace(wanted[device] + BESIDE, wanted[device])
                self._workloads[device] = sock
            self._paths = wanted
            self._key = key
            self._settings = settings
            self._divisions = settings.decisions()
            self._flows = {tunnel: told for tunnel, told in self._flows.items() if tunnel[0] in settings.vms}

        return commit

    def _hear_workloads(self, now_s: float) -> None:
        self._forget_silent(now_s)
        for device, sock in self._workloads.items():
            for _ in range(BATCH):
                try:
                    peer, flows = read_registration(sock.recv(DATAGRAM_BYTES))
                    self._register((device, peer), flows, now_s)
                except BlockingIOError:
                    break
                except (Refused, OSError) as error:
                    self.refused += 1
                    LOG.warning("registration at %s refused: %s", device, error)

    def _forget_silent(self, now_s: float) -> None:
        self._flows = {tunnel: told for tunnel, told in self._flows.items() if now_s - told[0] <= REGISTERED_S}
        self._peers = collections.Counter(device for device, _ in self._flows)

    def _register(self, tunnel: Tunnel, flows: List[Flow], now_s: float) -> None:
        """Take what a workload has to send; raises Refused when its VM names too many addresses."""
        if tunnel not in self._flows:
            if self._peers[tunnel[0]] >= PEERS_MAX:
                raise Refused(f"more than {PEERS_MAX} addresses within {REGISTERED_S:g} s")
            self._peers[tunnel[0]] += 1
        self._flows[tunnel] = (now_s, flows)

    def _references(self, now_s: float) -> Dict[str, Dict[Tunnel, float]]:
        """Return W' of each tunnel, by division."""
        self._forget_silent(now_s)
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
            for _ in range(BATCH):
                try:
                    message = unpack(sock.recv(DATAGRAM_BYTES), self._key, Answer)
                except (BlockingIOError, ConnectionRefusedError):
                    break
                except (Refused, OSError) as error:
                    self.refused += 1
                    LOG.warning("answer of tracker %s refused: %s", self._settings.trackers[index], error)
                    continue
                if message.epoch == self._epoch and 0 <= self._sequence - message.sequence < LATE:
                    answers[index] = message.factors
                    self._choice.heard(index, now_s)
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
        sums = {
            name: min(sum(references.values()), NUMBER_MAX) for name, references in self._references(now_s).items()
        }
        message = Sums(host=self._settings.host, epoch=self._epoch, sequence=self._sequence, sums=sums)
        data = pack(message, self._key)
        for sock, address in zip(self._sockets, self._addresses):
            try:
                sock.sendto(data, address)
            except OSError:
                # Not reachable now; the choice sees that it does not answer.
                continue

    def close(self) -> None:
        """Take all weights back and close the sockets."""
        self._put({})
        for sock in [*self._sockets, *self._workloads.values()]:
            sock.close()


def _listen_beside(device: str, path: str) -> socket.socket:
    """Return a bound socket beside the path at which a VM's workload is to find it; raises SettingsError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.setblocking(False)
    _remove(path + BESIDE)
    try:
        sock.bind(path + BESIDE)
    except OSError as error:
        sock.close()
        raise SettingsError(f"vms.{device}.register_path {path}: {error}; allowed is a path of up to "
                            f"{PATH_MAX_BYTES - len(BESIDE)} bytes in a folder of this user") from None
    return sock


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # it is not there, or bind() tells why it stays


def _own_address(tracker: str) -> str:
    """Return the address to send to a tracker from: of loopback, when it is there."""
    loopback = is_loopback(tracker)
    return f"[{'::1' if loopback else '::'}]:0" if ":" in tracker else f"{'127.0.0.1' if loopback else '0.0.0.0'}:0"


def run_tracker(tracker: Tracker, hangups: Hangups, reload: Callable[[], object]) -> None:
    """Serve until interrupted, and call ``reload`` after each SIGHUP."""
    with selectors.DefaultSelector() as selector:
        selector.register(tracker.socket, selectors.EVENT_READ)
        selector.register(hangups, selectors.EVENT_READ)
        while True:
            selector.select()
            if hangups.take():
                reload()
            tracker.serve(time.monotonic())


def run_agent(agent: Agent, period_s: float, hangups: Hangups, reload: Callable[[], object]) -> None:
    """Take a step each period until interrupted, and call ``reload`` after each SIGHUP."""
    due = time.monotonic()
    while True:
        if hangups.take():
            reload()
        now_s = time.monotonic()
        agent.hear_trackers(now_s)
        agent.tell_trackers(now_s)
        due = max(due + period_s, now_s)
        time.sleep(max(due - time.monotonic(), 0))
