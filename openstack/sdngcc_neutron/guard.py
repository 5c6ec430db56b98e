# SPDX-License-Identifier: Apache-2.0
"""Keeps faults of the extensions away from Neutron, whose agents and server go on without them.

Every method that Neutron or ovsdbapp calls is wrapped by guarded(): an exception is logged with a hint, counted by the
name of the entry, and a default is returned. A port is then wired as if the extension were not there. Nothing of
Neutron is imported here.
"""

from __future__ import annotations

import collections
import functools
import logging
import threading
import traceback
from typing import Any, Callable, Dict, Optional, Set, Tuple, TypeVar, cast

LOG = logging.getLogger(__name__)

GUIDE = "/usr/share/doc/python3-sdn-gcc-neutron/openstack.md, \"When an extension fails\""

Function = TypeVar("Function", bound=Callable[..., Any])

_lock = threading.Lock()
_faults: Dict[str, int] = collections.Counter()
_seen: Set[Tuple[str, str]] = set()


def faults() -> Dict[str, int]:
    """Return how often each entry has failed since this process started."""
    with _lock:
        return dict(_faults)


def report(entry: str, error: BaseException, instead: str) -> None:
    """Count and log a fault.

    entry: where Neutron called. instead: what holds now, a sentence without a full stop. The first fault of a kind is
    logged with its traceback, others with one line.
    """
    frames = traceback.extract_tb(error.__traceback__)
    kind = (entry, f"{type(error).__name__} {frames[-1].filename}:{frames[-1].lineno}" if frames else repr(error))
    with _lock:
        _faults[entry] += 1
        count = _faults[entry]
        first = kind not in _seen
        _seen.add(kind)
    LOG.error("sdngcc: %s failed, %d times since this process started: %s: %s. %s. What to do: %s", entry, count,
              type(error).__name__, error, instead, GUIDE, exc_info=error if first else None)


def guarded(entry: str, instead: str, default: Optional[Callable[[], Any]] = None) -> Callable[[Function], Function]:
    """Return a decorator for a method that Neutron calls; see report() for entry and instead.

    default: makes what is returned in place of the method's result; None is returned without it.
    """

    def decorate(method: Function) -> Function:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return method(*args, **kwargs)
            except Exception as error:
                report(entry, error, instead)
                return default() if default is not None else None

        return cast(Function, call)

    return decorate
