# SPDX-License-Identifier: GPL-2.0-only
"""`sluice wrr` without a controller, and the sources of its driver. tests/guest/wrr-command.sh has a controller."""

from __future__ import annotations

import argparse
import tarfile
from pathlib import Path

import pytest

from lab import modules, toolbox
from lab.errors import LabError, SetupFailed, UsageError
from lab.host import wrr
from lab.host.wrr import Controller, Trial

NAMES = ("high", "medium", "low")
ONE = Controller("0000:01:00.0", Path("/none"), wrr.OURS, "nvme0")
OTHER = Controller("0000:02:00.0", Path("/none"), wrr.STOCK, "nvme1")


def trials(*shares: tuple[float, float, float]) -> list[Trial]:
    """Trials of a drive that gave these shares."""
    return [
        Trial(weights, dict(zip(NAMES, parts, strict=True)), 1000.0)
        for weights, parts in zip(wrr.TRIALS, shares, strict=True)
    ]


THIRD = (1 / 3, 1 / 3, 1 / 3)


def test_a_drive_that_honours_its_weights() -> None:
    found = wrr.verdict(trials(THIRD, (0.61, 0.31, 0.08), (0.08, 0.31, 0.61)))
    assert found == "honours its weights: shares are at most 4% off"


def test_a_drive_that_ignores_its_weights() -> None:
    found = wrr.verdict(trials((0.34, 0.33, 0.33), (0.35, 0.33, 0.32), (0.34, 0.32, 0.34)))
    assert found.startswith("does not act on its weights: they change shares by at most 3%")


def test_a_drive_that_does_half_of_it() -> None:
    found = wrr.verdict(trials(THIRD, (0.5, 0.3, 0.2), (0.2, 0.3, 0.5)))
    assert found == "acts on its weights in part: shares are up to 160% off, and move by up to 50%"


def test_only_levels_that_have_a_class_count() -> None:
    two = [Trial(weights, {"high": 64 / 72, "low": 8 / 72}, 1.0) for weights in [(64, 32, 8)]]
    equal = Trial((1, 1, 1), {"high": 0.5, "low": 0.5}, 1.0)
    assert wrr.verdict([equal, *two]) == "honours its weights: shares are at most 0% off"


def test_the_controller_is_the_only_one_or_named() -> None:
    assert wrr.choose(None, [ONE]) == ONE
    assert wrr.choose("nvme1", [ONE, OTHER]) == OTHER
    assert wrr.choose("/dev/nvme1", [ONE, OTHER]) == OTHER
    assert wrr.choose("0000:01:00.0", [ONE, OTHER]) == ONE
    with pytest.raises(UsageError, match="there are several controllers: nvme0, nvme1"):
        wrr.choose(None, [ONE, OTHER])
    with pytest.raises(UsageError, match="no NVMe controller nvme2; there are nvme0, nvme1"):
        wrr.choose("nvme2", [ONE, OTHER])
    with pytest.raises(LabError, match="no NVMe controller on PCI"):
        wrr.choose(None, [])


def loaded(modules: Path, driver: str, **options: str) -> None:
    """A module's options, as below /sys/module."""
    for name, value in options.items():
        path = modules / driver / "parameters" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n", encoding="ascii")


def test_the_driver_is_loaded_with_the_options_of_the_one_that_it_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    modprobe = tmp_path / "modprobe"
    modprobe.write_text('#!/bin/sh\necho "$@" >"${0%/*}/said"\n', encoding="ascii")
    modprobe.chmod(0o755)
    loaded(tmp_path, "nvme", poll_queues="2", noacpi="N", quirks="(null)")
    wrr.load(wrr.OURS, tmp_path)
    assert (tmp_path / "said").read_text(encoding="ascii") == "nvme-wrr noacpi=N poll_queues=2\n"
    loaded(tmp_path, "nvme_wrr", poll_queues="0", noacpi="N")
    with pytest.raises(LabError, match="nvme-wrr is loaded, without the options poll_queues=2 of the driver"):
        wrr.load(wrr.OURS, tmp_path)
    wrr.load(wrr.STOCK, tmp_path)


