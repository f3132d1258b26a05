# SPDX-License-Identifier: GPL-2.0-only
"""Which process waits for which on a disk with the scheduler sluice: one screen, again and again.

Reads the scheduler's state in debugfs, and /proc; changes nothing. Imports only Python's standard library, so that it
runs on any host. docs/sluice.md, "What can be watched", explains a screen.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.errors import LabError, UsageError
from lab.host import disk as disks

SCHEMA = 1
SCHEDULER = "sluice"
# Ranks as kernel/elevator/ranks.h has them: RT 0-7, BE 0-7, IDLE.
LEVELS, IDLE = 8, 16
# A rank's share is that of at most this many ranks above it (kernel/split/sluice.c).
MOST_ABOVE = 2
# The number of processes that are named where others wait for them.
NAMED = 3
# Where a thread sleeps in the kernel, and what it waits for there.
SLEEPS = {
    r"jbd2_log_wait_commit|ext4_fc_commit|xlog_wait_on_iclog|xfs_log_force.*": "the journal's commit",
    r"do_get_write_access|start_this_handle|add_transaction_credits|wait_transaction_.*|xlog_grant_head_.*": (
        "room or a block in the journal"
    ),
    r"folio_wait_.*|__wait_on_buffer|submit_bio_wait|__iomap_dio_rw|read_events|io_cqring_wait": "the device",
    r"blk_mq_get_tag|sbitmap_.*": "a free request (tag)",
    r"rq_qos_wait|wbt_wait": "the kernel's writeback throttling (wbt_lat_usec)",
    r"balance_dirty_pages": "the kernel's limit of dirty memory (vm.dirty_ratio)",
    r"rwsem_down_.*|__mutex_lock.*": "a lock of the file system, which another process holds",
}


@dataclass(frozen=True)
class Rank:
    """The requests of a rank: waiting in the scheduler, and inside the device."""

    queued: int
    issued: int


@dataclass(frozen=True)
class Client:
    """A process or cgroup: dirty data and its limit in ns of the device's time, calls inside the file system."""

    id: int
    pid: int
    rank: int
    limit_ns: int
    dirty_ns: int
    inside: int
    held: int


@dataclass(frozen=True)
class Call:
    """A call that is held at a gate: for how many ms, and the scheduler's reason."""

    kind: str
    pid: int
    ms: int
    reason: str


@dataclass(frozen=True)
class Account:
    """The total charges of an account: normalised bytes of reads, data, metadata and journal; its dirty bytes."""

    charged: int
    dirty: int


@dataclass(frozen=True)
class Look:
    """The state at one moment; `names` by process, `threads` and `sleeps` by thread of a client.

    `deferred` counts writeback requests that are kept back below a more urgent rank.
    """

    seconds: float
    disk: str
    low_share: int
    deferred: int
    busy_ms: int
    ranks: tuple[Rank, ...]
    clients: tuple[Client, ...]
    calls: tuple[Call, ...]
    accounts: Mapping[int, Account]
    names: Mapping[int, str]
    threads: Mapping[int, int]
    sleeps: Mapping[int, str]


@dataclass(frozen=True)
class Row:
    """A client on the screen.

    In per cent: `used` is its part of the cost of all I/O of the interval, by the cost model. `share` is the part of
    the device's time that its rank may have now (None: no limit).
    """

    name: str
    rank: str
    used: float
    share: float | None
    dirty_kib: int
    dirty_ms: float
    limit_ms: float
    held: int
    inside: int
    waits: tuple[str, ...]


def rank_name(rank: int) -> str:
    """RT 0 to 7, BE 0 to 7, IDLE."""
    return "IDLE" if rank >= IDLE else f"{('RT', 'BE')[rank // LEVELS]} {rank % LEVELS}"


