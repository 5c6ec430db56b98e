# SPDX-License-Identifier: Apache-2.0
"""Rivals of the papers' laws on the same work."""
