# SPDX-License-Identifier: Apache-2.0
"""The sdngcc program itself: help, version, errors, and that nothing heavy is imported for them."""

import subprocess
import sys

import click.testing
import pytest

from sdngcc import __version__
from sdngcc.main import COMMANDS, main


def invoke(*args):
    return click.testing.CliRunner().invoke(main, args)


def test_help_names_every_command():
    result = invoke("--help")
    assert result.exit_code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in result.output


def test_version():
    assert __version__ in invoke("--version").output


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_loads_and_has_help(name):
    result = invoke(name, "--help")
    assert result.exit_code == 0, result.output
    assert "Usage:" in result.output


def test_unknown_command_is_refused_by_name():
    result = invoke("nonsense")
    assert result.exit_code == 2
    assert "nonsense" in result.output


def test_help_imports_no_sub_command():
    code = ("import sys; from sdngcc.main import main; main(['--help'], standalone_mode=False);"
            "sys.exit(any(name in sys.modules for name in ('ryu', 'matplotlib', 'sdngcc.commands')))")
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sdngcc.rest", None)
    monkeypatch.delitem(sys.modules, "sdngcc.commands.vm", raising=False)
    result = invoke("vm", "list")
    assert result.exit_code == 1
    assert "sdngcc.rest" in result.output
