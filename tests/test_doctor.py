# SPDX-License-Identifier: GPL-2.0-only
"""The doctor on planted disks: each misconfiguration is named, its line corrects it, and a sane disk gets no advice."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from planted_disk import SECONDS, Cgroup, Plant, Thread, examine, judged

from lab import cli
from lab.errors import LabError, UsageError
from lab.host import disk as disks
from lab.host import doctor

RT, BE, IDLE = 1 << 13, 2 << 13, 3 << 13
LEVELS = (Thread("database", BE | 1), Thread("backup", BE | 7))
CLASSES = (Thread("database", RT), Thread("backup", IDLE))
# A full hard disk: 48 requests, of which it takes 32. A full SSD, a similar eMMC, a fast NVMe drive.
HDD = Plant(reads=100, read_ms=320, writes=50, write_ms=320)
HDD_READS = Plant(reads=150, read_ms=320)
SSD = Plant(rotating=False, reads=8000, read_ms=4, writes=2000, write_ms=8)
NVME = Plant(rotating=False, hw_queues=4, hw_tags=255, reads=400_000, read_ms=2.4, scheduler="none")
# An encrypted SSD on a kernel whose dm-crypt loses priorities.
LUKS = replace(
    SSD, scheduler="mq-prio", release="6.1.0-56-amd64", above="CRYPT-LUKS2-5e3d-root", modules="x/sluice-carry.ko:"
)
# Eight queues of 1023 tags, and 300 requests at a time.
DEEP = Plant(
    rotating=False, hw_queues=8, hw_tags=1023, reads=400_000, read_ms=0.75, scheduler="none", modules="x/mq-prio.ko:"
)
# cpq's accounts where 9 tasks wait while 7 of 64 tags are free.
HELD = "tags=64 used=57 waiting=9\nprocess 7 weight=100 used=57 waiting=9"
IDLE_DISK = {
    "reads": 0.0,
    "writes": 0.0,
    "busy": 0.0,
    "stalled": 0.0,
    "inside": 0,
    "threads": (),
    "cgroups": {},
    "accounts": "",
    "full": False,
}


def cpq(plant: Plant, **knobs: int) -> Plant:
    """The same disk with cpq."""
    return replace(plant, scheduler="cpq", knobs=knobs)


def deadline(plant: Plant, **knobs: int) -> Plant:
    """The same disk with other knobs of mq-deadline."""
    return replace(plant, knobs=knobs)


def shop(weight: str, limits: str = "") -> Cgroup:
    """A cgroup with a weight and limits."""
    return Cgroup(files={"io.weight": weight, **({"io.max": limits} if limits else {})})


WEIGHTS = {"": Cgroup(), "/shop": shop("default 800"), "/backup": shop("default 100\n8:0 50")}
PLANTED = {
    "rotating-none": ("rotating-unsorted", replace(HDD, scheduler="none")),
    "rotating-kyber": ("rotating-unsorted", replace(HDD, scheduler="kyber")),
    "nvme-bfq": ("bfq-on-fast-flash", replace(NVME, scheduler="bfq", reads=200_000)),
    "levels-none": ("priorities-ignored", replace(SSD, scheduler="none", threads=LEVELS)),
    "levels-kyber": ("priorities-ignored", replace(SSD, scheduler="kyber", threads=LEVELS)),
    "levels-deadline": ("priorities-ignored", replace(SSD, threads=LEVELS)),
    "levels-cpq": ("priorities-ignored", replace(cpq(SSD), threads=LEVELS)),
    "levels-nice": ("priorities-ignored", replace(SSD, threads=(Thread("database"), Thread("backup", nice=19)))),
    "classes-none": ("priorities-ignored", replace(SSD, scheduler="none", threads=CLASSES)),
    "classes-policy": (
        "priorities-ignored",
        replace(SSD, scheduler="kyber", threads=(Thread("database"), Thread("backup", policy=5))),
    ),
    "classes-nvme": ("priorities-ignored", replace(DEEP, threads=CLASSES)),
    "classes-nvme-deadline": ("priorities-ignored", replace(DEEP, scheduler="mq-deadline", threads=CLASSES)),
    "batch-small-one-queue": (
        "batch-small",
        deadline(replace(DEEP, scheduler="mq-deadline", reads=4000, writes=4000, write_ms=1, full=True), fifo_batch=1),
    ),
    "levels-tuned": (
        "priorities-ignored",
        replace(SSD, threads=LEVELS, knobs={"front_merges": 0}, queue={"nr_requests": 128}),
    ),
    "tags-deadline": ("tag-starvation", replace(SSD, reads=14000, threads=CLASSES)),
    "tags-deadline-seen": ("tag-starvation", replace(SSD, threads=CLASSES, waiters=2)),
    "aging-deadline": ("aging-short", deadline(replace(HDD, threads=CLASSES), prio_aging_expire=100)),
    "aging-cpq": ("aging-short", cpq(replace(HDD, threads=CLASSES), prio_aging_expire=100)),
    "fairness-cpq": ("fairness-tight", replace(cpq(SSD, max_tgroup_io_ratio=49), accounts=HELD)),
    "deadline-short": ("deadline-short", deadline(HDD, read_expire=20)),
    "deadline-short-cpq": ("deadline-short", cpq(HDD, read_expire=99)),
    "deadline-long": ("deadline-long", deadline(replace(HDD, read_ms=900), read_expire=5000)),
    "deadline-long-cpq": ("deadline-long", cpq(HDD, read_expire=5000)),
    "batch-small": ("batch-small", deadline(HDD_READS, fifo_batch=1)),
    "batch-small-flash": ("batch-small", deadline(SSD, fifo_batch=7)),
    "batch-small-cpq": ("batch-small", cpq(SSD, fifo_batch=1)),
    "batch-large": ("batch-large", deadline(replace(HDD, read_ms=600), fifo_batch=256)),
    "writes-starved": ("writes-starved", deadline(replace(HDD, writes=4, write_ms=8000), writes_starved=50)),
    "idling-bfq": (
        "idling-long",
        replace(HDD, scheduler="bfq", knobs={"slice_idle": 100, "slice_idle_us": 100_000}, inside=0),
    ),
    "idling-cpq": ("idling-long", cpq(replace(SSD, inside=0), slice_idle=50_000)),
    "one-at-a-time": ("one-at-a-time", replace(SSD, scheduler="bfq", knobs={"strict_guarantees": 1})),
    "kyber-read": ("target-short", replace(SSD, scheduler="kyber", knobs={"read_lat_nsec": 50_000})),
    "kyber-write": ("target-short", replace(SSD, scheduler="kyber", knobs={"write_lat_nsec": 100_000})),
    "nr-requests": ("nr-requests-small", replace(HDD_READS, reads=100, read_ms=80, queue={"nr_requests": 8})),
    "nr-requests-none": (
        "nr-requests-small",
        replace(SSD, scheduler="none", reads=2000, read_ms=2, writes=0, queue={"nr_requests": 4}),
    ),
    "nr-requests-depth-1": ("nr-requests-small", replace(HDD_READS, hw_tags=1, reads=70, read_ms=28)),
    "nr-requests-seen": ("nr-requests-small", replace(SSD, queue={"nr_requests": 32}, waiters=3, reads=4000)),
    "async-depth": ("async-depth-small", deadline(replace(HDD, writes=25, reads=80, read_ms=250), async_depth=4)),
    "async-depth-cpq": ("async-depth-small", cpq(replace(HDD, writes=25, reads=80, read_ms=250), async_depth=8)),
    "max-sectors": (
        "max-sectors-small",
        replace(SSD, reads=15000, read_kib=4, read_ms=0.4, writes=0, queue={"max_sectors_kb": 4}),
    ),
    "writeback": (
        "writeback-throttled",
        replace(HDD, reads=70, read_ms=14, writes=30, write_ms=10, queue={"wbt_lat_usec": 500}),
    ),
    "writeback-flash": ("writeback-throttled", replace(SSD, queue={"wbt_lat_usec": 100})),
    "luks-levels": ("priorities-lost", replace(LUKS, threads=LEVELS)),
    "luks-classes": ("priorities-lost", replace(LUKS, scheduler="mq-deadline", threads=CLASSES)),
}


def ids(findings: list[doctor.Finding]) -> list[str]:
    """The names of what was found."""
    return [finding.id for finding in findings]


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_misconfiguration_is_named(name: str, tmp_path: Path) -> None:
    """No other finding is reported."""
    expected, plant = PLANTED[name]
    assert ids(judged(plant, tmp_path)) == [expected]


@pytest.mark.parametrize("name", PLANTED)
def test_the_line_mends_it_and_the_other_undoes_it(name: str, tmp_path: Path) -> None:
    """When the advice was typed, the finding is gone; when it was undone, the disk is as before."""
    _, plant = PLANTED[name]
    [finding] = judged(plant, tmp_path / "found")
    [line] = finding.type
    undone = plant.type(line)
    assert finding.id not in ids(judged(undone, tmp_path / "mended"))
    for undo in finding.undo:
        undone = undone.type(undo)
    assert undone.settings() == plant.settings()
    assert judged(undone, tmp_path / "undone") == [finding]


@pytest.mark.parametrize("name", PLANTED)
def test_a_misconfiguration_that_holds_nothing_back_is_left_alone(name: str, tmp_path: Path) -> None:
    """The same settings on an idle disk, and with a single reader that waits for each request."""
    _, plant = PLANTED[name]
    assert judged(replace(plant, **IDLE_DISK), tmp_path / "idle") == []  # type: ignore[arg-type]
    one = replace(
        plant,
        reads=70,
        read_ms=14,
        writes=0,
        inside=1,
        waiters=0,
        accounts="",
        full=False,
        threads=LEVELS[:1],
        read_kib=4,
    )
    assert judged(one, tmp_path / "one") == []


SANE = {
    "hdd": replace(HDD, threads=LEVELS[:1]),
    "hdd-reads": HDD_READS,
    "hdd-sequential": replace(HDD, reads=900, read_kib=128, read_ms=1.1, writes=0, inside=1),
    "hdd-one": replace(HDD, reads=70, read_ms=14, writes=0, inside=1),
    "hdd-deep": replace(HDD, reads=150, read_ms=900, writes=20, write_ms=1500, waiters=4),
    "ssd": SSD,
    "ssd-deep": replace(SSD, reads=20_000, waiters=4),
    "ssd-sequential": replace(SSD, reads=400, read_kib=1280, read_ms=40, writes=0),
    "emmc": replace(SSD, reads=2800, read_ms=0.3, writes=0, inside=1),
    "emmc-writes": replace(SSD, reads=0, writes=13_000, write_ms=3),
    "nvme": replace(NVME, reads=70_000, read_ms=0.2),
    "nvme-deep": replace(NVME, reads=75_000, read_ms=13),
    "idle": replace(HDD, **IDLE_DISK),  # type: ignore[arg-type]
}
SORTERS = ("mq-deadline", "bfq", "mq-prio", "cpq")


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline", "kyber", "bfq", "mq-prio", "cpq"])
@pytest.mark.parametrize("name", SANE)
def test_a_sane_disk_gets_no_advice(name: str, scheduler: str, tmp_path: Path) -> None:
    """Every scheduler with its defaults; none and kyber don't suit a rotating disk that is full."""
    plant = replace(SANE[name], scheduler=scheduler)
    if scheduler not in SORTERS and name in ("hdd", "hdd-reads", "hdd-deep"):
        assert ids(judged(plant, tmp_path)) == ["rotating-unsorted"]
    else:
        assert judged(plant, tmp_path) == []


