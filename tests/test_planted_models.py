# SPDX-License-Identifier: GPL-2.0-only
"""The unit tests in C are themselves tested: a bug planted in a pure part makes the named test fail."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from lab import passes, toolbox
from lab.errors import SetupFailed

TOP = Path(__file__).parent.parent
UNITS = TOP / "tests/units"
# The pure parts of kernel/, and the variable of tests/units/Makefile with their folder.
PURE = {"simdisk": "MODELS", "split": "SPLIT"}


@dataclass(frozen=True)
class Bug:
    """In `source` in kernel/, `right` becomes `wrong`; the failing test's output then contains `caught_by`."""

    source: str
    right: str
    wrong: str
    caught_by: str


BUGS = (
    Bug("simdisk/arbiter.c", "queue.index) + 1) % places", "queue.index)) % places", "in_turn_all_queues_are_alike"),
    Bug("simdisk/arbiter.c", "if (level < arb->turn % ARBITER_LEVELS)", "if (false)", "in_turn_many_queues"),
    Bug("simdisk/arbiter.c", "after ? after :", "false ? after :", "in_turn_many_queues"),
    Bug(
        "simdisk/arbiter.c",
        "level = ARBITER_ADMIN; level <= ARBITER_URGENT",
        "level = ARBITER_URGENT; level < 2",
        "admin_goes",
    ),
    Bug("simdisk/arbiter.c", "(queue.index + 1) % ARBITER_QUEUES", "queue.index", "urgent_queues_take_turns"),
    Bug(
        "simdisk/arbiter.c",
        "if (arb->busy[level] && arb->credit[level])",
        "if (arb->busy[level])",
        "shares_are_the_weights",
    ),
    Bug("simdisk/arbiter.c", "(ARBITER_LEVELS - level)) + 1", "(ARBITER_LEVELS - level))", "weights_are_bytes_and_one"),
    Bug("simdisk/arbiter.c", "(weight[0] - 1)", "weight[0]", "a_feature_has_the_weights"),
    Bug("simdisk/arbiter.c", "U32_MAX : 1U << burst", "128 : 1U << burst", "no_limit_is_all_that_waits"),
    Bug("simdisk/arbiter.c", "min(arb->granted, arb->credit[from.level])", "arb->granted", "credit_ends_a_burst"),
    Bug("simdisk/arbiter.c", "min(arb->burst, arb->waiting", "max(arb->burst, arb->waiting", "a_burst_is_a_run"),
    Bug("simdisk/arbiter.c", "\t\tarb->credit[level] = 0;\n", "", "an_idle_level_forfeits_its_round"),
    Bug(
        "simdisk/arbiter.c",
        "\tarb->granted = 0;\n\tarbiter_begin_round(arb);\n",
        "\tarb->granted = 0;\n",
        "weights_begin_a_round",
    ),
    Bug("simdisk/arbiter.c", "!(arb->partner &&", "!(false &&", "a_fused_pair_stays_together"),
    Bug(
        "simdisk/arbiter.c", "*credit -= !!*credit;", "*credit -= !!*credit * !!arb->granted;", "a_fused_pair_costs_two"
    ),
    Bug("simdisk/arbiter.c", "\tarb->granted = 0;\n\tarb->partner = false;\n}", "}", "a_deleted_queue_is_gone"),
    Bug("simdisk/model.c", "\tmodel_run(model, now);\n\tarbiter_set", "\tarbiter_set", "weights_dont_reach_back"),
    Bug("simdisk/profile.c", "value > par->most", "value > par->most + 1", "parameter_refused"),
    Bug("simdisk/ssd.c", "\tdie->free = start + sense;", "\tdie->free = start;", "ssd_read_is_the_sum"),
    Bug("simdisk/ssd.c", "max(from, die->free)", "from", "ssd_dies_work_side_by_side"),
    Bug("simdisk/ssd.c", "\tssd->pending += cmd->mark;", "\tssd->pending += cmd->mark / 2;", "ssd_buffer"),
    Bug("simdisk/ssd.c", "ssd->drained >= cmd->mark)", "ssd->drained <= cmd->mark)", "ssd_flush_waits_for_flash"),
    Bug("simdisk/ssd.c", "\tif (cmd->fua)\n", "\tif (false)\n", "ssd_fua_waits_for_flash"),
    Bug("simdisk/ssd.c", "return start + suspend;", "return die->program_end;", "ssd_read_suspends_program"),
    Bug("simdisk/ssd.c", "list_empty(&ssd->room) && list_empty(&ssd->drain)", "true", "never completes"),
    Bug("simdisk/hdd.c", "int_sqrt64(div64_u64(distance << 32", "(div64_u64(distance << 16", "8_15_of_the_range"),
    Bug("simdisk/hdd.c", "return seek + (wait > HDD", "return seek + (0 && wait > HDD", "hdd_same_sector"),
    Bug("simdisk/hdd.c", "\tif (hdd->ahead->end == limit)", "\tif (false)", "readahead_stops_when_full"),
    Bug("simdisk/hdd.c", "if (ns < *cost)", "if (!best)", "hdd_picks_the_shortest"),
    Bug("simdisk/hdd.c", "> model->profile.age_cap_ns;", "> MODEL_NEVER;", "hdd_age_cap"),
    Bug("simdisk/hdd.c", "if (!cmd || hdd->dirty)", "if (!cmd)", "hdd_flush_destages"),
    Bug("simdisk/model.c", "return !model->profile.queued_flush &&", "return false &&", "flush_is_not_queued_on_sata"),
    Bug("simdisk/model.c", "= div64_u64(now, model->profile.slowdown)", "= now", "slowdown_multiplies_every_time"),
    Bug("simdisk/model.c", "if (before->due <= due)", "if (before->due >= due)", "nothing completes"),
    Bug("simdisk/model.c", "+ model->shortest_ns", "+ 2 * model->shortest_ns", "sooner than told"),
    Bug("simdisk/model.c", "while ((cmd = model_pick(", "if ((cmd = model_pick(", "reset_hands_all_back"),
    Bug("split/cost.c", "to - from <= cost_of_way(", "to - from <= 1000 * cost_of_way(", "cheaper_of_passing"),
    Bug("split/cost.c", "from <= to && to - from", "max(from, to) - min(from, to)", "way_back_is_never_short"),
    Bug("split/cost.c", "30000000 / device->rpm", "60000000 / device->rpm", "meets_the_simulated_disk"),
    Bug("split/cost.c", "return all - min(all, cost", "return all + 0 * min(all, cost", "flash_costs_by_size"),
    Bug("split/cost.c", "else if (io->bytes)", "else", "flush_and_empty_commands"),
    Bug("split/cost.c", "= from != at;", "= from == at;", "estimate_knows_sequence"),
    Bug("split/cost.c", "pending->cost -= cost;", "pending->cost -= cost / 2;", "given_back_to_the_byte"),
    Bug("split/cost.c", "d->seek_track_us <= d->seek_full_us", "true", "parameters_refused"),
    Bug("split/cost.c", "/ device->write_mbps, 1U)", "/ device->write_mbps, 0U)", "a_write_is_never_free"),
    Bug("split/learn.c", "(sum - wrote) * LEARN_LITTLE < sum", "wrote <= sum", "makes_no_seek_cheap"),
    Bug(
        "split/learn.c",
        "u64 wrote = learn_part(learn, &learn->terms, COST_WRITE_BYTES)",
        "u64 wrote = sum - learn_part(learn, &learn->terms, COST_MOVES)",
        "makes_no_gap_cheap",
    ),
    Bug("split/learn.c", "if (learn->wrote_ns < LEARN_CACHE_NS)", "if (false)", "a_short_write_tells_nothing"),
    Bug("split/learn.c", "!(works || fed)", "!(works || (fed && 0))", "paced_writes_get_cheaper"),
    Bug(
        "split/learn.c",
        "spent = works || learn->known ? passed :",
        "spent = works ? passed :",
        "paced_writes_stay_as_dear",
    ),
    Bug("split/learn.c", "sum * LEARN_FED_OF >= passed * LEARN_FED", "true", "few_writes_make_none_cheap"),
    Bug("split/learn.c", "busy_ns && full)", "busy_ns && (full || 1))", "waits_for_work_is_not_slow"),
    Bug("split/learn.c", "\treturn part * part;", "\treturn part;", "flash_is_learned"),
    Bug("split/learn.c", "[COST_READS] = LEARN_FS_PER_NS,", "[COST_READS] = 0,", "flash_is_learned"),
    Bug("split/learn.c", "passed - min(learn->idle_ns, passed)", "passed", "no_faster_than_it_was_seen"),
    Bug("split/learn.c", "inside >= deep ||", "inside >= min(deep, 2ULL) ||", "waits_for_work_is_not_slow"),
    Bug("split/learn.c", "DIV_ROUND_UP(device->read_mbps, 256U)", "1U", "at_least_a_256th"),
    Bug("split/learn.c", "taken * LEARN_FS_PER_NS < price", "false", "a_flush_with_little_to_write"),
    Bug("split/learn.c", "taken < load * LEARN_OFF", "false", "a_flush_with_much_to_write"),
    Bug("split/learn.c", "more > sum / 2 ||", "false ||", "no_error_of_what_follows"),
    Bug("split/learn.c", "writes = (learn->requests - learn->writes)", "writes = 0 * (learn->writes)", "beside_writes"),
    Bug("split/learn.c", "COST_FLUSHES), learn->flushed_ns)", "COST_FLUSHES), 0ULL)", "dear_beside_commits"),
    Bug("split/learn.c", "learn->alone = !learn->flushes++", "learn->alone = ++learn->flushes", "flushes_that_overlap"),
    Bug("split/learn.c", "\t\tlearn->voided = true;\n", "", "a_discard_tells_nothing"),
    Bug("split/learn.c", "LEARN_MANY && !learn->writes", "LEARN_MANY", "there_is_no_rest_after_writes"),
    Bug("split/learn.c", "rest_ns = LEARN_REST_NS", "rest_ns = 0", "few_reads_of_a_fast_drive_are_told"),
    Bug("split/learn.c", "learn->voided = learn->rest_ns", "", "few_reads_of_a_fast_drive_are_told"),
    Bug("split/learn.c", "- min(sum, worth) <= sum / LEARN_LITTLE", "<= U64_MAX", "flash_is_learned"),
    Bug("split/causes.c", "split->before += weight;", "split->before += weight - 1;", "parts_sum_to_the_whole"),
    Bug("split/causes.c", "while (b) {", "while (b > 99) {", "parts_sum_to_the_whole"),
    Bug("split/causes.c", "i++)\n\t\tcauses_drop(table, place->member", "i++)\n\t\t(void)(place->member", "to_the_end"),
    Bug("split/causes.c", "max(causes->member[at].weight, weight)", "weight", "a set isn't what was put in"),
    Bug("split/causes.c", ">= weight) {", ">= weight / 2) {", "in_the_mean"),
    Bug("split/causes.c", "causes_drop(table, surplus);", "(void)surplus;", "gathering_holds"),
    Bug("split/causes.c", "for (; drawn >= member->weight; member++)", "for (; 0; member++)", "lets_one_pay_for_all"),
    Bug("split/causes.c", "place->generation++;", "", "an_old_tag"),
    Bug("split/causes.c", "causes_tag_of(table, at) == tag;", "true;", "a_set_includes_its_accounts"),
    Bug("split/causes.c", "atomic_sub(count - 1,", "atomic_sub(0 * count,", "many_are_given_back"),
    Bug("split/cost.c", "log->debt -= cost;", "", "for_many_and_for_few"),
    Bug("split/cost.c", "log->own -= own;", "", "paid_by_who_logs_it"),
    Bug("split/cost.c", "log->pooled = log->fresh;", "log->pooled = true;", "nobody_wants"),
    Bug("split/stride.c", "client->rest = all - pass * client->weight;", "", "division_loses_nothing"),
    Bug("split/stride.c", "apart ? apart < 0", "apart ? a->pass < b->pass", "passes_wrap_around"),
    Bug("split/stride.c", "if (client->served - stride->now > STRIDE_DEBT) {", "if (false) {", "idling_earns_nothing"),
    Bug("split/stride.c", "stride->now > STRIDE_DEBT)", "stride->now > 1ULL << 63)", "idling_for_an_age"),
    Bug("split/stride.c", "stride->now > STRIDE_DEBT)", "stride->now)", "debt_is_kept"),
    Bug("split/stride.c", "if (stride->joined == client->joined)", "if (false)", "alone_owes_nothing"),
    Bug("split/stride.c", "\tclient->expected -=", "\t(void)", "an_estimate_is_made_up_for"),
    Bug("split/stride.c", "client->served + div_u64", "client->served + 0 * div_u64", "others_first"),
    Bug("split/stride.c", "scaled, client->weight, weight)", "scaled, weight, weight)", "debt_in_bytes"),
    Bug("split/stride.c", "for (i = 0; i < STRIDE_LINES; i++) {", "for (i = 0; i < 1; i++) {", "isn't first"),
    Bug("split/stride.c", "next < line->count && stride_before", "0 && stride_before", "shares_are_exact"),
    Bug("split/stride.c", "client->order = stride->order++;", "", "equals_take_turns"),
)


