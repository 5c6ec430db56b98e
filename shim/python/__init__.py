# SPDX-License-Identifier: Apache-2.0
"""Python side of the shim: a client of the kernel's generic netlink family ovs_shim."""
