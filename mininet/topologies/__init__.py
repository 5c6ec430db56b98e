# SPDX-License-Identifier: Apache-2.0
"""Mininet topologies with one Open vSwitch bridge per hypervisor and a marking fabric."""
