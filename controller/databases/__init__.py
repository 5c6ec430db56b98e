# SPDX-License-Identifier: Apache-2.0
"""The rim to databases that say who is where: OVSDB."""
