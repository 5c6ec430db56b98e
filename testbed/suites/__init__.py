# SPDX-License-Identifier: Apache-2.0
"""``make check-suites``: the kernel's and Open vSwitch's own tests of the datapath, with the shim and without."""
