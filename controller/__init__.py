# SPDX-License-Identifier: Apache-2.0
"""The sdn-gcc controller: policy in plain Python, the OpenFlow framework only at the rim."""
