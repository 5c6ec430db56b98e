# SPDX-License-Identifier: Apache-2.0
"""Experiments of our own, which no paper has."""
