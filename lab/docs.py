# SPDX-License-Identifier: GPL-2.0-only
"""The figures in README and docs/, written from results, with the versions and the sources that they hold for.

docs/claims.md has a section for each experiment: its claims, each with the last measured value. In README and in the
pages of docs/ a block begins with the line `<!-- figures: EXPERIMENT: TABLE -->`; the rows of that table follow. A
section or a block ends with a stamp: the digest of the results, the versions, and the key of the sources. A picture
`docs/EXPERIMENT.svg` that README shows is the opening drawing of that experiment's report, with the stamp in it.
README's figures come from the present sources. Those of the other pages may be earlier ones, and then say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from rich.console import Console

from lab import analysis, cache, contrib, description, image, modules, plan, report, result, study
from lab.description import Experiment
from lab.errors import UsageError
from lab.figure import Overview, Table, number
from lab.result import NOT_JUDGED, Cell, Claim, Result
from lab.schedulers import SCHEDULERS

TOP = Path(__file__).parent.parent
CLAIMS = TOP / "docs/claims.md"
HEAD = """\
# What is claimed

Each experiment below judges its own claims and ends with status 0 only if all hold. `./sluice docs` writes this page
from the results of the last runs. The interval is that of the mean over the seeds, at 95 %. Where a claim states a
bound, each run must keep it, and the interval is from the lowest figure to the highest. The column "paper" has what the
paper printed that the experiment repeats. A dash stands for a figure that no run has given since `./sluice docs` writes
this page.
"""
COLUMNS = "| claim | needs | paper | measured | interval | state |\n|---|---|---|---|---|---|\n"
STYLE = Path(__file__).with_name("report.css")
PICTURE = re.compile(r"!\[[^]]*\]\(docs/([\w-]+)\.svg\)")
BLOCK = re.compile(r"(<!-- figures: ([\w-]+): (.+?) -->\n)(.*?)(<!-- end: (.*?) -->)", re.DOTALL)
SOURCES = re.compile(r"sources ([0-9a-f]{16})")
EARLIER = "from earlier sources"
README = "README.md"


@dataclass(frozen=True)
class Stale:
    """A place whose figures come from other sources than the present ones, and the command that updates it."""

    place: str
    command: str


def write(folder: Path) -> list[Path]:
    """Write docs/claims.md and the blocks from the results below a folder; returns the files that changed."""
    read = {path.parent.name: result.read(path) for path in sorted(folder.glob("*/results.json"))}
    # Figures of a real disk are of one host.
    found = {name: one for name, one in read.items() if "disk" not in one.machine}
    if not found:
        raise UsageError(f"there are no results below {folder}", "make bench")
    texts = {page: _with_blocks(page, found) for page in pages()}
    texts[CLAIMS] = claims(found)
    texts |= {path: _picture(path.stem, found[path.stem]) for path in pictures() if path.stem in found}
    changed = [page for page, text in texts.items() if not page.exists() or page.read_text(encoding="utf-8") != text]
    for page in changed:
        page.write_text(texts[page], encoding="utf-8")
    return changed


def pages() -> list[Path]:
    """The pages that may have blocks."""
    return [TOP / "README.md", *sorted(path for path in (TOP / "docs").glob("*.md") if path != CLAIMS)]


def pictures() -> list[Path]:
    """The pictures that README shows."""
    return [TOP / f"docs/{name}.svg" for name in PICTURE.findall((TOP / "README.md").read_text(encoding="utf-8"))]


def stale() -> list[Stale]:
    """The blocks, pictures, and sections of docs/claims.md that come from other sources and don't say so."""
    places = [
        Stale(f"docs/{path.name}", f"./sluice run {path.stem} && ./sluice docs")
        for path in pictures()
        if not path.exists() or _key_in(path.read_text(encoding="utf-8")) != sources(path.stem)
    ]
    places += [
        Stale(f"{page.name}, {block[2]}: {block[3]}", f"./sluice run {block[2]} && ./sluice docs")
        for page in pages()
        for block in BLOCK.finditer(page.read_text(encoding="utf-8"))
        if _key_in(block[6]) != sources(block[2]) and (page.name == README or EARLIER not in block[4])
    ]
    kept = _sections(CLAIMS.read_text(encoding="utf-8"))
    return places + [
        Stale(f"docs/claims.md, {name}", "./sluice docs")
        for name in description.names()
        if section(name, None, kept.get(name, "")) != kept.get(name, "")
    ]


