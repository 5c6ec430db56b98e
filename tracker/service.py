# SPDX-License-Identifier: Apache-2.0
"""The tracker and its agents on the wire: UDP between hosts, a Unix datagram socket for each VM's workload.

docs/tracker.md has the datagrams. Nothing here decides anything.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import selectors
import socket
import time
from dataclasses import dataclass
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Tuple

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
from sdngcc.tracker.decision import Choice, Division, Factors, peer_weights, reference_weight
from sdngcc.tracker.settings import Settings, SettingsError, is_loopback, split_address

# An answer may be so many periods late.
LATE = 16
# A workload that has registered nothing for so long has nothing to send, seconds.
REGISTERED_S = 1.0
# Datagrams of trackers and hosts read at a time, so that a flood of one kind does not keep the others from being heard.
BATCH = 1000
# Hosts of a tracker, and addresses that a VM registers flows to at a time.
HOSTS_MAX, PEERS_MAX = 4096, 1024
# A host that is silent for so long is known no more, seconds.
FORGET_S = 600.0
# A challenge is good for so long at least, seconds, and for twice that at most.
CHALLENGE_S = 2.0
# Budgets of work in a period. To take a registration costs its bytes and some more: of those a VM has so many, and what
# it spends beyond is taken from its next periods; all VMs together have STEP_BYTES, in turn.
VM_BYTES, STEP_BYTES, REGISTRATION_BYTES = 8192, 65_536, 512
# Weights of one VM that are looked at, and set where they differ, in a period, and after how many of all VMs no other
# VM's are; the rest in the next periods, in turn.
WEIGHTS_MAX, STEP_WEIGHTS = 64, 256

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


@dataclass
class _Host:
    """What a tracker knows of a host."""

    epoch: int
    sequence: int
    heard_s: float
    highest: int
    """Highest epoch that it ever had."""


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
        self._hosts: Dict[str, _Host] = {}  # the one heard longest ago first
        self._secret = os.urandom(16)
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
        """Take a host's sums and return the factors, or a challenge; raises Refused."""
        message = unpack(data, self._key, Sums)
        known = self._known(message.host, now_s)
        if known is not None and message.epoch == known.epoch and message.sequence <= known.sequence:
            raise Refused(f"an old datagram of host {message.host}")
        if known is not None and message.epoch != known.epoch and message.epoch <= known.highest:
            # A datagram of before, or a host whose clock was ahead: only one that is there now can answer.
            if message.proof not in self._challenges(message, known, now_s):
                self.refused += 1
                challenge = self._challenges(message, known, now_s)[0]
                return Answer(epoch=message.epoch, sequence=message.sequence, factors={}, challenge=challenge)
            LOG.warning("host %s began anew under an earlier epoch, and proved that it is there", message.host)
        try:
            self._factors.tell(message.host, message.sums, now_s)
        except ValueError as error:
            raise Refused(str(error)) from None
        self._hosts.pop(message.host, None)
        self._hosts[message.host] = _Host(
            message.epoch, message.sequence, now_s, max(message.epoch, known.highest if known else 0))
        return Answer(epoch=message.epoch, sequence=message.sequence, factors=self._factors.factors(now_s))

    def _known(self, name: str, now_s: float) -> Optional[_Host]:
        """Return what is known of a host; make room for one that is not: raises Refused where there is none."""
        while self._hosts:
            first = next(iter(self._hosts))
            if now_s - self._hosts[first].heard_s < FORGET_S:
                break
            del self._hosts[first]
        known = self._hosts.get(name)
        if known is None and len(self._hosts) >= HOSTS_MAX:
            raise Refused(f"one host more than {HOSTS_MAX}")
        return known

    def _challenges(self, message: Sums, known: _Host, now_s: float) -> List[int]:
        """Return the challenges that are good now, the newest first; none is ever good for another epoch again."""
        found = []
        for second in (int(now_s / CHALLENGE_S), int(now_s / CHALLENGE_S) - 1):
            text = f"{message.epoch} {known.epoch} {known.sequence} {second} {message.host}".encode()
            digest = hashlib.blake2b(text, key=self._secret, digest_size=8).digest()
            found.append(int.from_bytes(digest, "big") >> 1 | 1)
        return found

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