@pytest.mark.parametrize(
    "plant",
    [
        replace(NVME, reads=400_000),
        replace(HDD, scheduler="none", reads=3000, read_ms=20),
        deadline(replace(HDD_READS, reads=3000, read_ms=200), read_expire=1, fifo_batch=1),
        replace(SSD, scheduler="bfq", threads=LEVELS),
        replace(SSD, scheduler="mq-prio", threads=CLASSES),
        replace(HDD, scheduler="sluice", threads=LEVELS),
        replace(SSD, scheduler="afq", threads=LEVELS, cgroups=WEIGHTS),
        replace(HDD, scheduler="split-token", threads=LEVELS, cgroups=WEIGHTS),
        replace(SSD, threads=CLASSES),
        replace(SSD, threads=CLASSES, reads=20_000, queue={"nr_requests": 256}),
        replace(SSD, scheduler="none", threads=(Thread("a", BE | 4), Thread("b"))),
        replace(SSD, scheduler="none", threads=(LEVELS[0], replace(LEVELS[1], bytes_s=100))),
        replace(SSD, scheduler="none", threads=LEVELS, other_queue=40.0),
        replace(SSD, scheduler="none", threads=LEVELS, modules=""),
        deadline(HDD, read_expire=100),
        deadline(HDD, fifo_batch=8),
        deadline(SSD, read_expire=1),
        deadline(replace(SSD, writes=0, reads=12000), fifo_batch=1),
        cpq(SSD, max_tgroup_io_ratio=50, slice_idle=1000),
        replace(cpq(SSD, max_tgroup_io_ratio=10), accounts="tags=64 used=64 waiting=0"),
        replace(cpq(SSD, max_tgroup_io_ratio=40), accounts="tags=64 used=58 waiting=9"),
        replace(cpq(SSD, max_tgroup_io_ratio=50), accounts="tags=64 used=57 waiting=9"),
        cpq(SSD, max_tgroup_io_ratio=10),
        cpq(replace(SSD, writes=12_000, write_ms=10, queue={"nr_requests": 256})),
        cpq(SSD, prio_aging_expire=0),
        deadline(replace(HDD, threads=LEVELS[:1]), prio_aging_expire=100),
        replace(SSD, queue={"max_sectors_kb": 16}, read_kib=16, write_kib=16, threads=LEVELS, scheduler="mq-prio"),
        replace(SSD, queue={"max_sectors_kb": 16}, read_kib=4, write_kib=16),
        replace(LUKS, threads=LEVELS, loaded=("sluice_carry",)),
        replace(LUKS, threads=LEVELS, release="6.12.118+deb13-amd64"),
        replace(LUKS, threads=LEVELS, above="LVM-abcd"),
        replace(LUKS, threads=LEVELS, above=""),
        replace(LUKS, threads=LEVELS, modules=""),
        replace(LUKS, threads=LEVELS[:1]),
        replace(LUKS, threads=LEVELS, scheduler="sluice"),
        replace(LUKS, threads=LEVELS, writes=10),
        replace(HDD, queue={"wbt_lat_usec": 0}),
        replace(HDD, reads=70, read_ms=14, writes=30, write_ms=10, queue={"wbt_lat_usec": 10_000}),
    ],
    ids=str,
)
def test_what_is_meant_is_left_alone(plant: Plant, tmp_path: Path) -> None:
    """Settings at a threshold, or unusual ones that the figures don't contradict."""
    assert judged(plant, tmp_path) == []


