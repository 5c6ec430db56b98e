# SPDX-License-Identifier: Apache-2.0
"""What forwards: flows, groups and packet-outs of ``forwarding: own``."""
