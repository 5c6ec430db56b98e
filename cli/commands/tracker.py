# SPDX-License-Identifier: Apache-2.0
"""``sdngcc tracker``: SCC's tracker, and the agent of a host."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path
from typing import Any, Optional

import click

from sdngcc import log
from sdngcc.supervisor import Supervisor
from sdngcc.tracker.settings import Settings, SettingsError, load

CONFIG = click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                      help="Settings file: .toml, .json, else YAML; docs/tracker.md has the list.")


def _settings(path: Optional[Path], **chosen: Any) -> Settings:
    try:
        return load(path, chosen={key: value for key, value in chosen.items() if value is not None})
    except SettingsError as error:
        raise click.ClickException(str(error)) from None


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

    settings = _settings(config, listen=listen)
    log.install(logging.INFO)
    try:
        tracker = Tracker(settings)
        Supervisor().ready(f"listening at {settings.listen}")
        run_tracker(tracker)
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

    settings = _settings(config)
    if not settings.trackers or not settings.host:
        raise click.ClickException("an agent needs the settings host and trackers")
    log.install(logging.INFO)
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
            try:
                run_agent(one, settings.period_ms / 1000)
            finally:
                one.close()
    except (ShimError, SettingsError, OSError) as error:
        raise click.ClickException(str(error)) from None
