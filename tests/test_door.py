# SPDX-License-Identifier: GPL-2.0-only
"""The interface to the kernel (kernel/compat): the features found in each kernel, its refusals, its output."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lab import kernels, modules, toolbox
from lab.errors import LabError

# Replaces a program of the dwarves package and passes on its output, altered by sed.
STAND_IN = """
mkdir /tmp/bin
printf '#!/bin/sh\\n/usr/bin/%s "$@" | sed "%s"\\n' "$PROGRAM" "$FAULT" >/tmp/bin/$PROGRAM
chmod +x /tmp/bin/$PROGRAM
PATH=/tmp/bin:$PATH /tmp/kernel/compat/block-types.sh "$RELEASE" "/lib/modules/$RELEASE/build" /tmp/out /tmp/vmlinux
cat /tmp/out/compat/features.h
"""


def features(
    kernel: kernels.Unpacked, program: str = "pahole", fault: str = "", headers: Mapping[str, Path] | None = None
) -> str:
    """The features.h of a kernel of which `program` gives a view altered by the sed script `fault`.

    headers: at these paths, instead of the kernel's own.
    """
    box = kernel.box()
    own = {"/tmp/kernel": modules.SOURCES, "/tmp/vmlinux": kernel.vmlinux}
    box = replace(box, ro={**box.ro, **own, **(headers or {})})
    env = {"RELEASE": kernel.release, "PROGRAM": program, "FAULT": fault}
    return toolbox.run(["sh", "-euc", STAND_IN], box, env=env)


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("name", "present", "absent"),
    [
        ("6.1", ("WORD_DEPTH", "SHOULD_MERGE"), ("INSERT_FLAGS", "INIT_QUEUE", "HRTIMER_SETUP")),
        ("6.12", ("INSERT_FLAGS", "SHOULD_MERGE"), ("WORD_DEPTH", "INIT_QUEUE", "HRTIMER_SETUP", "WBT_QUEUE_FLAG")),
    ],
)
def test_features(name: str, present: tuple[str, ...], absent: tuple[str, ...]) -> None:
    """Each kernel's differences are found in its type data and headers."""
    found = features(kernels.get(name))
    assert all(f"#define SLUICE_HAS_{feature} 1" in found for feature in present)
    assert not any(f"SLUICE_HAS_{feature}" in found for feature in absent)


@pytest.mark.usefixtures("lab")
def test_flag_against_wbt_moved(tmp_path: Path) -> None:
    """From 6.16 on it is the queue's flag, and its former bit in the elevator means that the elevator is dying."""
    kernel = kernels.get(kernels.DEFAULT)
    (header,) = (kernel.root / "usr/src").glob("*-common/include/linux/blkdev.h")
    text = header.read_text(encoding="utf-8")
    newer = tmp_path / "blkdev.h"
    newer.write_text(text.replace("QUEUE_FLAG_MAX", "QUEUE_FLAG_DISABLE_WBT_DEF, QUEUE_FLAG_MAX"), encoding="utf-8")
    found = features(kernel, headers={f"/{header.relative_to(kernel.root)}": newer})
    assert "#define SLUICE_HAS_WBT_QUEUE_FLAG 1" in found


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("program", "fault", "reason"),
    [
        ("pahole", "/(.limit_depth)/d", "no member limit_depth of struct elevator_mq_ops"),
        ("pahole", "s/, blk_insert_t)/, long)/", "struct elevator_mq_ops has an unknown member insert_requests"),
        ("pahole", "/struct elevator_queue {/,/^}/d", "no type elevator_queue"),
        ("pfunct", "/elv_rb_find/d", "no function elv_rb_find"),
    ],
)
def test_refuses(program: str, fault: str, reason: str) -> None:
    """A kernel that isn't as expected is refused with the reason and the next step."""
    with pytest.raises(LabError) as refusal:
        features(kernels.get(kernels.DEFAULT), program, fault)
    assert f"sluice: {reason}" in refusal.value.detail
    assert "next:" in refusal.value.detail


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("name", kernels.names())
def test_modules(name: str) -> None:
    """Modules carry type data and a licence, an elevator the alias that the kernel asks for."""
    built = modules.build(name)
    assert set(built) >= {"mq-prio.ko", "simdisk.ko"}
    assert all(b".BTF\0" in module and b"license=GPL" in module for module in built.values())
    assert b"alias=mq-prio-iosched\0" in built["mq-prio.ko"]


