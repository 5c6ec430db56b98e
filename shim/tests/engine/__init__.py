# SPDX-License-Identifier: Apache-2.0
"""Tests of the engine: whole hosts in user space."""
