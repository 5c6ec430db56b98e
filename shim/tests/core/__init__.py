# SPDX-License-Identifier: Apache-2.0
"""Tests of the core, with what several of them share."""
