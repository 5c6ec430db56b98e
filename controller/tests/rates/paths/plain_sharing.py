# SPDX-License-Identifier: Apache-2.0
"""What ports grant and tell, in numpy: what native/sharing.c does, column by column for all rows at once."""

import numpy as np

from sdngcc.controller.rates.paths.ports import (
    DAMPING,
    EASING,
    ELSEWHERE,
    FALL,
    HERE,
    HOLDS,
    LOOSE_FALL,
    LOOSE_RISE,
    MARGIN,
    OFF,
    PATIENCE_NS,
    REFRESH_NS,
    RISE,
    ROUNDING,
    STANDBY,
    WINDOW,
)
from sdngcc.controller.wire.message import RATE_MAX, RATE_MIN


def share(rows, sharing, allowed, engaged, now_ns):
    """Change rows as native.share() does, where ports are engaged; return the rows of those who are due."""
    lengths = np.diff(sharing.ports, append=len(rows.numbers))
    flags = np.repeat(engaged, lengths)
    bounds = np.repeat(allowed, lengths) / rows.parts
    usual = np.where(rows.states == ELSEWHERE, rows.sent, bounds)
    wants = np.where(rows.quiet == WINDOW, MARGIN * np.maximum(rows.sent, rows.before), usual)
    wants = np.maximum(rows.lows, np.minimum(wants, bounds))
    follow(rows, np.maximum(sharing.divide(rows.lows, wants, allowed), RATE_MIN), flags)
    lately = np.maximum(wants, rows.peaks)
    spared = np.minimum(np.maximum(STANDBY * rows.granted, lately), rows.granted)
    offers = np.round(np.clip(np.where(rows.quiet == WINDOW, spared, rows.granted), RATE_MIN, RATE_MAX))
    rows.offers = np.where(flags, offers, rows.offers)
    due = np.flatnonzero(flags & is_due(rows, now_ns))
    rows.former[due], rows.told[due], rows.told_ns[due] = rows.told[due], rows.offers[due], now_ns
    return due


def follow(rows, aim, flags):
    """Let grants follow to where they aim."""
    known = rows.granted > 0
    step = np.log(aim / np.where(known, rows.granted, aim))
    moved = np.where(np.abs(step) < ROUNDING, rows.moved, step)
    turned = moved * rows.moved < 0
    granted = np.where(known, rows.granted * np.exp((1 - rows.damping) * step), aim)
    damping = np.where(turned, rows.damping + DAMPING * (1 - rows.damping), EASING * rows.damping)
    for name, found in (("granted", granted), ("damping", damping), ("moved", moved)):
        setattr(rows, name, np.where(flags, found, getattr(rows, name)))


def is_due(rows, now_ns):
    """Tell who is to be told now what is offered."""
    told, offers, age_ns = rows.told, rows.offers, now_ns - rows.told_ns
    holds = rows.sent > HOLDS * np.minimum(told, offers)
    rise, fall = np.where(holds, RISE, LOOSE_RISE), np.where(holds, FALL, LOOSE_FALL)
    moved = (offers >= rise * told) | (offers <= fall * told)
    unheard = rows.sent > (1 + OFF) * told
    unheard |= (rows.states == HERE) & (rows.sent < (1 - OFF) * told)
    refresh_ns = REFRESH_NS * (1 - rows.numbers % 64 / 256)
    return moved | (age_ns >= refresh_ns) | (unheard & (age_ns >= PATIENCE_NS))