@pytest.mark.parametrize(
    ("modules", "threads", "better"),
    [
        ("updates/sluice/mq-prio.ko:\nupdates/sluice/sluice.ko:", LEVELS, "sluice"),
        ("updates/sluice/mq-prio.ko:\nupdates/sluice/sluice.ko:", CLASSES, "sluice"),
        ("updates/sluice/mq-prio.ko:", LEVELS, "mq-prio"),
        ("updates/sluice/mq-prio.ko:", CLASSES, "mq-prio"),
        ("kernel/block/bfq.ko.xz:", LEVELS, "bfq"),
        ("kernel/block/bfq.ko.xz:", CLASSES, "mq-deadline"),
    ],
)
def test_the_scheduler_that_is_advised_exists_and_knows_the_priorities(
    modules: str, threads: tuple[Thread, ...], better: str, tmp_path: Path
) -> None:
    plant = replace(SSD, scheduler="none", threads=threads, modules=modules)
    [finding] = judged(plant, tmp_path)
    assert finding.type == (f"echo {better} > /sys/block/sda/queue/scheduler",)
    assert "database" in finding.seen and "backup" in finding.seen


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline", "kyber", "mq-prio"])
def test_weights_that_nothing_follows_are_named(scheduler: str, tmp_path: Path) -> None:
    plant = replace(SSD, scheduler=scheduler, cgroups=WEIGHTS)
    [finding] = judged(plant, tmp_path)
    assert finding.id == "weights-ignored"
    assert finding.type == (
        "echo bfq > /sys/block/sda/queue/scheduler",
        "echo 800 > /sys/fs/cgroup/shop/io.bfq.weight",
        "echo 50 > /sys/fs/cgroup/backup/io.bfq.weight",
    )


