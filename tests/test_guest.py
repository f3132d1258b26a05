# SPDX-License-Identifier: GPL-2.0-only
"""Every script of tests/guest in a guest, on every kernel: it passes, and the kernel has nothing to complain about.

The head of a script may say: `# kernels: 6.12` (only there), `# schedulers: mq-prio cpq` (with each, as $SCHEDULER;
on other kernels than the default the first alone, the rest is long),
`# cpus: 2`, `# limit: 300` (CPU seconds), `# full` (long), `# dmesg: PATTERN` (complaints that the test provokes),
`# debug` (where there may be a deadlock: on the debug kernel too, which is long), `# nvme: wrr=on` (with a controller
of these properties, on a QEMU that is built for it; long).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import iolat, job, kernels, modules
from lab.image import GUEST

# CPU seconds that a guest with the debug kernel takes for one of another.
DEBUG_SLOWER = 6
LAB = GUEST.parent
WITH = LAB / "with.sh"
SCRIPTS = sorted((Path(__file__).parent / "guest").glob("*.sh"))


@dataclass(frozen=True)
class Head:
    """What the head of a script asks for."""

    kernels: tuple[str, ...] = kernels.names()
    schedulers: tuple[str, ...] = ()
    cpus: int = 1
    limit: float = 300.0
    full: bool = False
    debug: bool = False
    dmesg: str = ""
    nvme: str = ""


def head(text: str) -> Head:
    """Read the head of a script."""
    said = dict(re.findall(r"^# (kernels|schedulers|cpus|limit|dmesg|nvme): (.+)$", text, re.MULTILINE))
    words = re.findall(r"^# (full|debug)$", text, re.MULTILINE)
    return Head(
        tuple(said.get("kernels", " ".join(kernels.names())).split()),
        tuple(said.get("schedulers", "").split()),
        int(said.get("cpus", 1)),
        float(said.get("limit", 300)),
        "full" in words,
        "debug" in words,
        said.get("dmesg", ""),
        said.get("nvme", ""),
    )


def with_scheduler(text: str, scheduler: str) -> str:
    """A script that is run with one of the schedulers that it asks for."""
    return f"SCHEDULER={scheduler}\n{text}" if scheduler else text


def complaints(dmesg: str, expected: str = "") -> list[str]:
    """Lines of a kernel log that mean trouble, less those that match `expected`."""
    found = re.search(r"^TROUBLE='(.*)'$", (GUEST / "lib.sh").read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    trouble = [line for line in dmesg.splitlines() if re.search(found[1], line)]
    return [line for line in trouble if not (expected and re.search(expected, line))]


def is_long(told: Head, kernel: str, scheduler: str) -> bool:
    """Whether only check-full runs it: of several schedulers all are tried on one kernel, and one on the others."""
    others = kernel != kernels.DEFAULT and scheduler not in ("", *told.schedulers[:1])
    return told.full or bool(told.nvme) or others or kernel == kernels.DEBUG.name


def cases() -> list[object]:
    """Each script with each kernel and scheduler that it asks for."""
    marks = {script: head(script.read_text(encoding="utf-8")) for script in SCRIPTS}
    return [
        pytest.param(
            script,
            kernel,
            scheduler,
            id="-".join(filter(None, (script.stem, scheduler, kernel))),
            marks=[pytest.mark.full] if is_long(told, kernel, scheduler) else [],
        )
        for script, told in marks.items()
        for scheduler in told.schedulers or ("",)
        for kernel in (*told.kernels, *([kernels.DEBUG.name] if told.debug else []))
    ]


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(("script", "kernel", "scheduler"), cases())
def test_guest(script: Path, kernel: str, scheduler: str) -> None:
    """Run one script in one guest."""
    text = with_scheduler(script.read_text(encoding="utf-8"), scheduler)
    told = head(text)
    files = {**modules.build(kernel), **{path.name: path.read_bytes() for path in script.parent.glob("*.fio")}}
    if script.name.startswith("iolat-"):
        files |= iolat.build()
    if script.name == "with.sh":
        files["with.sh"] = WITH.read_bytes()
    if told.nvme:
        files |= {f"lab/{name}": (LAB / name).read_bytes() for name in ("__init__.py", "errors.py", "wrr.py")}
    limit = told.limit * (DEBUG_SLOWER if kernel == kernels.DEBUG.name else 1)
    outcome = job.run(job.Job(kernel, text, files, told.cpus, limit, told.nvme))
    said = {name: outcome.files[name].decode(errors="replace")[-8000:] for name in ("stdout", "stderr")}
    if "skip" in outcome.files:
        pytest.skip(outcome.files["skip"].decode().strip())
    assert outcome.status == 0, f"{said['stdout']}\n{said['stderr']}\n{outcome.dmesg[-4000:]}"
    assert not complaints(outcome.dmesg, told.dmesg), outcome.dmesg[-8000:]


def test_head_is_read() -> None:
    text = "#!/bin/sh\n# kernels: 6.1\n# schedulers: bfq cpq\n# cpus: 2\n# full\n# debug\n# dmesg: I/O error\n"
    text += "# nvme: wrr=on\n"
    assert head(text) == Head(("6.1",), ("bfq", "cpq"), 2, 300.0, True, True, "I/O error", "wrr=on")
    assert head("echo") == Head()


def test_of_several_schedulers_one_is_tried_on_each_kernel() -> None:
    told = head("# schedulers: bfq cpq")
    assert [is_long(told, *of) for of in (("6.12", "bfq"), ("6.12", "cpq"), ("6.1", "bfq"))] == [False] * 3
    assert is_long(told, "6.1", "cpq")
    assert not is_long(Head(), "6.1", "")
    assert is_long(Head(debug=True), kernels.DEBUG.name, "")
    assert is_long(Head(nvme="wrr=on"), kernels.DEFAULT, "")


def test_complaints_are_found_and_excused() -> None:
    log = "[1.0] WARNING: CPU: 0 at x.c:1\n[1.1] all well\n[1.2] I/O error, dev simdisk-d0, sector 0\n"
    assert len(complaints(log)) == 2
    assert complaints(log, "I/O error") == ["[1.0] WARNING: CPU: 0 at x.c:1"]
