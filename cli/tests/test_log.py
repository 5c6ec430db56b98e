# SPDX-License-Identifier: Apache-2.0
"""Log lines: their form, and that no kind of them floods the log."""

import io
import json
import logging
import pathlib
import re
import subprocess
import sys

import pytest

from sdngcc.log import BURST, KINDS_MAX, PERIOD_S, PLACE_BURST, Handler, JsonFormatter, Limiter, kind_of


def record(text, *args, name="sdngcc.x", level=logging.WARNING):
    return logging.LogRecord(name, level, "x.py", 1, text, args, None)


@pytest.mark.parametrize("one, other, same", [
    ("switch 00000000000000b2 is slow: each 10 ms", "switch 00000000000000a1 is slow: each 20.5 ms", True),
    ("refused 10.0.0.1: no TLS", "refused 10.0.0.7: no TLS", True),
    ("host 02:00:00:00:00:01", "host 02:00:00:00:00:ff", True),
    ("switch 1 is slow", "switch 1 is gone", False),
])  # fmt: skip
def test_lines_that_differ_in_numbers_are_of_one_kind(one, other, same):
    assert (kind_of(record(one)) == kind_of(record("%s", other))) is same


def test_a_flood_is_cut_and_counted():
    """2,624 lines in half a minute were seen of one kind."""
    limiter, written, left_out = Limiter(), 0, 0
    for number in range(2624):
        now_s = number * 30 / 2624
        left_out += sum(one.count for one in limiter.due(now_s))
        written += limiter.admit(record("switch %016x is slow", number), now_s)
    said = limiter.due(30.0, every=True)
    assert written == BURST
    assert written + left_out + sum(one.count for one in said) == 2624
    assert said[0].last.getMessage() == f"switch {2623:016x} is slow"


def test_other_kinds_and_later_lines_are_written():
    limiter = Limiter()
    for number in range(BURST + 5):
        limiter.admit(record("a %d", number), 0.0)
    assert limiter.admit(record("b"), 0.0)
    assert limiter.due(PERIOD_S - 1) == []
    [said] = limiter.due(PERIOD_S)
    assert said.count == 5
    assert limiter.admit(record("a 1"), 2 * PERIOD_S + 1)


def words(number):
    """Return a number in letters: lines with it are of a kind of their own."""
    return "".join(chr(ord("g") + int(digit)) for digit in str(number))


def test_kinds_are_bounded():
    limiter = Limiter()
    for number in range(3 * KINDS_MAX):
        one = record(words(number))
        one.lineno = number  # as if another place of a program wrote it
        limiter.admit(one, 0.0)
    assert len(limiter._kinds) == len(limiter._places) == KINDS_MAX


def test_words_of_others_make_no_kinds_without_end():
    """A guest that chooses the words of a line has no more lines written, and pushes no other kind out."""
    limiter, written = Limiter(), 0
    other = record("b %d", 1)
    other.lineno = 2
    for _ in range(BURST + 1):
        limiter.admit(other, 0.0)
    for number in range(5000):
        written += limiter.admit(record("unknown key %s", words(number)), number / 1000)
    assert written == PLACE_BURST and len(limiter._kinds) == PLACE_BURST + 1
    assert sorted(one.count for one in limiter.due(5.0, every=True)) == [1, 5000 - PLACE_BURST]


def test_a_line_has_time_level_and_origin_and_stays_one_line():
    stream = io.StringIO()
    handler = Handler(stream)
    handler.handle(record("port %s", "tap0\nERROR forged\x1b[2J"))
    for number in range(BURST + 3):
        handler.handle(record("poll %d", number))
    try:
        raise ValueError("broken\n2026-11-22T00:00:00.000Z ERROR forged: line")
    except ValueError:
        handler.handle(logging.LogRecord("a", logging.ERROR, "a.py", 1, "fault", (), sys.exc_info()))
    handler.close()
    lines = stream.getvalue().splitlines()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING sdngcc\.x: port tap0\\x0aERROR forged\\x1b\[2J", lines[0]
    )
    assert lines[-1].endswith(f"3 more like this were left out in 0 s; the last: poll {BURST + 2}")
    own = [line for line in lines if not line.startswith("    ")]
    assert len(own) == BURST + 3 and "    Traceback (most recent call last):" in lines
    assert not any("forged: line" in line for line in own)


