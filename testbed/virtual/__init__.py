# SPDX-License-Identifier: Apache-2.0
"""What runs inside the virtual machine: the job, its network, Open vSwitch, and what VMs and controllers need."""
