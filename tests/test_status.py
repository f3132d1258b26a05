# SPDX-License-Identifier: GPL-2.0-only
"""`sluice status`: what is above each disk, and what is wrong with it; from copied files, and live in a guest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_guest import HOST, complaints

from lab import cli, job, kernels, modules, passes, stack
from lab.host import status
from lab.image import GUEST

LAB = GUEST.parent
QUEUE = {
    "queue/scheduler": "none [{scheduler}]",
    "queue/rotational": "0",
    "queue/nr_requests": "64",
    "mq/0/nr_tags": "32",
}


class Host:
    """A folder with the files of a host's disks."""

    def __init__(self, root: Path, release: str = "6.12.1") -> None:
        self.root = root
        self.write("proc/sys/kernel/osrelease", release)
        self.write(f"lib/modules/{release}/modules.dep", "x/sluice-carry.ko:")
        self.mounts: list[str] = []

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def disk(self, name: str, number: str, scheduler: str) -> str:
        for path, text in QUEUE.items():
            self.write(f"sys/block/{name}/{path}", text.format(scheduler=scheduler))
        self.write(f"sys/block/{name}/dev", number)
        return f"sys/block/{name}"

    def part(self, disk: str, name: str, number: str) -> str:
        self.write(f"{disk}/{name}/partition", "1")
        self.write(f"{disk}/{name}/dev", number)
        return f"{disk}/{name}"

    def above(self, below: str, name: str, number: str, **files: str) -> str:
        """A device of device-mapper or md on another one; a __ in a file's name is a slash."""
        for path, text in files.items():
            self.write(f"sys/block/{name}/{path.replace('__', '/')}", text)
        self.write(f"sys/block/{name}/dev", number)
        (self.root / below / "holders").mkdir()
        (self.root / below / "holders" / name).symlink_to(self.root / f"sys/block/{name}")
        (self.root / f"sys/block/{name}/slaves" / Path(below).name).mkdir(parents=True)
        return f"sys/block/{name}"

    def mount(self, number: str, place: str, system: str) -> None:
        self.mounts.append(f"22 1 {number} / {place} rw - {system} /dev/x rw\n")
        self.write("proc/self/mountinfo", "".join(self.mounts))

    def seen(self) -> dict[str, status.Status]:
        return {one.disk.name: one for one in status.statuses(self.root)}


def problems(one: status.Status) -> str:
    return "\n".join(problem.what for problem in one.problems)


def encrypted(host: Host, scheduler: str) -> None:
    """A laptop: LVM on LUKS on a partition."""
    part = host.part(host.disk("sda", "8:0", scheduler), "sda2", "8:2")
    luks = host.above(part, "dm-0", "254:0", dm__uuid="CRYPT-LUKS2-5e3d-cryptroot", dm__name="cryptroot")
    host.above(luks, "dm-1", "254:1", dm__uuid="LVM-aB3", dm__name="vg-root")
    host.mount("254:1", "/", "ext4")


def test_a_file_system_is_found_through_its_layers(tmp_path: Path) -> None:
    host = Host(tmp_path)
    encrypted(host, "sluice")
    host.mount("8:1", r"/mnt/a\040b", "xfs")
    host.part("sys/block/sda", "sda1", "8:1")
    (one,) = host.seen().values()
    assert [str(use) for use in one.uses] == [
        "/mnt/a b (xfs) on sda1 (partition)",
        "/ (ext4) on vg-root (LVM) on cryptroot (LUKS) on sda2 (partition)",
    ]
    assert not one.problems
    assert status.text([one]).splitlines()[0] == "sda: flash, queue depth 32, scheduler sluice"
    assert status.run(True, tmp_path) == 0


@pytest.mark.parametrize(
    ("release", "scheduler", "loaded", "lost"),
    [
        ("6.1.0-56-amd64", "mq-deadline", False, True),
        ("6.1.0-56-amd64", "mq-deadline", True, False),
        ("6.1.0-56-amd64", "none", False, False),
        ("6.12.118", "mq-deadline", False, False),
    ],
)
def test_priorities_that_luks_loses_are_told(
    tmp_path: Path, release: str, scheduler: str, loaded: bool, lost: bool
) -> None:
    host = Host(tmp_path, release)
    encrypted(host, scheduler)
    if loaded:
        (tmp_path / "sys/module/sluice_carry").mkdir(parents=True)
    (one,) = host.seen().values()
    assert [problem.type for problem in one.problems] == (["modprobe sluice-carry"] if lost else [])


