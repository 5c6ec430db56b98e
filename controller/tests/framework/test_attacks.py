# SPDX-License-Identifier: Apache-2.0
"""What anybody who reaches the OpenFlow port can do to the controller: nothing; real processes, both frameworks."""

import contextlib
import resource
import socket
import ssl
import struct
import threading
import time

import pytest

from ..fabric import port_reading
from ..processes import PATIENCE_S, Controller, WireSwitch, wait_for
from ..real_ovs import INSTALLED, make_pki


@contextlib.contextmanager
def running(tmp_path, framework, **settings):
    controller = Controller(tmp_path, framework, **settings)
    try:
        yield controller
        assert controller.process.poll() is None, controller.log()
        assert "Traceback" not in controller.log()
        controller.process.terminate()
        assert controller.process.wait(PATIENCE_S) == 0
    finally:
        controller.kill()


def connections(controller):
    return controller.get("/v1/status")["connections"]


def connect(controller, source="127.0.0.1"):
    sock = socket.create_connection(controller.address, timeout=PATIENCE_S, source_address=(source, 0))
    sock.settimeout(PATIENCE_S)
    return sock


def ended(sock):
    """Tell whether the other end closed a connection; bytes that came before are left aside."""
    try:
        while sock.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


def is_ended(sock):
    """Tell whether the other end has closed a connection by now."""
    sock.setblocking(False)
    try:
        while sock.recv(65536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def switch_of(controller, dpid=0xB1, source="127.0.0.1"):
    """Return a switch that is connected and polled."""
    switch = WireSwitch(dpid, {1: b"p1"})
    switch.marks = {1: port_reading(1)}
    switch.connect(controller.address, source)
    wait_for(lambda: switch.polls, controller.log)
    return switch


def is_served(controller, switch):
    """Wait until a switch is polled again, and REST shows it."""
    seen = switch.polls
    wait_for(lambda: switch.polls > seen + 1, controller.log)
    assert f"{switch.dpid:016x}" in switches(controller)
    return True


def switches(controller):
    return [one["switch"] for one in controller.get("/v1/switches")["switches"]]


def message(kind, body=b""):
    return struct.pack("!BBHI", 4, kind, 8 + len(body), 1) + body


HELLO = message(0)
FEATURES = message(6, struct.pack("!QIBB2xII", 0xC1, 0, 1, 0, 0x47, 0))
PORTS = message(19, struct.pack("!HH4x", 13, 0))
READY = HELLO + FEATURES + PORTS
MALFORMED = {
    "HELLO with an element of length 0": bytes.fromhex("0400001000000001ffff000000000000"),
    "HELLO with a bitmap of length 0": bytes.fromhex("04000010000000010001000000000000"),
    "HELLO with a bitmap beyond its end": bytes.fromhex("040000100000000100010fff00000000"),
    "length 0": bytes.fromhex("0400000000000001"),
    "OpenFlow 1.0": bytes.fromhex("0100000800000001"),
    "a version that there is not": HELLO + bytes.fromhex("2a02000800000001"),
    "a type that there is not": HELLO + message(77),
    "a reply before HELLO": FEATURES,
    "FEATURES_REPLY cut short": HELLO + message(6, bytes(8)),
    "an auxiliary connection": HELLO + message(6, struct.pack("!QIBB2xII", 0xC1, 0, 1, 1, 0x47, 0)),
    "half a port": HELLO + FEATURES + message(19, struct.pack("!HH4x", 13, 0) + bytes(32)),
    "PACKET_IN with a match beyond its end": READY + message(10, bytes(16) + b"\x00\x01\xff\xff" + bytes(20)),
    "PACKET_IN without its port": READY + message(10, bytes(16) + struct.pack("!HHI", 1, 4, 0) + bytes(20)),
    "PORT_STATUS cut short": READY + message(12, bytes(8)),
    "HELLO_FAILED that is no ASCII": HELLO + message(1, b"\x00\x00\x00\x00" + b"\xff" * 8),
}


def test_what_cannot_be_read_ends_its_connection_and_no_more(tmp_path, framework):
    with running(tmp_path, framework) as controller:
        switch = switch_of(controller)
        for what, data in MALFORMED.items():
            with connect(controller) as sock:
                sock.sendall(data)
                assert ended(sock), what
        shown = connections(controller)
        assert shown["refused"]["malformed"] == len(MALFORMED)
        # Told once for an address, not once for each.
        assert controller.log().count("closed the connection of 127.0.0.1") == 1
        assert "it sent a HELLO with an element of length 0" in controller.log()
        text = controller.metrics()
        assert f'sdngcc_openflow_connections_refused_total{{reason="malformed"}} {len(MALFORMED)}.0' in text
        assert is_served(controller, switch)
        switch.close()


def test_messages_that_nobody_asked_for_are_counted_and_left_out(tmp_path, framework):
    loop = struct.pack("!HBxIIHHH6xQQQ", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) + struct.pack("!HH4x", 1, 0)
    unasked = [
        message(4, struct.pack("!II", 0x2320, 0)),
        message(19, struct.pack("!HH4x", 1, 0) + loop),  # flow statistics with an entry of length 0
        message(19, struct.pack("!HH4x", 12, 0) + struct.pack("!HBx", 0, 0) + bytes(60)),  # table features of length 0
        message(19, struct.pack("!HH4x", 7, 0) + struct.pack("!HBxI", 0, 0, 1)),  # a group of length 0
        message(19, struct.pack("!HH4x", 9, 0) + struct.pack("!IHxx", 1, 0) + bytes(32)),  # meter statistics
        message(23, struct.pack("!I4x", 1) + struct.pack("!IIH6x", 1, 1, 0)),  # a queue of length 0
        message(27, bytes(24)),
    ]
    with running(tmp_path, framework) as controller:
        with connect(controller) as sock:
            sock.sendall(READY)
            wait_for(lambda: controller.get("/v1/status")["switches"] == 1, controller.log)
            before = connections(controller)["unserved"]
            sock.sendall(b"".join(unasked))
            wait_for(lambda: connections(controller)["unserved"] == before + len(unasked), controller.log)
            assert connections(controller)["open"] == 1


def many_files():
    """Let this process have as many open files as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def test_a_thousand_idle_connections_harm_nobody(tmp_path, framework):
    many_files()
    with running(tmp_path, framework) as controller:
        switch = switch_of(controller)
        idle = [connect(controller, "127.0.0.2") for _ in range(1100)]
        # Those within the limit of an address stay until their handshake takes too long.
        wait_for(
            lambda: connections(controller)["refused"]["too_many_of_peer"]
            + connections(controller)["refused"]["handshake_time"] + connections(controller)["open"] > 1100,
            controller.log,
        )  # fmt: skip
        assert connections(controller)["open"] <= 1025
        assert is_served(controller, switch)
        late = switch_of(controller, 0xB2)
        for sock in idle:
            sock.close()
        wait_for(lambda: connections(controller)["open"] == 2, controller.log)
        for one in (switch, late):
            one.close()


def test_few_open_files_mean_fewer_connections_not_the_end(tmp_path, framework):
    with running(tmp_path, framework, descriptors=256) as controller:
        said = "openflow_connections 4096: the limit of open files leaves room for 128 only"
        wait_for(lambda: said in controller.log(), controller.log)
        switch = switch_of(controller)
        idle = [connect(controller, "127.0.0.2") for _ in range(300)]
        wait_for(lambda: connections(controller)["refused"]["too_many"] >= 300 - 127, controller.log)
        assert connections(controller)["open"] <= connections(controller)["limit"] == 128
        # Its handshake is quick, so it finds room, however many only stand there.
        late = switch_of(controller, 0xB2)
        for one in (switch, late):
            assert is_served(controller, one)
            one.close()
        for sock in idle:
            sock.close()


def test_one_address_has_no_more_than_its_part(tmp_path, framework):
    with running(tmp_path, framework, openflow_connections=8, openflow_connections_a_peer=3) as controller:
        idle = [connect(controller, "127.0.0.2") for _ in range(5)]
        wait_for(lambda: sum(is_ended(sock) for sock in idle) == 2, controller.log)
        assert connections(controller)["refused"]["too_many_of_peer"] == 2
        switch = switch_of(controller)
        assert is_served(controller, switch)
        switch.close()
        for sock in idle:
            sock.close()


def test_silent_connections_end(tmp_path, framework):
    with running(tmp_path, framework, openflow_silence_s=3) as controller:
        dead = switch_of(controller, 0xB2)
        nothing, halfway = connect(controller), connect(controller)
        halfway.sendall(HELLO + FEATURES)
        dead.mute = True
        wait_for(lambda: not dead.lines[0].alive, controller.log)
        assert ended(nothing) and ended(halfway)
        refused = connections(controller)["refused"]
        assert refused["silent"] >= 1 and refused["handshake_time"] >= 2
        assert f"closed the connection of {dead.lines[0].name}: nothing was heard of it for 3 s" in controller.log()
        assert "its handshake takes too long" in controller.log()
        wait_for(lambda: "00000000000000b2" not in switches(controller), controller.log)
        dead.close()


def test_a_connection_that_never_reads_ends(tmp_path, framework):
    with running(tmp_path, framework) as controller:
        switch = switch_of(controller)
        with connect(controller) as sock:
            sock.sendall(HELLO)
            with pytest.raises(ConnectionError):
                while True:
                    sock.sendall(message(2, bytes(60_000)))  # each is answered with as much
                    time.sleep(0.02)  # as many as its part of work allows
        wait_for(lambda: connections(controller)["refused"]["does_not_read"] == 1, controller.log)
        assert is_served(controller, switch)
        switch.close()


def test_a_second_switch_with_the_id_of_one_that_answers_is_refused(tmp_path, framework):
    with running(tmp_path, framework) as controller:
        first = switch_of(controller)
        second = WireSwitch(0xB1, {1: b"p1"})
        line = second.connect(controller.address, "127.0.0.2")
        wait_for(lambda: not line.alive, controller.log)
        [shown] = connections(controller)["id_conflicts"]
        assert shown == {
            "switch": "00000000000000b1", "kept": first.lines[0].name, "refused": line.name, "count": 1,
        }  # fmt: skip
        told = f"closed the connection of {line.name}: it says it is switch 00000000000000b1, which is connected from "
        assert told + first.lines[0].name in controller.log()
        labels = 'kept="127.0.0.1",refused="127.0.0.2",switch="00000000000000b1"'
        assert f"sdngcc_switch_id_conflicts_total{{{labels}}} 1.0" in controller.metrics()
        # What ended of the second one is not taken for the first one's end.
        assert is_served(controller, first) and first.lines[0].alive
        assert not second.polls
        for one in (first, second):
            one.close()


def test_a_second_switch_that_leaves_before_it_is_judged_leaves_the_first_one_served(tmp_path, framework):
    with running(tmp_path, framework) as controller:
        first = switch_of(controller)
        for _ in range(3):
            second = WireSwitch(0xB1, {1: b"p1"})
            second.connect(controller.address, "127.0.0.2")
            second.close()
            assert is_served(controller, first)
        assert first.lines[0].alive
        first.close()


def test_a_switch_that_reconnects_takes_the_place_of_what_is_left_of_it(tmp_path, framework):
    with running(tmp_path, framework) as controller:
        left = switch_of(controller)
        left.mute = True  # half-open: the connection stands, nobody is there
        again = WireSwitch(0xB1, {1: b"p1", 2: b"p2"})
        again.marks = {1: port_reading(1)}
        line = again.connect(controller.address, "127.0.0.2")
        wait_for(lambda: again.polls > 2 and not left.lines[0].alive, controller.log)
        assert line.alive and is_served(controller, again)
        assert len(controller.get("/v1/ports")["ports"]) == 2
        [conflict] = connections(controller)["id_conflicts"]
        assert (conflict["kept"], conflict["refused"]) == (line.name, left.lines[0].name)
        assert connections(controller)["refused"]["replaced"] == 1
        # And a switch whose former connection has ended finds its id free.
        again.lines[0].close()
        assert is_served(controller, switch_of(controller))
        for one in (left, again):
            one.close()


@pytest.mark.skipif(not INSTALLED, reason="ovs-pki is not installed")
def test_beneath_tls_silence_and_garbage_end_a_connection_too(tmp_path, framework):
    keys = make_pki(tmp_path / "pki")
    settings = {
        "openflow_tls_key": keys["ctl_key"],
        "openflow_tls_cert": keys["ctl_cert"],
        "openflow_tls_ca": keys["switch_ca"],
    }
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(keys["controller_ca"])
    context.load_cert_chain(keys["sw_cert"], keys["sw_key"])
    with running(tmp_path, framework, **settings, openflow_silence_s=3) as controller:
        nothing, halfway = connect(controller), connect(controller)
        halfway.sendall(b"\x16\x03")
        plain = connect(controller)
        plain.sendall(READY)
        assert ended(plain)
        assert connections(controller)["refused"]["tls"] == 2  # one only looked whether it listens
        # Its certificate is right, then its records are not.
        garbage = context.wrap_socket(connect(controller))
        garbage.sendall(READY)
        wait_for(lambda: controller.get("/v1/status")["switches"] == 1, controller.log)
        with socket.socket(fileno=garbage.detach()) as raw:
            raw.settimeout(PATIENCE_S)
            raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
            assert ended(raw)
        assert connections(controller)["refused"]["tls"] == 3
        assert ended(nothing) and ended(halfway)
        assert connections(controller)["refused"]["handshake_time"] == 2
        # Nor does one stay that speaks no more.
        silent = context.wrap_socket(connect(controller))
        silent.sendall(READY)
        assert ended(silent)
        assert connections(controller)["refused"]["silent"] == 1


def described(number, name=b"p"):
    """Return a port as a switch describes it."""
    return struct.pack("!I4x6s2x16sIIIIIIII", number, bytes(6), name, 0, 0, 0, 0, 0, 0, 0, 0)


def test_a_switch_with_more_ports_than_are_served_is_refused_by_name(tmp_path, framework):
    ports = [described(number) for number in range(1, 16_001)]
    parts = [
        message(19, struct.pack("!HH4x", 13, int(first < 15_000)) + b"".join(ports[first : first + 1000]))
        for first in range(0, 16_000, 1000)
    ]
    with running(tmp_path, framework) as controller:
        switch = switch_of(controller)
        with connect(controller) as sock:
            sock.sendall(HELLO + FEATURES)
            with contextlib.suppress(ConnectionError):
                sock.sendall(b"".join(parts))
            assert ended(sock)
        assert "more than 4096 ports, which is the most of a switch" in controller.log()
        assert is_served(controller, switch)
        switch.close()


def send_always(sock, data):
    """Send the same again and again until the connection ends."""
    with contextlib.suppress(OSError):
        while True:
            sock.sendall(data)


def test_a_storm_of_port_changes_is_slowed_down_and_its_connection_closed(tmp_path, framework):
    """It costs no more than its part of work: what others are owed goes on meanwhile."""
    storm = b"".join(message(12, bytes(8) + described(1, b"n%d" % number)) for number in range(500))
    with running(tmp_path, framework) as controller:
        switch = switch_of(controller)
        with connect(controller) as sock:
            sock.sendall(READY)
            threading.Thread(target=send_always, args=(sock, storm), daemon=True).start()
            seen = switch.polls
            assert ended(sock)
            assert switch.polls > seen + 50
        assert connections(controller)["refused"]["costs_too_much"] == 1
        assert "it wanted more than its part of work for 10 s" in controller.log()
        assert is_served(controller, switch)
        switch.close()
