# SPDX-License-Identifier: GPL-2.0-only
"""The figures in README and docs/: written from results, kept while there are none, and marked when stale."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from samples import cells, judged, result

from lab import analysis, description, docs, modules, plan, prose
from lab.errors import UsageError
from lab.plan import Choice
from lab.result import NOT_JUDGED, Cell, Result, write
from lab.schedulers import SCHEDULERS

BLOCK = "<!-- figures: prio-mix: be-levels on ssd -->\nold\n<!-- end: never -->\n"


def whole() -> Result:
    """A result with every cell of prio-mix, and its claims."""
    have = {(cell.device, cell.scheduler, cell.variant): cell for cell in cells()}
    points = plan.points(description.load("prio-mix"), Choice())
    places = [(point.device, point.scheduler, point.variant.name) for point in points]
    found = tuple(have.get(place) or _at(*place) for place in places)
    claims = judged(analysis.load_of("prio-mix"), found)
    machine = {"emulator": "QEMU emulator version 10.0.13 (Debian)", "fio": "fio-3.39"}
    return replace(result(), cells=found, claims=tuple(claims), machine=machine)


def _at(device: str, scheduler: str, variant: str) -> Cell:
    return replace(cells()[0], device=device, scheduler=scheduler, variant=variant)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A README with a block, no docs/claims.md yet, and the results of prio-mix."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(f"Before\n{BLOCK}After\n", encoding="utf-8")
    monkeypatch.setattr(docs, "TOP", tmp_path)
    monkeypatch.setattr(docs, "CLAIMS", tmp_path / "docs/claims.md")
    write(whole(), tmp_path / "results/prio-mix")
    return tmp_path


@pytest.mark.parametrize("name", description.names())
def test_what_an_experiment_asks_and_claims_is_said_in_short_sentences(name: str) -> None:
    experiment = description.load(name)
    said = [experiment.question, *(claim.text for claim in docs._claims_of(experiment))]
    assert [fault for text in said for fault in prose.faults(f"{name}.md", text)] == []


def test_the_tree_has_no_figure_of_other_sources() -> None:
    assert docs.stale() == []


def test_a_block_gets_its_table_and_what_it_holds_for(tree: Path) -> None:
    docs.write(tree / "results")
    text = (tree / "README.md").read_text(encoding="utf-8")
    assert text.startswith("Before\n<!-- figures: prio-mix: be-levels on ssd -->\n\n    be-levels on ssd")
    assert "13,591" in text
    assert text.endswith(f"; sources {docs.sources('prio-mix')} -->\nAfter\n")
    assert "Linux 6.12.1, QEMU 10.0.13 (Debian), fio-3.39; sha256:" in text
    assert docs.write(tree / "results") == []
    assert docs.stale() == []


def test_a_pages_block_says_how_it_was_measured_and_may_be_of_earlier_sources(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tree / "docs/page.md"
    page.write_text(f"Before\n{BLOCK}After\n", encoding="utf-8")
    docs.write(tree / "results")
    assert f"\nMeasured by `{whole().command}` with Linux 6.12.1, QEMU" in page.read_text(encoding="utf-8")
    monkeypatch.setattr(docs, "sources", lambda name: "0123456789abcdef")
    assert "page.md, prio-mix: be-levels on ssd" in {one.place for one in docs.stale()}
    write(replace(whole(), experiment="wrr-share", cells=()), tree / "others/wrr-share")
    for _ in range(2):
        docs.write(tree / "others")
        assert f"\nMeasured {docs.EARLIER} by `" in page.read_text(encoding="utf-8")
        assert "page.md, prio-mix: be-levels on ssd" not in {one.place for one in docs.stale()}
    docs.write(tree / "results")
    assert docs.EARLIER not in page.read_text(encoding="utf-8")


def test_a_picture_of_readme_is_drawn_from_the_results(tree: Path) -> None:
    docs.write(tree / "results")
    with (tree / "README.md").open("a", encoding="utf-8") as page:
        page.write("![A picture of\nboth](docs/prio-mix.svg)\n")
    assert [one.place for one in docs.stale()][:1] == ["docs/prio-mix.svg"]
    docs.write(tree / "results")
    drawn = ElementTree.parse(tree / "docs/prio-mix.svg").getroot()
    texts = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"mq-deadline", "mq-prio", "13,591"} <= set(texts)
    (style,) = drawn.iter("{http://www.w3.org/2000/svg}style")
    assert style.text and "prefers-color-scheme: dark" in style.text
    assert docs.stale() == []
    picture = tree / "docs/prio-mix.svg"
    text = re.sub("sources [0-9a-f]+", "sources 0123456789abcdef", picture.read_text(encoding="utf-8"))
    picture.write_text(text, encoding="utf-8")
    assert [one.place for one in docs.stale()] == ["docs/prio-mix.svg"]


def test_an_experiment_without_an_opening_drawing_has_no_picture(tree: Path) -> None:
    with (tree / "README.md").open("a", encoding="utf-8") as page:
        page.write("![x](docs/wrr-share.svg)\n")
    write(replace(whole(), experiment="wrr-share", cells=()), tree / "others/wrr-share")
    with pytest.raises(UsageError, match="no opening drawing"):
        docs.write(tree / "others")


def test_claims_keep_their_values_until_they_are_measured_again(tree: Path) -> None:
    docs.write(tree / "results")
    first = docs.CLAIMS.read_text(encoding="utf-8")
    assert "(`high-low-ratio`) | ≥ 3 | 1.41 | 256 | 256 to 256 | holds |" in first
    assert "(`read-hdd`) | ≤ 0.1 |  | – |  | – |" in first
    write(replace(whole(), experiment="wrr-share", cells=()), tree / "others/wrr-share")
    docs.write(tree / "others")
    assert docs.CLAIMS.read_text(encoding="utf-8") == first


def test_a_part_of_an_experiment_tells_what_it_judges(tree: Path) -> None:
    """Until a result judges more; a cell with a knob of its own tells nothing."""
    some = tuple(replace(claim, state=NOT_JUDGED, measured=None) for claim in whole().claims[1:])
    part = replace(whole(), cells=whole().cells[:5], claims=(whole().claims[0], *some), command="./sluice run some")
    odd = replace(part, cells=(replace(part.cells[0], tunables={"hold_ms": "1"}),))
    (tree / "README.md").write_text("no block\n", encoding="utf-8")
    for one, times in ((odd, 0), (part, 1), (whole(), 0), (part, 0)):
        write(one, tree / "part/prio-mix")
        docs.write(tree / "part")
        assert docs.CLAIMS.read_text(encoding="utf-8").count("Measured by `./sluice run some` with") == times


def test_a_part_that_judges_nothing_changes_no_claim(tree: Path) -> None:
    docs.write(tree / "results")
    first = docs.CLAIMS.read_text(encoding="utf-8")
    write(replace(whole(), cells=whole().cells[:5], claims=()), tree / "part/prio-mix")
    (tree / "README.md").write_text("no block\n", encoding="utf-8")
    docs.write(tree / "part")
    assert docs.CLAIMS.read_text(encoding="utf-8") == first


def test_other_sources_make_blocks_and_claims_stale(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs.write(tree / "results")
    monkeypatch.setattr(docs, "sources", lambda name: "0123456789abcdef")
    assert {one.place for one in docs.stale()} == {"README.md, prio-mix: be-levels on ssd", "docs/claims.md, prio-mix"}
    write(replace(whole(), experiment="wrr-share", cells=()), tree / "others/wrr-share")
    docs.write(tree / "others")
    assert f"Measured {docs.EARLIER} by `" in docs.CLAIMS.read_text(encoding="utf-8")
    assert [one.place for one in docs.stale()] == ["README.md, prio-mix: be-levels on ssd"]


def test_a_claim_with_another_limit_loses_its_value(tree: Path) -> None:
    docs.write(tree / "results")
    text = docs.CLAIMS.read_text(encoding="utf-8")
    docs.CLAIMS.write_text(text.replace("(`high-low-ratio`) | ≥ 3 |", "(`high-low-ratio`) | ≥ 2 |"), encoding="utf-8")
    assert "docs/claims.md, prio-mix" in {one.place for one in docs.stale()}
    write(replace(whole(), experiment="wrr-share", cells=()), tree / "others/wrr-share")
    docs.write(tree / "others")
    assert "(`high-low-ratio`) | ≥ 3 | 1.41 | – |  | – |" in docs.CLAIMS.read_text(encoding="utf-8")


def test_a_changed_scheduler_makes_other_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = docs.sources("prio-mix"), docs.sources("cpq-six"), docs.sources("token-scs")
    shutil.copytree(modules.SOURCES, tmp_path / "kernel")
    monkeypatch.setattr(modules, "SOURCES", tmp_path / "kernel")
    with (tmp_path / "kernel/elevator/cpq.c").open("a") as file:
        file.write("/* */\n")
    after = docs.sources("prio-mix"), docs.sources("cpq-six"), docs.sources("token-scs")
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, True]


def test_sources_are_those_that_the_runs_load() -> None:
    names = {path.name for path in docs._module_sources(SCHEDULERS["mq-prio"].modules)}
    assert {"mq-prio.c", "request-set.c", "elevator.h", "ssd.c", "block-types.sh"} <= names
    assert not {"cpq.c", "afq.c"} & names
    assert {"core.c", "ext4.c"} <= {path.name for path in docs._module_sources(SCHEDULERS["afq"].modules)}


def test_no_results_and_no_such_table_are_told(tree: Path) -> None:
    with pytest.raises(UsageError, match="make bench"):
        docs.write(tree / "nothing")
    (tree / "README.md").write_text(BLOCK.replace("be-levels on ssd", "nonsense"), encoding="utf-8")
    with pytest.raises(UsageError, match="has no table that begins with 'nonsense'"):
        docs.write(tree / "results")
