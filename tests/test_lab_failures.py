# SPDX-License-Identifier: GPL-2.0-only
"""Every failure ends in a sentence and leaves no process: each one is provoked, with real guests."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import cache, job, kernels, machine, qemu, toolbox
from lab.errors import GuestCrashed, GuestHung, GuestOutOfMemory, LabError, ToolMissing
from lab.job import Job

TOP = Path(__file__).parent.parent
KERNEL = kernels.DEFAULT
pytestmark = pytest.mark.usefixtures("lab")
PATIENCE = 600
"""Seconds of real time in which a guest gets a processor, or ends, however busy the host is."""
LONG = """
import signal, sys
from lab import cli, job
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with it ignored
sys.exit(cli.guarded(lambda: job.run(job.Job("6.12", "while :; do :; done", {})).status))
"""


def test_a_job_repeats_to_the_byte() -> None:
    fio = "fio --name=a --filename=/dev/nullb0 --direct=1 --ioengine=libaio --iodepth=8 --rw=randread --io_size=4m"
    one = Job(
        KERNEL, f"modprobe null_blk\n{fio} --output-format=json+ --output=/out/fio.json; cat /proc/timer_list", {}
    )
    first, second = job.run_many([one, one])
    assert first.status == 0
    assert len(first.files["fio.json"]) > 1000
    assert first == second


def test_a_machine_has_the_virtual_cpus_asked_for() -> None:
    assert job.run(Job(KERNEL, "nproc", {}, cpus=2)).files["stdout"] == b"2\n"


@pytest.mark.parametrize(
    ("script", "kind", "what"),
    [
        ("echo c >/proc/sysrq-trigger", GuestCrashed, "sysrq triggered crash"),
        ("sysctl vm.nr_hugepages=440; tail /dev/zero", GuestOutOfMemory, "out of memory"),
        ("echo o >/proc/sysrq-trigger; sleep 99", GuestCrashed, "without a word"),
        ("dd if=/dev/zero of=/out/x bs=1M count=80", LabError, "larger than 64 MiB"),
    ],
)
def test_a_guest_that_fails_is_a_sentence(script: str, kind: type[LabError], what: str) -> None:
    with pytest.raises(kind, match=what) as caught:
        job.run(Job(KERNEL, script, {}))
    assert "\n   next: " in str(caught.value)
    assert (kind is GuestCrashed) == ("./sluice shell --job" in str(caught.value))


def test_a_hang_is_ended_by_its_cpu_seconds() -> None:
    with pytest.raises(GuestHung, match="3 CPU seconds.*\n   next: ./sluice shell --job "):
        job.run(Job(KERNEL, "while :; do :; done", {}, cpu_limit_s=3))


def test_a_guest_that_stands_still_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest that never ends, with a limit of real time that is shorter than its limit of CPU seconds."""
    monkeypatch.setattr(qemu, "WALL_PER_CPU", 0.05)
    with pytest.raises(GuestHung, match="stood still"):
        job.run(Job(KERNEL, "while :; do :; done", {}, cpu_limit_s=30))


def test_a_script_that_fails_is_told_by_its_status() -> None:
    outcome = job.run(Job(KERNEL, ". ./lib.sh; fail for a reason", {}))
    assert outcome.status == 1
    assert outcome.files["stderr"] == b"FAIL: for a reason\n"


