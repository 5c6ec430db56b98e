# SPDX-License-Identifier: Apache-2.0
"""What the engine asks about ownership."""

from typing import Protocol


class Owner(Protocol):
    """Whether this controller may act."""

    shared: bool  # with other controllers

    def owns(self, dpid: int) -> bool:
        """Tell whether it may act for a switch now."""

    def is_live(self) -> bool:
        """Tell whether it may act at all now."""


class Alone:
    """The only controller: it acts for every switch."""

    shared = False

    def owns(self, dpid: int) -> bool:
        """Return True."""
        return True

    def is_live(self) -> bool:
        """Return True."""
        return True
