# SPDX-License-Identifier: Apache-2.0
"""Entropy for a virtual machine."""

from __future__ import annotations

import fcntl
import struct


def seed_entropy() -> None:
    """Credit /dev/random with made-up entropy, which nothing else fills.

    In real time imports would wait for it. In virtual time the first program that asks makes the kernel search for some
    for half a second of wall time; the keys that it makes are those of laboratory_seed all the same.

    Fit for a laboratory only, where nothing is secret.
    """
    add_entropy = 0x40085203  # RNDADDENTROPY: struct {int bits; int bytes; u8 data[]}
    with open("/dev/random", "wb") as device:
        fcntl.ioctl(device, add_entropy, struct.pack("ii512s", 4096, 512, bytes(range(256)) * 2))