class _Vm:
    """What a VM registered, and the weights it has; each step over it is bounded."""

    def __init__(self, division: str) -> None:
        """Begin with nothing registered in a division."""
        self.division = division
        self.fixed: Dict[str, float] = {}
        """W' of addresses as set."""
        self.registered: Dict[str, Tuple[float, float]] = {}
        """When an address was registered, and W' of its flows; the one registered longest ago first."""
        self.weights: Dict[str, int] = {}
        """Weights that are set."""
        self.budget = DATAGRAM_BYTES
        """What it may spend on registrations; below 0: what it has spent of later periods."""
        self._turn: Iterator[str] = iter(())

    def reference(self, peer: str) -> Optional[float]:
        """Return W' of an address; None: nothing is sent there."""
        told = self.registered.get(peer)
        return self.fixed.get(peer) if told is None else told[1]

    def total(self) -> float:
        """Return the sum of W' of all addresses."""
        fixed = sum(reference for peer, reference in self.fixed.items() if peer not in self.registered)
        return fixed + sum(reference for _, reference in self.registered.values())

    def register(self, peer: str, reference: float, now_s: float) -> None:
        """Take what is to be sent to an address; raises Refused when the VM names too many."""
        if self.registered.pop(peer, None) is None and len(self.registered) >= PEERS_MAX:
            raise Refused(f"more than {PEERS_MAX} addresses within {REGISTERED_S:g} s")
        self.registered[peer] = (now_s, reference)

    def forget_silent(self, now_s: float) -> None:
        """Forget addresses of which nothing was said lately."""
        while self.registered:
            peer = next(iter(self.registered))
            if now_s - self.registered[peer][0] <= REGISTERED_S:
                break
            del self.registered[peer]

    def turn(self) -> List[str]:
        """Return the addresses whose weights are looked at now: all within some periods, WEIGHTS_MAX in one."""
        found = list(itertools.islice(self._turn, WEIGHTS_MAX))
        if len(found) < WEIGHTS_MAX:
            self._turn = iter(list({**self.fixed, **self.registered, **self.weights}))
            found += itertools.islice(self._turn, WEIGHTS_MAX - len(found))
        return found


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
        self._vms: Dict[str, _Vm] = {}  # by device; who is heard next comes first
        self._proofs = [0] * len(settings.trackers)  # challenges that trackers want back
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
            before, self._divisions = self._divisions, settings.decisions()
            self._take_vms(settings, before)

        return commit

    def _take_vms(self, settings: Settings, before: Mapping[str, Division]) -> None:
        """Keep the VMs that there are now; what was registered under another objective counts no more."""
        vms, self._vms = self._vms, {}
        for device, chosen in settings.vms.items():
            vm = self._vms[device] = vms.pop(device) if device in vms else _Vm(chosen.division)
            earlier = before.get(vm.division)
            if earlier is None or earlier.objective != self._divisions[chosen.division].objective:
                vm.registered.clear()
            vm.division, vm.fixed = chosen.division, dict(chosen.peers)
        for device, vm in vms.items():
            for peer in vm.weights:
                self._set_weight(device, peer, 0)

    def _hear_workloads(self, now_s: float) -> None:
        """Take what workloads registered, as far as the budgets of their VMs go, in turn."""
        left = STEP_BYTES
        for device in list(self._vms):
            vm = self._vms[device]
            vm.forget_silent(now_s)
            vm.budget = min(vm.budget + VM_BYTES, DATAGRAM_BYTES)
            if left <= 0:
                continue
            spent = self._hear(device, vm, left, now_s)
            if spent:
                left -= spent
                self._vms[device] = self._vms.pop(device)  # behind the others

    def _hear(self, device: str, vm: _Vm, most: int, now_s: float) -> int:
        """Take registrations of a VM; return what they cost."""
        sock, spent = self._workloads.get(device), 0
        objective = self._divisions[vm.division].objective
        while sock is not None and vm.budget > 0 and spent < most:
            try:
                data = sock.recv(DATAGRAM_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                LOG.warning("nothing can be received of %s: %s", device, error)
                break
            cost = len(data) + REGISTRATION_BYTES
            vm.budget -= cost
            spent += cost
            try:
                peer, flows = read_registration(data)
                vm.register(peer, reference_weight(objective, flows), now_s)
            except Refused as error:
                self.refused += 1
                LOG.warning("registration at %s refused: %s", device, error)
        return spent

    def _put(self, factors: Optional[Mapping[str, float]]) -> None:
        """Bring some weights of each VM in line with the factors; None: take them back."""
        left = STEP_WEIGHTS
        for device in list(self._vms):
            if left <= 0:
                break
            vm, before = self._vms[device], left
            for peer in vm.turn():
                left -= self._put_one(device, vm, peer, factors)
            if left < before:
                self._vms[device] = self._vms.pop(device)  # behind the others

    def _put_one(self, device: str, vm: _Vm, peer: str, factors: Optional[Mapping[str, float]]) -> int:
        """Set the weight of an address where it differs; return how often it was set."""
        reference, weight = vm.reference(peer), 0
        if factors is not None and reference is not None:
            weight = peer_weights({peer: reference}, factors.get(vm.division, 0.0), self._divisions[vm.division],
                                  self._divisions)[peer]
        if vm.weights.get(peer, 0) == weight:
            return 0
        if self._set_weight(device, peer, weight):
            vm.weights[peer] = weight
            if not weight:
                del vm.weights[peer]
        return 1

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
                    self._proofs[index] = message.challenge
                    if not message.challenge:
                        answers[index] = message.factors
                        self._choice.heard(index, now_s)
        current = self._choice.current(now_s)
        if current is None:
            self._put(None)
        elif current in answers:
            for vm in self._vms.values():
                vm.forget_silent(now_s)
            self._put(answers[current])

    def tell_trackers(self, now_s: float) -> None:
        """Hear the workloads and tell every tracker the sums of W'."""
        self._hear_workloads(now_s)
        self._sequence += 1
        sums = {name: 0.0 for name in self._divisions}
        for vm in self._vms.values():
            sums[vm.division] = min(sums[vm.division] + vm.total(), NUMBER_MAX)
        for sock, address, proof in zip(self._sockets, self._addresses, self._proofs):
            message = Sums(host=self._settings.host, epoch=self._epoch, sequence=self._sequence, sums=sums, proof=proof)
            try:
                sock.sendto(pack(message, self._key), address)
            except OSError:
                # Not reachable now; the choice sees that it does not answer.
                continue

    def close(self) -> None:
        """Take all weights back and close the sockets."""
        for device, vm in self._vms.items():
            for peer in list(vm.weights):
                self._put_one(device, vm, peer, None)
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
