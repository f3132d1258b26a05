# SPDX-License-Identifier: GPL-2.0-only
"""The page, the terminal's table, the CSV and the comparison, from made-up cells."""

import csv
import io
import itertools
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from rich.console import Console
from samples import CPU, SIDES, cells, job, judged, result

from lab import analysis, chart, figure, fio, report
from lab.figure import Bar, Bars, Column, Line, Lines, Overview
from lab.result import Claim, Result, write

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = "<script>alert('x')</script>&\""


def mixed() -> Result:
    found = result()
    return replace(found, claims=tuple(judged(analysis.load_of("prio-mix"), found.cells)))


class Page(HTMLParser):
    """Collects the elements of a page and checks that every tag is closed."""

    VOID = frozenset({"meta", "br", "!doctype"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page(found: Result) -> str:
    return report.html(found, report.figures(found))


def test_the_page_stands_alone() -> None:
    found = Page(page(mixed()))
    assert not found.open
    assert not {"script", "link", "img", "iframe"} & set(found.tags)
    assert all(link.startswith("#") or link in ("results.json", "cells.csv") for link in found.links)


def test_the_page_opens_with_one_picture() -> None:
    text = page(mixed())
    assert text.index('class="overview"') < text.index("24 of 26 claims hold") < text.index("Claims</h2>")
    assert text.count('id="opening"') == 1
    assert "of its speed, and its p99" in text


def test_a_page_without_a_picture_of_its_own_opens_with_its_claims() -> None:
    (drawn,) = report.margins(
        [
            Claim("far", "x", 6.0, "holds", limit="≥ 3"),
            Claim("short", "x", 2.0, "fails", limit="≤ 1"),
            Claim("not-judged", "x", None, "not judged", limit="≥ 1"),
            Claim("none-lost", "x", 0.0, "holds", limit="≤ 1"),
        ]
    )
    (overview,) = drawn.panels
    assert isinstance(overview, Overview)
    assert (overview.rows, overview.measures[0].values, overview.ours) == (("far", "short"), (2.0, 0.5), frozenset({1}))
    assert report.margins([]) == []
    text = page(replace(mixed(), experiment="wrr-share", cells=()))
    assert text.index('class="overview"') < text.index("24 of 26 claims hold")


def test_a_bar_far_beyond_the_reference_is_cut() -> None:
    def gaps(longest: float) -> int:
        column = Column("p99", "less is better", (longest, 1.0), 1.0)
        drawn = chart.svg(Overview("x", ("long", "short"), (column,), "alone"))
        assert "alone 1.00" in drawn
        return drawn.count("stroke: var(--page)")

    assert [gaps(figure.CUT - 1.0), gaps(figure.CUT + 1.0)] == [0, 1]


def test_the_page_has_the_machine_and_shows_every_figure() -> None:
    text = page(mixed())
    assert text.index("Claims</h2>") < text.index("Every mix on ssd") < text.index("The machine")
    for part in ("(Fig 2)", "(Fig 3)", "(Fig 4)", "(Fig 5)", "(Table III)", "(Table IV)", "59,568", "0.532", "1.41"):
        assert part in text
    assert "prefers-color-scheme: dark" in text
    assert "What this can't show" in text
    assert mixed().digest in text
    assert "./sluice run prio-mix" in text


def test_a_sweep_is_judged_and_drawn_by_its_knob() -> None:
    swept = [
        replace(cell, tunables={"low_share": share})
        for share in ("16", "2", "1", "4", "8", "32")
        for cell in cells()
        if cell.scheduler == "mq-prio" and cell.variant in ("be-levels", "classes", "solo", "solo-backup")
    ]
    aging = analysis.load_of("prio-aging")
    (claim,) = judged(aging, swept)
    assert claim.measured == pytest.approx(53 / (448 * 0.32))
    (left,) = judged(aging, [cell for cell in swept if cell.tunables["low_share"] != "4"], swept)
    assert left.state == "not judged"
    table = aging.figures(swept)[0].panels[0]
    assert isinstance(table, figure.Table)
    assert [row[0] for row in table.rows] == ["1", "2", "4", "8", "16", "32"]
    assert not Page(page(replace(result(), experiment="prio-aging", cells=tuple(swept)))).open


def test_several_devices_are_compared() -> None:
    both = (*cells(), *cells("hdd")[: -len(CPU) * len(SIDES)])
    text = page(replace(result(), experiment="prio-devices", cells=both))
    assert text.index("Across devices") < text.index("Every mix on ssd") < text.index("Every mix on hdd")
    assert "hdd p99 ×" in text


def test_every_claim_is_on_the_page_with_its_verdict() -> None:
    found = mixed()
    text = page(found)
    assert {claim.id for claim in found.claims} >= {"high-low-ratio", "p99-beats-every-baseline", "cpu", "uncontended"}
    assert all(f'<tr id="{claim.id}">' in text for claim in found.claims)
    assert text.count("✗ fails") == sum(not claim.holds for claim in found.claims) == 2


def test_all_text_is_escaped() -> None:
    nasty = tuple(replace(cell, scheduler=HOSTILE, device_parameters={HOSTILE: HOSTILE}) for cell in cells()[:3])
    found = replace(result(), question=HOSTILE, machine={HOSTILE: HOSTILE}, command=HOSTILE, cells=nasty)
    text = page(replace(found, claims=(Claim("x", HOSTILE, 1.0, "fails"),)))
    assert "alert" in text
    assert "<script" not in text
    assert not Page(text).open


@pytest.mark.parametrize(
    "panel",
    [
        Bars(HOSTILE, "ms", ()),
        Bars("one", "ms", (Bar(HOSTILE, 0.0), Bar("b", 3.0, 2.0, 4.0, True))),
        Lines(HOSTILE, "s", "ms", ()),
        Lines("empty", "s", "ms", (Line("a", ()),), log=True),
        Lines("log", "s", "ms", (Line(HOSTILE, ((0.0, 0.0), (1.0, 5.0))), Line("b", ((0.0, 2.0),))), log=True),
        Lines("flat", "s", "ms", (Line("a", ((0.0, 5.0), (1.0, 5.0))),), log=True, bounds=(10.0, 10.0)),
        Overview(HOSTILE, (HOSTILE, "b"), (Column(HOSTILE, "x", (0.0, 99.0), 1.0),), HOSTILE, frozenset({1})),
        Overview("no reference", ("a",), (Column("a", "b", (0.0,)), Column("c", "d", (5.0,))), "alone"),
        Lines("linear", "s", "ms", (Line("a", ((0.0, 0.0), (1.0, 5.0))),)),
    ],
)
def test_drawings_are_well_formed_and_stay_inside(panel: Bars | Lines | Overview) -> None:
    text = chart.svg(panel)
    for drawn in ElementTree.fromstring(f"<div>{text}</div>").iter("svg"):
        _, _, width, height = map(float, drawn.attrib["viewBox"].split())
        for element in drawn.iter():
            assert 0 <= float(element.attrib.get("x", 0)) <= width
            assert 0 <= float(element.attrib.get("y", 0)) <= height
    assert "nan" not in text
    assert not re.findall(r"(?:fill|stroke): #|font-family", re.sub("<use[^>]*>", "", text))
    assert chart.svg(panel) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (13591.4, "13,591"),
        (2.744, "2.74"),
        (0.0612, "0.0612"),
        (99.96, "100.0"),
        (float("inf"), "–"),
        (-2.0, "-2.00"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert figure.number(value) == text


def shown(found: Result) -> str:
    out = io.StringIO()
    console = Console(file=out, width=report.WIDTH)
    report.show_tables(report.printed(report.figures(found)), console)
    report.show_claims(found, console)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def test_the_terminal_shows_what_it_always_did() -> None:
    assert shown(mixed()) == (GOLDEN / "report.txt").read_text()


def test_the_terminal_cuts_nothing_at_100_columns() -> None:
    text = shown(mixed())
    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text
    for part in ("mq-deadline-tuned", "high-low-ratio", "15,176", "24 of 26 claims hold, 2 failing", "FAILS"):
        assert part in text


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_legend_overlaps_nothing(count: int) -> None:
    """Texts at one height follow each other with room between, however many lines there are."""
    lines = tuple(Line(f"workload-{number}", ((0.0, 1.0), (1.0, 2.0))) for number in range(count))
    drawn = ElementTree.fromstring(chart.svg(Lines("legend", "log2 of N", "MB/s", lines)))
    texts = [(node.text or "", float(node.attrib["x"]), float(node.attrib["y"])) for node in drawn.iter("text")]
    below = sorted((y, x, text) for text, x, y in texts if text.startswith(("workload", "log2")))
    assert len(below) == count + 1
    for (height, x, text), (other, following, _) in itertools.pairwise(below):
        assert other - height > 10 or (other == height and following - x > 6 * len(text))


def test_the_csv_has_a_line_for_every_job() -> None:
    rows = list(csv.DictReader(io.StringIO(report.table_csv(cells()))))
    assert len(rows) == sum(len(cell.jobs) for cell in cells())
    first = rows[0]
    assert (first["scheduler"], first["variant"], first["job"], first["runs"]) == ("none", "solo", "database", "2")
    assert float(first["p99_ns"]) == 2500000


def test_render_writes_beside_the_results(tmp_path: Path) -> None:
    write(mixed(), tmp_path)
    assert report.render(tmp_path) == tmp_path / "report.html"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cells.csv", "report.html", "results.json"]


def test_the_spread_is_told() -> None:
    told = report.widest_spread(cells())
    assert re.search(r"pools 2 runs.* 9\.\d+ % in the median", told)
    assert report.widest_spread([replace(cell, inputs=("a",)) for cell in cells()]).startswith("Each cell is one run")


def compared(first: Result, second: Result, folder: Path) -> int:
    for name, found in (("a", first), ("b", second)):
        write(found, folder / name)
    return report.compare(folder / "a", folder / "b")


def test_equal_results_compare_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(mixed(), mixed(), tmp_path) == 0
    assert "the same inputs and figures" in capsys.readouterr().out


def test_another_part_of_the_machine_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = {"qemu": "10.0.13", "kernel": "6.12.117", "fio": "3.39"}
    new = {"qemu": "10.0.14", "kernel": "6.12.117", "image": "feed"}
    compared(replace(result(), versions=old), replace(result(), versions=new), tmp_path)
    out = capsys.readouterr().out
    assert "another machine: qemu 10.0.13 → 10.0.14\n" in out
    assert "another machine: fio 3.39 → unknown\n" in out
    assert "another machine: image unknown → feed\n" in out
    assert "6.12.117 →" not in out
    text = page(replace(result(), versions=new))
    assert "<dt>exact qemu</dt><dd>10.0.14</dd>" in text


def test_fsyncs_are_in_a_table_and_in_the_csv() -> None:
    """They are shown like the other latencies; nothing is shown if no job calls fsync."""
    assert report.syncs(cells()) == []
    first, *rest = cells()
    slow = fio.latency(((2_000_000, 99), (9_000_000, 1)), 2_070_000.0, 9_000_001)
    some = [replace(first, jobs=(replace(first.jobs[0], sync=slow),)), *rest]
    (drawn,) = report.syncs(some)
    (table,) = drawn.panels
    assert isinstance(table, figure.Table)
    assert table.rows == (("ssd solo", "none", "database", "100", "2.07", "2.00", "2.00", "9.00", "9.00"),)
    assert "Latency of fsync" in page(replace(result(), cells=tuple(some)))
    row, silent, *_ = csv.DictReader(io.StringIO(report.table_csv(some)))
    told = ("mean_ns", "p50_ns", "p99_ns", "p99.9_ns", "max_ns", "count")
    assert [float(row[f"sync_{what}"]) for what in told] == [2_070_000, 2_000_000, 2_000_000, 9_000_000, 9_000_001, 100]
    assert silent["sync_count"] == "0"


def test_a_lost_claim_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worse = replace(mixed(), claims=tuple(replace(claim, state="fails") for claim in mixed().claims))
    assert compared(mixed(), worse, tmp_path) == 1
    assert "no longer holds: high-low-ratio" in capsys.readouterr().out


def test_what_differs_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = [replace(cell, jobs=(job("database", 777, 9.0, 4096),)) for cell in cells()[:1]]
    assert compared(mixed(), replace(mixed(), cells=(*changed, *cells()[2:])), tmp_path) == 0
    out = capsys.readouterr().out
    assert "777" in out
    assert "only in the first" in out
