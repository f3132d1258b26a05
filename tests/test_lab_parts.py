# SPDX-License-Identifier: GPL-2.0-only
"""The lab's parsers for data from guests and hosts, on recorded texts; no guest runs."""

from __future__ import annotations

import io
import os
import struct
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab import cache, image, job, kernels, machine, toolbox
from lab.errors import GuestCrashed, GuestOutOfMemory, HostFull, LabError, ToolMissing, UsageError

GOLDEN = Path(__file__).parent / "golden/lab"


def test_an_error_says_what_happened_and_what_to_type() -> None:
    assert str(LabError("it broke", "mend it", "line")) == "line\nsluice: it broke\n   next: mend it"


@pytest.mark.parametrize(
    ("log", "kind", "what"),
    [
        ("panic.txt", GuestCrashed, "the guest crashed: Kernel panic - not syncing: sysrq triggered crash"),
        (
            "oops.txt",
            GuestCrashed,
            "the guest crashed: BUG: kernel NULL pointer dereference, address: 0000000000000010",
        ),
        ("oom.txt", GuestOutOfMemory, "the guest ran out of memory"),
    ],
)
def test_a_crash_is_named_by_its_first_line(log: str, kind: type[LabError], what: str) -> None:
    error = job.crash((GOLDEN / log).read_text(encoding="utf-8"), "")
    assert isinstance(error, kind)
    assert error.what == what
    assert error.detail.splitlines()[0].endswith(what.split(": ", 1)[-1]) or kind is GuestOutOfMemory


def test_a_hang_shows_which_task_is_stuck_and_where() -> None:
    stuck = "INFO: task dd:231 blocked for more than 300 seconds.\n  schedule+0x1/0x2\n"
    error = job.crash(f"all well\n{stuck}Kernel panic - not syncing: hung_task: blocked tasks\n", "")
    assert error.what == "the guest crashed: Kernel panic - not syncing: hung_task: blocked tasks"
    assert error.detail.startswith(stuck)


def test_a_crash_without_a_word_shows_what_qemu_said() -> None:
    assert "cannot set up guest memory" in job.crash("", "qemu: cannot set up guest memory").detail


