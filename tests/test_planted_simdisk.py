# SPDX-License-Identifier: GPL-2.0-only
"""The guest tests of simdisk are themselves tested: a bug planted in the driver makes the named one fail."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import job, kernels, modules
from lab.errors import LabError

GUEST = Path(__file__).parent / "guest"


@dataclass(frozen=True)
class Bug:
    """In kernel/simdisk/`source`, `right` becomes `wrong`; tests/guest/simdisk-`caught_by`.sh fails."""

    source: str
    right: str
    wrong: str
    caught_by: str


BUGS = (
    Bug("disk.c", "list_splice_tail_init(&disk->hung, &orphans);", "", "removal"),
    Bug("disk.c", "dc->cmd.fua = rq->cmd_flags & REQ_FUA;", "dc->cmd.fua = false;", "commands"),
    Bug("disk.c", "if (disk->keeps_data && !dc->status &&", "if (disk->keeps_data &&", "faults"),
    Bug("store.c", "if (bytes < PAGE_SIZE) {", "if (false) {", "commands"),
    Bug("store.c", "memset(to, 0, span);", "memset(to, 1, span);", "commands"),
    Bug("store.c", "\t\tfrom += span;", "", "verify"),
    Bug("config.c", "if (!config_powered(config))\n\t\treturn 0;", "return 0;", "refusals"),
    Bug("ssd.c", "max(from, die->free)", "max(from, die->free) + 1000000", "speed"),
)


def build(folder: Path, bug: Bug, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """simdisk.ko with the bug."""
    sources, out = folder / "kernel", folder / "out"
    shutil.copytree(modules.SOURCES, sources)
    out.mkdir()
    spoiled = sources / "simdisk" / bug.source
    text = spoiled.read_text(encoding="utf-8")
    assert text.count(bug.right) == 1, "the line to spoil has changed"
    spoiled.write_text(text.replace(bug.right, bug.wrong), encoding="utf-8")
    monkeypatch.setattr(modules, "SOURCES", sources)
    modules.make(kernels.get(kernels.DEFAULT), out, "modules")
    return next(out.rglob("simdisk.ko")).read_bytes()


@pytest.mark.full
@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.source}-{bug.caught_by}")
def test_planted_bug_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: Bug) -> None:
    """The script fails, or the guest does."""
    module = build(tmp_path, bug, monkeypatch)
    script = (GUEST / f"simdisk-{bug.caught_by}.sh").read_text(encoding="utf-8")
    try:
        outcome = job.run(job.Job(kernels.DEFAULT, script, {"simdisk.ko": module}))
    except LabError as error:
        assert error.detail
    else:
        assert outcome.status != 0
