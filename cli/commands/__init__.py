# SPDX-License-Identifier: Apache-2.0
"""Sub-commands of ``sdngcc``, one module each, loaded only when called."""
