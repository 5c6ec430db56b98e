# SPDX-License-Identifier: Apache-2.0
"""Entries of experimenter replies and of control messages as rows of numpy arrays.

Fields are those of experimenter.py and message.py, in their order.
"""

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
ENTRY = np.dtype(
    [
        ("teller", ">u8"),
        ("prefix", "V16"),
        *((name, "u1") for name in ("bits", "scope")),
        ("unused", "V2"),
        ("weight_total", ">u4"),
        ("rate", ">u8"),
    ]
)  # of PathEntry, in a message of rates

Rows = npt.NDArray[np.void]