@pytest.fixture
def no_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A separate cache, and keys of jobs that need no saved machine."""
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    monkeypatch.setattr(job, "key", lambda one: cache.key(one.kernel, job.pack(one)))


@pytest.mark.usefixtures("no_machine")
def test_a_failed_job_is_kept_until_many_others_failed() -> None:
    jobs = [job.Job("6.12", f"exit {number}", {"a": bytes([number])}, 2, 9.5, "wrr=on") for number in range(25)]
    lines = []
    for age, one in enumerate(jobs):
        lines.append(job.repeat(one))
        os.utime(cache.failed() / job.key(one), (age, age))
    assert lines[-1] == f"./sluice shell --job {job.key(jobs[-1])}"
    assert {path.name for path in cache.failed().iterdir()} == {job.key(one) for one in jobs[-job.FAILED_KEPT :]}
    assert job.failed(lines[-1].split()[-1]) == jobs[-1]
    with pytest.raises(UsageError, match="can't be read"):
        job.failed(lines[0].split()[-1])


@pytest.mark.usefixtures("no_machine")
def test_a_failed_job_of_another_version_is_refused() -> None:
    name = job.repeat(job.Job("6.12", "true", {})).split()[-1]
    (cache.failed() / name).write_bytes(b"\x81\xa6script\x01")
    with pytest.raises(UsageError, match="Expected `str`, got `int`"):
        job.failed(name)


def test_mirrors_come_from_the_hosts_apt() -> None:
    sites = {
        "bookworm": "http://m/debian",
        "bookworm-security": "http://m/security",
        "bookworm-updates": "http://m/debian",
    }
    assert toolbox.pick_mirrors(sites, "bookworm") == ("http://m/debian", "http://m/security")
    with pytest.raises(ToolMissing, match="apt"):
        toolbox.pick_mirrors({}, "bookworm")


def test_module_closure_is_in_loading_order() -> None:
    table = image.parse_dependencies("fs/ext4.ko.xz: fs/jbd2.ko.xz lib/crc16.ko.xz\nfs/jbd2.ko.xz:\nlib/crc16.ko.xz:\n")
    assert image.closure(table, ["ext4", "built-in"]) == ["lib/crc16.ko.xz", "fs/jbd2.ko.xz", "fs/ext4.ko.xz"]


def test_cpio_is_newc() -> None:
    archive = image.cpio(["dev"], [("init", b"#!/bin/sh\n")])
    assert archive.startswith(b"070701")
    assert len(archive) % 4 == 0
    assert b"init\0" in archive
    assert b"TRAILER!!!\0" in archive
    assert archive == image.cpio(["dev"], [("init", b"#!/bin/sh\n")])


def test_the_kernel_is_found_inside_its_image() -> None:
    data = b"\x28\xb5\x2f\xfdkernel"
    setup = bytearray(1024)
    setup[0x1F1] = 1
    setup[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", setup, 0x248, 16, len(data) + 4)
    found = kernels.payload(bytes(setup) + bytes(16) + data + b"size" + b"rest")
    assert found == data
    assert kernels.decompressor(found) == ("zstd", "-dc")
    with pytest.raises(ValueError, match="bzImage"):
        kernels.payload(bytes(2048))


@pytest.mark.usefixtures("lab")
def test_guests_need_nothing_that_debian_has_otherwise() -> None:
    stock = kernels.get(kernels.DEFAULT)
    debians = (stock.root / "boot" / f"config-{stock.release}").read_text(encoding="utf-8").splitlines()
    wanted = Path(kernels.__file__).with_name("guest.config").read_text(encoding="utf-8").splitlines()
    assert not [line for line in wanted if not line.startswith("#") and line and line not in debians]


def test_an_unknown_kernel_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="5.10"):
        kernels.get("5.10")


def test_the_hosts_clock_is_no_part_of_a_saved_machine() -> None:
    head = b"xx\x05timer" + bytes(7) + b"\x02"
    assert machine.without_host_clock(head + b"A" * 24 + b"icount") == machine.without_host_clock(
        head + b"B" * 24 + b"icount"
    )
    assert machine.without_host_clock(head + b"A" * 24 + b"one") != machine.without_host_clock(
        head + b"A" * 24 + b"two"
    )


def test_a_job_is_packed_the_same_way_each_time() -> None:
    one = job.Job("6.12", "true", {"b": b"2", "a": b"1"})
    other = job.Job("6.12", "true", {"a": b"1", "b": b"2"})
    assert job.pack(one) == job.pack(other)
    with tarfile.open(fileobj=io.BytesIO(job.pack(one))) as tar:
        assert tar.getnames() == ["a", "b", "lib.sh", "script"]


def test_results_lose_their_leading_dot(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo("./sub/x")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"abc"))
    with path.open("ab") as handle:
        handle.truncate(1 << 20)
    assert job.unpack(path) == {"sub/x": b"abc"}


def test_an_interrupted_build_leaves_nothing_that_looks_finished(tmp_path: Path) -> None:
    def interrupted(part: Path) -> None:
        part.mkdir()
        (part / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.once(tmp_path / "thing", interrupted)
    assert [path.name for path in tmp_path.iterdir()] == ["thing.lock"]
    cache.once(tmp_path / "thing", lambda part: part.mkdir())
    cache.once(tmp_path / "thing", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.replace(tmp_path / "thing", interrupted)
    assert (tmp_path / "thing").is_dir()
    cache.replace(tmp_path / "thing", lambda part: part.touch())
    assert (tmp_path / "thing").is_file()


def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    def full(_part: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(HostFull, match="is full"):
        cache.once(tmp_path / "thing", full)


def test_what_several_remove_at_once_is_gone(tmp_path: Path) -> None:
    """Like two processes that sweep after a process that was killed."""
    tree = tmp_path / "run"
    for name in ("a", "b", "c"):
        (tree / name).mkdir(parents=True)
        for number in range(300):
            (tree / name / str(number)).touch()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(cache.remove, [tree] * 4))
    assert not tree.exists()


def test_scratch_of_a_killed_run_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    dead = tmp_path / "run/4194305-x"
    dead.mkdir(parents=True)
    with cache.scratch() as path:
        assert path.exists()
        assert not dead.exists()
    assert not path.exists()


def test_keys_tell_parts_apart() -> None:
    assert cache.key("ab", "c") != cache.key("a", "bc")


def test_a_package_has_its_version_in_dpkgs_list() -> None:
    listing = "Package: fio-x\nVersion: 1\n\nPackage: fio\nStatus: install ok installed\nVersion: 3.39-1\n\n"
    assert toolbox.version(listing, "fio") == "3.39-1"
    with pytest.raises(KeyError):
        toolbox.version(listing, "io")


def test_an_image_is_named_by_the_bytes_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolbox, "identity", lambda: "toolbox")
    kernel = kernels.Unpacked(kernels.KERNELS[0], "6.1", tmp_path)
    names = []
    for number, content in enumerate((b"one", b"one", b"two")):
        tar = tmp_path / f"{number}.tar"
        tar.write_bytes(content)
        os.utime(tar, (number, number))
        monkeypatch.setattr(image, "rootfs", lambda tar=tar: tar)
        names.append(image.identity(kernel))
    assert names[0] == names[1] != names[2]