@pytest.mark.full
@pytest.mark.usefixtures("lab")
def test_a_change_of_one_module_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the tests that load only other modules keep their passes."""
    before, out = modules.build(kernels.DEFAULT), tmp_path / "out"
    shutil.copytree(modules.SOURCES, tmp_path / "kernel")
    with (tmp_path / "kernel/elevator/cpq.c").open("a", encoding="utf-8") as source:
        source.write("static int __used planted;\n")
    out.mkdir()
    monkeypatch.setattr(modules, "SOURCES", tmp_path / "kernel")
    modules.make(kernels.get(kernels.DEFAULT), out, "modules")
    toolbox.run(["sh", "-euc", modules.STRIP], toolbox.Sandbox(rw={"/tmp/out": out}))
    after = {path.name: path.read_bytes() for path in out.rglob("*.ko")}
    assert {name for name in before if after[name] != before[name]} == {"cpq.ko"}


@pytest.mark.full
@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("name", kernels.names())
def test_same_bytes_elsewhere(name: str, tmp_path: Path) -> None:
    """The folder in which modules are built leaves no trace in them."""
    modules.make(kernels.get(name), tmp_path, "O=/tmp/out/elsewhere", "modules")
    toolbox.run(["sh", "-euc", modules.STRIP], toolbox.Sandbox(rw={"/tmp/out": tmp_path}))
    assert {path.name: path.read_bytes() for path in tmp_path.rglob("*.ko")} == modules.build(name)


@pytest.mark.full
@pytest.mark.usefixtures("lab")
def test_same_bytes_of_a_part(tmp_path: Path) -> None:
    """A module has the same bytes, whether it is built with all others or only with those that it needs."""
    modules.make(kernels.get(kernels.DEFAULT), tmp_path, "MODULES=sluice-ranks.o mq-prio.o simdisk/", "modules")
    toolbox.run(["sh", "-euc", modules.STRIP], toolbox.Sandbox(rw={"/tmp/out": tmp_path}))
    built = {path.name: path.read_bytes() for path in tmp_path.rglob("*.ko")}
    assert built == modules.build(kernels.DEFAULT, "sluice-ranks", "mq-prio", "simdisk")
    assert built.items() <= modules.build(kernels.DEFAULT).items()


@pytest.mark.full
@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("spoiled", "left"),
    [
        ("elevator/cpq.c", {"cpq"}),
        ("split/core.c", {name for name in modules.OBJECTS if name.startswith("split")} | {"afq", "sluice"}),
    ],
)
def test_installing_leaves_out_what_can_not_be_built(
    spoiled: str, left: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what needs it; each has its reason in a line, and the others are installed."""
    out, sources = tmp_path / "out", tmp_path / "kernel"
    shutil.copytree(modules.SOURCES, sources)
    with (sources / spoiled).open("a", encoding="utf-8") as source:
        source.write('#error "a kernel that nobody knows"\n')
    out.mkdir()
    monkeypatch.setattr(modules, "SOURCES", sources)
    said = modules.make(kernels.get(kernels.DEFAULT), out, "install", "DESTDIR=/tmp/out/to")
    told = dict(re.findall(r"^  LEFT    ([\w-]+): (.+)$", said, re.MULTILINE))
    assert told.keys() == left
    assert "a kernel that nobody knows" in told[Path(spoiled).stem.replace("core", "split")]
    assert "afq" not in left or told["afq"].startswith("it needs split_")
    assert {path.stem for path in (out / "to").rglob("*.ko")} == modules.OBJECTS.keys() - left


@pytest.mark.full
@pytest.mark.usefixtures("lab")
def test_installing_nothing_fails(tmp_path: Path) -> None:
    with pytest.raises(LabError) as refusal:
        modules.make(kernels.get(kernels.DEFAULT), tmp_path, "install", "CC=false", "DESTDIR=/tmp/out/to")
    assert "sluice: no module can be built for " in refusal.value.detail
    assert not [*tmp_path.rglob("*.ko")]


def test_every_module_is_known() -> None:
    """kernel/Kbuild makes exactly the modules that the lab asks for."""
    text = (modules.SOURCES / "Kbuild").read_text(encoding="utf-8").replace("\\\n", " ")
    every = re.search(r"^every := (.*)$", text, re.MULTILINE)
    assert every is not None
    assert set(re.findall(r"[\w-]+(?:\.o|/)(?= |\)|$)", every[1])) == set(modules.OBJECTS.values())