def claims(found: dict[str, Result]) -> str:
    """docs/claims.md; experiments without results keep the values that the page has."""
    kept = _sections(CLAIMS.read_text(encoding="utf-8")) if CLAIMS.exists() else {}
    parts = [section(name, found.get(name), kept.get(name, "")) for name in description.names()]
    return HEAD + "".join(f"\n{part}" for part in parts if part)


def section(name: str, found: Result | None, kept: str) -> str:
    """An experiment's section: from a result that judges as many claims or more, else with the present values."""
    experiment = description.load(name)
    values = dict(re.findall(r"\(`([\w-]+)`\) (\|.*)$", kept, re.MULTILINE))
    judged = sum(not row.endswith("| – |") for row in values.values())
    if found and _belongs(experiment, found) and sum(claim.state != NOT_JUDGED for claim in found.claims) >= judged:
        rows = [_row(claim) for claim in found.claims]
        stamp = f"Measured by `{found.command}` with {_stamp(name, found)}."
    else:
        rows = [_row(claim, values.get(claim.id, "")) for claim in _claims_of(experiment)]
        stamp = _marked(name, next(iter(re.findall(r"^Measured .*$", kept, re.MULTILINE)), ""))
    if not rows:
        return ""
    text = f"## {name}\n\n{experiment.question.strip()}\n\n    ./sluice run {name}\n\n{COLUMNS}{''.join(rows)}"
    return text + (f"\n{stamp}\n" if stamp else "")


def _sections(text: str) -> dict[str, str]:
    """The sections of docs/claims.md by name, each ending in one line feed."""
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0]: f"## {part.rstrip()}\n" for part in parts}


def _marked(name: str, stamp: str) -> str:
    """A stamp, marked if its sources differ from the present ones."""
    if not stamp or EARLIER in stamp or _key_in(stamp) == sources(name):
        return stamp
    return stamp.replace("Measured", f"Measured {EARLIER}", 1)


def _claims_of(experiment: Experiment) -> Iterator[Claim]:
    """The claims that a run of the whole experiment judges, without their values."""
    cells = study.planned(experiment)
    for judgement in analysis.load_of(experiment.name).judgements():
        if analysis.belongs(judgement, cells):
            yield judgement.claim(NOT_JUDGED)


def _belongs(experiment: Experiment, found: Result) -> bool:
    """Whether a result has cells, all of them the experiment's own with the knobs as they are, and judges a claim."""
    there, own = set(map(_place, found.cells)), set(map(_place, study.planned(experiment)))
    return bool(there) and there <= own and any(claim.state != NOT_JUDGED for claim in found.claims)


def _place(cell: Cell) -> tuple[str, ...]:
    return cell.device, cell.stack, cell.scheduler, cell.variant, report.tunables(cell)


def _row(claim: Claim, values: str = "") -> str:
    """A row of the table, with the kept values if they were judged against the same limit."""
    paper = "" if claim.paper is None else number(claim.paper)
    if not values.startswith(f"| {claim.limit} | {paper} |"):
        state = "–" if claim.state == NOT_JUDGED else claim.state
        values = f"| {claim.limit} | {paper} | {report.measured(claim)} | {report.between(claim)} | {state} |"
    return f"| {claim.text} (`{claim.id}`) {values}\n"


