# SPDX-License-Identifier: GPL-2.0-only
"""The guest tests are themselves tested: a bug planted in a module, iolat or contrib makes the named script fail."""

from __future__ import annotations

import inspect
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from test_guest import complaints, head, make_job

from lab import contrib, iolat, job, kernels, modules, passes
from lab.errors import GuestCrashed, GuestHung, GuestOutOfMemory
from lab.job import Job

TOP = Path(__file__).parents[1]
SCRIPTS = TOP / "tests/guest"
# What lib.sh says when a script could not even begin.
UNPREPARED = tuple(
    f"FAIL: {what}" for what in ("no module ", "no /dev/", "simdisk refuses ", "the kernel refuses scheduler ")
)

# CPU seconds for a guest with a bug that makes its script wait for ever, and what is said of it then. What is sound
# takes a quarter of them.
HANGS_S = 120
HANGS = f"used up its {HANGS_S} CPU seconds"


@dataclass(frozen=True)
class Bug:
    """In `source`, `right` becomes `wrong`; `caught_by` is "SCRIPT: FRAGMENT": tests/guest/SCRIPT.sh fails, with the
    part as scheduler, and what it then says has the fragment. It is what evidence() gives; without one it is any FAIL
    of the script's own. Of fragments with a | between them, one is enough: what is read after it was freed may be
    anything.
    """

    name: str
    part: str
    source: str
    right: str
    wrong: str
    caught_by: str

    @property
    def script(self) -> Path:
        """The script that is to fail."""
        return SCRIPTS / f"{self.caught_by.partition(': ')[0]}.sh"

    def is_caught(self, evidence: list[str]) -> bool:
        """Whether the script failed as it was to."""
        fragment = self.caught_by.partition(": ")[2]
        if fragment:
            return any(part in line for part in fragment.split("|") for line in evidence)
        return any(line.startswith("FAIL: ") and not line.startswith(UNPREPARED) for line in evidence)


