# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the reader of connections, and what it lets through: both frameworks' parsers, and our own of counters.

``python -m sdngcc.controller.tests.framework.fuzz_reader [-runs=N] [libFuzzer's options] CORPUS`` ends with status 0
when no input raised anything but what ends a connection, and none took more steps than its length allows.
"""

import importlib
import importlib.util
import struct

from sdngcc.controller.framework import launcher

launcher.prepare()

import atheris  # noqa: E402  # after prepare(), for Ryu's sake

with atheris.instrument_imports(include=["sdngcc.controller.framework.reader", "sdngcc.controller.wire"]):
    from sdngcc.controller.framework import reader
    from sdngcc.controller.wire import experimenter, openflow

from .. import fuzzing  # noqa: E402

FRAMEWORKS = [module for module in launcher.FRAMEWORKS.values() if importlib.util.find_spec(module)]


class Parsers:
    """The parsers of both frameworks, called as their readers do, but for the exceptions these would catch."""

    def __init__(self):
        self._parsers = []
        for module in FRAMEWORKS:
            parser = importlib.import_module(f"{module}.ofproto.ofproto_v1_3_parser")
            protocol = importlib.import_module(f"{module}.ofproto.ofproto_protocol")
            self._parsers.append((parser.msg_parser, protocol.ProtocolDesc(version=4)))

    def parse(self, data):
        """Parse a message by each; raises what they do."""
        version, kind, length, xid = struct.unpack_from("!BBHI", data)
        assert length == len(data) and version == 4
        for parser, datapath in self._parsers:
            with fuzzing.steps(length):
                message = parser(datapath, version, kind, length, xid, bytearray(data))
            assert message is not None


PARSERS = Parsers()
READINGS = {
    experimenter.PORT_MARKS: experimenter.port_readings,
    experimenter.VM_STATE: experimenter.vm_readings,
    experimenter.HOST_VMS: experimenter.vm_readings,
    experimenter.HOST_PEERS: experimenter.peer_readings,
    experimenter.HOST_PATHS: lambda reply: [experimenter.path_readings(part) for part in reply.entries],
}


def read_counters(assembler, data):
    """Read a multipart reply as the engine does."""
    readers = {openflow.OFPMP_FLOW: (openflow.flow_statistics, openflow.flows),
               openflow.OFPMP_GROUP: (openflow.group_statistics,)}  # fmt: skip
    for read in readers.get(data[8] << 8 | data[9], ()):
        try:
            openflow.more_parts(data)
            read(data)
        except openflow.MessageError:
            pass
    if data[8:10] == b"\xff\xff":
        kind = experimenter.kind_of(data)
        try:
            reply = assembler.feed(1, data, 3 if kind == experimenter.VM_STATE else None)
        except experimenter.ReplyError:
            return
        assert (reply is None) or reply.exp_type == kind
        if reply is not None:
            READINGS[reply.exp_type](reply)
            assert experimenter.count(reply) <= (3 if kind == experimenter.VM_STATE else experimenter.ENTRIES_MAX[kind])


def take(data):
    """Let the reader take a connection's bytes; raises nothing."""
    one, assembler, passed, counters = reader.Reader(), experimenter.Assembler(), [], []
    with fuzzing.steps(len(data)):
        try:
            for message in one.feed(data):
                if isinstance(message, reader.ForFramework):
                    passed.append(message.data)
                elif isinstance(message, reader.Multipart):
                    counters.append(message.data)
        except reader.ReadError as error:
            assert str(error) and str(error).isprintable()
    for message in passed:
        PARSERS.parse(message)
    for message in counters:
        with fuzzing.steps(len(message)):
            read_counters(assembler, message)


def message(kind, body=b"", xid=7):
    """Return an OpenFlow 1.3 message."""
    return struct.pack("!BBHI", 4, kind, 8 + len(body), xid) + body


def port(number):
    """Return the description of a port."""
    return struct.pack("!I4x6s2x16sIIIIIIII", number, bytes([2, 0, 0, 0, 9, number]), b"tap%d" % number, *[0] * 8)


HELLO = message(0, struct.pack("!HHI", 1, 8, 0x72))
FEATURES = message(6, struct.pack("!QIBB2xII", 0xA1, 0, 1, 0, 0x47, 0))
PORTS = message(19, struct.pack("!HH4x", 13, 0) + port(1) + port(2))
HANDSHAKE = HELLO + FEATURES + PORTS
MATCH = struct.pack("!HHII", 1, 12, 0x80000004, 1) + bytes(4)
PACKET_IN = message(10, struct.pack("!IHBBQ", 0xFFFFFFFF, 20, 0, 0, 0) + MATCH + bytes(2) + bytes(20))
FLOW_REMOVED = message(11, struct.pack("!QHBBIIHHQQ", 9, 1, 0, 0, 1, 0, 10, 0, 1, 64) + MATCH)
PORT_STATUS = message(12, struct.pack("!B7x", 2) + port(2))
FLOWS = message(19, struct.pack("!HH4x", 1, 0) + struct.pack("!H22xQQQ", 64, 5, 1, 2) + MATCH)
GROUPS = message(19, struct.pack("!HH4xH2xI32x", 6, 0, 56, 3) + struct.pack("!QQ", 1, 2))
ANSWERS = b"".join(experimenter.encode_reply(7, kind, 1, 9, 5, []) for kind in READINGS)
PARTS = b"".join(
    experimenter.encode_reply(7, experimenter.PORT_MARKS, 1, 9, 5, [bytes(48)] * 2, more=more) for more in (True, True,
        False)
)
# Parts without entries that say that more follow, and more machines than there are ports for.
EMPTY = experimenter.encode_reply(7, experimenter.VM_STATE, 1, 9, 5, [], more=True) * 3
MANY = experimenter.encode_reply(7, experimenter.VM_STATE, 1, 9, 5, [bytes(96)] * 2, more=True) * 2
OUTPUT = struct.pack("!HH4x", 4, 32) + struct.pack("!HHII", 25, 8, 0, 0)[:8] + struct.pack("!HHIH6x", 0, 16, 7, 0)
OUTPUTS = message(19, struct.pack("!HH4x", 1, 0) + struct.pack("!H22xQQQ", 96, 5, 1, 2) + MATCH + OUTPUT)
SHORT = message(19, struct.pack("!HH4x", 1, 0) + bytes(20)) + message(19, struct.pack("!HH4x", 6, 0) + bytes(20))
ERRORS = message(1, struct.pack("!HH", 1, 0) + bytes(8))
ECHOES = message(2, b"abc") + message(3)
SEEDS = (
    HANDSHAKE + ECHOES, HANDSHAKE + PACKET_IN + FLOW_REMOVED, HANDSHAKE + PORT_STATUS, HANDSHAKE + FLOWS + GROUPS,
    HANDSHAKE + ANSWERS, HANDSHAKE + message(1, bytes(4)) + message(25, struct.pack("!I4xQ", 2, 7)),
    HANDSHAKE + PARTS, HANDSHAKE + EMPTY, HANDSHAKE + MANY,
    HANDSHAKE + OUTPUTS + SHORT, HELLO + ERRORS, HANDSHAKE + message(19, b"\0"),
    message(19, bytes(8)),
    HANDSHAKE + message(11, bytes(3)), HANDSHAKE + message(12, struct.pack("!B7x", 1) + port(2)),
    HELLO + message(6, bytes(3)),
    HANDSHAKE + message(11) + message(12), message(11) + message(12), HELLO + message(12, bytes(72)),
    bytes.fromhex("0400001000000001ffff000000000000"),
)  # fmt: skip


if __name__ == "__main__":
    fuzzing.fuzz(take, SEEDS)
