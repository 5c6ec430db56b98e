# SPDX-License-Identifier: Apache-2.0
"""The hub of eventlet that the controller runs on: any number of connections, timers to the microsecond.

eventlet's own hubs have one of both: select() ends the process with the first file descriptor of 1024 or more, and
epoll_wait() counts whole milliseconds, of which a poll period has few.  Here epoll_wait() waits for the whole ones;
for what is left select() waits for the epoll descriptor alone, which is one of the first that the process opens.
"""

from typing import Any

from eventlet import patcher
from eventlet.hubs import epolls

is_available = epolls.is_available
_select = patcher.original("select").select


class Hub(epolls.Hub):  # type: ignore[misc]
    """epoll with select()'s time-outs."""

    def do_poll(self, seconds: float) -> Any:
        """Return (file descriptor, event) pairs once there are some, at the latest after ``seconds``.

        None before that may be returned, too: the hub looks at its timers then, and calls again.
        """
        whole_ms = int(seconds * 1000)
        if whole_ms:
            return self.poll.poll((whole_ms - 0.5) / 1000)  # is rounded up
        if seconds:
            _select([self.poll], (), (), seconds)
        return self.poll.poll(0)