def test_what_is_typed_is_safe_in_a_shell(tmp_path: Path) -> None:
    """A cgroup may be called anything."""
    names = "/two words", "/$(reboot); 'x"
    plant = replace(SSD, scheduler="bfq", cgroups=dict(zip(names, (WEIGHTS["/shop"], shop("default 50")), strict=True)))
    [finding] = judged(plant, tmp_path)
    assert [shlex.split(line) for line in finding.type] == [
        ["echo", weight, ">", f"/sys/fs/cgroup{name}/io.bfq.weight"]
        for name, weight in zip(names, ("800", "50"), strict=True)
    ]


def multipath(root: Path) -> None:
    """A device of dm-multipath with a queue, over sda and sdb."""
    for path, text in {
        "dm-0/dev": "253:0",
        "dm-0/mq/0/nr_tags": "2048",
        "dm-0/queue/scheduler": "[none] mq-deadline",
        "dm-0/queue/rotational": "0",
        "dm-0/stat": " ".join(["0"] * 11),
        "dm-0/slaves/sda/x": "",
        "dm-0/slaves/sdb/x": "",
        "sda/holders/dm-0/x": "",
        "sdb/holders/dm-0/x": "",
        "sda/device/queue_depth": "30",
        "sdb/device/queue_depth": "12",
    }.items():
        (root / "sys/block" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "sys/block" / path).write_text(text, encoding="utf-8")


