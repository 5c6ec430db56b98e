# SPDX-License-Identifier: Apache-2.0
"""The versions of Open vSwitch that there is a series for: fetched, patched, built, tried."""
