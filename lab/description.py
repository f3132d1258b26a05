# SPDX-License-Identifier: GPL-2.0-only
"""What an experiment's folder says: the question, the machines, the load and its variants."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import contrib, kernels, shape
from lab.devices import DEVICES, NULL, STACKS
from lab.errors import UsageError
from lab.schedulers import SCHEDULERS
from lab.shape import Each, ListOf, OneOf

FOLDER = shape.TOP / "experiments"
LOADS = (".fio", ".sh")
"""The files that can be a load: fio's job files, and scripts of the experiment's own."""

DEVICE = OneOf("device", (*DEVICES, NULL))
PART = {
    "load": str,
    "sections": ListOf(str, least=0),
    "env": Each(str),
    "schedulers": ListOf(OneOf("scheduler", SCHEDULERS)),
    "seeds": ListOf(int),
    "seconds": int,
    "device": DEVICE,
    "only": ListOf(DEVICE),
    "stack": OneOf("stack", STACKS),
}
"""The keys of a family, which a variant may have too, beside its family's name."""
PROFILE = {
    **{"queue": Each(str), "parameters": Each(str), "seconds": int, "variants": ListOf(str)},
    "schedulers": ListOf(OneOf("scheduler", SCHEDULERS)),
}
KNOBS = sorted({knob for scheduler in SCHEDULERS.values() for knob in scheduler.tunables})
NEEDED = ("question", "kernels", "devices", "schedulers", "load", "seeds", "seconds", "variant")


@dataclass(frozen=True)
class Variant:
    """One way of making the load: the name of a fio file, and the sections of it that are run, or of a script.

    device and stack, if given, replace those asked for; only, if not empty, restricts the devices.
    """

    name: str
    load: str
    sections: tuple[str, ...]
    env: Mapping[str, str]
    schedulers: tuple[str, ...]
    seeds: tuple[int, ...]
    seconds: int | None = None
    device: str | None = None
    only: tuple[str, ...] = ()
    stack: str = ""


@dataclass(frozen=True)
class Experiment:
    """The content of experiment.toml; files are fio's files and the scripts, by name.

    If iolat is not None, every run is repeated with iolat beside it, with these options besides those it needs. cpus
    are the guest's processors. A cell gets up to most_seeds seeds, as long as a claim that looks at it is undecided.
    The guest has what is built in these folders of contrib.
    """

    name: str
    question: str
    kernels: tuple[str, ...]
    devices: tuple[str, ...]
    schedulers: tuple[str, ...]
    variants: tuple[Variant, ...]
    files: Mapping[str, bytes]
    seconds: int
    iolat: str | None = None
    contrib: tuple[str, ...] = ()
    cpus: int = 1
    most_seeds: int = 5
    device: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sweep: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def names() -> list[str]:
    """The experiments that there are."""
    return sorted(path.parent.name for path in FOLDER.glob("*/experiment.toml"))


def load(name: str) -> Experiment:
    """Read an experiment's folder; UsageError for an unknown name and for any error in its file."""
    known("experiment", [name], names())
    data = _merged(name)
    base = {**data, "env": data.get("env", {})}
    wanted = data.get("variants", list(data["variant"]))
    return Experiment(
        name,
        data["question"],
        tuple(data["kernels"]),
        tuple(data["devices"]),
        tuple(data["schedulers"]),
        tuple(_variant(title, data["variant"][title], base) for title in wanted),
        _files(name, data),
        data["seconds"],
        data.get("iolat"),
        tuple(data.get("contrib", ())),
        data.get("cpus", 1),
        data.get("most_seeds", 5),
        data.get("device", {}),
        {knob: tuple(values) for knob, values in data.get("sweep", {}).items()},
    )


def like(name: str) -> str:
    """The experiment that another one is like; "" if it is like none."""
    return str(shape.read(_path(name)).data.get("like", ""))


def _path(name: str) -> Path:
    return FOLDER / name / "experiment.toml"


