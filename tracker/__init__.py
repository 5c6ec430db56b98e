# SPDX-License-Identifier: Apache-2.0
"""SCC's tracker: divides each division's weight among its tunnels by what they have to send."""
