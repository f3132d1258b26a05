# SPDX-License-Identifier: GPL-2.0-only
"""The tests of the drive models are themselves tested: a bug planted in a model makes the named one fail."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import toolbox
from lab.errors import SetupFailed

TOP = Path(__file__).parent.parent
MODELS = TOP / "kernel/simdisk"


@dataclass(frozen=True)
class Bug:
    """In `source`, `right` becomes `wrong`; what the failing test then prints contains `caught_by`."""

    source: str
    right: str
    wrong: str
    caught_by: str


BUGS = (
    Bug("arbiter.c", "turn + 1) % arb->queues;\n\tarb->waiting--", "turn) % arb->queues;\n\tarb->waiting--", "arbiter"),
    Bug("profile.c", "value > par->most", "value > par->most + 1", "parameter_refused"),
    Bug("ssd.c", "\tdie->free = start + sense;", "\tdie->free = start;", "ssd_read_is_the_sum"),
    Bug("ssd.c", "max(from, die->free)", "from", "ssd_dies_work_side_by_side"),
    Bug("ssd.c", "\tssd->pending += cmd->mark;", "\tssd->pending += cmd->mark / 2;", "ssd_buffer"),
    Bug("ssd.c", "ssd->drained >= cmd->mark)", "ssd->drained <= cmd->mark)", "ssd_flush_waits_for_flash"),
    Bug("ssd.c", "\tif (cmd->fua)\n", "\tif (false)\n", "ssd_fua_waits_for_flash"),
    Bug("ssd.c", "return start + suspend;", "return die->program_end;", "ssd_read_suspends_program"),
    Bug("ssd.c", "list_empty(&ssd->room) && list_empty(&ssd->drain)", "true", "never completes"),
    Bug("hdd.c", "int_sqrt64(div64_u64(distance << 32", "(div64_u64(distance << 16", "8_15_of_the_range"),
    Bug("hdd.c", "return seek + (wait > HDD", "return seek + (0 && wait > HDD", "hdd_same_sector"),
    Bug("hdd.c", "\tif (hdd->ahead->end == limit)", "\tif (false)", "readahead_stops_when_full"),
    Bug("hdd.c", "if (ns < *cost)", "if (!best)", "hdd_picks_the_shortest"),
    Bug("hdd.c", "> model->profile.age_cap_ns;", "> MODEL_NEVER;", "hdd_age_cap"),
    Bug("hdd.c", "if (!cmd || hdd->dirty)", "if (!cmd)", "hdd_flush_destages"),
    Bug("model.c", "return !model->profile.queued_flush &&", "return false &&", "flush_is_not_queued_on_sata"),
    Bug("model.c", "= div64_u64(now, model->profile.slowdown)", "= now", "slowdown_multiplies_every_time"),
    Bug("model.c", "if (before->due <= due)", "if (before->due >= due)", "nothing completes"),
    Bug("model.c", "+ model->shortest_ns", "+ 2 * model->shortest_ns", "sooner than told"),
    Bug("model.c", "while ((cmd = arbiter_pick(", "if ((cmd = arbiter_pick(", "reset_hands_all_back"),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.source}-{bug.caught_by.replace(' ', '-')}")
def test_planted_bug_is_caught(tmp_path: Path, bug: Bug) -> None:
    """The unit tests or the fuzzer fail, and name what is wrong."""
    models, out = tmp_path / "models", tmp_path / "out"
    models.mkdir()
    out.mkdir()
    for source in MODELS.glob("*.[ch]"):
        (models / source.name).write_bytes(source.read_bytes())
    text = (models / bug.source).read_text(encoding="utf-8")
    assert text.count(bug.right) == 1, "the line to spoil has changed"
    (models / bug.source).write_text(text.replace(bug.right, bug.wrong), encoding="utf-8")
    box = toolbox.Sandbox(ro={"/tmp/units": TOP / "tests/units", "/tmp/models": models}, rw={"/tmp/out": out})
    arguments = ["O=/tmp/out", "MODELS=/tmp/models", "CC=gcc-14", "CFLAGS=-O0"]
    with pytest.raises(SetupFailed) as failure:
        toolbox.run(["timeout", "100", "make", "-sk", "-C", "/tmp/units", *arguments, "check"], box)
    assert bug.caught_by in failure.value.detail
