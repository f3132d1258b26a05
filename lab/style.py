# SPDX-License-Identifier: GPL-2.0-only
"""Style: every checker over every file that it is for, in one run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from lab import cache, kernels, modules, passes, progress, prose, setup, toolbox
from lab.errors import LabError

TOP = Path(__file__).parent.parent
# Types of checkpatch's complaints that a module outside the kernel's tree cannot avoid.
NOT_HERE = "FILE_PATH_CHANGES,LINUX_VERSION_CODE,CONSTANT_COMPARISON"
# Tracepoints have their own layout, which neither checkpatch nor clang-format knows.
TRACE = "*-trace.h"
# The split framework, lowest layer first: a layer's header, and the files that are in it. Each uses the layers below
# it and none above. The models (causes.c, cost.c, learn.c) are below all of them; a policy uses split.h alone.
LAYERS = {
    "account.h": ("account.c", "proxy.c"),
    "device.h": ("device.c", "costs.c"),
    "stack.h": ("stack.c",),
    "dirty.h": ("memory.c", "journal.c"),
    "request.h": ("block.c",),
    "gate.h": ("cached.c", "gate.c", "resume.c", "entry.c"),
    "core.h": ("core.c", "ext4.c", "hooks.c", "xfs.c"),
}
# The configuration of the checkers.
SETTINGS = (
    *("lab/style.py", "lab/prose.py", "pyproject.toml"),
    *("requirements.txt", "requirements-cluster.txt", "requirements-tests.txt"),
)
# Pages for people. The claims' page is not here: it is generated from the experiments, and each line is a list of
# conditions.
PAGES = ("README.md", ":(glob)*/**/README.md", "CONTRIBUTING.md", "docs/*.md", "man/*", ":!docs/claims.md")
# Sources with comments and messages for people, but for those that list the words.
SAID = ("*.[ch]", "*.py", "*.sh", "*.toml", ":!lab/prose.py", ":!tests/test_prose.py", ":!tests/test_claims.py")
Checker = Callable[[Sequence[str]], None]
SOURCES = toolbox.Sandbox(ro={"/tmp/top": TOP}, cwd="/tmp/top")


def run() -> int:
    """Run every checker, side by side; prints their findings and returns 1 if there are any.

    A checker that has passed the same files before isn't run again.
    """
    c = _files("*.c", "*.h", f":!{TRACE}")
    todo: dict[Checker, Sequence[str]] = {
        sparse: _files("kernel"),
        checkpatch: [name for name in c if name.startswith("kernel/")],
        mypy: [name for name in _files("*.py") if name.startswith(("lab/", "tests/", "experiments/"))],
        ruff: _files("*.py"),
        shellcheck: [name for name in _files() if _is_shell(TOP / name)],
        clang_format: c,
        layers: [name for name in c if name.startswith("kernel/split/")],
        words: _files(*PAGES),
        unnamed: _files(*SAID),
    }
    failed: list[str] = []
    setup.side_by_side([partial(_check, checker, files, failed) for checker, files in todo.items()])
    if failed:
        print(f"style: {', '.join(failed)} found something", file=sys.stderr)
    return int(bool(failed))


def ruff(files: Sequence[str]) -> None:
    """Ruff's lint over all Python."""
    _here("ruff", "check", "--quiet", *files)


def mypy(files: Sequence[str]) -> None:
    """Strict types over all Python. An experiment's folder is no package: each of its files is linked as a module."""
    with cache.scratch() as work:
        links = {
            str(work / f"{re.sub('[^a-z]', '_', name.removesuffix('.py'))}.py"): name
            for name in files
            if name.startswith("experiments/")
        }
        for link, name in links.items():
            Path(link).symlink_to(TOP / name)
        _here("mypy", "--no-error-summary", *(set(files) - set(links.values())), *links, names=links)


def shellcheck(files: Sequence[str]) -> None:
    """shellcheck over every shell script, known by name or first line."""
    line = ["shellcheck", "--external-sources", "--source-path=lab/guest", "--exclude=SC2119"]
    toolbox.run([*line, *files], replace(SOURCES, root=toolbox.workshop()))


def clang_format(files: Sequence[str]) -> None:
    """The kernel's layout, by .clang-format, over C that is ours."""
    toolbox.run(["clang-format", "--dry-run", "-Werror", *files], replace(SOURCES, root=toolbox.workshop()))


