# SPDX-License-Identifier: Apache-2.0
"""Experiments of the paper HyGenICC."""
