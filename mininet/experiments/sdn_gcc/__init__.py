# SPDX-License-Identifier: Apache-2.0
"""Experiments of the papers SDN-GCC and HyGenICC."""
