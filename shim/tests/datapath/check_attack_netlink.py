# SPDX-License-Identifier: Apache-2.0
"""Attacks by local users: who may read the shim's state, and what a user's own namespace may ask of the host."""

from __future__ import annotations

import ctypes
import errno
import os
import time
import traceback
from typing import Callable, Dict

from control import KEY
from lab import V1, Lab, U, check, equal, ipv4, main, udp

from sdngcc.shim.netlink import LIMITER_GET, PEER_GET, PORT_GET, SETTINGS_GET, ShimClient, ShimRefused

NOBODY = 65534
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
MS = 1_000_000
lab = Lab()
lab.shim.settings_set(law="hygenicc", key=KEY)
# What is asked is checked before a process without rights asks for it.
assert (SETTINGS_GET, PORT_GET, LIMITER_GET, PEER_GET) == (1, 3, 6, 7)


def as_child(action: Callable[[], object]) -> None:
    """Do something in a process of its own; AssertionError with what it raised."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        try:
            action()
            text = b""
        except BaseException:
            text = traceback.format_exc().encode()
        os.write(writer, text[-4000:])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    assert not said, said


def denied(action: Callable[[], object], what: str) -> None:
    """Check that an action is refused for want of CAP_NET_ADMIN."""
    try:
        got = action()
    except ShimRefused as refusal:
        equal(refusal.code, errno.EPERM, f"{what}: {refusal}")
    else:
        raise AssertionError(f"{what}: an unprivileged user got {got}")


def readings(client: ShimClient) -> Dict[str, Callable[[], object]]:
    """Return all that can be read."""
    return {"settings": client.settings_get, "ports": client.ports, "port": lambda: client.port_get("s1"),
            "limiters": client.limiters, "peers": client.peers}


def as_nobody() -> None:
    """Ask for everything without rights."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    with ShimClient() as client:
        for what, action in readings(client).items():
            denied(action, what)
        denied(lambda: client.settings_set(law="none"), "settings_set")
        denied(lambda: client.port_set("s1", weight=2), "port_set")
        denied(lambda: client.peer_set("s1", U, 1), "peer_set")


@check
def unprivileged() -> None:
    """A user without CAP_NET_ADMIN reads nothing: no settings, ports, limiters or peers, one by one or all"""
    lab.v1.send(ipv4(V1, U, udp(100)))
    time.sleep(0.01)
    for what, action in readings(lab.shim).items():
        assert action(), f"{what}: nothing is there to be read"
    as_child(as_nobody)


def unshare() -> None:
    """Become the root of a user namespace, and of a network namespace in it, as any user can."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    libc = ctypes.CDLL(None, use_errno=True)
    # PR_SET_DUMPABLE: after setuid() one's own /proc is root's.
    libc.prctl(4, 1, 0, 0, 0)
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {NOBODY} 1"), ("gid_map", f"0 {NOBODY} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def refused(action: Callable[[], object], *words: str) -> None:
    """Check that an action is refused as out of range, with these words."""
    try:
        action()
    except ShimRefused as refusal:
        equal(refusal.code, errno.ERANGE, str(refusal))
        for word in (*words, "what is in force stays"):
            assert word in str(refusal), f"'{word}' is not in: {refusal}"
    else:
        raise AssertionError(f"accepted: {words}")


def as_own_root() -> None:
    """Ask for what costs the host, in a namespace of one's own."""
    unshare()
    with ShimClient() as client:
        got = client.settings_get()
        equal(got.law, "none", "law")
        equal(client.ports(), [], "ports")
        for law in got.laws:
            if law == "none":
                continue
            refused(lambda given=law: client.settings_set(of=given, period=MS - 1), "period")  # type: ignore[misc]
            client.settings_set(of=law, period=MS)
            equal(client.settings_get(of=law).period, MS, f"{law}: period")
        refused(lambda: client.settings_set(peers_max=65_537), "peers-max")
        client.settings_set(peers_max=65_536)
        equal(client.settings_get().peers_max, 65_536, "peers-max")


def as_own_root_by_default() -> None:
    """Take each law's default period, in a namespace of one's own."""
    unshare()
    with ShimClient() as client:
        for law in client.settings_get().laws:
            if law != "none":
                client.settings_set(law=law, of=law, period=0)
                period = client.settings_get().period
                assert period >= MS, f"{law}: {period} ns"


@check
def own_namespace() -> None:
    """The root of an unprivileged user namespace may read its own state, but not set T below 1 ms or 65,537 peers"""
    as_child(as_own_root)


@check
def own_defaults() -> None:
    """Nor does such a user get a T below 1 ms by a law's default"""
    as_child(as_own_root_by_default)


@check
def host() -> None:
    """The host's operator may set both further"""
    for law in lab.shim.settings_get().laws:
        if law != "none":
            lab.shim.settings_set(of=law, period=100_000)
            equal(lab.shim.settings_get(of=law).period, 100_000, f"{law}: period")
            lab.shim.settings_set(of=law, period=0)
    lab.shim.settings_set(peers_max=1 << 20)
    equal(lab.shim.settings_get().peers_max, 1 << 20, "peers-max")
    lab.shim.settings_set(peers_max=4096)


@check
def waiting_bound() -> None:
    """The number of packets that may wait can be set and read, and is enforced and counted"""
    lab.fresh("static", waiting_max=20, horizon=10**10)
    equal(lab.shim.settings_get().waiting_max, 20, "waiting-max")
    lab.shim.port_set("s1", max_rate=1_000_000)
    before = lab.stats("s1")
    for _ in range(100):
        lab.v1.send(ipv4(V1, U, udp(1000)))
    rose = lab.changes("s1", before)
    # 20 wait and a few leave at once.
    assert 70 <= rose.get("drop_waiting", 0) <= 80, f"counters {rose}"
    lab.shim.settings_set(waiting_max=0)


main()
