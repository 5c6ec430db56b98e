# SPDX-License-Identifier: Apache-2.0
"""What knows the network: switches, links, ways, hosts and who talks to whom, how much."""