def catcher(bug: Bug) -> tuple[str, str]:
    """The program that has the named test, and that test; "" for all of them, where an error's text is given."""
    (source,) = (path for path in UNITS.glob("*.c") if bug.caught_by in path.read_text(encoding="utf-8"))
    return f"/tmp/out/{source.stem.replace('_', '-')}", bug.caught_by if bug.caught_by.isidentifier() else ""


def spoil(bug: Bug) -> str:
    """The source with the bug."""
    text = (TOP / "kernel" / bug.source).read_text(encoding="utf-8")
    assert text.count(bug.right) == 1, "the line to spoil has changed"
    return text.replace(bug.right, bug.wrong)


def check(bug: Bug, folder: Path) -> None:
    """The program can be built, fails and names the error."""
    copy, out = folder / "kernel", folder / "out"
    out.mkdir()
    for source in (path for pure in PURE for path in (TOP / "kernel" / pure).glob("*.[ch]")):
        (copy / source.parent.name).mkdir(parents=True, exist_ok=True)
        (copy / source.parent.name / source.name).write_bytes(source.read_bytes())
    (copy / bug.source).write_text(spoil(bug), encoding="utf-8")
    box = toolbox.Sandbox(ro={"/tmp/units": UNITS, "/tmp/kernel": copy}, rw={"/tmp/out": out})
    arguments = ["O=/tmp/out", *(f"{name}=/tmp/kernel/{pure}" for pure, name in PURE.items())]
    program, only = catcher(bug)
    make = ["make", "-s", "-C", "/tmp/units", *arguments, "CC=gcc-14", "CFLAGS=-O0"]
    toolbox.run([*make, program], box)
    with pytest.raises(SetupFailed):
        line = [*make, f"check-{program}", f"ONLY={only}"]
        toolbox.run(["sh", "-c", 'exec timeout 100 "$@" >/tmp/out/log 2>&1', "sh", *line], box)
    said = (out / "log").read_text(encoding="utf-8", errors="replace").splitlines()
    assert any(bug.caught_by in line for line in said if not line.startswith("ok "))


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{Path(bug.source).name}-{bug.caught_by.replace(' ', '-')}")
def test_planted_bug_is_caught(tmp_path: Path, bug: Bug) -> None:
    """The unit test or the fuzzer fails."""
    inputs = passes.contents(Path(__file__), UNITS, *(TOP / "kernel" / pure for pure in PURE))
    passes.once(partial(check, bug, tmp_path), *inputs, repr(bug))
