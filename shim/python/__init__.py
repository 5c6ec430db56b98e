# SPDX-License-Identifier: Apache-2.0
"""Python side of the shim: a client of the kernel's generic netlink family ovs_shim."""

#: What is defined in the laboratory build, which has all that papers have; the product is built without.
LABORATORY = "SHIM_LABORATORY"
