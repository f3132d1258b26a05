# SPDX-License-Identifier: GPL-2.0-only
"""Experiments on real disks: what is refused, and runs in a guest on its own disks, with a real clock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_guest import HOST, complaints
from test_status import Host

from lab import cli, description, job, kernels, modules, plan, study
from lab.errors import LabError, UsageError
from lab.host import disk as disks
from lab.host import real
from lab.host.cli import USAGE
from lab.plan import Choice

# The disks of the guest, each with an experiment, a variant of it, and the jobs that it has.
DISKS = {
    "nullb0": ("sparse", "both", ("reader", "backup")),
    "sda": ("sparse", "both", ("reader", "backup")),
    "loop0": ("prio-mix", "classes-write", ("database", "backup")),
}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--device", "/dev/nonesuch"], "there is no /dev/nonesuch"),
        (["--device", "/dev/null"], "/dev/null is not a block device"),
        (["--device", "/dev/null"], "next: ./sluice run EXPERIMENT --device /dev/DISK"),
        (["--device", "/dev/sda,/dev/sdb"], "one real disk is measured at a time"),
        (["--device", "/dev/sda,ssd"], "one real disk is measured at a time"),
        (["--destroy", "/dev/sda"], "one real disk is measured at a time"),
        (["--device", "/dev/sda", "--kernel", "6.1"], "--kernel is for guests"),
        (["--device", "/dev/sda", "--stack", "crypt"], "--stack is for guests"),
        (["--device", "/dev/sda", "--iolat"], "--iolat is for guests"),
        (["--device", "/dev/sda", "--accel", "kvm"], "--accel kvm is for guests"),
    ],
)
def test_what_makes_no_sense_on_a_disk_is_refused(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "sparse", *options]) == USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "profile", "said"),
    [
        ("token-isolation", "ssd", "token.sh needs a guest"),
        ("wrr-share", "nvme", "wrr.sh needs a guest"),
        ("blog-latency", "ssd", "needs iolat beside each run"),
        ("sparse", "hdd", "it has no cell for hdd"),
        ("overhead", "ssd", "it has no cell for ssd"),
        ("cpq-fairness", "emmc", "fairness.sh needs a guest"),
        ("cpq-six", "ssd", "text.fio needs a guest"),
    ],
)
def test_an_experiment_that_a_disk_can_not_do_is_refused(name: str, profile: str, said: str) -> None:
    one = description.load(name)
    with pytest.raises(UsageError, match=said):
        plan.on_real(one, plan.points(one, Choice()), profile)


def test_which_experiments_only_read() -> None:
    """A fio job that reads, one whose kinds of I/O are given by the variant, and a script."""
    writing = {}
    for name, profile in (("sparse", "ssd"), ("prio-mix", "ssd"), ("copy", "hdd")):
        one = description.load(name)
        points = plan.on_real(one, plan.points(one, Choice()), profile)
        writing[name] = {point.variant.name for point in points if not plan.only_reads(one, [point])}
        every = {point.variant.name for point in points}
    assert writing == {"sparse": set(), "prio-mix": {"be-levels-write", "classes-write"}, "copy": every}


@pytest.mark.parametrize(
    "line", ["\trw =write", "readwrite = randrw", "exec_prerun=true", "read_iolog=/tmp/log", "rw=${RW}"]
)
def test_a_job_that_may_write_is_not_taken_for_one_that_reads(line: str) -> None:
    one = description.load("sparse")
    point = plan.points(one, Choice())[0]
    changed = {name: data.replace(b"[reader]", b"[reader]\n" + line.encode()) for name, data in one.files.items()}
    assert plan.only_reads(one, [point])
    assert not plan.only_reads(replace(one, files=changed), [point])


def test_a_disk_takes_the_place_of_a_profile(tmp_path: Path) -> None:
    """Its results say that, and which host and clock they are of; nothing of the lab's machines is asked for."""
    one = replace(description.load("sparse"), seconds=3)
    found = study.Study.of(one, Choice(("ssd",), ("mq-prio",), (kernels.DEFAULT,), seeds=(1, 2)), disk(tmp_path))
    assert {point.device for point in found.points} == {"ssd"}
    assert study.command(found) == "./sluice run sparse --device /dev/nullb0 --scheduler mq-prio"
    about = study.real_machine(disk(tmp_path), {"kernel": "6.12.1\n", "cpu": "A\nA\n"})
    assert about["clock"].startswith("real") and about["CPU"] == "2 × A" and "place of ssd" in about["disk"]


def disk(folder: Path) -> real.Target:
    """A disk that this host need not have."""
    Host(folder).disk("nullb0", "250:0", "none")
    return real.Target(disks.read("nullb0", folder), "a disk, 1 GB", identity="7")


def test_no_run_begins_on_another_disk_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "_identity", lambda name: "8")
    with pytest.raises(LabError, match="/dev/nullb0 is another disk than before"):
        real.run(disk(tmp_path), "a run", "true", {})


