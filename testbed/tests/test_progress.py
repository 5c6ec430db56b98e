# SPDX-License-Identifier: Apache-2.0
"""Progress of builds where nobody looks at a terminal."""

from sdngcc.testbed.progress import build_progress


def test_a_build_in_a_pipe_tells_each_step_once(capsys):
    """Steps are told as they begin, however many lines each of them prints."""
    with build_progress() as tell:
        for done, what in enumerate(["unpacking", "compiling", "compiling", "done"]):
            tell("kernel", done, 4, what)
            tell("ovs", done, 4, "unpacking")
    told = capsys.readouterr()
    assert told.out == ""
    assert [line for line in told.err.splitlines() if "kernel" in line] == [
        "build: kernel: unpacking", "build: kernel: compiling", "build: kernel: done"]


def test_a_quiet_build_tells_nothing(capsys):
    """Where the answer is JSON nothing else is written."""
    with build_progress(quiet=True) as tell:
        assert tell is None
    assert capsys.readouterr() == ("", "")
