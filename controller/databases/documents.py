# SPDX-License-Identifier: Apache-2.0
"""Cuts a stream of JSON-RPC into its documents, each an object, before any parser sees them.

A document is bounded in bytes and in nesting; what stands between two of them is white space.  Whether a document is
right inside is its parser's business.  parse() is one that lets others run between parts of a long document.  There is
no socket and no clock in here.
"""

import json
import re
from typing import Any, Callable, Iterator

NESTING_MAX = 64  # OVSDB's messages need about ten

_OTHER = re.compile(rb"[^ \t\r\n]")
_OUTSIDE = re.compile(rb'[{}\[\]"]')
_INSIDE = re.compile(rb'["\\]')
STRING_MAX = 131_072  # characters
LONG = 32  # members or items of which the reader of a document lets others run
_WINDOW = 4096  # characters that are parsed in one go
_SEARCHED = 65_536  # characters that are searched in one go
_BLANK = re.compile(r"[ \t\r\n]*")
_ODD = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")  # what no text of a database has


class DocumentError(ValueError):
    """Bytes that end the connection; the text says what was wrong and what is allowed."""


class Documents:
    """Reads one connection; ``limit_bytes`` bounds a document and may be changed between two calls."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._pending = bytearray()  # of a document whose end has not arrived
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the next byte of a string belongs to a backslash

    @property
    def unfinished(self) -> bool:
        """Whether a document has begun and not ended."""
        return bool(self._pending)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the documents that a chunk of bytes completes; take all of them before feeding the next chunk.

        Raises DocumentError where the connection has to end.
        """
        start, place = 0, 0
        while place < len(chunk):
            if not self._depth:
                start = place = self._skip_space(chunk, place)
                if place == len(chunk):
                    break
            place = self._string(chunk, place) if self._in_string else self._structure(chunk, place)
            if len(self._pending) + place - start > self.limit_bytes:
                raise DocumentError(f"a document of more than {self.limit_bytes} bytes")
            if not self._depth:
                yield bytes(self._pending) + chunk[start:place]
                self._pending.clear()
                start = place
        self._pending += chunk[start:]

    def _skip_space(self, chunk: bytes, place: int) -> int:
        """Return where a document begins; raises DocumentError when something else is there."""
        found = _OTHER.search(chunk, place)
        if found is None:
            return len(chunk)
        if found.group() != b"{":
            raise DocumentError(f"byte 0x{found.group()[0]:02x} where a JSON object should begin")
        return found.start()

    def _structure(self, chunk: bytes, place: int) -> int:
        """Return the place after the next bracket or quotation mark, and take note of it."""
        found = _OUTSIDE.search(chunk, place)
        if found is None:
            return len(chunk)
        mark = found.group()
        if mark == b'"':
            self._in_string = True
        elif mark in b"{[":
            self._depth += 1
            if self._depth > NESTING_MAX:
                raise DocumentError(f"a document of more than {NESTING_MAX} brackets in each other")
        else:
            self._depth -= 1
        return found.end()

    def _string(self, chunk: bytes, place: int) -> int:
        """Return the place after the string that one is in, or after the chunk."""
        if self._escaped:
            self._escaped = False
            return place + 1
        found = _INSIDE.search(chunk, place)
        if found is None:
            return len(chunk)
        if found.group() == b'"':
            self._in_string = False
        else:
            self._escaped = True
        return found.end()


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_number)


class _Items(list[Any]):
    """A long array: whoever goes through it lets others run."""

    def __init__(self, items: list[Any], pause: Callable[[], None]) -> None:
        super().__init__(items)
        self._pause = pause

    def __iter__(self) -> Iterator[Any]:
        for number, item in enumerate(super().__iter__()):
            if not number % LONG:
                self._pause()
            yield item


class _Members(dict[str, Any]):
    """A long object: whoever goes through its members lets others run."""

    def __init__(self, members: dict[str, Any], pause: Callable[[], None]) -> None:
        super().__init__(members)
        self._pause = pause

    def items(self) -> Any:
        """Yield name and value of each member."""
        for number, item in enumerate(super().items()):
            if not number % LONG:
                self._pause()
            yield item


def _paced(value: Any, pause: Callable[[], None]) -> Any:
    """Return a value in which each long array and object lets others run while it is gone through."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            if item.__class__ in (list, dict):
                value[number] = _paced(item, pause)
        return _Items(value, pause) if len(value) > LONG else value
    if isinstance(value, dict):
        for name, item in value.items():
            if item.__class__ in (list, dict):
                value[name] = _paced(item, pause)
        return _Members(value, pause) if len(value) > LONG else value
    return value


def parse(text: str, pause: Callable[[], None]) -> Any:
    """Return what a document says; ``pause`` is called between its parts, and while its parts are gone through later.

    Raises ValueError. Brackets in each other are bounded by whoever cut the document.
    """
    for place in range(0, len(text), _SEARCHED):
        if _ODD.search(text, place, place + _SEARCHED + 6):
            raise ValueError("an escape of a NUL or of a surrogate")
        pause()
    value, place = _value(text, _blank(text, 0), pause)
    if _blank(text, place) != len(text):
        raise ValueError(f"something behind the document, at character {place}")
    return value


def _blank(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    assert found is not None
    return found.end()


def _value(text: str, place: int, pause: Callable[[], None]) -> tuple[Any, int]:
    """Return the value that begins at a place, and where it ends."""
    window = text[place : place + _WINDOW]
    try:
        value, end = _DECODER.raw_decode(window)
    except ValueError:
        if len(window) < _WINDOW:
            raise
    else:
        if end < len(window) or len(window) < _WINDOW:
            return _paced(value, pause), place + end
    pause()
    if text[place] == "{":
        return _members(text, place + 1, pause)
    if text[place] == "[":
        return _items(text, place + 1, pause)
    try:
        value, end = _DECODER.raw_decode(text[place : place + STRING_MAX])
    except ValueError:
        if len(text) - place < STRING_MAX:
            raise
        raise ValueError(f"a string of more than {STRING_MAX} characters") from None
    return value, place + end


def _members(text: str, place: int, pause: Callable[[], None]) -> tuple[dict[str, Any], int]:
    """Return the members of an object from the place behind its bracket on, and where it ends."""
    found: dict[str, Any] = {}
    place = _blank(text, place)
    if text[place : place + 1] == "}":
        return found, place + 1
    while True:
        key, place = _value(text, place, pause)
        place = _blank(text, place)
        if not isinstance(key, str) or text[place : place + 1] != ":":
            raise ValueError(f"no member of an object at character {place}")
        found[key], place = _value(text, _blank(text, place + 1), pause)
        place = _blank(text, place)
        if text[place : place + 1] == "}":
            return (_Members(found, pause) if len(found) > LONG else found), place + 1
        if text[place : place + 1] != ",":
            raise ValueError(f"no comma between members at character {place}")
        place = _blank(text, place + 1)
        pause()


def _items(text: str, place: int, pause: Callable[[], None]) -> tuple[list[Any], int]:
    """Return the items of an array from the place behind its bracket on, and where it ends."""
    found: list[Any] = []
    place = _blank(text, place)
    if text[place : place + 1] == "]":
        return found, place + 1
    while True:
        item, place = _value(text, place, pause)
        found.append(item)
        place = _blank(text, place)
        if text[place : place + 1] == "]":
            return (_Items(found, pause) if len(found) > LONG else found), place + 1
        if text[place : place + 1] != ",":
            raise ValueError(f"no comma between items at character {place}")
        place = _blank(text, place + 1)
        pause()
