# SPDX-License-Identifier: Apache-2.0
"""``sdngcc tracker``: SCC's tracker, and the agent of a host."""

from __future__ import annotations

import functools
import signal
import sys
from pathlib import Path
from typing import Callable, Optional

import click

from sdngcc import log, logs
from sdngcc.reload import Hangups, Reloader
from sdngcc.supervisor import Supervisor
from sdngcc.tracker.settings import KEPT, LIVE, Settings, SettingsError, check_files, load

CONFIG = click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                      help="Settings file: .toml, .json, else YAML; docs/tracker.md has the list.")


def _read(load_again: Callable[[], Settings]) -> Settings:
    """Return the settings, and let the log go where they say."""
    try:
        settings = load_again()
        check_files(settings)
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    log.install()
    logs.prepare(settings, _count_lost)()
    return settings


def _count_lost() -> None:
    """Do nothing: what the log file does not take is in the log of standard error."""


def _reloader(
    settings: Settings, load_again: Callable[[], Settings], prepare: Callable[[Settings], Callable[[], None]]
) -> Callable[[], object]:
    """Return what reads settings and files again; what comes of it is logged, and told systemd."""
    reloader = Reloader(
        settings, load_again, check_files, [prepare, lambda chosen: logs.prepare(chosen, _count_lost)], LIVE, KEPT
    )

    def run() -> None:
        supervisor = Supervisor()
        supervisor.reloading()
        outcome = reloader.run("SIGHUP")
        supervisor.ready(f"reload of {outcome.time}: {outcome.error or outcome.result}")

    return run


@click.group()
def tracker() -> None:
    """SCC's tracker: divides divisions' weights among their tunnels."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


@tracker.command()
@CONFIG
@click.option("--listen", help="HOST:PORT to listen at, in place of the setting `listen`.")
def serve(config: Optional[Path], listen: Optional[str]) -> None:
    """Run a tracker; run a second one elsewhere as a standby."""
    from sdngcc.tracker.service import Tracker, run_tracker

    load_again = functools.partial(load, config, chosen={} if listen is None else {"listen": listen})
    settings = _read(load_again)
    try:
        tracker = Tracker(settings)
        hangups = Hangups()
        Supervisor().ready(f"listening at {settings.listen}")
        run_tracker(tracker, hangups, _reloader(settings, load_again, tracker.prepare))
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"listen {settings.listen}: {error}") from None


@tracker.command()
@CONFIG
def agent(config: Optional[Path]) -> None:
    """Run the agent of this host; it takes the weights it set back when it ends."""
    from sdngcc.shim.netlink import ShimClient, ShimError, ShimRefused
    from sdngcc.tracker.service import Agent, run_agent

    load_again = functools.partial(load, config)
    settings = _read(load_again)
    if not settings.trackers or not settings.host:
        raise click.ClickException("an agent needs the settings host and trackers")
    try:
        with ShimClient() as shim:
            def set_weight(device: str, address: str, weight: int) -> bool:
                try:
                    shim.peer_set(device, address, weight)
                except ShimRefused:
                    # The VM has gone, or has not come yet.
                    return False
                return True

            one = Agent(settings, set_weight)
            hangups = Hangups()
            Supervisor().ready(f"agent of host {settings.host}")
            try:
                run_agent(one, settings.period_ms / 1000, hangups, _reloader(settings, load_again, one.prepare))
            finally:
                one.close()
    except (ShimError, SettingsError, OSError) as error:
        raise click.ClickException(str(error)) from None