def checkpatch(files: Sequence[str]) -> None:
    """The kernel's own checkpatch, strict, over the modules' sources."""
    line = ["perl", "/tmp/scripts/checkpatch.pl", "--no-tree", "--strict", "--terse", "--no-summary"]
    ro = {**SOURCES.ro, "/tmp/scripts": kernels.checkpatch()}
    toolbox.run([*line, "--ignore", NOT_HERE, "-f", *files], replace(SOURCES, ro=ro, root=toolbox.workshop()))


def sparse(_: Sequence[str]) -> None:
    """sparse over the modules; its warnings about the kernel's own headers are not ours."""
    with cache.scratch() as work:
        printed = modules.make(kernels.get(kernels.DEFAULT), work, "C=2", "modules", root=toolbox.workshop())
    found = [line for line in printed.splitlines() if "/tmp/out/" in line and re.search("warning:|error:", line)]
    if found:
        raise LabError("sparse has warnings", "make style   after mending them", "\n".join(found))


def words(files: Sequence[str]) -> None:
    """Sentences of the pages that a reader would have to read twice."""
    found = [fault for name in files for fault in prose.faults(name, (TOP / name).read_text(encoding="utf-8"))]
    if found:
        raise LabError("pages aren't plain", "make style   after mending them", "\n".join(found))


def unnamed(files: Sequence[str]) -> None:
    """Comments that speak of a thing or a role as of a person, and messages that a reader would have to read twice."""
    texts = {name: (TOP / name).read_text(encoding="utf-8") for name in files}
    found = [fault for name, text in texts.items() for fault in prose.unnamed(name, text)]
    messages = {name: text for name, text in texts.items() if name.endswith((".c", ".h", ".py"))}
    found += [fault for name, text in messages.items() for fault in prose.said(name, text)]
    if found:
        raise LabError("comments or messages aren't plain", "make style   after mending them", "\n".join(found))


def layers(files: Sequence[str]) -> None:
    """The order of the split framework's layers."""
    found = out_of_layer({Path(name).name: (TOP / name).read_text(encoding="utf-8") for name in files})
    if found:
        raise LabError("the split framework's layers are mixed", "make style   after mending it", "\n".join(found))


def out_of_layer(sources: Mapping[str, str]) -> list[str]:
    """Violations of the order of LAYERS in files of kernel/split, by name.

    These are: a layer's file without its header, a header of a higher layer, a policy or a model with a header of any
    layer.
    """
    order = list(LAYERS)
    rank = {name: order.index(header) for header, members in LAYERS.items() for name in (header, *members)}
    found = [f"kernel/split/{name}: there is no such file; next: mend LAYERS" for name in rank if name not in sources]
    for name, text in sources.items():
        included = [header for header in order if f'#include "{header}"' in text]
        if name in rank and name.endswith(".c") and order[rank[name]] not in included:
            found.append(f"kernel/split/{name}: doesn't include {order[rank[name]]}, its layer's header")
        highest = rank.get(name, -1)
        hint = "" if name in rank else "; next: split.h has what a policy needs; else give the file its line in LAYERS"
        found += [
            f"kernel/split/{name}: includes {header}, which is of a higher layer{hint}"
            for header in included
            if order.index(header) > highest or header == name
        ]
    return found


def _check(checker: Checker, files: Sequence[str], failed: list[str]) -> None:
    """Run a checker over files unless they have passed it; print what it finds, and add its name to `failed`."""

    def check() -> None:
        with progress.step(f"Style: {checker.__name__}"):
            checker(files)

    inputs = passes.contents(*(TOP / name for name in (*files, *SETTINGS, ".clang-format")))
    try:
        tools = (sys.version, toolbox.identity(toolbox.workshop()), kernels.get(kernels.DEFAULT).release)
        passes.once(check, checker.__name__, *tools, *inputs)
    except LabError as error:
        failed.append(checker.__name__)
        print(error.detail, file=sys.stderr)


def _here(module: str, *args: str, names: Mapping[str, str] | None = None) -> None:
    """Run a module of Python; in its output some files get other names, from `names`."""
    done = subprocess.run([sys.executable, "-m", module, *args], cwd=TOP, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stdout + done.stderr
        for name, instead in (names or {}).items():
            said = said.replace(name, instead)
        raise LabError(f"{module} found something", "make style   after mending it", said)


def _files(*patterns: str) -> Sequence[str]:
    """Files that git tracks, or would track."""
    line = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns, ":!tests/golden"]
    return toolbox.on_host(line, TOP, {}).split()


def _is_shell(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as handle:
        first = handle.readline()
    return path.suffix == ".sh" or (first.startswith(b"#!") and b"sh\n" in first)
