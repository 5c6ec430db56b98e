# SPDX-License-Identifier: Apache-2.0
"""A thread for what Neutron's own threads must not wait for, and for what has failed and is to be tried again."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, Hashable, Optional

from sdngcc_neutron import guard

# Time from a job's first failure to its next try, doubled by each further failure up to the second, s.
RETRY_S, RETRY_MAX_S = 5.0, 120.0


class _Job:
    """What is to be done, when, and the time to wait after its next failure."""

    def __init__(self, run: Callable[[], Any], due_s: float) -> None:
        self.run = run
        self.due_s = due_s
        self.retry_s = RETRY_S


class Worker:
    """Does jobs one after the other; one that raises is reported and done again later.

    entry: the name by which guard counts failures.
    """

    def __init__(self, entry: str) -> None:
        self._entry = entry
        self._changed = threading.Condition()
        self._jobs: Dict[Hashable, _Job] = {}
        self._thread: Optional[threading.Thread] = None

    def put(self, key: Hashable, run: Callable[[], Any], after_s: float = 0.0) -> None:
        """Do something soon, in place of what waits under the same key; after_s: the time to wait before, s."""
        with self._changed:
            self._jobs[key] = _Job(run, time.monotonic() + after_s)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"sdngcc-{self._entry}", daemon=True)
                self._thread.start()
            self._changed.notify()

    def drop(self, key: Hashable) -> None:
        """Do no more what waits under a key."""
        with self._changed:
            self._jobs.pop(key, None)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._jobs or self._wait_s() > 0:
                    self._changed.wait(self._wait_s() if self._jobs else None)
                key, job = min(self._jobs.items(), key=lambda item: item[1].due_s)
                del self._jobs[key]
            self._try(key, job)

    def _wait_s(self) -> float:
        return min(job.due_s for job in self._jobs.values()) - time.monotonic()

    def _try(self, key: Hashable, job: _Job) -> None:
        try:
            job.run()
        except Exception as error:
            guard.report(self._entry, error, f"It is tried again in {job.retry_s:.0f} s")
            with self._changed:
                job.due_s = time.monotonic() + job.retry_s
                job.retry_s = min(2 * job.retry_s, RETRY_MAX_S)
                self._jobs.setdefault(key, job)
