# SPDX-License-Identifier: Apache-2.0
"""Several controllers as one: leases, who owns which switch, OpenFlow roles; docs/scale-out.md has the whole.

What decides (lease, membership, view) is plain Python; database and roles are the rim.
"""