def test_a_shared_drive_has_another_disk_than_path() -> None:
    assert [wrr.disk_of(path) for path in ("nvme0n1", "nvme0c1n1", "nvme12c10n3")] == ["nvme0n1", "nvme0n1", "nvme12n3"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("weights 0 1 1", "'0' is not a weight from 1 to 256"),
        ("weights 1 257 1", "'257' is not a weight from 1 to 256"),
        ("weights 1 1 x", "'x' is not a weight from 1 to 256"),
        ("probe --seconds 0", "'0' is not a number of seconds from 0.5 to 600"),
        ("probe --seconds nan", "'nan' is not a number of seconds from 0.5 to 600"),
        ("probe --depth 1025", "'1025' is not a depth from 1 to 1024"),
        ("frobnicate", "invalid choice: 'frobnicate'"),
    ],
)
def test_bad_arguments_are_refused(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser("sluice wrr")
    wrr.arguments(parser)
    with pytest.raises(SystemExit) as end:
        parser.parse_args(line.split())
    assert end.value.code == 2
    assert said in capsys.readouterr().err


def make_source(parent: Path, sublevel: int) -> None:
    """Make a kernel's source, 6.12.`sublevel`, as folder and archive, whose driver does not fit our patch."""
    tree = parent / "linux-source-6.12"
    host = tree / "drivers/nvme/host"
    host.mkdir(parents=True)
    (tree / "Makefile").write_text(f"VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = {sublevel}\n", encoding="ascii")
    for name in ("pci.c", "nvme.h", "trace.h"):
        (host / name).write_text("int other;\n", encoding="ascii")
    with tarfile.open(parent / "linux-source-6.12.tar.xz", "w:xz") as archive:
        archive.add(tree, tree.name)


OTHER_SERIES = "the NVMe driver's patches are for kernels 6.1, 6.12 and 7.3"
OTHER_DRIVER = "the NVMe driver in /usr/src/linux-source-6.12.tar.xz isn't one that "


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("sublevel", "named", "said"),
    [
        (8, "", "  LEFT    nvme-wrr: /usr/src/linux-source-6.12.tar.xz is of Linux 6.12.8, and 6.12.9-x is 6.12.9; "),
        (8, "linux-source-6.12", "sluice: /usr/src/linux-source-6.12 is of Linux 6.12.8, and 6.12.9-x is 6.12.9\n"),
        (9, "", "  LEFT    nvme-wrr: the NVMe driver in /usr/src/linux-source-6.12.tar.xz isn't one that "),
        (9, "linux-source-6.12.tar.xz", "sluice: the NVMe driver in /usr/src/linux-source-6.12.tar.xz isn't one that "),
        (9, "none.tar.xz", "sluice: there is no NVMe driver in /usr/src/none.tar.xz\n"),
    ],
)
def test_a_driver_of_another_kernel_is_not_built(sublevel: int, named: str, said: str, tmp_path: Path) -> None:
    assert said in built(sublevel, named, tmp_path)
    assert (tmp_path / "out/nvme/pci.c").exists() == bool(named)


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("versions", "named", "said"),
    [
        ("linux-source-6.12=6.12.9-1 linux-headers-6.12.9-x=6.12.9-1", "", f"  LEFT    nvme-wrr: {OTHER_DRIVER}"),
        (
            "linux-source-6.12=6.12.9-1 linux-headers-6.12.9-x=6.12.9-2",
            "",
            "  LEFT    nvme-wrr: linux-source-6.12 is 6.12.9-1, and linux-headers-6.12.9-x is 6.12.9-2; next: upgrade",
        ),
        ("linux-source-6.12=6.12.9-1", "", f"  LEFT    nvme-wrr: {OTHER_DRIVER}"),
        ("linux-source-6.12=1 linux-headers-6.12.9-x=2", "linux-source-6.12.tar.xz", f"sluice: {OTHER_DRIVER}"),
    ],
    ids=["same", "other", "unknown", "named"],
)
def test_a_driver_of_another_revision_is_not_built(versions: str, named: str, said: str, tmp_path: Path) -> None:
    query = tmp_path / "bin/dpkg-query"
    query.parent.mkdir()
    lines = "".join(f"{known.replace('=', ') echo ')} ;;\n" for known in versions.split())
    query.write_text(f"#!/bin/sh\ncase $4 in\n{lines}*) exit 1 ;;\nesac\n", encoding="ascii")
    query.chmod(0o755)
    assert said in built(9, named, tmp_path)


def built(sublevel: int, named: str, tmp_path: Path) -> str:
    """The output of source.sh for a kernel 6.12.9-x and a source 6.12.`sublevel`, with programs in bin/."""
    headers, out, source = (tmp_path / name for name in ("headers", "out", "source"))
    (headers / "include/generated/uapi/linux").mkdir(parents=True)
    (headers / "Module.symvers").write_text("0x1\tnvme_init_ctrl\tnvme-core\n", encoding="ascii")
    version = "".join(f"#define LINUX_VERSION_{part}\n" for part in ("MAJOR 6", "PATCHLEVEL 12", "SUBLEVEL 9"))
    (headers / "include/generated/uapi/linux/version.h").write_text(version, encoding="ascii")
    (out / "nvme").mkdir(parents=True)
    (out / "nvme/pci.c").write_text("int stale;\n", encoding="ascii")
    make_source(source, sublevel)
    (tmp_path / "bin").mkdir(exist_ok=True)
    folders = {
        "/tmp/kernel": modules.SOURCES,
        "/tmp/headers": headers,
        "/usr/src": source,
        "/tmp/bin": tmp_path / "bin",
    }
    box = toolbox.Sandbox(ro=folders, rw={"/tmp/out": out})
    line = f"/tmp/kernel/nvme/source.sh 6.12.9-x /tmp/headers /tmp/out {f'/usr/src/{named}' if named else ''}"
    return toolbox.run(["sh", "-c", f"PATH=/tmp/bin:$PATH; {line} 2>&1 || :"], box)


@pytest.mark.usefixtures("lab")
def test_without_a_source_the_rest_is_built(tmp_path: Path) -> None:
    (tmp_path / "Module.symvers").write_text("0x1\tnvme_init_ctrl\tnvme-core\n", encoding="ascii")
    box = toolbox.Sandbox(ro={"/tmp/kernel": modules.SOURCES, "/tmp/headers": tmp_path}, rw={"/tmp/out": tmp_path})
    for release, said in {
        "6.12.9-x": "no /usr/src/linux-source-6.12.tar.xz; next: apt-get install linux-source-6.12",
        "7.0.1-x": f"  LEFT    nvme-wrr: {OTHER_SERIES}; next: one of these",
    }.items():
        assert said in toolbox.run(["/tmp/kernel/nvme/source.sh", release, "/tmp/headers", "/tmp/out"], box)
    with pytest.raises(SetupFailed, match=OTHER_SERIES):
        toolbox.run(["/tmp/kernel/nvme/source.sh", "7.0.1-x", "/tmp/headers", "/tmp/out", "/usr/src"], box)