def look(name: str, root: Path = Path("/")) -> Look:
    """The present state of a disk; LabError if it can't be read."""
    debug = root / "sys/kernel/debug"
    sched = debug / "block" / name / "sched"
    clients = tuple(_clients(_text(sched / "clients")))
    calls = tuple(_calls(name, _text(debug / "split/held")))
    threads = {tid: client.pid for client in clients if client.pid for tid in _threads(root, client.pid)}
    shown = {client.pid for client in clients} | {call.pid for call in calls}
    return Look(
        float(_text(root / "proc/uptime").split()[0]),
        name,
        int(_text(root / "sys/block" / name / "queue/iosched/low_share")),
        int(re.findall(r"^deferred (\d+)$", _text(sched / "writeback"), re.MULTILINE)[0]),
        int(_text(root / "sys/block" / name / "stat").split()[9]),
        tuple(_ranks(_text(sched / "state"))),
        clients,
        calls,
        dict(_accounts(name, _text(debug / "split/ledger"))),
        {pid: _proc(root, f"{pid}/comm") for pid in shown if pid},
        threads,
        {tid: _proc(root, f"{pid}/task/{tid}/wchan") for tid, pid in threads.items()},
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except PermissionError:
        raise LabError(f"{path} can be read by root alone", "sudo ./sluice explain DISK") from None
    except OSError as error:
        raise LabError(
            f"{path} can't be read: {error.strerror}",
            "mount -t debugfs debugfs /sys/kernel/debug   or, where it is mounted, the same again",
        ) from None


def _proc(root: Path, file: str) -> str:
    """A file of a process, "" if the process has gone."""
    try:
        return (root / "proc" / file).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _threads(root: Path, pid: int) -> list[int]:
    try:
        return sorted(int(path.name) for path in (root / f"proc/{pid}/task").iterdir())
    except OSError:
        return []


def _table(text: str) -> Iterator[dict[str, int]]:
    """The rows of numbers below a line with the columns' names."""
    head, *lines = text.splitlines()
    names = head.split()
    for line in lines:
        words = line.split()
        if len(words) == len(names) and words[0].isdigit():
            yield dict(zip(names, map(int, words), strict=True))


def _ranks(state: str) -> Iterator[Rank]:
    return (Rank(row["queued"], row["issued"]) for row in _table(state))


def _clients(text: str) -> Iterator[Client]:
    """All clients but account 0, which stands for I/O whose process is not known."""
    for row in _table(text):
        if row["id"]:
            yield Client(
                **{name: row[name] for name in ("id", "pid", "rank", "limit_ns", "dirty_ns", "inside", "held")}
            )


def _calls(disk: str, text: str) -> Iterator[Call]:
    line = re.compile(rf"^{re.escape(disk)} (\S+) pid=(\d+) comm=.* ms=(\d+) reason=(.+)$", re.MULTILINE)
    return (Call(kind, int(pid), int(ms), reason) for kind, pid, ms, reason in line.findall(text))


def _accounts(disk: str, text: str) -> Iterator[tuple[int, Account]]:
    line = rf"^{re.escape(disk)} (\d+) \S+ read=(-?\d+) data=(-?\d+) metadata=(-?\d+) log=(-?\d+) dirty=(\d+)$"
    for id, *charged, dirty in re.findall(line, text, re.MULTILINE):
        yield int(id), Account(sum(map(int, charged)), int(dirty))


def rows(before: Look, now: Look) -> list[Row]:
    """The clients with their use between two looks, sorted by rank and then by use."""
    used = {id: account.charged - _charged(before, id) for id, account in now.accounts.items()}
    total = sum(used.values()) or 1
    clients = sorted(now.clients, key=lambda client: (client.rank, -used.get(client.id, 0)))
    return [_row(now, client, 100 * used.get(client.id, 0) / total) for client in clients]


def _charged(look: Look, id: int) -> int:
    return look.accounts[id].charged if id in look.accounts else 0


def _name(now: Look, client: Client) -> str:
    """The name of a process; a cgroup with a weight is one account, which has no process."""
    return f"{now.names.get(client.pid) or '?'} {client.pid}" if client.pid else f"cgroup (account {client.id})"


def _row(now: Look, client: Client, used: float) -> Row:
    above = len(_busy_above(now, client.rank))
    account = now.accounts.get(client.id)
    return Row(
        _name(now, client),
        rank_name(client.rank),
        used,
        100 * (now.low_share / 100) ** min(above, MOST_ABOVE) if above else None,
        account.dirty >> 10 if account else 0,
        client.dirty_ns / 1e6,
        client.limit_ns / 1e6,
        client.held,
        client.inside,
        tuple(dict.fromkeys([*_held(now, client), *_sleeping(now, client)])),
    )


def _busy_above(now: Look, rank: int) -> list[int]:
    """The more urgent ranks that are active."""
    doing = {client.rank for client in now.clients if client.inside or client.held}
    doing |= {number for number, one in enumerate(now.ranks) if one.queued or one.issued}
    return sorted(one for one in doing if one < rank)


def _those(now: Look, chosen: Sequence[Client]) -> str:
    """The names of some clients."""
    names = [_name(now, client) for client in chosen]
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _above(now: Look, rank: int) -> str:
    """The active ranks above one, with their processes: "BE 0 (postgres 812)"."""
    parts = []
    for number in _busy_above(now, rank):
        those = _those(now, [client for client in now.clients if client.rank == number])
        parts.append(f"{rank_name(number)} ({those})" if those else rank_name(number))
    return ", ".join(parts)


def _held(now: Look, client: Client) -> Iterator[str]:
    """Why a client's calls are held at the gates."""
    waits: dict[tuple[str, str], int] = {}
    for call in now.calls:
        if call.pid == client.pid or now.threads.get(call.pid) == client.pid:
            key = (call.kind, call.reason)
            waits[key] = max(waits.get(key, 0), call.ms)
    for (kind, reason), ms in waits.items():
        yield f"{kind} held for {ms} ms: {_reason(now, client, reason)}"


def _reason(now: Look, client: Client, reason: str) -> str:
    above = _above(now, client.rank)
    if reason == "rank":
        return f"its rank has used its share, below {above or 'a rank that was active until just now'}"
    if reason == "dirty":
        why = f"below {above}" if above else "beside processes of its rank, or alone"
        dirty_ms, limit_ms = client.dirty_ns / 1e6, client.limit_ns / 1e6
        return f"its dirty data takes the disk {dirty_ms:.0f} ms, its limit is {limit_ms:.0f} ms {why}"
    return "an earlier call of the process is held" if reason == "order" else reason


def _sleeping(now: Look, client: Client) -> Iterator[str]:
    """What a client's threads wait for inside the kernel."""
    held = {call.pid for call in now.calls}
    for tid, place in now.sleeps.items():
        if now.threads[tid] != client.pid or tid in held:
            continue
        what = next((what for pattern, what in SLEEPS.items() if re.fullmatch(pattern, place)), "")
        if what == "the device" and now.ranks[client.rank].queued and _busy_above(now, client.rank):
            what = f"a request's turn in the scheduler, below {_above(now, client.rank)}"
        if what:
            yield f"in {place}: {what}{_needs(now, client) if 'commit' in what else ''}"


def _needs(now: Look, client: Client) -> str:
    """The processes whose dirty data a commit may have to write first."""
    others = [one for one in now.clients if one.dirty_ns and one.id != client.id]
    return f", which may write first what {_those(now, others)} has dirty" if others else ""


HEAD = ("process", "rank", "cost", "share", "dirty", "ms / limit", "held", "inside")


def screen(before: Look, now: Look) -> str:
    """The screen: a line for the disk, a table of the clients with their reasons to wait, and the ranks' requests."""
    ms = (now.seconds - before.seconds) * 1000
    busy = min(100.0, 100 * (now.busy_ms - before.busy_ms) / ms) if ms else 0.0
    found = rows(before, now)
    table = [HEAD, *map(_cells, found)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    kept = f", {now.deferred} requests of writeback kept back" if now.deferred else ""
    lines = [f"{now.disk}: {SCHEDULER}, low_share {now.low_share} %, busy {busy:.0f} %{kept}", "", _line(HEAD, widths)]
    for row, cells in zip(found, table[1:], strict=True):
        lines += [_line(cells, widths), *(f"    waits: {wait}" for wait in row.waits)]
    lines += ["", "rank     queued  in the device"]
    doing = [(number, one) for number, one in enumerate(now.ranks) if one.queued or one.issued]
    return "\n".join([*lines, *(f"{rank_name(number):7}  {one.queued:6}  {one.issued:13}" for number, one in doing)])


def _cells(row: Row) -> tuple[str, ...]:
    share = "no limit" if row.share is None else f"{row.share:.2g} %"
    dirty = (f"{row.dirty_kib} KiB", f"{row.dirty_ms:.0f} / {row.limit_ms:.0f}")
    return (row.name, row.rank, f"{row.used:.1f} %", share, *dirty, str(row.held), str(row.inside))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """A line with the names to the left and the figures to the right."""
    pairs = list(zip(cells, widths, strict=True))
    return "  ".join(
        [*(cell.ljust(width) for cell, width in pairs[:2]), *(cell.rjust(width) for cell, width in pairs[2:])]
    )


def run(device: str, seconds: float, screens: int, as_json: bool) -> int:
    """Show this many screens, or with 0 until interrupted, which is the usual end; returns the exit status."""
    name = disks.find(device, command="explain")
    chosen = disks.read(name).scheduler
    if chosen != SCHEDULER:
        raise UsageError(
            f"{name} has the scheduler {chosen}, and explain knows {SCHEDULER} alone",
            f"./sluice use {SCHEDULER} {name}   or ./sluice doctor {name}",
        )
    before = look(name)
    while True:
        try:
            time.sleep(seconds)
        except KeyboardInterrupt:
            return 0
        now = look(name)
        if as_json:
            found = {"schema": SCHEMA, "disk": name, "clients": [asdict(row) for row in rows(before, now)]}
            print(json.dumps(found), flush=True)
        else:
            clear = "\033[H\033[2J" if sys.stdout.isatty() and screens != 1 else ""
            print(f"{clear}{screen(before, now)}", flush=True)
        before, screens = now, screens - 1
        if not screens:
            return 0
