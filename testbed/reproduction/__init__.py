# SPDX-License-Identifier: Apache-2.0
"""All experiments at several seeds, each law mended, as published and as a placebo: ``make reproduce``."""
