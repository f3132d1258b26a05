# SPDX-License-Identifier: GPL-2.0-only
"""`sluice bench`: measures a disk of this host, and leaves it as it was, also when it is interrupted or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_guest import HOST, complaints

from lab import job, kernels, modules, passes
from lab.host import bench
from lab.host.disk import Disk

SCRIPT = r"""
. ./lib.sh
disk ssd
scheduler mq-deadline
mkdir -p "/lib/modules/$(uname -r)/updates"
cp ./*.ko "/lib/modules/$(uname -r)/updates"
depmod
echo 400 >$Q/iosched/read_expire
echo 100 >$Q/nr_requests
mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" 1g
mkdir "/tmp/a disk"
bench() {
	python3 -m lab.host.cli bench simdisk-d0 "$@"
}
# refused STATUS WHAT OPTION…: the disk is as it was.
refused() {
	want=$1 what=$2 status=0
	shift 2
	bench "$@" >/tmp/said 2>&1 || status=$?
	[ $status = "$want" ] || fail "bench $*: status $status, not $want: $(cat /tmp/said)"
	grep -qF -- "$what" /tmp/said || fail "bench $*: no '$what' in: $(cat /tmp/said)"
	clean
}
clean() {
	[ "$(cat $Q/nr_requests)" = 100 ] || fail "nr_requests is $(cat $Q/nr_requests)"
	[ "$(cat $Q/iosched/read_expire)" = 400 ] || fail "mq-deadline has lost its knob"
	[ -z "$(ls "/tmp/a disk" | grep -v lost+found)" ] || fail "left: $(ls "/tmp/a disk")"
	[ -z "$(pgrep -w fio)" ] || fail "left: $(ps -eo pid,ppid,stat,args | grep fio)"
}
refused 3 "no file system that is on simdisk-d0 alone is mounted"
mount "$DEV" "/tmp/a disk"
refused 2 "mq-deadline is simdisk-d0's scheduler and its default" --scheduler mq-deadline
refused 2 "/tmp is not a folder on simdisk-d0" --dir /tmp
refused 2 "there is no scheduler nonesuch" --scheduler nonesuch --seconds 0.1
bench --seconds 60 >/tmp/said 2>&1 &
sleep 8
pkill -HUP -f lab.host.cli
status=0
wait $! || status=$?
[ $status = 130 ] || fail "interrupted: $status: $(cat /tmp/said)"
clean
bench --seconds 0.5 --json >/out/json
clean
"""


@pytest.mark.usefixtures("lab")
def test_a_disk_is_measured_and_left_as_it_was() -> None:
    files = modules.needed(modules.build(kernels.DEFAULT), ["simdisk", "sluice"]) | HOST
    outcome = passes.outcome(job.Job(kernels.DEFAULT, SCRIPT, files))
    assert outcome.status == 0, outcome.files["stderr"].decode()
    assert not complaints(outcome.dmesg)
    runs = json.loads(outcome.files["json"])["runs"]
    assert len(runs) == 2 * 2 * bench.REPEATS
    assert {run["scheduler"] for run in runs} == {"mq-deadline", "sluice"}
    for run in runs:
        assert run["commits"] > 0 and run["commit_p99_ms"] > 0 and run["reads"] > 0 and run["read_p99_ms"] > 0
        assert (run["copy_mb_s"] > 0) == run["beside"]


def test_the_table_says_what_is_kept() -> None:
    """The medians of three runs; the share is of the same scheduler's figure without the copy."""
    disk = Disk("sda", "8:0", "/sys/block/sda", False, "none", (), 1, 32, 32, {}, {})
    one = bench.Plan(disk, ("none", "sluice"), Path("/"), 20, 1)
    found = [
        bench.Run(scheduler, beside, dict.fromkeys(bench.FIGURES, base * (factor if beside else 1)))
        for scheduler, factor in (("none", 0.1), ("sluice", 0.9))
        for beside in (True, False)
        for base in (300, 100, 200)
    ]
    lines = bench.text(one, found).splitlines()
    assert lines[6].split() == ["none", "beside", *["20", "(10–30)"] * 5]
    assert lines[-1] == "beside the copy sluice keeps 90 % of the commits and 90 % of the reads"
    assert len({len(line) for line in lines[4:9]}) == 1
