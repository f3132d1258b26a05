# SPDX-License-Identifier: GPL-2.0-only
"""Prose: the sentences of a page, and which of them a reader would have to read twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

MOST_WORDS = 30
# What stands for a thing or a role without a name for it.
BANNED = re.compile(r"\b(who|whom|whoever|he|him|his|somebody|nobody|anybody|everybody|someone)\b", re.IGNORECASE)
# The same in sources, where "who" and "nobody" are names too.
PRONOUN = re.compile(r"\b(whom|whoever|he|him|his|somebody|anybody|everybody|someone)\b", re.IGNORECASE)
# A sentence ends with these, where what follows begins like another one.
END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[\"'(]*[A-Z0-9])")
# What code and names of files are read as: one word, with which a sentence may begin.
NAME = "Name"
# Requests of mdoc after which another sentence begins, and those whose line isn't prose.
MDOC_BREAKS = ("Pp", "Sh", "Ss", "It", "Bl", "El", "Bd", "Ed", "Nd")
MDOC_SKIPS = ("Dd", "Dt", "Os", "Dl", "D1", "Xr", *MDOC_BREAKS[:-1])


def faults(name: str, text: str) -> list[str]:
    """What breaks the rules in a page, a line for each; a name that ends in .md is Markdown's, another one mdoc's."""
    paragraphs = _markdown(text) if name.endswith(".md") else _mdoc(text)
    found = []
    for line, paragraph in paragraphs:
        for sentence in END.split(paragraph):
            place = f"{name}:{line}: {sentence[:60]}…"
            words = len(re.findall(r"\w\S*", sentence))
            if words > MOST_WORDS:
                found.append(f"{place} has {words} words; next: make two sentences of it, of at most {MOST_WORDS}")
            found += [f"{place} says {word[0]!r}; next: name what is meant" for word in BANNED.finditer(sentence)]
    return found


def unnamed(name: str, text: str) -> list[str]:
    """Where a source, in a comment or a message, speaks of a thing or a role as of a person, a line for each."""
    return [
        f"{name}:{number}: says {word[0]!r}; next: name what is meant"
        for number, line in enumerate(text.splitlines(), start=1)
        for word in PRONOUN.finditer(line)
    ]


def _markdown(text: str) -> Iterator[tuple[int, str]]:
    """Each paragraph, heading and cell of a table of a Markdown page, with its line."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "inline" and token.map:
            yield token.map[0] + 1, "".join(map(_inline, token.children or ()))


def _inline(token: Token) -> str:
    if token.type == "code_inline":
        return NAME
    return " " if token.type in {"softbreak", "hardbreak"} else token.content


def _mdoc(text: str) -> Iterator[tuple[int, str]]:
    """Each paragraph of a man page, with its first line."""
    paragraph: list[tuple[int, str]] = []
    literal = False
    for number, line in enumerate(f"{text}\n.Pp".splitlines(), start=1):
        macro, _, rest = line[1:].partition(" ") if line.startswith(".") else ("", "", line)
        literal = "literal" in rest if macro == "Bd" else literal and macro != "Ed"
        if macro in MDOC_BREAKS and paragraph:
            yield paragraph[0][0], " ".join(words for _, words in paragraph)
            paragraph = []
        if not literal and not macro.startswith("\\") and macro not in MDOC_SKIPS:
            paragraph.append((number, _requested(macro, rest)))


def _requested(macro: str, rest: str) -> str:
    """What a line of mdoc prints, as far as words are concerned."""
    if not macro or macro == "Nd":
        return rest
    return f"{NAME}{rest[-1]}" if rest.endswith((" .", " ,")) else NAME
