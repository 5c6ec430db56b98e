# SPDX-License-Identifier: Apache-2.0
"""Rates by path: what each virtual machine may send to each destination (docs/laws.md, "Rates by path")."""