SQLITE = (
    ("never-synced", "op == SQLITE_FCNTL_CKPT_DONE && !extra->failed", "op < 0", "not 5 100 5 700"),
    ("failure-untold", "extra->failed = extra->below->xSync(", "extra->below->xSync(", "fail_every(3)"),
    ("kept-for-ever", "\t\t\tclose(extra->keepers[i]);\n", "\t\t\tcontinue;\n", "not 5 100 5 700 100 5"),
    ("second-load", 'if (sqlite3_vfs_find("sluice"))', "if (!sqlite3_vfs_find)", ""),
)
SIMDISK = (
    ("hung-lost", "disk.c", "list_splice_tail_init(&disk->hung, &orphans);", "", "removal"),
    ("fua-ignored", "disk.c", "dc->cmd.fua = rq->cmd_flags & REQ_FUA;", "dc->cmd.fua = false;", "commands"),
    ("failed-write-kept", "disk.c", "if (disk->keeps_data && !dc->status &&", "if (disk->keeps_data &&", "faults"),
    ("part-page-dropped", "store.c", "if (bytes < PAGE_SIZE) {", "if (false) {", "commands"),
    ("ones-for-zeroes", "store.c", "memset(to, 0, span);", "memset(to, 1, span);", "commands"),
    ("first-page-repeated", "store.c", "\t\tfrom += span;", "", "verify"),
    ("changed-under-power", "config.c", "if (!config_powered(config))\n\t\treturn 0;", "return 0;", "refusals"),
    ("slow-die", "ssd.c", "max(from, die->free)", "max(from, die->free) + 1000000", "speed"),
)
MQ_PRIO = (
    (
        "requeued-leaves",
        "\t\t.finish_request\t\t= ranks_finish_request,",
        "\t\t.finish_request = ranks_finish_request,\n\t\t.requeue_request = ranks_finish_request,",
        "mq-prio-order",
    ),
    ("nobody-owns-it", "\t.elevator_owner = THIS_MODULE,\n", "", "elevator-switch: unable to handle page fault"),
)
RANKS = (
    ("idle-after-hold", "\tif (!atomic_read(&r->issued) && ", "\tif (false && ", "mq-prio-order"),
    ("turn-never-due", "next_ns += ranks_period(ranks, cost);", "next_ns = U64_MAX;", "mq-prio-share"),
    ("one-lower-rank-only", "while (ranks->lane[i].owed_ns > 0 &&", "while (false &&", "mq-prio-share"),
    ("lower-ranks-equal", "-(s64)cost);", "0);", "mq-prio-share"),
    ("no-limit", "return !(higher & ~others) ||", "return true ||", "mq-prio-sparse"),
    ("many-unseen", " || ranks_many(r) > 2 * r->tried_many)", ")", "mq-prio-sparse: share of"),
    ("no-trial", "\tif (ranks->rotating || r->turns", "\tif (true || r->turns", "mq-prio-sparse"),
    (
        "merges-unlimited",
        "return ranks->rotating || !ranks_competing(ranks);",
        "return true;",
        "mq-prio-sparse: reader's",
    ),
    (
        "same-cost-for-others",
        "(r->alike < RANKS_ALIKE)\n\t\treturn",
        "(true)\n\t\treturn",
        "mq-prio-sparse: beside other requests|share of",
    ),
    ("mix-tried-anew", "RANKS_WRITES_WEIGHT 64", "RANKS_WRITES_WEIGHT 8", "mq-prio-sparse: what a MiB costs"),
    ("buffer-looks-cheap", "(r->writes < RANKS_WRITES_WEIGHT ||", "(true ||", "mq-prio-sparse: randwrite"),
    ("tags-not-kept", " >> hweight_long(ranks_mask(active))", "", "mq-prio-tags"),
    ("metadata-limited", "if (!rq_blocks_others(opf))", "if (true)", "mq-prio-metadata: for a tag"),
    ("no-insert-event", "\t\ttrace_block_rq_insert(rq);\n", "", "mq-prio-knobs"),
    (
        "merged-request-stays",
        "\tranks_unlink(ranks, next, ranks_rq_lane(next));",
        "",
        "elevator-merges: NULL pointer dereference",
    ),
    (
        "timer-without-rerun",
        "\tWRITE_ONCE(ranks->held, false);\n\tspin_unlock_irqrestore(&ranks->lock, flags);\n\tranks_run(ranks);\n",
        "\tspin_unlock_irqrestore(&ranks->lock, flags);\n",
        "elevator-wakeups: wait for ever",
    ),
    (
        "removal-not-counted",
        "\tlast = atomic_dec_and_test(&r->issued);",
        "\tlast = false;",
        "elevator-removal: hung_task",
    ),
)
CPQ = (
    ("merged-request-stays", "\tcpq_unlink(cpq, next);", "", "elevator-merges: NULL pointer dereference"),
    ("no-insert-merge", "blk_mq_sched_try_insert_merge(q, rq, &free)", "false", "elevator-merges"),
    ("always-the-lowest", "rq_set_from(set, queue->pos[dir])", "rq_set_from(set, 0)", "cpq-order"),
    ("writes-never-starve", "queue->starved < READ_ONCE(cpq->writes_starved)", "true", "cpq-order"),
    ("deadline-ignored", "return rq && cpq_expired(cpq, rq, dir) ? rq : NULL;", "return NULL;", "cpq-order"),
    ("group-by-class", "cpq_listed(list, bio);", "false;", "cpq-groups"),
    ("idle-always-back", "(class == RQ_IDLE && list->idle)", "class == RQ_IDLE", "cpq-groups"),
    ("aged-stampede", "if (READ_ONCE(cpq->aged_inside) || cpq->aged_last)", "if (false)", "cpq-aging"),
    ("never-aged", "\tif (time_before(jiffies, due)) {", "\tif (true) {", "cpq-aging"),
    ("turn-never-ends", "cpq_begin_turn(cpq, !cpq->turn);", "cpq->used_ns = 0;", "cpq-turns"),
    ("timer-without-rerun", "\tblk_mq_run_hw_queues(cpq->q, true);", "", f"cpq-turns: {HANGS}"),
    ("threshold-unused", "mean <= (u64)READ_ONCE(cpq->io_threshold) * NSEC_PER_USEC", "false", "cpq-turns"),
    (
        "class-at-finish",
        "queue = cpq_queue_of(rq);\n\tbool competing;\n",
        "queue = cpq_queue_for(cpq, sluice_rq_ioprio(rq), rq->bio);\n\tbool competing;\n",
        "elevator-commands: cpq_exit_sched",
    ),
    (
        "requeued-leaves",
        "\t\t.finish_request\t\t= cpq_finish_request,",
        "\t\t.finish_request = cpq_finish_request,\n\t\t.requeue_request = cpq_leave,",
        "cpq-depth",
    ),
    ("unlimited-writeback", "READ_ONCE(cpq->async_depth) /", "CPQ_ASYNC_WHOLE /", "cpq-tags"),
    ("log-always", "READ_ONCE(cpq->cpq_log), rq, cpq_class(i)", "true, rq, cpq_class(i)", "cpq-knobs"),
    ("nobody-owns-it", "\t.elevator_owner = THIS_MODULE,\n", "", "elevator-switch: unable to handle page fault"),
    ("writes-unbounded", "inside >= most ||", "false ||", "cpq-writes"),
    ("deep-device-held", "depth <= CPQ_SHALLOW_DEPTH &&", "", "cpq-depth"),
    ("array-held", " && sluice_has_write_cache(q)", "", "cpq-depth"),
    ("always-held", "if (!beside || ", "if (", "cpq-depth"),
    (
        "adapter-for-disk",
        "min_not_zero(q->queue_depth, q->tag_set->queue_depth)",
        "q->tag_set->queue_depth",
        "cpq-depth",
    ),
    ("held-by-all", "other <= queue;", "other < cpq->queue + CPQ_QUEUES;", "cpq-writes"),
    (
        "reader-for-ever",
        "if (time_before_eq(jiffies, other->read_came + CPQ_READER_JIFFIES))",
        "if (true)",
        "cpq-writes",
    ),
    (
        "background-turn-lost",
        "cpq->turn == CPQ_BACK && !(cpq->waiting & CPQ_BACK_BITS)",
        "cpq->turn == CPQ_BACK",
        "cpq-writes",
    ),
    ("background-slips-in", "? BIT(i) - 1 : ~BIT(i)", "? ~BIT(i) : ~BIT(i)", "cpq-writes"),
    (
        "written-without-rerun",
        "rq_data_dir(rq) == WRITE && READ_ONCE(cpq->writes_held)",
        "false",
        f"cpq-writes: {HANGS}",
    ),
    ("adapts-below-the-sweep", "#define CPQ_EXPIRE_MEANS 4", "#define CPQ_EXPIRE_MEANS 2", "cpq-adaptive"),
    ("adapts-on-a-seeking-disk", " || !blk_queue_nonrot(cpq->q)", "", "cpq-adaptive"),
)
FAIR = (
    ("never-discharged", "\tatomic_dec(&tags->used);", "", "cpq-fair"),
    ("ratio-ignored", "READ_ONCE(*tags->ratio) * account->weight", "FAIR_RATIO * account->weight", "cpq-fair"),
    ("alone-limited-too", "if (active <= account->weight)", "if (false)", "cpq-fair"),
    ("real-time-limited", "IOPRIO_PRIO_CLASS(context->ioprio) == IOPRIO_CLASS_RT", "false", "cpq-fair"),
    ("never-let-in", "\t\twake_up(&best->wait);", "", "cpq-fair"),
    ("weight-ignored", "account->weight = cause_weight(name);", "account->weight = CAUSE_WEIGHT;", "cpq-fair-weights"),
    ("flusher-charged", "READ_ONCE(seen->task) == current ? name : CAUSE_KERNEL", "CAUSE_KERNEL", "cpq-fair-writeback"),
    ("parts-unseen", "\tif (rest)\n", "\tif (false)\n", "cpq-fair-writeback"),
    (
        "hold-not-dropped",
        "\tfair_drop(tags, account);\n\treturn jiffies",
        "\treturn jiffies",
        "cpq-fair-storm: fair_destroy",
    ),
    ("metadata-held", "fair_exempt() || rq_blocks_others(opf)", "fair_exempt()", "cpq-fair-metadata"),
    ("queues-share", "q->sched_shared_tags ? 1 : q->nr_hw_queues", "1", "cpq-fair-queues"),
    ("nowait-unlimited", "\t\t\tsluice_limit_tags(data, 1);", "\t\t\t;", "cpq-fair-engines"),
)
AFQ = (
    ("answers-all-at-once", "#define AFQ_ANSWERS 256U", "#define AFQ_ANSWERS 100000U", "split-ticks: FAIL: a tick"),
    ("level-ignored", "stride_level_weight(rq_level(ioprio))", "STRIDE_WEIGHT", "afq-reads"),
    ("no-turns", "afq->used < afq_bytes(&afq->quantum) && ", "false && ", "afq-reads"),
    ("rt-ignored", "i = RQ_RT; i < RQ_IDLE; i++", "i = RQ_BE; i <= RQ_BE; i--", "afq-reads"),
    (
        "never-overdue",
        "\treturn class != RQ_RT && afq->stride[class]",
        "\treturn false && afq->stride[class]",
        "afq-reads",
    ),
    ("idle-at-once", "afq_since(afq->others, AFQ_QUIET_MS)", "true", "afq-calls"),
    ("window-not-kept", "afq->window >= afq_window(afq)", "false", "afq-reads"),
    ("nobody-goes-ahead", "\tif (!afq_goes_ahead(afq, next, absent))", "\tif (true)", "afq-demand: FAIL: both readers"),
    ("pauses-waited-for", "client->outside_ns <= client->inside_ns;", "true;", "afq-demand: FAIL: the database"),
    (
        "weights-ignored",
        "next->stride.weight >= absent->stride.weight",
        "true",
        "afq-demand: FAIL: the one of higher weight",
    ),
    ("cost-not-given-back", "\tafq->window -= afq_cost_of(rq);", "", "afq-reads"),
    ("none-held", 'afq_is_ahead(afq, client, call) ? "share"', 'false ? "share"', "afq-calls"),
    ("rounds-too-short", "2 * AFQ_TICK_MS *", "AFQ_TICK_MS / 10 *", "afq-levels: FAIL: levels deviate"),
    (
        "dropped-call-stays",
        "\t\tafq_unlist_call(afq, &afq->client[call->account->id], call);",
        "\t\t;",
        "afq-calls: NULL pointer dereference",
    ),
    (
        "return-unseen",
        "\tstride_settle(afq_stride(afq, client), &client->stride, call->private);",
        "",
        f"afq-calls: {HANGS}",
    ),
    ("reference-kept", "\tsplit_account_put(client->account);\n", "", "afq-knobs: split_accounts_exit"),
    ("burst-unseen", 'client->bursts && afq_dirties(call) ? "dirty"', 'false ? "dirty"', "afq-burst: FAIL: large has"),
    ("stores-unseen", "(BIT(SPLIT_WRITE) | BIT(SPLIT_STORE))", "BIT(SPLIT_WRITE)", "afq-burst: FAIL: mapped has"),
    (
        "writer-waits-for-all",
        "if (afq_is_late(afq, client, beside)) {",
        "if (false) {",
        "afq-burst: FAIL: IDLE waits|FAIL: IDLE wrote but 0 bytes",
    ),
    ("parts-too-small", "pages, AFQ_PART_LEAST, AFQ_PART_MOST", "0, 16, 16", "afq-burst: FAIL: large takes"),
    ("idle-keeps-dirt", ": min(burst_ns, afq_max_lag_ns(afq));", ": burst_ns;", "afq-burst: FAIL: IDLE keeps"),
    ("short-lived-unseen", "afq_ns(afq, all) > burst_ns ||", "false ||", "afq-burst: FAIL: many has"),
    ("class-unseen", "afq_ns(afq, all) > AFQ_BURSTS * burst_ns);", "false);", "afq-burst: FAIL: several have"),
    ("idle-has-more", "#define AFQ_PART_REST_IDLE 100", "#define AFQ_PART_REST_IDLE 10", "afq-burst: FAIL: IDLE wrote"),
    ("nobody-owns-it", "\t.elevator_owner = THIS_MODULE,\n", "", "elevator-switch: unable to handle page fault"),
)
SLUICE = (
    (
        "share-ignored",
        "return sluice->rank[rank].next_ns > ktime_get_ns() && slu_busy_above(sluice, rank);",
        "return false;",
        "sluice-calls: FAIL: held are",
    ),
    ("low-ranks-equal", "while (--above && period", "while (false && period", "sluice-calls: FAIL: best effort 7 has"),
    (
        "limit-ignored",
        'client->over_limit && slu_dirties(call) ? "dirty" : NULL;',
        "NULL;",
        "sluice-calls: FAIL: the first commit|files were made beside",
    ),
    (
        "names-for-nothing",
        "& SPLIT_NAMES ? SLU_NAME : 0;",
        "& SPLIT_NAMES ? 0 : 0;",
        "sluice-calls: files were made beside",
    ),
    (
        "killed-stay",
        "\t\tslu_remove_call(sluice, &sluice->client[call->account->id], call);\n",
        "",
        "sluice-calls: unable to|a killed process has a held call",
    ),
    (
        "direct-durable-free",
        "(call->direct && !call->durable)",
        "call->direct",
        "sluice-calls: bytes durable beside commits",
    ),
    ("rewrites-count", "if (call->private & SLU_PAYS)", "if (true)", "sluice-calls: beside one that rewrites"),
    ("no-insert-place", "\tsluice->ranks.place = slu_place;\n", "", "sluice-calls"),
    (
        "pieces-at-once",
        "\tranks_set_note(rq, SLU_NOTE_PIECE);\n",
        "\tsluice->pieces--;\n\tsluice->room_ns = SLU_ROOM_NS;\n",
        "sluice-pieces: pieces were inside the device at once",
    ),
    (
        "pieces-by-speed",
        "\t\tsectors /= 2;\n\treturn sectors;\n",
        "\t\tsectors /= 2;\n\treturn SLU_PIECE_MOST;\n",
        "sluice-pieces: FAIL: a drive of 30 MB/s gets",
    ),
    (
        "pieces-between-flushes",
        " && !slu_is_flushing(sluice))",
        ")",
        "sluice-pieces: were dispatched between a commit's flushes",
    ),
    ("pieces-as-large", "\t\tnow = min(now, slu_piece_sectors(sluice));\n", "\t\t;\n", "sluice-pieces"),
    (
        "no-room-again",
        "min(room, slu_most_room(sluice, below))",
        "sluice->room_ns",
        f"sluice-pieces: FAIL: hardly anything|{HANGS}",
    ),
    (
        "nobody-is-light",
        "\tWRITE_ONCE(client->light, light);\n\tif (light)\n",
        "\tlight = false;\n\tif (light)\n",
        "sluice-equal: FAIL: beside a copy the p99 of a reader",
    ),
    (
        "light-while-alone",
        "rank == client->rank && slu_has_competitors(sluice, client)",
        "rank == client->rank",
        "sluice-equal: FAIL: after another process a reader that is alone",
    ),
    (
        "waiting-unseen",
        "ranks_queued(&sluice->ranks, client->rank) > client->queued ||",
        "",
        "sluice-equal: FAIL: beside requests that all wait",
    ),
    (
        "no-tags-for-light",
        "if (slu_leaves_tags(sluice, rank))",
        "if (false)",
        "sluice-equal: FAIL: beside threads that wait for tags",
    ),
    (
        "never-quiet",
        "sluice->light_ticks >= SLU_LIGHT_TICKS && ",
        "false && ",
        "sluice-equal: FAIL: beside a copy a start does",
    ),
    (
        "always-quiet",
        "\tsluice->exclusive_spent = sluice->exclusive >= SLU_EXCLUSIVE_TICKS * SLU_SHARED_TICKS;\n",
        "",
        "sluice-equal: FAIL: beside a start the copy has",
    ),
    ("copy-at-once", "slu_has_light_peer(sluice, client));", "false);", "sluice-equal: FAIL: beside a copy"),
    (
        "heirs-unnamed",
        "other->rank < (waiter ? waiter->rank : rank)",
        "other->rank > rank",
        "sluice-traces: FAIL: of the copy's requests",
    ),
    ("limit-stays", "\tslu_set_pieces(sluice, false);\n", "", "sluice-pieces: FAIL: without the scheduler"),
    (
        "own-limit-lost",
        "\tif (was != sluice->set_sectors)\n\t\tsluice->max_sectors = was;\n",
        "",
        "sluice-pieces: FAIL: a limit of 40 KiB",
    ),
    ("nobody-owns-it", "\t.elevator_owner = THIS_MODULE,\n", "", "elevator-switch: unable to handle page fault"),
)
TOKEN = (
    ("answers-all-at-once", "#define TOKEN_ANSWERS 256U", "#define TOKEN_ANSWERS 9999U", "split-ticks: FAIL: a tick"),
    ("debt-ignored", "return bucket->tokens.tokens < (s64)bucket->reserved;", "return false;", "token-rates"),
    ("never-given-back", "\t\tbucket_give(&bucket->tokens, cost);\n", "", "token-rates"),
    ("reads-unreserved", "\tbucket->reserved += token_reserved_for(rq);\n", "", "token-rates"),
    ("stores-go", "\t.more = BIT(SPLIT_STORE),\n", "", "token-locks"),
    (
        "asked-of-all",
        "\t.concerns = token_concerns,\n\t.enter = token_enter,\n",
        "\t.enter = token_enter,\n",
        "token-asked: FAIL: of a thousand writes",
    ),
    ("memory-held", " || split_costs_nothing(call)", "", "token-rates"),
    ("metadata-waits", "|| token_is_metadata(rq)", "|| false", "token-locks"),
    ("bytes-are-free", "token_take(token, call->account, call->bytes, true);\n\telse if", ";\n\telse if", "token-scs"),
    ("frozen-reads-wait", "READ_ONCE(token->q->mq_freeze_depth) || ", "", "token-knobs"),
    ("offline-reads-wait", "if (!token_is_offline(rq))", "if (true)", "token-offline: FAIL: CPU 1 takes"),
    (
        "dropped-call-stays",
        "\ttoken_unlist_call(token, call);\n\tspin_unlock",
        "\tspin_unlock",
        "token-knobs: token_exit_sched",
    ),
    (
        "fsyncs-go",
        "#define TOKEN_GATES (SPLIT_ALL |",
        "#define TOKEN_GATES (SPLIT_NAMES | BIT(SPLIT_WRITE) |",
        "tenant-attacks",
    ),
    ("nobody-owns-it", "\t.elevator_owner = THIS_MODULE,\n", "", "elevator-switch: unable to handle page fault"),
)
DEADLINE = (
    ("load-ignored", "&& (s64)load_ns < left);", ");", "deadline-fsync"),
    ("written-while-flushed", "!dl_is_flushing(dl, now_ns) && (s64)", "(s64)", "deadline-fsync"),
    ("never-early", "if (class->set[dir].queued && dl_due_ns", "if (false && dl_due_ns", "deadline-order"),
    ("old-waits-for-ever", "\trq = dl_old(dl);\n", "\trq = NULL;\n", "deadline-order"),
    ("always-early", "now_ns + load_ns + DL_EARLY * need)", "U64_MAX)", "deadline-order"),
    (
        "late-goes-first",
        "\t\tleft = min(left, dl_leaves(dl, class, now_ns));\n\t}\n\treturn NULL;",
        "\t}\n\treturn NULL;",
        "deadline-fsync",
    ),
    (
        "never-held",
        "return (s64)data_ns > dl_left_next",
        "return false && (s64)data_ns > dl_left_next",
        "deadline-knobs",
    ),
    (
        "dropped-call-stays",
        "\tlist_del_init(&call->node);\n\tspin_unlock",
        "\tspin_unlock",
        "deadline-knobs: dl_exit_sched",
    ),
    ("throttled-too", "\tsluice_disable_wbt(q, eq);\n", "", "deadline-knobs"),
    ("log-waits", "\tif (split_is_log(rq) ||", "\tif (", "deadline-fsync"),
    ("swap-waits", " || rq->cmd_flags & REQ_SWAP) {", ") {", "deadline-memory: FAIL: swap-out is the last"),
    ("dirt-unseen", "\t\tsplit_count_dirt(call, DL_PAGES, &dirt);", "\t\t;", "deadline-memory"),
    ("handle-waits", "\tif (dl_is_awaited(dl, rq)) {", "\tif (false) {", "deadline-fsync"),
    ("dirty-ignored", "hold = costs && dl_is_too_dirty", "hold = false && dl_is_too_dirty", "deadline-writeback"),
    ("nobody-owns-it", "\t.elevator_owner = THIS_MODULE,\n", "", "elevator-switch: unable to handle page fault"),
    (
        "reads-stay-plugged",
        "\tcall->unplug = cause_file_deadline",
        "\tdeadline_ns = cause_file_deadline",
        "deadline-reads",
    ),
    ("answers-all-at-once", "#define DL_KEEPS 64U", "#define DL_KEEPS 9999U", "split-ticks: FAIL: a tick"),
    ("reads-unheard-of", "\tcause_file_listen(&dl->listener);\n", "", "deadline-reads"),
    ("flush-goes-on", "\tdl->flushing -= !!dl->flushing;\n", "", "deadline-requeue"),
    (
        "reads-gone-unheard-of",
        "\tcause_file_hear_no_more(&dl->listener);\n",
        "",
        "deadline-reads: unable to handle page fault",
    ),
)
SPLIT = (
    (
        "killed-stays",
        "gate.c",
        "if (fatal_signal_pending(current) || READ_ONCE(call->device->state) != SPLIT_ATTACHED)",
        "if (READ_ONCE(call->device->state) != SPLIT_ATTACHED)",
        f"killed: {HANGS}",
    ),
    ("freezer-waits", "gate.c", "return freezing(current) || ", "return ", "freeze"),
    (
        "cgroup-freezer-waits",
        "gate.c",
        "return freezing(current) || READ_ONCE(current->jobctl) & JOBCTL_TRAP_FREEZE;",
        "return freezing(current);",
        "thaw: FAIL: fsync: after a second frozen isn't 1",
    ),
    (
        "thawed-free",
        "entry.c",
        "if (split_blocks_freezer() && call->thaws)",
        "if (false)",
        "thaw: FAIL: held are 0, not 1 fsync",
    ),
    (
        "clones-without-causes",
        "stack.c",
        "\t\tto->bi_iocost_cost = bits & ~TICKET_OWNER;",
        "\t\t;",
        "causes: FAIL: buffered: dirty is 0",
    ),
    ("done-unsettled", "stack.c", "\tsplit_ticket_return(bio);\n\tpreempt", "\tpreempt", "causes: dirty is"),
    (
        "drivers-own-unnamed",
        "block.c",
        "return !tag && current->flags",
        "return false && current->flags",
        "causes: FAIL: nobody: data is",
    ),
    (
        "one-gate-for-all",
        "resume.c",
        "passes |= call->device == device || !call->device || call->sb != sb;",
        "passes = true;",
        "stack-gates: FAIL: held are 0, not 1 fsync",
    ),
    (
        "asked-once-more",
        "resume.c",
        "\t\t    (!all && split_lets_pass(call, part)))",
        "\t\t    false)",
        "stack-gates: is held",
    ),
    ("lock-kept", "entry.c", "call->again = sync && ", "call->again = false && ", "locks: FAIL: a process waits"),
    ("directory-kept", "entry.c", "call->again = split_is_syscall();", "", "locks: FAIL: looking for a name"),
    ("held-for-ever", "gate.c", "return call->locked &&", "return false &&", "locks: FAIL: opening what is copied up"),
    (
        "each-part-held",
        "resume.c",
        "\tcase SPLIT_PAYS:\n\t\treturn true;\n",
        "",
        "locks: FAIL: opening what is copied up",
    ),
    ("refused-for-good", "resume.c", "if (split_was_refused())", "if (false)", "calls: FAIL: held are 0, not 1 creat"),
    (
        "signal-frees",
        "resume.c",
        "\tcase SPLIT_HELD:\n\t\treturn false;\n",
        "\tcase SPLIT_HELD:\n\t\tsplit_escape(record);\n",
        "thaw",
    ),
    ("any-call-passes", "resume.c", "\t\treturn split_is_again(record);\n", "\t\treturn true;\n", "xfs: FAIL: held"),
    ("freeze-waits", "gate.c", "READ_ONCE(call->sb->s_writers.frozen) != SB_UNFROZEN ||", "", "freeze"),
    ("umount-waits", "gate.c", "(call->kind == SPLIT_SYNC && split_blocks_umount(call->sb))", "false", "freeze"),
    (
        "never-ejected",
        "gate.c",
        "time_after(jiffies, answered + msecs_to_jiffies(SPLIT_ANSWER_MS))",
        "false",
        f"eject: {HANGS}",
    ),
    (
        "others-for-each-call",
        "gate.c",
        "\tif (atomic_xchg(&device->any_writeback, 1))\n\t\treturn;\n",
        "",
        "others: FAIL: others are written back for",
    ),
    ("account-kept", "gate.c", "\tsplit_account_put(call->account);\n", "", "switch: split_accounts_exit"),
    ("never-drained", "hooks.c", "\tsplit_entry_drain();\n", "", "switch"),
    ("hooks-stay", "hooks.c", "else if (split_hooking.in)", "else if (false)", "switch"),
    (
        "nowait-waits",
        "entry.c",
        "result = call->nowait ? -EAGAIN : split_wait(call);",
        "result = split_wait(call);",
        "nowait",
    ),
    (
        "read-nowait",
        "entry.c",
        "iocb_is_dsync(iocb),\n\t\t.direct = iocb->ki_flags & IOCB_DIRECT,\n"
        "\t\t.nowait = iocb->ki_flags & IOCB_NOWAIT,",
        "iocb_is_dsync(iocb),",
        f"nowait: {HANGS}",
    ),
    (
        "last-writer-only",
        "memory.c",
        "united = causes_unite(split_causes, former, tag);\n\tif",
        "causes_get(split_causes, united = tag);\n\tif",
        "causes",
    ),
    (
        "freed-but-expected",
        "memory.c",
        "\t\tsplit_settle_below(mapping->host->i_sb->s_bdev, tag, expected);\n\t\tpreempt",
        "\t\t\t;\n\t\tpreempt",
        "causes",
    ),
    (
        "moved-and-forgotten",
        "memory.c",
        "if (to && from && split_take(from, &tag, &expected))",
        "if (!split_take(from, &tag, &expected))",
        "drift",
    ),
    (
        "all-for-one-block",
        "memory.c",
        "if (bytes < folio_size(folio) && split_changes(folio) > 1)",
        "if (false)",
        "drift",
    ),
    (
        "whole-folio-forgotten",
        "memory.c",
        "order ? PAGE_SIZE << (order - 1) : 0;",
        "order ? PAGE_SIZE : 0;",
        "xfs: left: dirty is ",
    ),
    ("old-tags-stay", "memory.c", "page_folio(page) == folio && split_is_old(folio)", "false", "accounts"),
    (
        "pages-not-asked",
        "block.c",
        "\t\tsplit_trace_segment(&trace, &segment);\n\ttag = split_trace_end(&trace);\n\tsplit_trace_settle",
        "\t\t;\n\ttag = split_trace_end(&trace);\n\tsplit_trace_settle",
        "causes",
    ),
    ("never-settled", "block.c", "if (trace->expected)\n", "if (false)\n", "causes"),
    ("log-is-metadata", "block.c", "if (trace->use == SPLIT_LOG)\n\t\t\treturn false;", "", "causes"),
    ("charged-again", "block.c", "|| (state & SPLIT_CHARGED)", "", "drift"),
    ("commit-without-record", "journal.c", "if (first && t->causes.count > before)", "if (false)", "causes"),
    ("first-push-only", "journal.c", "if (j->push != push) {", "if (!j->push) {", "xfs"),
    ("second-change-unseen", "ext4.c", "if (split_tag_metadata(folio, tag, first) || first)", "if (first)", "causes"),
    ("commit-for-nobody", "ext4.c", "split_proxy_begin(tag, true);", "causes_put(split_causes, tag);", "causes"),
    ("flusher-allocates", "ext4.c", "split_proxy_begin(tag, false);", "causes_put(split_causes, tag);", "causes"),
    ("log-for-nobody", "xfs.c", "\t\tsplit_log(mount, 0, tag, 1, 0);\n", "", "xfs"),
    ("noted-by-nobody", "xfs.c", "\tsplit_work_for(ioend->io_inode);\n", "", "xfs"),
    ("flusher-changes", "xfs.c", "\t\tsplit_work_for(inode);\n", "\t\t;\n", "xfs"),
    (
        "rate-ends",
        "account.c",
        "return split_account_above(css) ?: split_account_get(",
        "return split_account_get(",
        "rate",
    ),
    ("id-without-end", "account.c", "\t__clear_bit(account->id, split_account_ids);\n", "", "accounts"),
)
EVADED = (
    ("store-is-made", "entry.c", "bool again = split_is_fault();", "bool again = false;", "killed_stores"),
    ("resize-unseen", "ext4.c", '\tSPLIT_GATE("ext4_setattr", split_at_setattr),\n', "", "many_truncates"),
)
CAUSE = (
    ("only-its-own-weight", "; css && css->parent; css = css->parent", "; css; css = NULL", "cpq-fair-weights"),
    ("any-weight", "if (!weight || weight > CAUSE_WEIGHT_MAX)", "if (false)", "cpq-fair-weights"),
    ("any-rate", "if (rate < CAUSE_RATE_MIN || rate > CAUSE_RATE_MAX)", "if (false)", "token-knobs"),
    ("place-kept", "\tcause_places[cgroup->place] = NULL;\n", "", "token-knobs"),
    (
        "any-deadline",
        "if (us && !capable && us < cause_longest_deadline(css->parent, which, 0))",
        "if (false)",
        "deadline-knobs",
    ),
    (
        "half-refused",
        "\t\tif (which < 0)\n\t\t\treturn which;\n\t\tif (us && !capable",
        "\t\tif (which < 0)\n\t\t\tbreak;\n\t\tif (us && !capable",
        "deadline-knobs",
    ),
    ("delegate-takes-all", "own >= CAUSE_DELEGATED_EACH", "false", "token-knobs: one more"),
    ("delegates-take-all", "delegated >= CAUSE_DELEGATED || ", "", "token-knobs: "),
    ("only-its-own-rate", "\t\t*css = (*css)->parent;\n", "\t\t*css = NULL;\n", "token-rates"),
)
FILES = (
    ("less-for-all", "us = max(found->us[what], otherwise)", "us = found->us[what]", "files"),
    ("everybodys-matter", " && uid_eq(found->uid, current_fsuid())", "", "files"),
    (
        "kept-open",
        "\tfput(entry->file);\n\tkfree_rcu(entry, rcu);\n",
        "\tkfree_rcu(entry, rcu);\n",
        "files: target is busy",
    ),
    ("any-file", "S_ISREG(file_inode(file)->i_mode) && ", "", "files"),
    ("any-file-system", "file_inode(file)->i_sb->s_bdev &&\n\t    ", "", "files"),
    ("however-open", "(file->f_mode & mode) == mode", "file->f_mode & mode", "reads"),
    ("reads-uncounted", "\t\tlist_del(&entry->reads);\n", "", "reads: NULL pointer dereference|deadlines of reads are"),
)
# In what elevators share, a bug is planted for each of them.
SHARED = (
    ("last-come-first", "h", "list_add_tail(&rq->queuelist, &", "list_add(&rq->queuelist, &", "{}-order"),
    ("no-range", "c", "if (value < least || value > most)", "if (value < least)", "{}-knobs"),
    (
        "front-not-resorted",
        "c",
        "\telv_rb_del(&set->sorted, rq);\n\telv_rb_add(&set->sorted, rq);\n",
        "",
        "elevator-merges",
    ),
    ("no-front-merge", "c", "return sluice_front_merge(rq);", "return ELEVATOR_NO_MERGE;", "elevator-merges"),
)
IOLAT = (
    ("merged-followed", "\t\tend(find(id_of(bio)), MERGED);", "\t\t{}", "paths"),
    ("joined-discards-followed", "(rq->cmd_flags & OP_MASK) == IO_DISCARD", "false", "paths"),
    ("turned-away-followed", "place < IOS && !at(place)->known", "false", "paths"),
    ("remapped-unseen", "!(bio->bi_flags & queued_flag)", "true", "paths"),
    ("split-off-unseen", "if (origin == IOS)", "if (origin <= IOS)", "paths"),
    ("flushed-twice", " || rq->rq_flags & flush_flag", "", "paths"),
    ("requeues-in-a-byte", "if (io->requeues < MOST_REQUEUES)", "if (io->requeues < 255)", "paths"),
    ("line-of-another", "!io->listed && io->disk < DISKS", "!io->listed", "paths"),
    ("not-inverted", "if (rank < io->rank)", "if (rank > io->rank)", "order"),
    ("thread-for-process", "id >> 32 == only_process", "(__u32)id == only_process", "count"),
    ("sum-off-by-one", "add_stage(row, I2D, d - i, ", "add_stage(row, I2D, d - i + 1, ", "count"),
)
WRR = (
    ("level-ignored", "wrr-pci.h", "req->bio ? req_get_ioprio(req) : 0", "0", "shares"),
    (
        "others-not-rung",
        "wrr-pci.h",
        "\tif (last)\n\t\twrr_ring_siblings(nvmeq);\n",
        "",
        "shares: I/O error, dev nvme0n1",
    ),
    ("forgotten-in-a-reset", "wrr-pci.h", "\tstatus = wrr_tell(dev);\n", "\tstatus = 0;\n", "shares"),
    ("quarter-of-the-queues", "wrr-pci.h", "min(dev->wrr.stock, WRR_LEVELS * dev->wrr.queues)", "*count", "granted"),
    ("never-demoted", "wrr-pci.h", "return wrr->debt > 0;", "return false;", "urgent"),
    ("never-begun-anew", "wrr-pci.h", " || !wrr->looking", "", "urgent"),
    ("weight-of-nothing", "wrr-pci.h", "!weight[i] || weight[i] > WRR_WEIGHT_MAX", "false", "knobs"),
    ("left-without-queues", "wrr-pci.h", "if (!dev->wrr.on || dev->online_queues > 1)", "if (true)", "knobs"),
    ("aborted-elsewhere", "pci.patch", "wrr_sqid(nvmeq, iod->wrr_level)", "nvmeq->qid", "knobs"),
)
# Nothing goes.
STALLED = (
    ("split-noop", "none-goes", "split/noop.c", "rq_take_marked(&noop->waiting);", "NULL;"),
    ("wrr", "none-goes", "elevator/wrr.c", ": rq_take_marked(&wrr->waiting);", ": NULL;"),
)
BUGS = (
    *(
        Bug(name, "nvme-wrr", f"kernel/nvme/{file}", right, wrong, f"wrr-{test}")
        for name, file, right, wrong, test in WRR
    ),
    Bug(
        "tags-not-kept",
        "wrr",
        "kernel/elevator/wrr.c",
        "sluice_nr_tags(data) * part",
        "sluice_nr_tags(data) * 8",
        "wrr-tags",
    ),
    *(
        Bug(
            f"one-queue-is-enough-{part}",
            part,
            "kernel/compat/elevator.h",
            "blk_queue_flag_clear(QUEUE_FLAG_SQ_SCHED, q);",
            "",
            test,
        )
        for part, test in (
            ("wrr", "elevator-queues: a read waits for ever"),
            ("split-noop", "split-refused: a commit waits for ever"),
        )
    ),
    *(
        Bug(name, "simdisk", f"kernel/simdisk/{file}", right, wrong, f"simdisk-{test}")
        for name, file, right, wrong, test in SIMDISK
    ),
    *(Bug(name, "mq-prio", "kernel/elevator/mq-prio.c", right, wrong, test) for name, right, wrong, test in MQ_PRIO),
    Bug(
        "ranks-reversed",
        "mq-prio",
        "kernel/elevator/ranks.h",
        "+ rq_level(ioprio);",
        "+ 7 - rq_level(ioprio);",
        "mq-prio-order",
    ),
    *(Bug(name, "mq-prio", "kernel/elevator/ranks.c", right, wrong, test) for name, right, wrong, test in RANKS),
    *(Bug(name, "cpq", "kernel/elevator/cpq.c", right, wrong, test) for name, right, wrong, test in CPQ),
    *(Bug(name, "cpq", "kernel/elevator/fair.c", right, wrong, test) for name, right, wrong, test in FAIR),
    *(Bug(name, "afq", "kernel/split/afq.c", right, wrong, test) for name, right, wrong, test in AFQ),
    *(Bug(name, "sluice", "kernel/split/sluice.c", right, wrong, test) for name, right, wrong, test in SLUICE),
    Bug(
        "costs-not-learned",
        "afq",
        "kernel/split/costs.c",
        "\tsplit_costs_use(device, &costs);\n}",
        "}",
        "afq-burst: FAIL: the drive writes",
    ),
    *(Bug(name, "split-token", "kernel/split/token.c", right, wrong, test) for name, right, wrong, test in TOKEN),
    *(
        Bug(name, "split-deadline", "kernel/split/deadline.c", right, wrong, test)
        for name, right, wrong, test in DEADLINE
    ),
    *(
        Bug(name, "split", f"kernel/split/{file}", right, wrong, f"split-{test}")
        for name, file, right, wrong, test in SPLIT
    ),
    *(
        Bug(name, "split", f"kernel/split/{file}", right, wrong, f"tenant-attacks: {test} costs too much")
        for name, file, right, wrong, test in EVADED
    ),
    *(Bug(name, "sluice-cause", "kernel/elevator/cause.c", right, wrong, test) for name, right, wrong, test in CAUSE),
    *(
        Bug(name, "sluice-cause", "kernel/elevator/cause-file.c", right, wrong, f"deadline-{test}")
        for name, right, wrong, test in FILES
    ),
    *(
        Bug(name, part, f"kernel/elevator/request-set.{suffix}", right, wrong, test.format(part))
        for name, suffix, right, wrong, test in SHARED
        for part in ("mq-prio", "cpq")
    ),
    Bug(
        "nobody-writes-back",
        "split",
        "kernel/split/gate.c",
        "\twriteback_inodes_sb_nr(sb, pages, WB_REASON_BACKGROUND);\n",
        "",
        "deadline-writeback",
    ),
    Bug(
        "let-go-unanswered",
        "split",
        "kernel/split/gate.c",
        "READ_ONCE(call->state) == SPLIT_HELD &&\n\t    time_after(",
        "time_after(",
        "deadline-faults: FAIL: what has had its answer",
    ),
    # mq-prio sorts nothing that it doesn't index.
    Bug(
        "sorted-never-hashed",
        "cpq",
        "kernel/elevator/request-set.c",
        "if (rq_is_hashed(rq) || (!RB_EMPTY_NODE(&rq->rb_node) && !sluice_rq_mergeable(rq)))",
        "if (!RB_EMPTY_NODE(&rq->rb_node))",
        "elevator-merges",
    ),
    *(
        Bug(name, part, f"kernel/{file}", right, wrong, "elevator-stall: and went in the order in which they came")
        for part, name, file, right, wrong in STALLED
    ),
    *(Bug(name, "iolat", "bpf/iolat.bpf.c", right, wrong, f"iolat-{test}") for name, right, wrong, test in IOLAT),
    *(
        Bug(name, "sqlite", "contrib/sqlite/sluice-vfs.c", right, wrong, f"deadline-sqlite: {said}")
        for name, right, wrong, said in SQLITE
    ),
)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sources, and in out/ the modules, from which only what is spoiled has to be built again."""
    folder = tmp_path_factory.mktemp("built")
    for sources in (modules.SOURCES, iolat.SOURCES, contrib.SOURCES):
        shutil.copytree(sources, folder / sources.name)
    (folder / "out").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modules, "SOURCES", folder / "kernel")
        modules.make(kernels.get(kernels.DEFAULT), folder / "out", "modules")
    return folder


def spoil(bug: Bug) -> str:
    """The source with the bug."""
    return (TOP / bug.source).read_text(encoding="utf-8").replace(bug.right, bug.wrong)


def build(built: Path, folder: Path, bug: Bug, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """All modules, those with the bug among them, or the program or library."""
    shutil.copytree(built, folder, symlinks=True, dirs_exist_ok=True)
    (folder / bug.source).write_text(spoil(bug), encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(modules, "SOURCES", folder / "kernel")
        patch.setattr(iolat, "SOURCES", folder / "bpf")
        patch.setattr(contrib, "SOURCES", folder / "contrib")
        if bug.part == "iolat":
            return iolat.build()
        if bug.part == "sqlite":
            return contrib.build("sqlite")
        modules.make(kernels.get(kernels.DEFAULT), folder / "out", "modules")
    return {path.name: path.read_bytes() for path in (folder / "out").rglob("*.ko")}


def test_what_is_spoiled_is_there_once() -> None:
    """Else a bug would be planted nowhere, or twice."""
    found = {bug: (TOP / bug.source).read_text(encoding="utf-8").count(bug.right) for bug in BUGS}
    assert [bug for bug, times in found.items() if times != 1] == []


def evidence(one: Job, expected: str) -> list[str]:
    """What speaks against a job's modules: what its script says when it fails, what its kernel complains of but for
    what is expected, or how the guest ended.
    """
    try:
        outcome = job.run(one)
    except (GuestCrashed, GuestHung, GuestOutOfMemory) as error:
        return [error.what]
    said = outcome.files["stderr"].decode(errors="replace").splitlines() if outcome.status else []
    return [*said, *complaints(outcome.dmesg, expected)]


@pytest.mark.planted
@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.part}-{bug.name}")
def test_planted_bug_is_caught(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: Bug) -> None:
    """The named script fails in the way that it is to. A module that doesn't build is no planted bug."""
    told = head(bug.script.read_text(encoding="utf-8"))
    sound = make_job(bug.script, kernels.DEFAULT, bug.part if told.schedulers else "", told.race == "only")

    def check() -> None:
        spoiled = build(built, tmp_path, bug, monkeypatch)
        files = {name: spoiled.get(name, data) for name, data in sound.files.items()}
        limit = HANGS_S if HANGS in bug.caught_by else sound.cpu_limit_s
        found = evidence(replace(sound, files=files, cpu_limit_s=limit), told.dmesg)
        assert bug.is_caught(found), found

    # The modules' other files are left out: 250 guests for each change of one would be too many. --fresh tries all.
    rest = {name: data for name, data in sound.files.items() if not name.endswith(".ko")}
    judge = (inspect.getsource(part) for part in (Bug, build, evidence, complaints))
    passes.once(check, job.key(replace(sound, files=rest)), spoil(bug), repr(bug), *judge)


def test_only_its_own_failure_catches_a_bug() -> None:
    bug = Bug("name", "cpq", "cpq.c", "right", "wrong", "cpq-order: a low request went first")
    assert bug.script.name == "cpq-order.sh"
    assert bug.is_caught(["FAIL: a low request went first of 3"])
    assert not bug.is_caught(["FAIL: no /dev/simdisk-d0"])
    assert not bug.is_caught(["the guest crashed: BUG: kernel NULL pointer dereference"])
    assert not bug.is_caught([])


def test_what_prevents_a_script_catches_nothing() -> None:
    bug = Bug("name", "cpq", "cpq.c", "right", "wrong", "cpq-order")
    assert bug.is_caught(["FAIL: a low request went first"])
    assert not bug.is_caught(["FAIL: the kernel refuses scheduler cpq"])
    assert not bug.is_caught(["WARNING: CPU: 0 at cpq.c:1"])
