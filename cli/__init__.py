# SPDX-License-Identifier: Apache-2.0
"""sdn-gcc: congestion control for tenants' VMs in Open vSwitch, steered by ECN marks of the fabric."""

__version__ = "0.1.0"