def _with_blocks(page: Path, found: dict[str, Result]) -> str:
    """A page with the tables of its blocks whose experiment has results; UsageError if there is no such table.

    Outside README a block says how it was measured.
    """

    def fill(block: re.Match[str]) -> str:
        start, name, title = block[1], block[2], block[3]
        if name not in found:
            return block[0] if page.name == README else f"{start}{_marked(name, block[4])}{block[5]}"
        panels = [panel for figure in report.figures(found[name]) for panel in figure.panels]
        tables = [panel for panel in panels if isinstance(panel, Table) and panel.title.startswith(title)]
        if not tables:
            raise UsageError(f"{name} has no table that begins with {title!r}", f"./sluice report results/{name}")
        out = StringIO()
        report.show_tables(tables[:1], Console(file=out, width=report.WIDTH))
        rows = "\n".join(f"    {line}".rstrip() for line in out.getvalue().strip().splitlines())
        stamp = _stamp(name, found[name])
        said = "" if page.name == README else f"Measured by `{found[name].command}` with {stamp}.\n\n"
        return f"{start}\n{rows}\n\n{said}<!-- end: {stamp} -->"

    return BLOCK.sub(fill, page.read_text(encoding="utf-8"))


def _picture(name: str, found: Result) -> str:
    """The opening drawing of an experiment's report, as a file; UsageError if it has none."""
    from lab import chart

    openings = [panel for figure in report.figures(found) if figure.opening for panel in figure.panels]
    if not openings or not isinstance(openings[0], Overview):
        raise UsageError(f"the report of {name} has no opening drawing", f"./sluice report results/{name}")
    return chart.picture(openings[0], STYLE.read_text(encoding="utf-8"), f"Measured with {_stamp(name, found)}.")


def _stamp(name: str, found: Result) -> str:
    """What the figures hold for: versions, digest, sources."""
    kernels = ", ".join(dict.fromkeys(cell.kernel for cell in found.cells))
    emulator = found.machine["emulator"].removeprefix("QEMU emulator version ")
    versions = ", ".join([f"Linux {kernels}", f"QEMU {emulator}", *filter(None, [found.machine.get("fio")])])
    return f"{versions}; {found.digest}; sources {sources(name)}"


def _key_in(stamp: str) -> str:
    match = SOURCES.search(stamp)
    return match[1] if match else ""


def sources(name: str) -> str:
    """A key of the sources of an experiment's runs: its folder and those of contrib, guests' scripts, its modules."""
    experiment = description.load(name)
    wanted = {module for scheduler in experiment.schedulers for module in SCHEDULERS[scheduler].modules}
    points = plan.points(experiment, plan.Choice())
    unused = () if any(point.stack for point in points) else ("stack.sh",)
    scripts = (path for path in sorted(image.GUEST.iterdir()) if path.suffix != ".md" and path.name not in unused)
    paths = [*sorted(set(_module_sources(wanted))), *scripts]
    runs = [plan.script(experiment, point, point.variant.seeds[0]) for point in points]
    data = [*runs, *(part for path in paths for part in (path.name, path.read_bytes()))]
    data += [part for folder in experiment.contrib for part in contrib.inputs(folder)]
    return cache.key(*data, *(part for file, text in sorted(experiment.files.items()) for part in (file, text)))


def _module_sources(wanted: Iterable[str]) -> Iterator[Path]:
    """The C files of modules, by kernel/Kbuild, with every header beside one; all of simdisk/ and compat/."""
    folders = set()
    text = (modules.SOURCES / "Kbuild").read_text(encoding="utf-8")
    for name, rest in re.findall(r"^([\w-]+)-y := (.*)$", text, re.MULTILINE):
        prefix = "".join(re.findall(r"addprefix (\S+),", rest))
        if name in wanted:
            objects = [modules.SOURCES / f"{prefix}{part}.c" for part in re.findall(r"([\w/-]+)\.o", rest)]
            folders |= {path.parent for path in objects}
            yield from objects
    for folder in folders:
        yield from folder.glob("*.h")
    for name in ("simdisk", "compat"):
        yield from (modules.SOURCES / name).glob("*.[chs]*")