def test_a_failed_job_is_repeated_by_hand() -> None:
    """On a terminal: first its script with its files, then a prompt in the same folder, until the shell is left."""
    line = job.repeat(Job(KERNEL, ". ./lib.sh; cat word; nproc; fail again", {"word": b"a-word-of-its-own\n"}, cpus=2))
    ours, theirs = pty.openpty()
    run = subprocess.Popen([TOP / "sluice", *line.split()[1:]], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        seen = _until_seen(ours, b"sluice# ")
        assert re.search(rb"\na-word-of-its-own\r.*\n2\r.*FAIL: again.*ended with status 1", seen, re.DOTALL)
        os.write(ours, b"cat word; exit\n")
        _until_seen(ours, b"a-word-of-its-own\r")
        assert run.wait(PATIENCE) == 0
    finally:
        run.kill()
        os.close(ours)


def _until_seen(terminal: int, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        seen += os.read(terminal, 4096)
    return seen


def test_a_module_that_a_script_does_not_name_is_told() -> None:
    outcome = job.run(Job(KERNEL, ". ./lib.sh; load cpq", {}))
    assert outcome.status == 1
    assert (
        b"FAIL: no module cpq: a test in tests/guest that needs it says so in its head: # modules: cpq\n"
        in (outcome.files["stderr"])
    )


def test_without_kvm_it_goes_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(qemu, "KVM", ("-accel", "kvm,device=/nowhere"))
    assert not job.try_kvm(KERNEL)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "going on with TCG" in said


@pytest.mark.full
def test_a_guest_boots_without_a_saved_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "KVM", ("-accel", "tcg", "-cpu", "max,-erms,-fsrm"))
    monkeypatch.setattr(job, "_accel", qemu.KVM)
    assert job.run(Job(KERNEL, "uname -r", {})).files["stdout"].startswith(KERNEL.encode())


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    toolbox.path()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolMissing, match="bwrap is not installed"):
        toolbox.run(["true"])


def test_a_full_disk_is_a_sentence() -> None:
    """The cache is on a file system of 1 MB, with all finished parts bound into it."""
    bwrap = shutil.which("bwrap")
    assert bwrap
    box = [bwrap, "--dev-bind", "/", "/", "--size", "1000000", "--tmpfs", "/mnt"]
    for path in cache.root().iterdir():
        if path.name != "run" and not path.name.endswith(".lock"):
            box += ["--bind", str(path), f"/mnt/{path.name}"]
    done = _python(LONG, box, {"SLUICE_CACHE": "/mnt"})
    assert done.wait() == 3
    assert "sluice: the disk that holds /mnt is full\n   next: df -h /mnt" in _stderr(done)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_end_from_outside_leaves_no_guest(number: signal.Signals) -> None:
    run = _python(LONG)
    _until(lambda: len(_guests(run.pid)) > 0)
    run.send_signal(number)
    status = run.wait(PATIENCE)
    _until(lambda: not _guests(run.pid))
    if number != signal.SIGKILL:
        assert status == 130
        assert "interrupted" in _stderr(run)
        assert not list((cache.root() / "run").glob(f"{run.pid}-*"))


@pytest.mark.parametrize("ms", [0, 0.5, 1, 2, 4, 6])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_end_at_the_very_start_leaves_no_guest(number: signal.Signals, ms: float) -> None:
    """Before bubblewrap has asked to die with its parent, while its child waits for it, and about at that moment."""
    run = _python(LONG)
    while not _guests(run.pid):
        assert run.poll() is None
    time.sleep(ms / 1000)
    run.send_signal(number)
    run.wait(PATIENCE)
    _until(lambda: not _guests(run.pid))


def test_a_guest_ends_with_its_control() -> None:
    """Even if nothing kills bubblewrap, whose parent may die before bubblewrap has asked for the signal."""
    with cache.scratch() as run:
        guest = machine.get(KERNEL).guest(run)
        guest.create_exchange()
        ours, theirs = socket.socketpair()
        extra = ["-S", "-incoming", "defer", *machine.CONSOLE]
        with theirs:
            line = qemu.line(guest, theirs.fileno(), extra, PATIENCE, guest.box(), os.sched_getaffinity(0))
            child = subprocess.Popen(line, pass_fds=[theirs.fileno()])
        try:
            assert b"QMP" in ours.recv(4096)
            ours.close()
            assert child.wait(PATIENCE) == 1
        finally:
            child.kill()


def _python(code: str, before: list[str] | None = None, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    line = [*(before or []), sys.executable, "-c", code]
    return subprocess.Popen(line, cwd=TOP, env={**os.environ, **(env or {})}, stderr=subprocess.PIPE)


def _stderr(done: subprocess.Popen[bytes]) -> str:
    assert done.stderr
    return done.stderr.read().decode()


def _guests(pid: int) -> list[Path]:
    """Processes that work in a run folder of process `pid`."""
    mark = f"/run/{pid}-".encode()
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark in _read(path) and b"bwrap" in _read(path)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _until(condition: object) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if callable(condition) and condition():
            return
        time.sleep(0.1)
    pytest.fail(f"it did not happen within {PATIENCE} s")
