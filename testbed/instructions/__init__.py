# SPDX-License-Identifier: Apache-2.0
"""``make bench-instructions``: how many instructions a packet costs in a distribution's own kernel.

QEMU runs the kernel with ``-icount shift=0``, so that a nanosecond of its clock is an instruction. The figures are
exact to about one per cent and do not depend on what else the machine does.
"""