SCRIPT = r"""
. ./lib.sh
mkdir -p "/lib/modules/$(uname -r)/updates"
cp ./*.ko "/lib/modules/$(uname -r)/updates"
depmod
modprobe null_blk nr_devices=1 queue_mode=2 gb=1 memory_backed=1
modprobe sd_mod
modprobe scsi_debug dev_size_mb=64 delay=1
modprobe loop
truncate -s 64m /tmp/file
losetup /dev/loop0 /tmp/file
for _ in $(seq 100); do [ ! -b /dev/sda ] || break; sleep 0.1; done
python3 steps.py
"""
STEPS = r"""
import pathlib, subprocess
from lab.errors import LabError
from lab.host import disk as disks
from lab.host import real

def refused(what, *words):
    try:
        real.target(*words)
    except LabError as error:
        assert what in error.what, error.what
    else:
        raise AssertionError(words)

# The same scheduler once more, as the next run would choose it: with its own knobs.
AGAIN = pathlib.Path("again").read_text()
files = {path.name: path.read_bytes() for path in (pathlib.Path("lib.sh"), *pathlib.Path().glob("*.fio"))}
for path in ("/dev/nullb0", "/dev/sda", "/dev/loop0"):
    one = real.target(path, True, "")
    before = [one.disk.scheduler, one.disk.queue["nr_requests"]]
    real.load(one, "mq-prio", ())
    with real.restored(one):
        name = path.removeprefix("/dev/")
        status, found, dmesg = real.run(one, path, pathlib.Path(f"{name}.sh").read_text(), files)
        assert status == 0, found["stderr"]
        assert disks.read(name).scheduler == "mq-prio"
        assert "sluice: " not in dmesg
        _, _, dmesg = real.run(one, "logs", "echo seen >/dev/kmsg", {})
        assert dmesg.endswith("seen\n") and "sluice: logs" not in dmesg, dmesg
        for file, data in found.items():
            pathlib.Path("/out", f"{name}-{file}").write_bytes(data)
        with open(f"/sys/block/{name}/queue/iosched/low_share", "w") as knob:
            knob.write("33")
        status, found, _ = real.run(one, path, AGAIN, {})
        assert (status, found["stdout"]) == (0, b"10\n"), found
        try:
            with real.restored(one):
                raise AssertionError
        except LabError as error:
            assert "another command measures" in error.what
    after = disks.read(name)
    assert [after.scheduler, after.queue["nr_requests"]] == before, after

# What a script mounts and starts ends with it, its failure is told, and its files are nobody else's.
leaves = "mount -t tmpfs none /tmp; touch /tmp/here /out/there; sleep 1000 & echo said >&2; exit 7"
status, found, _ = real.run(one, "leaves", leaves, {})
assert (status, found["stderr"], "there" in found) == (7, b"said\n", True), (status, found)
assert not subprocess.run(["pgrep", "sleep"]).returncode == 0
assert not pathlib.Path("/tmp/here").exists() and not list(pathlib.Path("/tmp").glob("sluice-run-*"))

# Users that the kernel gives the disk to beside others.
subprocess.run("losetup /dev/loop1 /dev/nullb0", shell=True, check=True)
refused("/dev/nullb0 is in use by loop1", "/dev/nullb0", True, "/dev/nullb0")
subprocess.run("losetup -d /dev/loop1", shell=True, check=True)
reader = subprocess.Popen("exec sleep 100 </dev/nullb0", shell=True)
while not any(path.is_symlink() for path in pathlib.Path(f"/proc/{reader.pid}/fd").glob("0")):
    pass
refused("/dev/nullb0 is open in process", "/dev/nullb0", True, "/dev/nullb0")
reader.kill()
reader.wait()
subprocess.run(["mkfs.ext4", "-q", "/dev/nullb0"], check=True)
refused("/dev/nullb0 holds something (ext4)", "/dev/nullb0", True, "")
refused("--destroy /dev/sda is another disk", "/dev/nullb0", True, "/dev/sda")
assert real.target("/dev/nullb0", False, "") and real.target("/dev/nullb0", True, "/dev/nullb0")
subprocess.run("mkdir /tmp/mnt && mount /dev/nullb0 /tmp/mnt", shell=True, check=True)
refused("/dev/nullb0 can't be written: Device or resource busy", "/dev/nullb0", True, "/dev/nullb0")
assert real.target("/dev/nullb0", False, "")
"""


@pytest.mark.usefixtures("lab")
def test_runs_on_disks_of_a_real_clock() -> None:
    """null_blk, scsi_debug with a delay, and a loop device: each gives a cell, and keeps its scheduler."""
    files = modules.needed(modules.build(kernels.DEFAULT), ["mq-prio"]) | HOST | {"steps.py": STEPS.encode()}
    cells = {}
    for name, (experiment, variant, _) in DISKS.items():
        one = replace(description.load(experiment), seconds=3, device={})
        points = plan.points(one, Choice(("ssd",), ("mq-prio",)))
        cells[name] = one, next(point for point in points if point.variant.name == variant)
        files |= {f"{name}.sh": plan.script(*cells[name], 1, real=f"/dev/{name}").encode()}
        files |= {file: data for file, data in one.files.items() if file.endswith(".fio")}
    again = "Q=$(ls -d /sys/block/*/queue/iosched/low_share); Q=${Q%/iosched/low_share}\n"
    files["again"] = f"{again}{plan._afresh('mq-prio')}; cat $Q/iosched/low_share".encode()
    outcome = job.run(job.Job(kernels.DEFAULT, SCRIPT, files, cpus=4, race=True))
    assert outcome.status == 0, outcome.files["stderr"].decode()
    assert not complaints(outcome.dmesg)
    for name, (one, point) in cells.items():
        seen = {file.removeprefix(f"{name}-"): data.decode() for file, data in outcome.files.items()}
        cell = study.cell(
            one, point, [("key", {file: seen[file] for file in ("fio.json", "kernel", "device", "settings")})]
        )
        assert cell.scheduler == "mq-prio" and int(cell.device_parameters["size"]) > 0
        assert [cell.job(each).iops > 10 for each in DISKS[name][2]] == [True, True]
