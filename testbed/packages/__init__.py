# SPDX-License-Identifier: Apache-2.0
"""Debian packages: built and tried in roots of their own, one for each release of Debian."""