def _files(name: str, data: Mapping[str, Any]) -> dict[str, bytes]:
    """The loads in the experiment's folder, and in that of the one that it is like."""
    folders = [FOLDER / part for part in (data.get("like"), name) if part]
    paths = [path for folder in folders for path in sorted(folder.iterdir()) if path.suffix in LOADS]
    return {path.name: path.read_bytes() for path in paths}


def _merged(name: str, descendants: tuple[str, ...] = ()) -> dict[str, Any]:
    """The content of an experiment.toml, merged into that of the experiment that it is like; all of it checked."""
    own = shape.read(_path(name))
    own.check(
        {
            "question": str,
            "like": OneOf("other experiment", [one for one in names() if one not in (*descendants, name)]),
            "kernels": ListOf(OneOf("kernel", kernels.names())),
            "devices": ListOf(DEVICE, least=0),
            "schedulers": ListOf(OneOf("scheduler", SCHEDULERS)),
            "load": str,
            "seeds": ListOf(int),
            "most_seeds": int,
            "seconds": int,
            "iolat": str,
            "contrib": ListOf(OneOf("folder of contrib", contrib.NEEDS)),
            "cpus": int,
            "variants": ListOf(str),
            "env": Each(str),
            "device": Each(PROFILE),
            "family": Each(PART),
            "variant": Each({**PART, "family": str}),
            "sweep": Each(ListOf(str)),
        }
    )
    base = _merged(own.data["like"], (*descendants, name)) if "like" in own.data else {}
    data = {**base, **own.data}
    for key in NEEDED:
        if key not in data:
            raise own.error(f"it has no {key!r}")
    for at, what, asked, there in _references(own.data, data, _files(name, data)):
        if asked not in there:
            raise own.error(shape.unknown(what, asked, there), at, asked)
    return data


Reference = tuple[tuple[str, ...], str, str, Collection[str]]
"""A name in a file: the path to it, the kind of thing that it names, the name, and the valid names."""


def _references(own: Mapping[str, Any], data: Mapping[str, Any], files: Mapping[str, bytes]) -> Iterator[Reference]:
    """The names in the file that must be defined in the file itself or in its folder."""
    variants, families = data["variant"], data.get("family", {})
    for name in own.get("variants", ()):
        yield ("variants",), "variant", name, variants
    for device, of in own.get("device", {}).items():
        yield ("device", device), "device", device, DEVICE.there
        for name in of.get("variants", ()):
            yield ("device", device, "variants"), "variant", name, variants
    for knob in own.get("sweep", {}):
        yield ("sweep", knob), "knob", knob, KNOBS
    yield ("load",), "load", data["load"], files
    for kind in ("family", "variant"):
        for name, of in own.get(kind, {}).items():
            if "family" in of:
                yield (kind, name, "family"), "family", of["family"], families
            part = {"load": data["load"], **families.get(of.get("family"), {}), **of}
            yield (kind, name, "load"), "load", part["load"], files
            if kind == "variant":
                yield (kind, name), "key of the variant or its family", "sections", part
            for section in of.get("sections", ()):
                yield (kind, name, "sections"), f"section of {part['load']}", section, _sections(files[part["load"]])


def _sections(load: bytes) -> list[str]:
    """The jobs of a fio file; a script has none."""
    return re.findall(r"^\[(.+)\]$", load.decode(), re.MULTILINE)


def _variant(name: str, own: Mapping[str, Any], base: Mapping[str, Any]) -> Variant:
    family = base.get("family", {}).get(own.get("family"), {})
    merged = {**family, **own}
    env = {**base["env"], **family.get("env", {}), **own.get("env", {})}
    return Variant(
        name,
        merged.get("load", base["load"]),
        tuple(merged["sections"]),
        env,
        tuple(merged.get("schedulers", ())),
        tuple(merged.get("seeds", base["seeds"])),
        merged.get("seconds"),
        merged.get("device"),
        tuple(merged.get("only", ())),
        merged.get("stack", ""),
    )


def known(what: str, asked: Iterable[str], there: Collection[str]) -> None:
    """UsageError, with the list of valid names, for an unknown name."""
    for name in asked:
        if name not in there:
            raise UsageError(shape.unknown(what, name, there), f"./sluice list {what}s")
