# SPDX-License-Identifier: Apache-2.0
"""A peer of the limiter: earliest departure times by a BPF program before sch_fq, as container networks set them.

The program is one FIFO a VM: each packet departs when the one before has been paid for, and is dropped if that is more
than HORIZON_NS ahead. With marks, what would wait MARK_NS or longer gets CE if it is ECT.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import List, Sequence

# How far ahead a departure may be, and from what wait on packets are marked, ns.
HORIZON_NS, MARK_NS = 2_000_000_000, 1_000_000
# Packets that sch_fq holds, of a flow and in all.
ROOM = "100000"

# The system call bpf(2) of x86-64, and commands and types of linux/bpf.h.
SYS_BPF = 321
MAP_CREATE, PROG_LOAD, OBJ_PIN = 0, 5, 6
MAP_ARRAY, PROG_SCHED_CLS = 2, 3
ATTRIBUTES_BYTES = 128

# Functions that a program may call, fields of struct __sk_buff, and what a classifier may return.
LOOKUP, CLOCK, SET_CE = 1, 5, 97
TSTAMP, WIRE_LEN = 152, 160
PASS, SHOT = 0, 2

# Instructions: loads and stores of 32 and 64 bits, of constants; arithmetic of 64 bits; jumps.
LOAD_32, LOAD_64, STORE_64, STORE_CONSTANT_32, CONSTANT_64 = 0x61, 0x79, 0x7B, 0x62, 0x18
ADD, ADD_CONSTANT, SUBTRACT, MULTIPLY_CONSTANT, DIVIDE, MOVE, MOVE_CONSTANT = (
    0x0F, 0x07, 0x1F, 0x27, 0x3F, 0xBF, 0xB7)
JUMP, EQUAL_CONSTANT, GREATER, LESS_CONSTANT, AT_LEAST_CONSTANT, CALL, EXIT = (
    0x05, 0x15, 0x2D, 0xA5, 0x35, 0x85, 0x95)
MAP_FD = 1


def one(code: int, to: int = 0, of: int = 0, offset: int = 0, constant: int = 0) -> bytes:
    """Return an instruction."""
    return struct.pack("<BBhi", code, of << 4 | to, offset, constant)


def wide(to: int, value: int, kind: int = 0) -> bytes:
    """Return the two instructions that load a constant of 64 bits, or with kind MAP_FD a map."""
    return one(CONSTANT_64, to, kind, 0, struct.unpack("<i", struct.pack("<I", value & 0xFFFFFFFF))[0]) + one(
        0, constant=value >> 32)


def program(map_fd: int, bytes_per_s: int, mark: bool) -> bytes:
    """Return the program for a limit; map_fd is an array of one u64, the last departure. mark: set CE, too."""
    marks: List[bytes] = [
        one(LESS_CONSTANT, 3, offset=4, constant=MARK_NS), one(STORE_64, 10, 2, -16), one(MOVE, 1, 6),
        one(CALL, constant=SET_CE), one(LOAD_64, 2, 10, -16)] if mark else []
    head = [
        one(MOVE, 6, 1), one(LOAD_32, 7, 6, WIRE_LEN),
        one(STORE_CONSTANT_32, 10, offset=-4), wide(1, map_fd, MAP_FD), one(MOVE, 2, 10),
        one(ADD_CONSTANT, 2, constant=-4), one(CALL, constant=LOOKUP)]
    tail = [one(STORE_64, 8, 2), one(STORE_64, 6, 2, TSTAMP)]
    passed = [one(MOVE_CONSTANT, 0, constant=PASS), one(EXIT)]
    length = [
        one(MOVE, 8, 0), one(CALL, constant=CLOCK), one(MOVE, 9, 0), one(MULTIPLY_CONSTANT, 7, constant=10**9),
        wide(1, bytes_per_s), one(DIVIDE, 7, 1), one(LOAD_64, 2, 8), one(ADD, 2, 7),
        # What is paid for already leaves now, and time begins anew.
        one(GREATER, 2, 9, 2), one(STORE_64, 8, 9), one(JUMP, offset=3 + len(marks) + len(tail)),
        one(MOVE, 3, 2), one(SUBTRACT, 3, 9),
        one(AT_LEAST_CONSTANT, 3, offset=len(marks) + len(tail) + len(passed), constant=HORIZON_NS)]
    count = sum(len(text) for text in length) // 8
    body = [one(EQUAL_CONSTANT, 0, offset=count + len(marks) + len(tail)), *length, *marks, *tail, *passed,
            one(MOVE_CONSTANT, 0, constant=SHOT), one(EXIT)]
    return b"".join([*head, *body])


def _bpf(command: int, attributes: bytes) -> int:
    """Do a command; OSError when it fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes.ljust(ATTRIBUTES_BYTES, b"\0"), ATTRIBUTES_BYTES)
    done = int(libc.syscall(SYS_BPF, command, buffer, ATTRIBUTES_BYTES))
    if done < 0:
        raise OSError(ctypes.get_errno(), f"bpf({command}): {os.strerror(ctypes.get_errno())}")
    return done


def pin(path: str, bytes_per_s: int, mark: bool) -> None:
    """Load the program for a limit and give it a name in a BPF file system, for tc. OSError when it is refused."""
    map_fd = _bpf(MAP_CREATE, struct.pack("=IIII", MAP_ARRAY, 4, 8, 1))
    code, licence = ctypes.create_string_buffer(program(map_fd, bytes_per_s, mark)), ctypes.c_char_p(b"GPL")
    log = ctypes.create_string_buffer(1 << 16)
    try:
        loaded = _bpf(PROG_LOAD, struct.pack(
            "=IIQQIIQ", PROG_SCHED_CLS, (len(code) - 1) // 8, ctypes.addressof(code),
            ctypes.cast(licence, ctypes.c_void_p).value or 0, 1, len(log), ctypes.addressof(log)))
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}: {log.value.decode(errors='replace')}") from error
    name = ctypes.c_char_p(path.encode())
    _bpf(OBJ_PIN, struct.pack("=QI", ctypes.cast(name, ctypes.c_void_p).value or 0, loaded))


def tc_commands(device: str, path: str) -> Sequence[Sequence[str]]:
    """Return the words of the ``tc`` calls that have a pinned program and sch_fq limit what leaves by a device.

    sch_fq has room for all that the horizon lets wait: what it dropped would be paid for and not leave.
    """
    return (("qdisc", "add", "dev", device, "root", "fq", "limit", ROOM, "flow_limit", ROOM),
            ("qdisc", "add", "dev", device, "clsact"),
            ("filter", "add", "dev", device, "egress", "bpf", "direct-action", "object-pinned", path))
