# SPDX-License-Identifier: GPL-2.0-only
"""`sluice explain`: which process waits, for what, and for which process; from copied files, and live in a guest."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_guest import HOST, complaints

from lab import job, kernels, modules, passes
from lab.errors import LabError
from lab.host import disk as disks
from lab.host import explain

SCRIPT = r"""
. ./lib.sh
disk ssd
scheduler sluice
file_system
database="--name=database --directory=/tmp/mnt --rw=write --bs=8k --size=8m --fdatasync=1 --prio=0"
reader="--name=reader --filename=$DEV --offset=200m --size=50m --direct=1 --rw=randread --bs=4k --prio=0"
scan="--name=scan --filename=$DEV --offset=300m --size=50m --direct=1 --rw=read --bs=64k --prio=7"
for job in "$database" "$reader" "$scan"; do
	fio --ioengine=psync --time_based --runtime=60 --output=/dev/null $job &
done
ionice -c 3 dd if=/dev/zero of=/tmp/mnt/copy bs=64k count=10000 2>/dev/null &
sleep 3
show() {
	python3 -c "from lab.host import explain; explain.run('$DEV', 1, $1, $2)"
}
show 8 True >/out/json
show 1 False >/out/screen
pkill -KILL "^(fio|dd)$"
wait
expect_dmesg_clean
"""


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("kernel", [kernels.DEFAULT, pytest.param("6.1", marks=pytest.mark.full)])
def test_what_waits_for_what_is_shown(kernel: str) -> None:
    """The log goes first, the copy is held by its rank or its dirty data, the scan waits for its turn."""
    files = modules.needed(modules.build(kernel), ["simdisk", "sluice"]) | HOST
    outcome = passes.outcome(job.Job(kernel, SCRIPT, files))
    assert outcome.status == 0, outcome.files["stderr"].decode()
    assert not complaints(outcome.dmesg)
    looks = [json.loads(line)["clients"] for line in outcome.files["json"].decode().splitlines()]
    assert len(looks) == 8
    for *others, copy in looks:
        assert [row["rank"] for row in others] == ["BE 0", "BE 0", "BE 7"]
        assert copy["name"].startswith("dd ") and copy["rank"] == "IDLE" and copy["share"] < 5
        assert copy["used"] < min(row["used"] for row in others)
    waits = [" ".join(wait for row in look for wait in row["waits"]) for look in looks]
    assert any(re.search(r"write held for \d+ ms: .*BE 0 \(fio \d+", wait) for wait in waits), waits
    assert any("the journal's commit" in wait for wait in waits), waits
    screen = outcome.files["screen"].decode()
    assert "simdisk-d0: sluice, low_share 5 %, busy " in screen
    assert re.search(r"^dd \d+ +IDLE ", screen, re.MULTILINE), screen
    assert any("a request's turn in the scheduler, below BE 0 (fio " in wait for wait in waits), waits


def test_ranks_have_names() -> None:
    assert [explain.rank_name(rank) for rank in (0, 7, 8, 12, 16)] == ["RT 0", "RT 7", "BE 0", "BE 4", "IDLE"]


FILES = {
    "proc/uptime": "{now} 0\n",
    "sys/block/sda/stat": "0 0 0 0 0 0 0 0 0 {busy} 0\n",
    "sys/block/sda/queue/iosched/low_share": "5\n",
    "sys/kernel/debug/block/sda/sched/clients": """id pid rank expected limit_ns dirty_ns inside held
0 0 16 0 0 0 0 0
1 100 8 0 62500000 0 1 0
2 0 12 0 4000000 0 0 0
3 300 16 0 4000000 9000000 0 2
""",
    "sys/kernel/debug/block/sda/sched/state": "rank queued issued oldest_ns max_wait_ns limit mib_ns\n"
    + "".join(f"{rank} {int(rank == 12)} 0 0 0 1 0\n" for rank in range(17))
    + "turns 9 issued 0 cost_ns 1 stay_ns 1\n",
    "sys/kernel/debug/block/sda/sched/writeback": "deferred 3\npieces 1\n",
    "sys/kernel/debug/split/held": """sda write pid=301 comm=a copy ms=250 reason=dirty