def test_multipath_orders_above_its_paths(tmp_path: Path) -> None:
    root = HDD.write(tmp_path, 0.0)
    multipath(root)
    assert disks.find("dm-0", root) == "dm-0"
    disk = disks.read("dm-0", root)
    assert (disk.depth, disk.hw_tags) == (42, 42)
    assert set(disks.sample(disk, root).disks) == {"dm-0"}
    with pytest.raises(UsageError) as refusal:
        disks.find("sda1", root)
    assert "sda gets its requests from dm-0" in refusal.value.what
    assert refusal.value.next_step == "./sluice doctor dm-0"


def test_weights_without_bfq_need_the_cost_model(tmp_path: Path) -> None:
    plant = replace(SSD, cgroups=WEIGHTS, modules="", cost="8:16 enable=1 ctrl=auto")
    [finding] = judged(plant, tmp_path / "off")
    assert finding.type == ("echo '8:0 enable=1' > /sys/fs/cgroup/io.cost.qos",)
    assert finding.undo == ("echo '8:0 enable=0' > /sys/fs/cgroup/io.cost.qos",)
    assert judged(replace(plant, cost="8:0 enable=1 ctrl=auto"), tmp_path / "on") == []
    assert judged(replace(plant, cost=""), tmp_path / "none") == []


@pytest.mark.parametrize(
    "cgroups",
    [
        {"/shop": shop("default 100"), "/backup": shop("default 100")},
        {"/shop": shop("default 800")},
        {"/shop": shop("default 800"), "/shop/db": shop("default 100")},
        {"/shop": shop("default 800"), "/backup": replace(shop("default 100"), ios_s=1)},
    ],
    ids=["equal", "alone", "inside", "quiet"],
)
def test_weights_that_change_nothing_are_left_alone(cgroups: dict[str, Cgroup], tmp_path: Path) -> None:
    assert judged(replace(SSD, cgroups=cgroups), tmp_path) == []


