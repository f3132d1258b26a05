# SPDX-License-Identifier: GPL-2.0-only
"""Prose: the sentences of a page, and which of them a reader would have to read twice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

MOST_WORDS = 30
# What stands for a thing or a role without a name for it.
BANNED = re.compile(r"\b(who|whom|whoever|he|him|his|somebody|nobody|anybody|everybody|someone)\b", re.IGNORECASE)
# The same in sources, where "who" and "nobody" are names too.
PRONOUN = re.compile(r"\b(whom|whoever|he|him|his|somebody|anybody|everybody|someone)\b", re.IGNORECASE)
# Turns of phrase that aren't English: a value "is no number".
PHRASE = re.compile(r"(?<!there )\bis no (?!longer|more|less|such)\w+")
# What prints its arguments for people: exceptions, options of a command line, what status and the doctor find.
PRINTS = re.compile(r"\w*(Error|Missing|Failed|Crashed|Hung|Full|Problem|Finding)")
OPTIONS = ("help", "description", "epilog")
# The same in C, with what it prints.
PRINTED = re.compile(r'\b(?:pr_\w+|die|seq_puts|MODULE_PARM_DESC)\([^"();]*((?:"(?:[^"\\]|\\.)*"\s*(?:PRI\w+\s*)?)+)')
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
    return _faults(name, paragraphs)


def said(name: str, text: str) -> list[str]:
    """The same of the messages that a source in Python or C prints."""
    found = list(_python(text) if name.endswith(".py") else _c(text))
    phrases = [(line, word[0]) for line, message in found for word in PHRASE.finditer(message)]
    return _faults(name, found) + [f"{name}:{line}: says {phrase!r}; next: is not a …" for line, phrase in phrases]


def _faults(name: str, paragraphs: Iterable[tuple[int, str]]) -> list[str]:
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


def _python(text: str) -> Iterator[tuple[int, str]]:
    """Each text that a call prints; what is put into it is read as one word."""
    for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        prints = call.args if PRINTS.fullmatch(name) else []
        for node in [*prints, *(keyword.value for keyword in call.keywords if keyword.arg in OPTIONS)]:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value
            elif isinstance(node, ast.JoinedStr):
                yield (
                    node.lineno,
                    "".join(str(part.value) if isinstance(part, ast.Constant) else NAME for part in node.values),
                )


def _c(text: str) -> Iterator[tuple[int, str]]:
    for match in PRINTED.finditer(text):
        message = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match[1])).replace("\\n", " ")
        yield text.count("\n", 0, match.start()) + 1, message


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
