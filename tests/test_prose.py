# SPDX-License-Identifier: GPL-2.0-only
"""Which sentences of a page a reader would have to read twice."""

from __future__ import annotations

import pytest

from lab import prose

LONG = " ".join(["A", *["word"] * prose.MOST_WORDS]) + "."
SHORT = " ".join(["A", *["word"] * (prose.MOST_WORDS - 1)]) + "."
MDOC = ".Sh DESCRIPTION\n.Nm\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (LONG, 1),
        (f"# Head\n\n{SHORT}\n{LONG}\n", 3),
        (f"- a list\n- {LONG}\n", 2),
        (f"| a | b |\n|---|---|\n| x | {LONG} |\n", 3),
        (f"{SHORT[:-1]} and\n`more of it`.\n", 1),
        (f"{SHORT[:-1]} [more](../of/it.md).\n", 1),
    ],
)
def test_a_long_sentence_of_markdown_is_found(text: str, line: int) -> None:
    (found,) = prose.faults("docs/x.md", text)
    assert found.startswith(f"docs/x.md:{line}: ")
    assert f"of at most {prose.MOST_WORDS}" in found


@pytest.mark.parametrize(
    "text",
    [
        SHORT,
        f"{SHORT} {SHORT}\n`more` of it. {SHORT}",
        f"- {SHORT[:-1]}\n- {SHORT[:-1]}\n",
        f"| {SHORT[:-1]} | {SHORT[:-1]} |\n|---|---|\n",
        f"```\n{LONG}\n```\n\n    {LONG}\n",
        f"<!-- {LONG} -->\n",
        "The disk whose queue is full, as `who` and `he.c` say.",
    ],
)
def test_what_is_short_or_no_prose_passes(text: str) -> None:
    assert prose.faults("docs/x.md", text) == []


def test_a_long_sentence_of_a_man_page_is_found() -> None:
    (found,) = prose.faults("man/x.7", f"{MDOC}{SHORT[:-1]}\n.Va knob .\n{SHORT}\n")
    assert found.startswith("man/x.7:2: ")


def test_a_man_page_of_short_sentences_passes() -> None:
    paragraphs = f"{SHORT}\n{SHORT}\n.Pp\n{SHORT[:-1]}\n.Bd -literal\n{LONG}\n.Ed\n{SHORT}\n.Dl # {LONG}\n"
    assert prose.faults("man/x.7", f".Sh DESCRIPTION\n{paragraphs}") == []


@pytest.mark.parametrize("word", ["who", "Whoever", "his", "somebody"])
def test_a_word_that_names_nothing_is_found(word: str) -> None:
    (found,) = prose.faults("README.md", f"The disk is full.\n\n{word} writes waits.\n")
    assert found == f"README.md:3: {word} writes waits.… says {word!r}; next: name what is meant"
    assert len(prose.faults("man/x.7", f"{MDOC}{word} writes waits.\n")) == 1


@pytest.mark.parametrize("line", ["/* The writer waits until his data is written. */", "fail('somebody waits')"])
def test_a_source_that_speaks_of_a_person_is_found(line: str) -> None:
    (found,) = prose.unnamed("x.c", f"int this;\n{line}\n")
    assert found.startswith("x.c:2: says ")


def test_names_in_a_source_are_no_persons() -> None:
    assert prose.unnamed("x.c", "int who_name(u64 who); /* of this history */\nchown nobody file\n") == []


MESSAGES = {
    "x.py": 'raise UsageError(f"{device} fails. %s", "lsblk")',
    "y.py": 'add.add_argument("--json", help="%s")',
    "x.c": 'pr_err("split: it fails. " "%s\\n", name);',
    "y.c": 'MODULE_PARM_DESC(knob, "%s");',
}


@pytest.mark.parametrize(("name", "source"), MESSAGES.items())
def test_a_message_that_is_long_or_no_english_is_found(name: str, source: str) -> None:
    assert prose.said(name, source % SHORT) == []
    assert prose.said(name, source % "There is no longer a disk, and there is no queue.") == []
    (found,) = prose.said(name, source % LONG)
    assert found.startswith(f"{name}:1: ") and f"of at most {prose.MOST_WORDS}" in found
    (found,) = prose.said(name, source % "x is no number")
    assert found == f"{name}:1: says 'is no number'; next: is not a …"
    assert len(prose.said(name, source % "who waits")) == 1


def test_what_is_not_printed_may_be_anything() -> None:
    assert prose.said("x.py", f'"""{LONG}"""\nrow = f("{LONG}")') == []
    assert prose.said("x.c", f'/* {LONG} */\nstrcpy(name, "{LONG}");') == []