def test_a_frameworks_own_handlers_are_replaced():
    program = (
        "import logging, sys; from sdngcc import log; log.install(logging.INFO); "
        "logging.getLogger().addHandler(logging.StreamHandler(sys.stderr)); log.install(); "
        "logging.getLogger('a').info('once')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and len(done.stderr.splitlines()) == 1 and done.stderr.endswith("Z INFO a: once\n")


def log_to(tmp_path, **changes):
    """Return a handler that writes to a file, the stream it writes to otherwise, and the lines that were lost."""
    stream, lost = io.StringIO(), []
    handler = Handler(stream)
    given = {"path": tmp_path / "a.log", "longest": 0, "kept": 2, **changes}
    handler.use(**given, count_lost=lambda: lost.append(1))
    return handler, stream, lost


def test_a_file_is_put_aside_when_it_is_long_and_some_are_kept(tmp_path):
    handler, stream, lost = log_to(tmp_path, longest=200)
    for number in range(12):
        handler.handle(record("word " + "abcdefghijkl"[number] * 60))
    handler.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["a.log", "a.log.1", "a.log.2"]
    assert all(0 < path.stat().st_size <= 300 and path.stat().st_mode & 0o007 == 0 for path in tmp_path.iterdir())
    assert "l" * 60 in (tmp_path / "a.log").read_text() and not stream.getvalue() and not lost


def test_a_file_that_was_moved_away_is_opened_anew_when_asked(tmp_path):
    handler, _, _ = log_to(tmp_path)
    handler.handle(record("one"))
    (tmp_path / "a.log").rename(tmp_path / "moved")
    handler.handle(record("two"))
    handler.use(tmp_path / "a.log", 0, 2, lambda: None)
    handler.handle(record("three"))
    handler.close()
    assert [line.split()[-1] for line in (tmp_path / "moved").read_text().splitlines()] == ["one", "two"]
    assert [line.split()[-1] for line in (tmp_path / "a.log").read_text().splitlines()] == ["three"]


def test_what_a_full_disk_does_not_take_goes_to_the_stream(tmp_path):
    handler, stream, lost = log_to(tmp_path, path=pathlib.Path("/dev/full"))
    for word in ("one", "two"):
        handler.handle(record(word))
    assert [line.split()[-1] for line in stream.getvalue().splitlines()] == ["one", "two"] and len(lost) == 2
    handler.use(tmp_path / "a.log", 0, 2, lambda: None)
    handler.handle(record("three"))
    handler.close()
    assert (tmp_path / "a.log").read_text().endswith("three\n") and len(lost) == 2


def test_a_folder_that_is_gone_ends_nothing(tmp_path):
    handler, stream, lost = log_to(tmp_path, path=tmp_path / "gone" / "a.log", longest=10)
    handler.handle(record("one"))
    (tmp_path / "gone").mkdir()
    handler.handle(record("two"))
    handler.close()
    assert len(lost) == 1 and stream.getvalue().endswith("one\n")
    assert (tmp_path / "gone" / "a.log").read_text().endswith("two\n")


def test_a_file_that_cannot_be_put_aside_grows_on(tmp_path, monkeypatch):
    handler, stream, lost = log_to(tmp_path, longest=10)

    def refuse(*_):
        raise PermissionError("no")

    monkeypatch.setattr("os.rename", refuse)
    for word in ("one", "two"):
        handler.handle(record(word))
    handler.close()
    assert len((tmp_path / "a.log").read_text().splitlines()) == 2 and not lost and not stream.getvalue()


def test_json_is_an_object_a_line():
    stream = io.StringIO()
    handler = Handler(stream)
    handler.setFormatter(JsonFormatter())
    handler.handle(record("port %s", "tap0\nERROR forged"))
    try:
        raise ValueError("broken\nline")
    except ValueError:
        handler.handle(logging.LogRecord("a", logging.ERROR, "a.py", 1, "fault", (), sys.exc_info()))
    first, second = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {"level": "WARNING", "logger": "sdngcc.x", "message": "port tap0\nERROR forged"}
    assert second["level"] == "ERROR" and second["exception"].endswith("ValueError: broken\nline")
