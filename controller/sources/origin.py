# SPDX-License-Identifier: Apache-2.0
"""How one of those that feed a collected source fares: a server, a database, an agent."""

import dataclasses
from typing import Any

ERROR_MAX = 200  # characters

@dataclasses.dataclass
class Origin:
    """One that feeds a source.  Its states:

    ``new``     nothing heard yet
    ``fresh``   heard of in time
    ``slow``    heard of, but later than it should
    ``silent``  does not answer, or has sent nothing for long
    ``refused`` answers, but not with what was asked for: a wrong password, an error, nonsense
    """

    name: str
    state: str = "new"
    error: str = ""  # what was wrong last; empty once it is fresh again
    heard_ns: int = 0  # last time; 0: never
    answers: int = 0
    slow: int = 0
    failures: int = 0

    def heard(self, now_ns: int, in_time: bool) -> None:
        """Note news."""
        self.heard_ns = now_ns
        self.answers += 1
        self.slow += not in_time
        self.state, self.error = ("fresh" if in_time else "slow"), ""

    def failed(self, state: str, error: str) -> bool:
        """Note a failure, in words of which ERROR_MAX count; return whether the state is news."""
        news = self.state != state
        self.failures += 1
        self.state, self.error = state, error[:ERROR_MAX]
        return news

    def view(self, now_ns: int) -> dict[str, Any]:
        """Return it for people."""
        return {
            "name": self.name,
            "state": self.state,
            "error": self.error,
            "age_ms": (now_ns - self.heard_ns) // 1_000_000 if self.heard_ns else None,
            "answers": self.answers,
            "slow": self.slow,
            "failures": self.failures,
        }