def test_a_scheduler_that_left_requests_waiting_is_told(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.write(f"{host.disk('sda', '8:0', 'wrr')}/queue/iosched/stalls", "0")
    assert not host.seen()["sda"].problems
    host.write("sys/block/sda/queue/iosched/stalls", "3")
    (problem,) = host.seen()["sda"].problems
    assert problem.what == "wrr left 3 requests of sda waiting, and is a FIFO now"
    assert problem.type == "dmesg >report   and echo mq-deadline > /sys/block/sda/queue/scheduler"


def test_the_page_shows_what_is_printed(tmp_path: Path) -> None:
    host = Host(tmp_path, "6.1.0-56-amd64")
    encrypted(host, "mq-deadline")
    printed = status.text(list(host.seen().values()))
    page = (LAB.parent / "docs/stacks.md").read_text(encoding="utf-8")
    assert "\n\n" + "".join(f"    {line}\n" for line in printed.splitlines()) + "\n" in page


def test_causes_that_do_not_get_through_are_told(tmp_path: Path) -> None:
    """RAID 5, a loop device, and io.cost, each below a scheduler that needs causes; mq-prio needs none."""
    host = Host(tmp_path)
    for name, number in (("sda", "8:0"), ("sdb", "8:16"), ("sdc", "8:32")):
        disk = host.disk(name, number, "afq")
        if name != "sda":
            (tmp_path / disk / "holders/md0").mkdir(parents=True)
    host.above("sys/block/sda", "md0", "9:0", md__level="raid5")
    (tmp_path / "sys/block/md0/slaves/sdb").mkdir()
    (tmp_path / "sys/block/md0/slaves/sdc").mkdir()
    host.mount("9:0", "/", "ext4")
    host.write("sys/block/loop0/dev", "7:0")
    host.write("sys/block/loop0/loop/backing_file", "/images/a")
    host.mount("7:0", "/guest", "ext4")
    host.write("sys/fs/cgroup/io.cost.qos", "8:0 enable=1 ctrl=auto")
    seen = host.seen()
    assert [str(use) for use in seen["sdb"].uses] == [
        "/ (ext4) on md0 (raid5)",
        "/guest (ext4) on loop0 (loop) on md0 (raid5)",
    ]
    said = problems(seen["sda"])
    assert "can't tell which process caused a write to md0" in said and "files of loop0" in said
    assert "io.cost is on for this disk" in said and "io.cost" not in problems(seen["sdb"])
    host.disk("sdb", "8:16", "mq-prio")
    said = "md0 is on sda (afq), sdb (mq-prio), sdc (afq): give all its disks the same one"
    assert problems(host.seen()["sdb"]) == said


def test_an_image_belongs_to_the_file_system_that_holds_it(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.disk("sda", "8:0", "none")
    host.disk("sdb", "8:16", "none")
    host.mount("8:0", "/", "ext4")
    host.mount("8:16", "/images", "ext4")
    host.write("sys/block/loop0/dev", "7:0")
    host.write("sys/block/loop0/loop/backing_file", "/images/a")
    host.mount("7:0", "/guest", "ext4")
    seen = host.seen()
    assert [str(use) for use in seen["sda"].uses] == ["/ (ext4)"]
    assert [str(use) for use in seen["sdb"].uses] == ["/images (ext4)", "/guest (ext4) on loop0 (loop)"]


def test_btrfs_has_a_number_that_is_no_disks(tmp_path: Path) -> None:
    """Its mounts are found by the device that they name: a partition, and LUKS by its name for people."""
    host = Host(tmp_path)
    encrypted(host, "sluice")
    host.part("sys/block/sda", "sda3", "8:3")
    host.mounts = [
        "30 1 0:27 /@ /home rw - btrfs /dev/sda3 rw\n",
        "31 1 0:28 /@ /srv rw - btrfs /dev/mapper/cryptroot rw\n",
        "32 1 0:5 / /dev rw - devtmpfs udev rw\n",
    ]
    host.write("proc/self/mountinfo", "".join(host.mounts))
    (one,) = host.seen().values()
    assert [str(use) for use in one.uses] == [
        "/srv (btrfs) on cryptroot (LUKS) on sda2 (partition)",
        "/home (btrfs) on sda3 (partition)",
    ]


def test_a_host_without_disks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status.run(False, tmp_path) == 0
    assert "no disk here" in capsys.readouterr().out


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """On whatever host this runs; it changes nothing."""
    assert cli.main(["status", "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["schema"] == status.SCHEMA


SCRIPT = """
. ./lib.sh
. ./stack.sh
[ STACK != raid1 ] || DISK=d1 disk ssd
disk ssd
scheduler sluice
stack STACK
file_system
status=0
python3 -m lab.host.cli status --json >/out/json || status=$?
echo $status >/out/status
"""


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("name", "path", "problem"),
    [
        ("crypt-lvm", "/tmp/mnt (ext4) on volume (device-mapper) on luks (device-mapper)", ""),
        ("loop", "/tmp/mnt (ext4) on loop0 (loop)", "files of loop0"),
        ("raid1", "/tmp/mnt (ext4) on md0 (raid1)", "md0 is on simdisk-d0 (sluice), simdisk-d1 ("),
    ],
)
def test_a_real_stack_is_seen(name: str, path: str, problem: str) -> None:
    files = modules.needed(modules.build(kernels.DEFAULT), ["simdisk", "sluice"]) | stack.files(kernels.DEFAULT) | HOST
    outcome = passes.outcome(job.Job(kernels.DEFAULT, SCRIPT.replace("STACK", name), files))
    assert outcome.status == 0, outcome.files["stderr"].decode()
    assert not complaints(outcome.dmesg)
    found = json.loads(outcome.files["json"])["disks"]
    one, *others = sorted(found, key=lambda disk: disk["disk"])
    assert one["scheduler"] == "sluice"
    layers = "".join(f" on {layer['title']} ({layer['kind']})" for layer in one["uses"][-1]["layers"])
    assert f"{one['uses'][-1]['mount']} ({one['uses'][-1]['system']}){layers}" == path
    said = [problem["what"] for disk in (one, *others) for problem in disk["problems"]]
    assert [problem in what for what in said] == ([True] if problem else [])
    assert outcome.files["status"].decode().strip() == str(int(bool(problem)))
