# SPDX-License-Identifier: Apache-2.0
"""Starts Ryu or os-ken with the application, under today's eventlet and our hub.

Ryu 4.34 imports eventlet.wsgi.ALREADY_HANDLED, which eventlet dropped: it must be there before Ryu's own
launcher is imported, so no application can mend it.  The standard library must be made cooperative as
early, before anything else holds its locks.
"""

import contextlib
import importlib
import importlib.util
import logging
import os
import signal
import sys
import warnings
from typing import TYPE_CHECKING, Any, Callable, Iterator

if TYPE_CHECKING:
    from sdngcc.controller.settings import Settings


FRAMEWORKS = {"ryu": "ryu", "os-ken": "os_ken"}  # name of the setting -> module, in order of preference
# What Ryu 4.34 imports and Python lacks since 3.12, unless setuptools brings it.
RYU_NEEDS = "distutils"
_started = False  # by start(), which is told of settings that cannot be used


def _usable(module: str) -> bool:
    """Tell whether a framework's module is installed and can be imported by this Python."""
    if module == "ryu" and importlib.util.find_spec(RYU_NEEDS) is None:
        return False
    return importlib.util.find_spec(module) is not None


def find_framework(name: str) -> str:
    """Return the module of the framework a setting names; "auto" takes what can be used, Ryu first.

    Raises SettingsError when it cannot be used, or when Ryu's own manager is to run another one's application.
    """
    from sdngcc.controller.settings import SettingsError

    there = {known: module for known, module in FRAMEWORKS.items() if _usable(module)}
    if name == "auto" and there:
        return next(iter(there.values()))
    if name not in there:
        found = ", ".join(there) or "neither Ryu nor os-ken"
        raise SettingsError(f"framework: {name} cannot be used; there is {found}")
    if name != "ryu" and "ryu.cmd.manager" in sys.modules:
        raise SettingsError(f"framework: ryu-manager runs no {name}; start `sdngcc controller` instead")
    return there[name]


def prepare() -> None:
    """Make the process ready for Ryu; call it before importing anything else of the controller."""
    os.environ.setdefault("OSKEN_HUB_TYPE", "eventlet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import eventlet
        import eventlet.hubs
        import eventlet.wsgi

        from sdngcc.controller.framework import hub
    eventlet.hubs.use_hub(hub)
    if not hasattr(eventlet.wsgi, "ALREADY_HANDLED"):
        eventlet.wsgi.ALREADY_HANDLED = []
    eventlet.monkey_patch()


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Let SettingsError end a process that ryu-manager started by its text alone, with exit status 1."""
    from sdngcc.controller.settings import SettingsError

    try:
        yield
    except SettingsError as error:
        if _started:
            raise
        raise SystemExit(f"sdngcc: {error}") from None


def start(chosen: "Settings", load_again: "Callable[[], Settings]") -> None:
    """Run the controller with the given settings until it is stopped; ``load_again`` returns what they are later.

    Raises SettingsError when the framework they name is not installed, a file is unusable, or an address is taken.
    """
    global _started
    from sdngcc import log
    from sdngcc.controller import settings

    framework = find_framework(chosen.framework)
    level = logging.getLevelName(chosen.log_level.upper())
    args = ["--default-log-level", str(level), "--nouse-stderr"]
    log.install(level)
    settings.adopt(chosen, load_again)
    _started = True
    _stop_on(signal.SIGTERM)
    if framework == "ryu":
        manager = importlib.import_module("ryu.cmd.manager")
        manager.main(args=[*args, "sdngcc.controller.app"], prog="sdngcc")
    else:
        _run_os_ken(args)


def _stop_on(number: int) -> None:
    """Let a signal end the process as Ctrl-C would: applications are stopped, the trace is written.

    The exception is thrown where the main greenlet waits; raised in the handler itself, it would end whichever greenlet
    happens to run, or be swallowed there, and the controller would stay.
    """
    import eventlet
    import eventlet.hubs

    main = eventlet.getcurrent()

    def interrupt(number: int, frame: Any) -> None:
        eventlet.hubs.get_hub().schedule_call_global(0, main.throw, KeyboardInterrupt)

    signal.signal(number, interrupt)


def on_signal(number: int, function: "Callable[[], None]") -> None:
    """Call a function, in a greenlet of its own, at each signal of a number; the main thread says so."""
    import eventlet
    import eventlet.hubs

    def schedule(number: int, frame: Any) -> None:
        eventlet.hubs.get_hub().schedule_call_global(0, eventlet.spawn, function)

    signal.signal(number, schedule)


def _run_os_ken(args: list[str]) -> None:
    """Do what osken-manager did while there was one."""
    hub = importlib.import_module("os_ken.lib.hub")
    log = importlib.import_module("os_ken.log")
    log.early_init_log(20)
    manager = importlib.import_module("os_ken.base.app_manager").AppManager
    importlib.import_module("os_ken.controller.controller")
    importlib.import_module("os_ken.cfg").CONF(args=args, project="os_ken", default_config_files=[])
    log.init_log()
    apps = manager.get_instance()
    apps.load_apps(["sdngcc.controller.app"])
    services = apps.instantiate_apps(**apps.create_contexts())
    try:
        hub.joinall(services)
    except KeyboardInterrupt:
        pass
    finally:
        apps.close()