def test_bfq_knows_its_own_weights_only(tmp_path: Path) -> None:
    heard = {path: Cgroup(files={**group.files, "io.bfq.weight": "800"}) for path, group in WEIGHTS.items()}
    heard["/backup"] = Cgroup(files={"io.bfq.weight": "50"})
    assert judged(replace(SSD, cgroups=heard, scheduler="bfq"), tmp_path / "heard") == []
    heard["/backup"] = Cgroup(files={"io.weight": "default 50", "io.bfq.weight": "100"})
    [finding] = judged(replace(SSD, cgroups=heard, scheduler="bfq"), tmp_path / "unheard")
    assert finding.type == ("echo 50 > /sys/fs/cgroup/backup/io.bfq.weight",)
    assert finding.undo == ("echo 100 > /sys/fs/cgroup/backup/io.bfq.weight",)


def test_cpq_knows_its_own_weights_only(tmp_path: Path) -> None:
    plant = replace(SSD, cgroups=WEIGHTS, scheduler="cpq")
    [finding] = judged(plant, tmp_path / "unheard")
    assert finding.id == "weights-ignored" and "io.sluice.weight" in finding.why
    assert finding.type == (
        "echo 800 > /sys/fs/cgroup/shop/io.sluice.weight",
        "echo 50 > /sys/fs/cgroup/backup/io.sluice.weight",
    )
    assert finding.undo[0] == "echo default > /sys/fs/cgroup/shop/io.sluice.weight"
    heard = {
        "/shop": Cgroup(files={"io.sluice.weight": "800"}),
        "/backup": Cgroup(files={"io.sluice.weight": "default"}),
    }
    assert judged(replace(plant, cgroups=heard), tmp_path / "heard") == []
    [finding] = judged(replace(SSD, cgroups=heard, scheduler="bfq"), tmp_path / "bfq")
    assert finding.type == ("echo 800 > /sys/fs/cgroup/shop/io.bfq.weight",)


def test_a_weight_that_its_file_refuses_is_not_advised(tmp_path: Path) -> None:
    plant = replace(cpq(SSD), cgroups={"/shop": shop("default 5000"), "/backup": shop("default 100")})
    [finding] = judged(plant, tmp_path)
    assert finding.type == ("echo 1000 > /sys/fs/cgroup/shop/io.sluice.weight",)
    heard = replace(plant.cgroups["/shop"], files={"io.weight": "default 5000", "io.sluice.weight": "1000"})
    assert judged(replace(plant, cgroups={**plant.cgroups, "/shop": heard}), tmp_path / "heard") == []


LIMITED = Plant(
    reads=20,
    read_ms=14,
    busy=0.3,
    stalled=0.99,
    inside=1,
    cgroups={"/shop": replace(shop("100", "8:0 rbps=max riops=20 wbps=500"), ios_s=20)},
)


def test_a_disk_that_a_limit_keeps_idle_is_named(tmp_path: Path) -> None:
    [finding] = judged(LIMITED, tmp_path)
    assert finding.id == "not-saturated"
    assert finding.type == ("echo '8:0 riops=max' > /sys/fs/cgroup/shop/io.max",)
    assert finding.undo == ("echo '8:0 rbps=max riops=20 wbps=500' > /sys/fs/cgroup/shop/io.max",)


@pytest.mark.parametrize(
    "change",
    [
        {"stalled": 0.4},
        {"stalled": None},
        {"busy": 0.8},
        {"other_queue": 9.0},
        {"cgroups": {"/shop": replace(shop("100", "8:0 rbps=max"), ios_s=20)}},
        {"cgroups": {"/shop": replace(shop("100", "8:0 riops=30"), ios_s=20)}},
        {"cgroups": {"/shop": replace(shop("100", "8:16 riops=20"), ios_s=20)}},
    ],
    ids=["busy", "unknown", "saturated", "other-disk", "no-limit", "not-reached", "other-limit"],
)
def test_an_unsaturated_disk_is_no_fault_by_itself(change: dict[str, object], tmp_path: Path) -> None:
    """No longer wait, or an unknown one; a busy disk; a wait for another disk; no limit of this disk is met."""
    assert judged(replace(LIMITED, **change), tmp_path) == []  # type: ignore[arg-type]


