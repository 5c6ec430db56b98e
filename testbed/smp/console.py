# SPDX-License-Identifier: Apache-2.0
"""Reads a kernel's console: what it complained of, and whose fault each race is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import FrozenSet, Iterator, List, Tuple

# First line of a complaint.
BEGIN = re.compile(r"\bBUG: |\bWARNING: |\bINFO: (?!lockdep is turned off|NMI handler)|Kernel panic|\bOops\b|"
                   r"general protection fault|refcount_t: |unregister_netdevice: waiting|ODEBUG: |"
                   r"list_(?:add|del) corruption|Unable to handle")

# Time, and with PREEMPT_RT the task, before each line.
STAMP = re.compile(r"^\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?")

# Frame of a stack: function+offset/size, perhaps with a mark of doubt before it.
FRAME = re.compile(r"^ *(\? )?([A-Za-z_][\w.]*)\+0x[0-9a-f]+/0x[0-9a-f]+")

# In a race's report: the line above the frames of one access.
ACCESS = re.compile(r"^(?:read|write|read-write|race at unknown origin, with (?:read|write|read-write)|"
                    r"assert no (?:accesses|writes))\b.* (?:bytes? by|by)|^race at unknown origin")

# Functions that access what their caller names: its access is meant.
LENT = re.compile(r"^(?:__)?(?:mem(?:cpy|set|move|cmp)|str\w+|list_\w+|hlist_\w+|rb_\w+|siphash\w*|hsiphash\w*|"
                  r"tsan_\w+|kcsan_\w+|asan_\w+)$|^__tsan_|^__kcsan_|^kcsan_|^__list_")

# Names of the shim's own functions, beside those that its objects define.
OURS = re.compile(r"^(?:ovs_)?shim_")

# Lines of a complaint that is no race, at most.
LONGEST = 120


@dataclass(frozen=True)
class Complaint:
    """One thing that the kernel complained of."""

    title: str
    """Its first line."""
    text: str
    """All of it."""
    race: bool
    """KCSAN's report of a data race."""
    ours: bool
    """A race, one of whose accesses is the shim's; always true of what is no race."""

    def names(self, function: str) -> bool:
        """Return whether a frame of it is that function."""
        return any(match and match[2].split(".")[0] == function for match in map(FRAME.match, self.text.splitlines()))


def complaints(console: str, functions: FrozenSet[str]) -> Iterator[Complaint]:
    """Yield all complaints in order; functions are those of the shim's objects."""
    lines = [STAMP.sub("", line.rstrip("\r")) for line in console.splitlines()]
    at = 0
    while at < len(lines):
        if not BEGIN.search(lines[at]):
            at += 1
            continue
        race = "BUG: KCSAN:" in lines[at]
        end = _end(lines, at, race)
        block = lines[at:end]
        ours = not race or any(frame in functions or OURS.match(frame) for frame in _accessing(block))
        yield Complaint(lines[at], "\n".join(block), race, ours)
        at = end


def _end(lines: List[str], at: int, race: bool) -> int:
    """Return the line behind a complaint: its closing rule, or where the next one begins."""
    for i in range(at + 1, min(at + LONGEST, len(lines))):
        # Lockdep, RCU and KCSAN close with a rule of "="; a title follows its rule at once.
        if lines[i].startswith("=====") and (race or i > at + 2):
            return i + 1
        if lines[i].startswith("---[ end trace") or "</TASK>" in lines[i]:
            return i + 1
        if not race and i > at + 3 and BEGIN.search(lines[i]):
            return i
    return min(at + LONGEST, len(lines))


def _accessing(block: List[str]) -> Iterator[str]:
    """Yield the function that made each access of a race: the first of its frames that accesses on its own account."""
    waiting = False
    for line in block:
        if ACCESS.search(line):
            waiting = True
            continue
        frame = FRAME.match(line)
        if waiting and frame and not frame[1]:
            name = frame[2].split(".")[0]
            if not LENT.search(name):
                waiting = False
                yield name


def summary(found: List[Complaint]) -> List[Tuple[str, int]]:
    """Return the titles of complaints with how often each came, most often first."""
    titles = [complaint.title for complaint in found]
    return sorted(((title, titles.count(title)) for title in set(titles)), key=lambda one: -one[1])
