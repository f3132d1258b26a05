# SPDX-License-Identifier: GPL-2.0-only
"""Split-level scheduling beside other users of the kernel's hooks: a module of the test takes a hook."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from test_guest import complaints

from lab import job, kernels, modules, passes

HERE = Path(__file__).parent
SCRIPT = HERE / "taken/taken.sh"


def build(kernel: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The module of tests/taken, built in `folder` like those of kernel/."""
    sources = folder / "kernel"
    shutil.copytree(modules.SOURCES, sources)
    shutil.copytree(HERE / "taken", sources / "taken")
    (sources / "Kbuild").write_text("obj-m += taken/\n", encoding="utf-8")
    out = folder / "out"
    out.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(modules, "SOURCES", sources)
        modules.make(kernels.get(kernel), out, "modules")
    return (out / "taken/taken.ko").read_bytes()


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("kernel", [kernels.DEFAULT, pytest.param("6.1", marks=pytest.mark.full)])
def test_a_taken_hook_is_refused(kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a livepatch or kprobe has a hook, a policy is refused with the reason, and the other way round."""
    files = modules.needed(modules.build(kernel), ["simdisk", "split-noop"])
    files["taken.ko"] = build(kernel, tmp_path, monkeypatch)
    outcome = passes.outcome(job.Job(kernel, SCRIPT.read_text(encoding="utf-8"), files))
    assert outcome.status == 0, f"{outcome.files['stderr'].decode()}\n{outcome.dmesg[-4000:]}"
    assert not complaints(outcome.dmesg), outcome.dmesg[-8000:]
