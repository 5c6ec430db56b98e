# SPDX-License-Identifier: Apache-2.0
"""The virtual testbed: build User Mode Linux, boot it in virtual time, run, collect, plot."""
