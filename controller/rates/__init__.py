# SPDX-License-Identifier: Apache-2.0
"""What decides: when marks are asked for, how they are divided or rates computed, and whom to tell."""
