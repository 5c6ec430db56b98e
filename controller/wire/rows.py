# SPDX-License-Identifier: Apache-2.0
"""Entries of experimenter replies as rows of numpy arrays, in the order of their fields in experimenter.py."""

import numpy as np
import numpy.typing as npt

STATE = np.dtype(
    [
        *((name, ">u4") for name in ("port", "uplink", "weight", "flags")),
        *(
            (name, ">u8")
            for name in ("rate", "share", "min_rate", "max_rate", "sent_rate", "tx_bytes", "tx_packets", "drops")
        ),
        *((name, ">u4") for name in ("messages", "refused")),
        ("message_marks", ">u8"),
    ]
)  # of VmReading
PATH = np.dtype(
    [
        ("vm", ">u4"),
        ("flags", ">u4"),
        ("prefix", "V16"),
        *((name, "u1") for name in ("bits", "scope")),
        ("unused", "V2"),
        ("port", ">u4"),
        *((name, ">u8") for name in ("rate", "sent_rate", "tx_bytes", "tx_packets", "held")),
    ]
)  # of PathReading

Rows = npt.NDArray[np.void]
