# SPDX-License-Identifier: GPL-2.0-only
"""The doctor on real kernels: settings are spoiled under a real load in a guest, and its files are judged here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from planted_disk import examine

from lab import job, kernels, modules, passes
from lab.host import doctor
from lab.host.disk import CLASSES

# see NAME SECONDS FIO_OPTION…: run fio, and copy the files that the doctor reads, at the start and at the end of that
# time, with forty looks in between.
HEAD = r"""
. ./lib.sh
copy() {
	mkdir -p "$folder"
	cp --parents "$@" "$folder" 2>/dev/null || true
}
glance() {
	copy "$S/inflight" /sys/kernel/debug/block/"${S##*/}"/hctx*/sched_tags \
		/sys/kernel/debug/block/"${S##*/}"/sched/accounts
}
snapshot() {
	glance
	copy "$S"/dev "$S"/stat "$S"/queue/* "$S"/queue/iosched/* "$S"/mq/*/nr_tags \
		/proc/uptime /proc/pressure/io /proc/sys/kernel/osrelease /proc/[0-9]*/task/[0-9]*/io \
		/proc/[0-9]*/task/[0-9]*/stat /sys/fs/cgroup/io.* /sys/fs/cgroup/*/io.* "/lib/modules/$(uname -r)/modules.dep"
	for task in $(pgrep -w fio); do
		echo "$task $(ionice -p "$task")" >>"$folder/ioprio"
	done
}
see() {
	name=$1 seconds=$2
	shift 2
	S=${Q%/queue}
	fio --filename="$DEV" --time_based --runtime=600 --output=/dev/null "$@" &
	fio=$!
	sleep 1
	folder=/out/$name/00
	snapshot
	for look in $(seq -w 1 40); do
		sleep "$(echo "$seconds $look" | awk '{ print $1 / 40 * (20 + $2 * 17 % 40) / 40 }')"
		folder=/out/$name/$look
		glance
	done
	folder=/out/$name/41
	snapshot
	kill "$fio"
	wait "$fio" || true
}
gone() {
	rmdir /sys/kernel/config/simdisk/d0
}
"""
DEEP = "--direct=1 --ioengine=libaio --bs=4k --name=r --rw=randread --iodepth=16 --numjobs=2"
TWO = DEEP.replace("iodepth=16", "iodepth=64")
MIXED = f"{DEEP} --name=w --rw=randwrite --iodepth=16"
ONE = "--direct=1 --ioengine=psync --bs=4k --rw=randread --name=one"
SEQUENTIAL = "--ioengine=psync --rw=read --bs=64k --name=reader"
THINKER = "--direct=1 --ioengine=psync --bs=4k --rw=randread --name=thinker --prio=0 --thinktime=60ms --numjobs=8"
DIRECT_RUN = "--direct=1 --ioengine=libaio --rw=read --bs=128k --iodepth=8 --name=reader"


def pair(one: str, other: str, depth: int = 16) -> str:
    """Two readers with different priorities, the second with a deep queue."""
    shared = "--direct=1 --ioengine=libaio --bs=4k --rw=randread"
    return f"{shared} --name=database {one} --iodepth=16 --name=backup {other} --iodepth={depth} --numjobs=2"


CLASSED = pair("--prioclass=1", "--prioclass=3")
LEVELLED = pair("--prioclass=2 --prio=1", "--prioclass=2 --prio=7")


@dataclass(frozen=True)
class Spoiled:
    """A scheduler, files below queue/ that are set, a load, and the only findings that the doctor must have."""

    scheduler: str
    load: str
    found: tuple[str, ...] = ()
    settings: Mapping[str, int] = field(default_factory=dict)
    before: str = ""
    drive: str = ""

    def script(self, name: str, drive: str, seconds: int) -> str:
        """Shell lines that do it."""
        lines = [f"disk {drive} data=none {self.drive}", f"scheduler {self.scheduler}"]
        lines += [f"echo {value} >$Q/{file}" for file, value in self.settings.items()]
        return "\n".join([*lines, self.before, f"see {name} {seconds} {self.load}", "gone", ""])


SANE = {
    "sane-none": Spoiled("none", ONE),
    "sane-deadline": Spoiled("mq-deadline", MIXED),
    "sane-kyber": Spoiled("kyber", ONE),
    "sane-bfq": Spoiled("bfq", MIXED),
    "sane-prio": Spoiled("mq-prio", LEVELLED),
    "sane-cpq": Spoiled("cpq", MIXED),
    "sane-one": Spoiled("mq-deadline", ONE),
    "sane-sequential": Spoiled("mq-deadline", SEQUENTIAL),
}
CGROUPS = """echo +io >/sys/fs/cgroup/cgroup.subtree_control
mkdir -p /sys/fs/cgroup/shop /sys/fs/cgroup/backup
"""
LIMIT = CGROUPS + 'echo "$(cat "${Q%/queue}/dev") riops=20" >/sys/fs/cgroup/shop/io.max'
WEIGH = CGROUPS + "echo 800 >/sys/fs/cgroup/shop/io.weight"
SHARED = "--direct=1 --ioengine=libaio --bs=4k --rw=randread --iodepth=32"
CASES: Mapping[str, Mapping[str, Spoiled]] = {
    "hdd": {
        **SANE,
        "none": Spoiled("none", MIXED, ("rotating-unsorted",)),
        "kyber": Spoiled("kyber", MIXED, ("rotating-unsorted",)),
        "batch": Spoiled("mq-deadline", MIXED, ("batch-small",), {"iosched/fifo_batch": 1}),
        "deadline": Spoiled("mq-deadline", DEEP + " --numjobs=4", ("deadline-short",), {"iosched/read_expire": 20}),
        "tags": Spoiled("mq-deadline", DEEP, ("nr-requests-small",), {"nr_requests": 4}),
        "starved": Spoiled(
            "mq-deadline",
            MIXED,
            ("writes-starved",),
            # Linux 6.1 keeps async_depth as computed from the old nr_requests.
            {"nr_requests": 64, "iosched/async_depth": 48, "iosched/writes_starved": 20, "iosched/write_expire": 1000},
            drive="queue_depth=1",
        ),
        "async": Spoiled("mq-deadline", MIXED, ("async-depth-small",), {"iosched/async_depth": 1}),
        "idling": Spoiled(
            "bfq",
            f"{THINKER} --name=other --prio=7 --thinktime=0 --numjobs=3",
            ("idling-long", "one-at-a-time"),
            {"iosched/slice_idle_us": 100000, "iosched/strict_guarantees": 1},
        ),
        "writeback": Spoiled(
            "mq-deadline",
            f"{ONE} --name=w --direct=0 --rw=randwrite --size=256m --iodepth=1",
            ("writeback-throttled",),
            {"wbt_lat_usec": 500},
        ),
        "aging": Spoiled("mq-deadline", CLASSED, ("aging-short",), {"iosched/prio_aging_expire": 50}),
        "levels": Spoiled("mq-deadline", LEVELLED, ("priorities-ignored",)),
    },
    "ssd": {
        **SANE,
        "sane-full-none": Spoiled("none", MIXED),
        "sane-full-kyber": Spoiled("kyber", MIXED),
        "sane-deadline-short": Spoiled("mq-deadline", MIXED, (), {"iosched/read_expire": 10}),
        "batch": Spoiled("mq-deadline", MIXED, ("batch-small",), {"iosched/fifo_batch": 1}),
        "strict": Spoiled("bfq", DEEP, ("one-at-a-time",), {"iosched/strict_guarantees": 1}),
        "fairness": Spoiled("cpq", TWO, ("fairness-tight",), {"iosched/max_tgroup_io_ratio": 20}),
        "fairness-alone": Spoiled("cpq", f"{TWO} --thread", (), {"iosched/max_tgroup_io_ratio": 20}),
        "target": Spoiled("kyber", MIXED, ("target-short",), {"iosched/read_lat_nsec": 10000}),
        "levels": Spoiled("none", LEVELLED, ("priorities-ignored",)),
        "inverted": Spoiled("mq-deadline", pair("--prioclass=1", "--prioclass=3", 64), ("tag-starvation",)),
        "limit": Spoiled("none", f"{ONE} --cgroup=shop", ("not-saturated",), before=LIMIT),
        "weights": Spoiled(
            "mq-deadline",
            f"{SHARED} --name=a --cgroup=shop --name=b --cgroup=backup",
            ("weights-ignored",),
            before=WEIGH,
        ),
    },
    "emmc": {
        **SANE,
        "tags": Spoiled("mq-deadline", MIXED, ("nr-requests-small",), {"nr_requests": 8}),
        "pieces": Spoiled("mq-deadline", DIRECT_RUN, ("max-sectors-small",), {"max_sectors_kb": 16}),
        "classes": Spoiled("kyber", CLASSED, ("priorities-ignored",)),
        "writeback": Spoiled(
            "none",
            f"{ONE} --name=w --direct=0 --rw=randwrite --size=256m",
            ("writeback-throttled",),
            {"wbt_lat_usec": 10},
        ),
    },
}
# Each drive with the seconds of its load: the slower the drive, the less work for the guest's CPU.
DRIVES = {"hdd": ("hdd", 10), "ssd": ("ssd slowdown=16", 2), "emmc": ("emmc slowdown=4", 2)}


def asked(lines: str) -> dict[int, int]:
    """The output of ionice -p for threads, as results of ioprio_get(2)."""
    names = dict(zip(("none", "realtime", "best-effort", "idle"), range(len(CLASSES)), strict=True))
    found = {}
    for line in lines.splitlines():
        tid, ioclass, *level = line.replace(":", "").split()
        found[int(tid)] = names[ioclass] << 13 | int(level[-1] if level else 0)
    return found


def findings(folder: Path) -> list[doctor.Finding]:
    """The doctor's findings in the trees of one case."""
    roots = sorted(folder.iterdir())
    ranks = asked((roots[-1] / "ioprio").read_text(encoding="utf-8"))
    return doctor.judge(examine("simdisk-d0", roots, lambda tid: ranks.get(tid, 0)))


LIMIT_S = 1800


@pytest.mark.full
@pytest.mark.usefixtures("lab")
@pytest.mark.limit(LIMIT_S)
@pytest.mark.parametrize(
    ("kernel", "profile"),
    [
        *((kernels.DEFAULT, profile) for profile in CASES),
        # The doctor reads the same files on each kernel, so one drive is enough for another kernel.
        *zip((kernel for kernel in kernels.names() if kernel != kernels.DEFAULT), CASES, strict=False),
    ],
)
def test_what_holds_a_disk_back_is_found(profile: str, kernel: str, tmp_path: Path) -> None:
    """In each case the spoiled setting and nothing else is found; nothing if nothing was spoiled."""
    cases = CASES[profile]
    script = "".join(case.script(name, *DRIVES[profile]) for name, case in cases.items())
    files = modules.needed(modules.build(kernel), ["simdisk", "mq-prio", "cpq"])
    outcome = passes.outcome(job.Job(kernel, HEAD + script + "expect_dmesg_clean\n", files, cpu_limit_s=LIMIT_S))
    assert outcome.status == 0, outcome.files["stderr"].decode()
    for path, data in outcome.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    found = {name: tuple(finding.id for finding in findings(tmp_path / name)) for name in cases}
    assert found == {name: case.found for name, case in cases.items()}
