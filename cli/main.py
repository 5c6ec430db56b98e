# SPDX-License-Identifier: Apache-2.0
"""The ``sdngcc`` program: a click group whose sub-commands are imported only when they are called.

Loading on demand keeps ``sdngcc shim show`` from importing Matplotlib and Ryu, and lets it run on a compute
node where neither is installed.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import click

from sdngcc import __version__
from sdngcc.rest import take_options_after

# Sub-command -> (one line for --help, so that listing imports nothing).
COMMANDS: Dict[str, str] = {
    "controller": "Run the controller (Ryu or os-ken): learn VMs, poll marks, notify their sources.",
    "node": "Set this machine up as a compute node, check it; list the controller's nodes, forget one.",
    "shim": "Show, set and watch the shim in this machine's Open vSwitch datapath.",
    "simulate": "Run experiments at the papers' scale in simulators that host the same engine.",
    "tenant": "List and show tenants; change weight, guarantee and cap of all VMs of one together.",
    "testbed": "Build the virtual testbed, run experiments in it, open a shell in it.",
    "top": "Watch every VM's rate and share, and the congested ports, live.",
    "tracker": "Run SCC's tracker, or a host's agent of it: weights of divisions' tunnels.",
    "underlay": "Make the file of the network beneath, by what hosts hear by LLDP.",
    "vm": "List and show VMs as the controller sees them; change weight, minimum, maximum and law.",
}


def available() -> List[str]:
    """Return the names of the sub-commands that are installed: Debian's packages have no testbed."""
    folder = Path(__file__).parent / "commands"
    return [name for name in sorted(COMMANDS) if (folder / f"{name}.py").exists()]


def without_testbed(text: str) -> str:
    """Return a help text without its paragraphs about the testbed."""
    return "\n\n".join(one for one in text.split("\n\n") if "sdngcc testbed" not in one)


# What a write to a full or broken output fails with.
_UNWRITTEN = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextlib.contextmanager
def _output() -> Iterator[None]:
    """End the program in one line, or without a word when its reader has left, where its output cannot be written."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except SystemExit as end:  # of rich's console, which ends the program by itself
        if isinstance(end.__context__, BrokenPipeError):
            sys.exit(128 + signal.SIGPIPE)
        raise
    except OSError as error:
        if error.errno not in _UNWRITTEN or error.filename is not None:
            raise
        with contextlib.suppress(OSError, ValueError):  # what is still buffered would fail at the end once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            sys.exit(128 + signal.SIGPIPE)
        with contextlib.suppress(OSError):
            click.echo(f"Error: cannot write: {error.strerror}", err=True)
        sys.exit(1)


class LazyGroup(click.Group):
    """A click group that imports ``sdngcc.commands.<name>`` for its attribute ``<name>`` when asked."""

    def list_commands(self, ctx: click.Context) -> List[str]:
        """Return the names of all sub-commands that are installed, sorted."""
        return available()

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:
        """Import and return a sub-command; None when there is none of that name.

        Raises click.ClickException naming the package that is missing, when the import fails for that.
        """
        if cmd_name not in COMMANDS:
            return None
        try:
            module = importlib.import_module(f"sdngcc.commands.{cmd_name}")
        except ModuleNotFoundError as error:
            raise click.ClickException(
                f"sub-command '{cmd_name}' needs the Python module '{error.name}', which is not installed in "
                f"{sys.prefix}; `make setup` installs everything, the package sdngcc-controller all but the testbed; "
                "the other sub-commands work without it"
            ) from error
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        take_options_after(command)
        return command

    def make_context(self, *words: Any, **named: Any) -> click.Context:
        """Read the words of the command line; a help text may be printed meanwhile."""
        with _output():
            return super().make_context(*words, **named)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the sub-command."""
        with _output():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sub-commands and their summaries without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in available()])


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.command(cls=LazyGroup, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="sdngcc")
def main() -> None:
    """Limit what each VM may send, and let the limit follow the congestion in the fabric.

    \b
    Try it without touching this machine's network:
      sdngcc testbed list                         which experiments there are
      sdngcc testbed run share --set law=sdngcc   the paper's Fig. 4, in virtual time
      sdngcc testbed shell                        look around in the same virtual machine

    \b
    On a compute node whose Open vSwitch carries the patches:
      sdngcc node setup --dry-run ...             what sets this machine up, step by step
      sdngcc node check                           whether its VMs are limited as asked
      sdngcc shim show                            limit, share and drops of each local VM
      sdngcc controller                           start the controller
      sdngcc vm list                              what every VM gets, and why
      sdngcc tenant list                          what all VMs of each tenant get together
      sdngcc top                                  the same, live
      sdngcc node list                            which compute nodes are connected

    Sub-commands that report take --json for one JSON document instead of a table. `sdngcc COMMAND --help`
    tells the rest; docs/operator-guide.md tells when to use which.
    """


if "testbed" not in available():
    main.help = without_testbed(main.help or "")


if __name__ == "__main__":
    main()