def test_a_disk_takes_what_its_host_and_itself_allow(tmp_path: Path) -> None:
    """A SCSI host has more tags than the disk behind it takes."""
    plant = replace(HDD, hw_queues=4, hw_tags=1024, at_once=32)
    disk = disks.read("sda", plant.write(tmp_path, 0.0))
    assert (disk.depth, disk.hw_tags, disk.hw_queues) == (32, 32, 4)
    assert ids(judged(replace(plant, scheduler="none"), tmp_path / "none")) == ["rotating-unsorted"]


def test_nothing_is_changed(tmp_path: Path) -> None:
    roots = [LIMITED.write(tmp_path / str(after), after) for after in (0.0, SECONDS)]
    files = {path: (path.stat().st_mtime_ns, path.is_file()) for path in tmp_path.rglob("*")}
    assert disks.find("/dev/sda1", roots[0]) == "sda"
    assert doctor.judge(examine("sda", roots))
    assert {path: (path.stat().st_mtime_ns, path.is_file()) for path in tmp_path.rglob("*")} == files


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    plant = replace(SSD, waiters=None, stalled=None, other_queue=40.0, threads=LEVELS)
    roots = [plant.write(tmp_path / str(after), after) for after in (0.0, SECONDS)]
    for root in roots:
        (root / "proc/100/task/100/io").unlink()
        (root / "proc/100/task/100/io").mkdir()
    case = examine("sda", roots)
    notes = "\n".join(doctor.unseen(case, disks.sample(case.disk, roots[-1])))
    assert all(word in notes for word in ("pressure/io", "debugfs", "1 threads", "other disks"))
    assert "no requests" not in notes


@pytest.mark.parametrize(("iostats", "told"), [(0, "iostats is 0"), (1, "no requests")])
def test_a_disk_without_figures_is_not_called_well(iostats: int, told: str, tmp_path: Path) -> None:
    plant = replace(HDD, queue={"iostats": iostats}, **IDLE_DISK)  # type: ignore[arg-type]
    roots = [plant.write(tmp_path / str(after), after) for after in (0.0, SECONDS)]
    case = examine("sda", roots)
    [note] = doctor.unseen(case, disks.sample(case.disk, roots[-1]))
    assert told in note


@pytest.mark.parametrize(
    ("nice", "policy", "rank"),
    [
        (0, 0, ("be", 4)),
        (19, 0, ("be", 7)),
        (-20, 0, ("be", 0)),
        (0, 5, ("idle", 0)),
        (0, 1, ("rt", 4)),
        (0, 2, ("rt", 4)),
    ],
)
def test_who_never_set_a_priority_has_one_by_its_nice_value(nice: int, policy: int, rank: tuple[str, int]) -> None:
    assert disks.by_nice(nice, policy) == rank


def test_a_name_with_brackets_is_read(tmp_path: Path) -> None:
    plant = replace(SSD, threads=(Thread("a) S (b", nice=19),))
    root = plant.write(tmp_path, 0.0)
    tasks = disks.sample(disks.read("sda", root), root, plant.priorities()).tasks
    assert tasks[100] == disks.Task("a) S (b", 4096, "be", 7)


def test_the_real_ioprio_is_asked_for() -> None:
    """A process that made itself idle is seen to be, and one that is gone has none."""
    pipe = subprocess.PIPE
    with subprocess.Popen(["ionice", "-c", "3", "cat"], stdin=pipe, stdout=pipe, text=True, bufsize=1) as child:
        assert child.stdin and child.stdout
        child.stdin.write("runs\n")
        child.stdout.readline()
        assert disks._ioprio_get(child.pid) >> 13 == 3
    assert disks._ioprio_get(child.pid) == 0


@pytest.mark.parametrize("device", ["sda", "/dev/sda", "sda1", "/dev/sda1"])
def test_a_disk_is_found_by_every_name(device: str, tmp_path: Path) -> None:
    assert disks.find(device, HDD.write(tmp_path, 0.0)) == "sda"


