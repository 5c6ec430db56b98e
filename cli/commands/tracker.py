# SPDX-License-Identifier: Apache-2.0
"""``sdngcc tracker``: SCC's tracker, and the agent of a host."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path

import click

from sdngcc import log
from sdngcc.tracker.settings import Settings, SettingsError, read_settings

CONFIG = click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True,
                      help="JSON file; see docs/tracker.md.")


def _settings(path: Path) -> Settings:
    try:
        return read_settings(path)
    except (SettingsError, OSError) as error:
        raise click.ClickException(str(error)) from None


@click.group()
def tracker() -> None:
    """SCC's tracker: divides divisions' weights among their tunnels."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


@tracker.command()
@CONFIG
@click.option("--listen", default="127.0.0.1:7700", show_default=True, help="HOST:PORT to listen at.")
def serve(config: Path, listen: str) -> None:
    """Run a tracker; run a second one elsewhere as a standby."""
    from sdngcc.tracker.service import Tracker, run_tracker

    settings = _settings(config)
    log.install(logging.INFO)
    try:
        run_tracker(Tracker(settings, listen))
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    except (OSError, ValueError) as error:
        raise click.ClickException(f"--listen {listen}: {error}") from None


@tracker.command()
@CONFIG
def agent(config: Path) -> None:
    """Run the agent of this host; it takes the weights it set back when it ends."""
    from sdngcc.shim.netlink import ShimClient, ShimError, ShimRefused
    from sdngcc.tracker.service import Agent, run_agent

    settings = _settings(config)
    if not settings.trackers or not settings.host:
        raise click.ClickException(f"{config}: an agent needs host and trackers")
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
