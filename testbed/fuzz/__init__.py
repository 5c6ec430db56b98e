# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the engine of the shim in user space: ``make fuzz``. docs/reliability.md tells what that shows."""
