# SPDX-License-Identifier: Apache-2.0
"""``make soak``: virtual hours of mixed tenants, changes and faults, after which all must be as it was."""
