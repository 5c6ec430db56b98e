# SPDX-License-Identifier: Apache-2.0
"""Simulators that host the engine of shim/core: of packets on ns-3, and of rates alone."""
