# SPDX-License-Identifier: Apache-2.0
"""Benchmarks that run inside the virtual testbed in real time."""
