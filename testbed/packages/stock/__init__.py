# SPDX-License-Identifier: Apache-2.0
"""The packages on a machine with a release's own kernel, in QEMU: ``make check-stock``."""
