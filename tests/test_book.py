# SPDX-License-Identifier: GPL-2.0-only
"""The book: it is built, it is complete without a network, and a link that leads nowhere is refused."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from lab import book
from lab.errors import LabError

# An element that a browser fetches by itself.
FETCHED = re.compile(r"<(?:script|link|img|iframe)[^>]* (?:src|href)=\"?(?:https?:)?//[^>]*>")
PARTS = re.compile(r"<(h[1-6]|[uo]l|li|table|tr|t[hd]|pre|code|strong|em)\b")


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache."""
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "cache"))


def test_the_site_needs_no_network_and_has_the_files_that_pages_link_to() -> None:
    first = book.build()
    assert "<h1" in first.read_text(encoding="utf-8")
    site = first.parent
    assert (site / "CONTRIBUTING.html").is_file()
    assert (site / "man/afq.7").read_bytes() == (book.TOP / "man/afq.7").read_bytes()
    assert [found for page in site.rglob("*.html") for found in FETCHED.findall(page.read_text(encoding="utf-8"))] == []
    assert not [style for style in site.rglob("*.css") if re.search(r"url\(\W?(https?:)?//", style.read_text("utf-8"))]


def test_the_site_has_the_lists_and_tables_of_the_repository() -> None:
    """The generator's Markdown differs from the repository's, most of all in lists."""
    site = book.build().parent
    for page in [book.TOP / "CONTRIBUTING.md", *(book.TOP / "docs").glob("*.md")]:
        here = MarkdownIt("commonmark").enable("table").render(page.read_text(encoding="utf-8"))
        built = (site / f"{page.stem}.html").read_text(encoding="utf-8")
        main = re.findall(r'role="main">(.*?)</div>\s*</div>', built, re.DOTALL)[0]
        assert Counter(PARTS.findall(main)) == Counter(PARTS.findall(here)), page.name


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    """Each of these alone is a warning, and any warning is an error; the site that was there stays."""
    site = book.build().parent
    tree = tmp_path / "tree"
    shutil.copytree(book.TOP / "docs", tree / "docs")
    for name in ("CONTRIBUTING.md", "kernel", "lab", "man", "properdocs.yml"):
        (tree / name).symlink_to(book.TOP / name)
    assert book.build(tree)
    links = "[a](nowhere.md) [b](afq.md#nowhere) [c](../man/nowhere.7) [d](/afq.md) [e](nowhere/)"
    (tree / "docs/new.md").write_text(f"# New\n\n{links}\n", encoding="utf-8")
    with pytest.raises(LabError, match="the site cannot be built") as refusal:
        book.build(tree)
    for said in ("'nowhere.md'", "'#nowhere'", "'../man/nowhere.7'", "'/afq.md'", "'nowhere/'", "- new.md"):
        assert said in refusal.value.detail
    assert "make site" in str(refusal.value)
    assert not (site / "new.html").exists()