sda write pid=300 comm=a copy ms=40 reason=order
sdb write pid=100 comm=a copy ms=1 reason=rank
""",
    "sys/kernel/debug/split/ledger": """sda 1 process=100 read={read} data=0 metadata=0 log=0 dirty=0
sda 3 process=300 read=0 data=100 metadata=-50 log=50 dirty=8192
sdb 1 process=100 read=900000 data=0 metadata=0 log=0 dirty=0
""",
    "proc/100/comm": "postgres\n",
    "proc/300/comm": "a copy\n",
    "proc/100/task/100/wchan": "jbd2_log_wait_commit",
    "proc/300/task/300/wchan": "split_hold_here",
    "proc/300/task/301/wchan": "split_hold_here",
}


def copied(root: Path, now: int) -> Path:
    """A folder with the files that explain reads, at a time in seconds."""
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        filled = text.format(now=now, busy=500 * now, read=300 * (now - 1)) if "{" in text else text
        (root / path).write_text(filled, encoding="utf-8")
    return root


def looks(tmp_path: Path) -> tuple[explain.Look, explain.Look]:
    first, second = copied(tmp_path / "1", 1), copied(tmp_path / "2", 2)
    return explain.look("sda", first), explain.look("sda", second)


def test_each_client_has_its_row(tmp_path: Path) -> None:
    database, group, copy = explain.rows(*looks(tmp_path))
    assert (database.name, database.rank, database.used, database.share) == ("postgres 100", "BE 0", 100, None)
    assert (group.name, group.rank, group.share) == ("cgroup (account 2)", "BE 4", 5)
    assert (copy.name, copy.rank, copy.used, copy.dirty_kib, copy.held) == ("a copy 300", "IDLE", 0, 8, 2)
    assert copy.share == pytest.approx(0.25)


def test_what_waits_names_what_it_waits_for(tmp_path: Path) -> None:
    database, group, copy = explain.rows(*looks(tmp_path))
    what = "in jbd2_log_wait_commit: the journal's commit, which may write first what a copy 300 has dirty"
    assert database.waits == (what,)
    assert group.waits == ()
    above = "BE 0 (postgres 100), BE 4 (cgroup (account 2))"
    assert copy.waits == (
        f"write held for 250 ms: its dirty data takes the disk 9 ms, its limit is 4 ms below {above}",
        "write held for 40 ms: an earlier call of the process is held",
    )


def test_the_screen_has_a_line_for_each(tmp_path: Path) -> None:
    lines = explain.screen(*looks(tmp_path)).splitlines()
    assert lines[0] == "sda: sluice, low_share 5 %, busy 50 %, 3 requests of writeback kept back"
    assert [line.split("  ")[0] for line in lines[3:] if not line.startswith("    ")][:3] == [
        "postgres 100",
        "cgroup (account 2)",
        "a copy 300",
    ]
    assert lines[-1].split() == ["BE", "4", "1", "0"]


def test_a_process_that_has_gone_has_no_name(tmp_path: Path) -> None:
    root = copied(tmp_path, 1)
    (root / "proc/300/comm").unlink()
    look = explain.look("sda", root)
    assert [row.name for row in explain.rows(look, look)][-1] == "? 300"


def test_without_debugfs_it_says_what_to_type(tmp_path: Path) -> None:
    root = copied(tmp_path, 1)
    (root / "sys/kernel/debug/split/held").unlink()
    with pytest.raises(LabError, match="split/held can't be read") as error:
        explain.look("sda", root)
    assert error.value.next_step.startswith("mount -t debugfs debugfs /sys/kernel/debug")


def test_an_interrupt_is_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    look = explain.look("sda", copied(tmp_path, 1))
    monkeypatch.setattr(disks, "find", lambda device, command: device)
    monkeypatch.setattr(disks, "read", lambda name: SimpleNamespace(scheduler="sluice"))
    monkeypatch.setattr(explain, "look", lambda name: look)
    monkeypatch.setattr("time.sleep", interrupted)
    assert explain.run("sda", 2.0, 0, False) == 0
