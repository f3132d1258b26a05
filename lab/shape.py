# SPDX-License-Identifier: GPL-2.0-only
"""Shapes: the allowed content of a TOML file. Errors name the file, the line and the nearest known name.

msgspec, which checks results.json, is of no use here. Its errors leave out the names of tables (`$.variant[...]`),
without which the line can't be found. It is also missing on a host on which nothing has been installed, where `sluice
list` reads these files.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from lab.errors import UsageError

TOP = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class OneOf:
    """A string from a set; what names the kind of the strings."""

    what: str
    there: Collection[str]


@dataclass(frozen=True)
class Each:
    """A table with keys of any name, whose values are all of one shape."""

    shape: Any


@dataclass(frozen=True)
class ListOf:
    """A list of at least `least` items, all of one shape."""

    shape: Any
    least: int = 1


@dataclass(frozen=True)
class Document:
    """A TOML file: its path, its text and the parsed data."""

    path: Path
    text: str
    data: Mapping[str, Any]

    def error(self, what: str, at: tuple[str, ...] = (), value: str = "") -> UsageError:
        """An error with the line of the key at the end of the path `at`, or of a string below that key."""
        return _error(self.path, line_of(self.text, at, value) if at else 0, what)

    def check(self, shape: Any) -> None:
        """UsageError unless the document has the shape.

        A shape is `str`, `int` (1 or more), a OneOf, an Each, a ListOf, or a dict of the keys that a table may have
        with a shape for each.
        """
        self._check(shape, self.data, ())

    def _check(self, shape: Any, value: Any, at: tuple[str, ...]) -> None:
        if isinstance(shape, dict | Each):
            self._table(shape, self._typed(dict, "a table", value, at), at)
        elif isinstance(shape, ListOf):
            if len(self._typed(list, "a list", value, at)) < shape.least:
                raise self.error(f"{at[-1]} is empty", at)
            for item in value:
                self._check(shape.shape, item, at)
        elif shape is int:
            if self._typed(int, "a whole number", value, at) < 1:
                raise self.error(f"{at[-1]} has {value}; it must be 1 or more", at)
        else:
            self._typed(str, "a string", value, at)
            if isinstance(shape, OneOf) and value not in shape.there:
                raise self.error(unknown(shape.what, value, shape.there), at, value)

    def _table(self, shape: dict[str, Any] | Each, table: Mapping[str, Any], at: tuple[str, ...]) -> None:
        for key, value in table.items():
            if isinstance(shape, dict) and key not in shape:
                raise self.error(unknown("key", key, shape), (*at, key))
            self._check(shape.shape if isinstance(shape, Each) else shape[key], value, (*at, key))

    def _typed(self, kind: type, name: str, value: Any, at: tuple[str, ...]) -> Any:
        if type(value) is not kind:
            raise self.error(f"{at[-1]} has {value!r}, which is not {name}", at)
        return value


def read(path: Path) -> Document:
    """The TOML file at a path; UsageError if it can't be read or is not TOML."""
    try:
        text = path.read_text(encoding="utf-8")
        return Document(path, text, tomllib.loads(text))
    except (OSError, UnicodeDecodeError) as error:
        raise _error(path, 0, f"it can't be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise _error(path, int(line[1]) if line else len(text.splitlines()), f"it is not TOML: {error}") from error


def _error(path: Path, line: int, what: str) -> UsageError:
    name = str(path.relative_to(TOP) if path.is_relative_to(TOP) else path)
    where = f"{name}:{line}" if line else name
    return UsageError(f"{where}: {what}", f"${{EDITOR:-vi}} {f'+{line} ' * bool(line)}{name}   and the same command")


def unknown(what: str, name: str, there: Collection[str]) -> str:
    """A sentence about an unknown name, with the valid names and the nearest one."""
    near = get_close_matches(name, there, 1)
    return f"no {what} called {name!r}; there are {', '.join(there) or 'none'}" + "".join(
        f"; the nearest is {one!r}" for one in near
    )


def line_of(text: str, at: tuple[str, ...], value: str = "") -> int:
    """The number of the line that has a key, or the string `value` after it; 0 if it isn't found.

    `at` is the path to the key. Its first parts may be a table's head (`[variant.solo]`), the others follow it.
    """
    lines = text.splitlines()
    for length in range(len(at), -1, -1):
        head = rf"\s*\[\s*{_names(at[:length])}\s*\]"
        starts = [number for number, line in enumerate(lines) if re.match(head, line)] if length else [0]
        if starts:
            wanted = [rf'(?<![\w"-])"?{re.escape(part)}"?\s*[=.]' for part in at[length:]]
            wanted += [rf"[\"']{re.escape(value)}[\"']"] if value else []
            lines[starts[0]] = "" if length else lines[starts[0]]
            return _follow(lines, starts[0], wanted)
    return 0


def _names(parts: tuple[str, ...]) -> str:
    return r"\s*\.\s*".join(f'"?{re.escape(part)}"?' for part in parts)


def _follow(lines: list[str], number: int, wanted: list[str]) -> int:
    """The line, from 1 on, of the last pattern; each pattern is searched from the line of the one before it."""
    for pattern in wanted:
        found = (later for later in range(number, len(lines)) if re.search(pattern, lines[later].split("#")[0]))
        number = next(found, number)
    return number + 1
