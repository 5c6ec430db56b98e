# SPDX-License-Identifier: Apache-2.0
"""Entropy for a virtual machine in real time; in virtual time the laboratory's kernel needs none."""

from __future__ import annotations

import fcntl
import struct


def seed_entropy() -> None:
    """Credit /dev/random with made-up entropy: in real time nothing else fills it, and imports would wait.

    Fit for a laboratory only, where nothing is secret.
    """
    add_entropy = 0x40085203  # RNDADDENTROPY: struct {int bits; int bytes; u8 data[]}
    with open("/dev/random", "wb") as device:
        fcntl.ioctl(device, add_entropy, struct.pack("ii512s", 4096, 512, bytes(range(256)) * 2))