def test_a_link_is_followed(tmp_path: Path) -> None:
    root = HDD.write(tmp_path, 0.0)
    (root / "dev/disk").mkdir()
    (root / "dev/disk/root").symlink_to("../sda1")
    assert disks.find("/dev/disk/root", root) == "sda"


@pytest.mark.parametrize(
    ("device", "told", "next_step"),
    [
        ("sdz", "sdz is not a disk", "./sluice doctor sda"),
        ("/dev/sdz", "there is no /dev/sdz", "./sluice doctor sda"),
        ("..", "not a disk", "./sluice doctor sda"),
        ("dm-0", "dm-0 passes its I/O on to sda, sdb", "./sluice doctor sda"),
        ("loop0", "loop0 is a loop device", "findmnt -no SOURCE --target /srv/image "),
        ("zram0", "without a queue", "./sluice doctor sda"),
    ],
)
def test_what_has_no_scheduler_is_refused(device: str, told: str, next_step: str, tmp_path: Path) -> None:
    root = HDD.write(tmp_path, 0.0)
    for path, text in {
        "dm-0/dev": "253:0",
        "dm-0/slaves/sda1/x": "",
        "dm-0/slaves/sdb/x": "",
        "loop0/dev": "7:0",
        "loop0/loop/backing_file": "/srv/image",
        "loop0/mq/0/nr_tags": "128",
        "zram0/dev": "252:0",
    }.items():
        (root / "sys/block" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "sys/block" / path).write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as refusal:
        disks.find(device, root)
    assert told in refusal.value.what
    assert refusal.value.next_step.startswith(next_step)


def test_a_disk_that_vanishes_or_a_clock_that_stands_is_an_error(tmp_path: Path) -> None:
    root = HDD.write(tmp_path, 0.0)
    with pytest.raises(LabError, match="no time passed"):
        examine("sda", [root, root])
    disk = disks.read("sda", root)
    (root / "sys/block/sda/stat").unlink()
    with pytest.raises(LabError, match="counters of sda"):
        disks.sample(disk, root)
    (root / "sys/block/sda/queue/scheduler").unlink()
    with pytest.raises(LabError, match="can't be read"):
        disks.read("sda", root)


def _run(plant: Plant, root: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool) -> int:
    """Run the command on a planted disk whose counters go on while it looks."""
    plant.write(root, 0.0)
    monkeypatch.setattr("time.sleep", lambda _: plant.write(root, SECONDS))
    monkeypatch.setattr(disks, "_ioprio_get", plant.priorities())
    return doctor.run("sda1", 0.01, as_json, root)


def test_the_report_names_figures_line_and_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(deadline(HDD_READS, fifo_batch=1), tmp_path, monkeypatch, False) == 1
    out = capsys.readouterr().out
    assert "sda: rotating disk, queue depth 32, 1 hardware queue; mq-deadline, nr_requests 64" in out
    assert "batch-small: fifo_batch is 1; 48.0 requests on average" in out
    assert "    next: echo 16 > /sys/block/sda/queue/iosched/fifo_batch\n" in out
    assert "    undo: echo 1 > /sys/block/sda/queue/iosched/fifo_batch\n" in out


def test_a_sane_disk_ends_with_status_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(HDD_READS, tmp_path, monkeypatch, False) == 0
    assert "nothing to advise" in capsys.readouterr().out


def test_json_holds_findings_as_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(replace(SSD, threads=LEVELS), tmp_path, monkeypatch, True) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == 1 and data["disk"] == "sda"
    assert data["figures"]["reads"] == 8000
    assert data["readers"][0] == {"ioclass": "be", "level": 1, "name": "database"}
    [finding] = data["findings"]
    assert finding["id"] == "priorities-ignored"
    assert set(finding) == {"id", "seen", "why", "type", "undo"}


@pytest.mark.parametrize(
    ("args", "status"), [(["/dev/null"], 2), (["nonsense"], 2), ([], 2), (["sda", "--seconds", "0"], 2)]
)
def test_a_wrong_command_ends_with_status_2(args: list[str], status: int) -> None:
    try:
        assert cli.main(["doctor", *args]) == status
    except SystemExit as end:
        assert end.code == status
