# SPDX-License-Identifier: Apache-2.0
"""Runs a command as a container engine does by default: few capabilities, 64 MB of shared memory that nothing runs
from, a filter of system calls, and a short PATH. ``python3 plain.py SHM COMMAND ...``, as root in a mount namespace,
where SHM is the folder of shared memory that the command sees; it needs no packages.
"""

import ctypes
import os
import struct
import subprocess
import sys
from typing import List, Tuple

# Capabilities that root keeps: what Docker and Podman grant.
_KEPT = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)  # chown to setfcap, of linux/capability.h
_LAST = 40

# System calls of x86-64 that Docker's default profile refuses without capabilities, by number: mount, umount2, swapon,
# swapoff, reboot, init_module, delete_module, acct, settimeofday, clock_settime, add_key, request_key, keyctl, mbind,
# set_mempolicy, get_mempolicy, move_pages, unshare, perf_event_open, fanotify_init, setns, kcmp, finit_module, bpf,
# userfaultfd, io_uring_setup, io_uring_enter, io_uring_register, pivot_root, ioperm, iopl, kexec_load.
_REFUSED = (165, 166, 167, 168, 169, 175, 176, 163, 164, 227, 248, 249, 250, 237, 238, 239, 279, 272, 298, 300, 308,
            312, 313, 321, 323, 425, 426, 427, 155, 173, 172, 246)
_PERSONALITY = 135
_ALLOWED_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _EPERM = 0x7FFF0000, 0x50001

_PR_CAPBSET_DROP, _PR_SET_SECCOMP = 24, 22
_FILTER = 2


def filter_of_calls() -> bytes:
    """Return the filter's instructions."""
    code: List[Tuple[int, int, int, int]] = [(_LOAD, 0, 0, 0)]
    for number in _REFUSED:
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    code += [(_EQUAL, 0, len(_ALLOWED_PERSONALITIES) + 2, _PERSONALITY), (_LOAD, 0, 0, 16)]
    for left, value in zip(range(len(_ALLOWED_PERSONALITIES), 0, -1), _ALLOWED_PERSONALITIES):
        code.append((_EQUAL, left, 0, value))
    code += [(_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *one) for one in code)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def confine(shm: str) -> None:
    """Give up what a container has not; a program that is run next gets no capability back. Raises OSError.

    Programs of another user's (sudo) still run as that user, as in a container.
    """
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nosuid,nodev,noexec,size=64m", "shm", shm], check=True)
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(_LAST + 1):
        if capability not in _KEPT:
            libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    code = filter_of_calls()
    memory = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(memory))
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


if __name__ == "__main__":
    confine(sys.argv[1])
    os.environ["PATH"] = "/usr/bin:/bin"
    os.execvp(sys.argv[2], sys.argv[2:])
