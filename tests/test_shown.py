# SPDX-License-Identifier: GPL-2.0-only
"""Every command that README and the pages of docs/ show: the lab's are well formed, the others run in a guest.

A command is a line of an indented block that begins with a prompt: `$`, `#`, or `sluice#` in a guest of ./sluice shell.
The lines below it, up to the next command, are what it prints; … stands for lines that are left out. A block that
begins with a licence is a file.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import cli, contrib, iolat, job, kernels, modules, passes

TOP = Path(__file__).parent.parent
COMMAND = re.compile(r"    (?:sluice)?([$#]) (.+)")
COMMENT = re.compile(r"\s{2,}#\s.*$")
HERE = re.compile(r"<<'?(\w+)'?")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
# Whether iolat loses an event depends on when interrupts come: one is no difference.
ONE_LOST = re.compile(r"LOST: [01] I/Os, 0 without a free row, 0 in .*, 0 in .*, 1 events$")
# A number is at most so many times the one that a page shows, or the other way round: each update of the kernel moves
# them a little.
NEAR = 2.0
# The same beside a load, where a column is about a few I/Os; and counts of these.
TAIL, FEW = 10.0, 30.0
# Commands of the lab; the others of ./sluice are for the machine that has the disk.
LABS = ("make ", *(f"./sluice {name}" for name in ("list", "run", "scheduler", "shell", "sweep", "test", "worker")))
# Commands that are not run here, by how they begin, and why.
ELSEWHERE = {
    "apt-get install ./build/deb": "tests/test_packages.py, by dpkg",
    "apt-get install": "packages of Debian, from the network",
    "./sluice run youngest": "tests/test_guide.py",
    "./sluice run sparse --device /dev/": "tests/test_real.py, in a guest",
    "./sluice run prio-mix --device /dev/": "tests/test_real.py, in a guest",
    "make -C bpf install": "packaging/debian/rules builds and installs it the same way, in tests/test_packages.py",
    "jq ": "tests/test_iolat_guest.py",
    "make install": "tests/test_door.py, for a kernel of the lab",
    "./sluice wrr": "tests/guest/wrr-command.sh, on a controller with weighted round robin",
    "echo wrr > /sys/block/nvme1n1": "the same",
}
# The machine before a page's commands. The commands of other pages are the lab's.
BEFORE = {
    "README.md": "machine",
    "docs/afq.md": "machine",
    "docs/cluster.md": "mkdir -p ~/.cache/sluice; echo node7 >~/.cache/sluice/nodes",
    "docs/cpq.md": "machine; echo +io >$G/cgroup.subtree_control; echo cpq >$Q/scheduler",
    "docs/doctor.md": "machine; disk hdd; scheduler mq-deadline; echo 1 >$Q/iosched/fifo_batch",
    "docs/guide-desktop.md": "machine",
    "docs/guide-postgresql.md": "machine",
    "docs/guide-sqlite.md": "machine; mkdir -p contrib/sqlite /usr/local/lib; mv sluice-vfs.so contrib/sqlite",
    "docs/guide-slow.md": "machine; echo sluice >$Q/scheduler",
    "docs/guide-tenants.md": "machine",
    "docs/index.md": "machine",
    "docs/iolat.md": "machine; disk ssd",
    "docs/mq-prio.md": "disk ssd",
    "docs/simdisk.md": ":",
    "docs/sluice.md": "machine; disk ssd; scheduler sluice",
    "docs/split.md": "machine",
    "docs/stacks.md": "machine; mkdir -p /etc/modules-load.d",
    "docs/stalls.md": "machine",
    "docs/split-deadline.md": "machine",
    "docs/split-token.md": "machine",
    "docs/tutorial.md": "disk ssd; exit() { :; }",
}
# What runs beside a command that names the simulated disk, by how it begins: functions of shown.sh.
BESIDE = {
    "./sluice doctor simdisk-d0": "mixed",
    "./sluice explain /dev/simdisk-d0": "waiting",
    "iolat -n -d simdisk-d0 --alarm": "classes",
    "iolat -n -o -d simdisk-d0": "inverted",
    "iolat -o --json -d simdisk-d0": "inverted",
}
# Exit statuses that are no failure.
STATUSES = {"./sluice doctor": (0, 1), "iolat -n -d simdisk-d0 --alarm": (3,)}


@dataclass(frozen=True)
class Shown:
    """A command of a page with its line, its prompt, and the lines that it prints there."""

    line: int
    prompt: str
    text: str
    prints: tuple[str, ...] = ()

    @property
    def is_labs(self) -> bool:
        """Whether it is typed in a checkout, and not on the machine that has the disk."""
        return self.prompt == "$" and self.text.startswith(LABS)


def shown(text: str) -> list[Shown]:
    """The commands of a page. Lines that end in a backslash and here-documents go on."""
    found: list[Shown] = []
    lines = iter(enumerate(text.splitlines(), 1))
    inside = in_file = False
    for number, line in lines:
        in_file = (in_file or "SPDX-License-Identifier" in line) and not line[:4].strip()
        if in_file:
            continue
        if match := COMMAND.fullmatch(line):
            parts = [match[2]]
            while parts[-1].endswith("\\"):
                parts.append(next(lines)[1].strip())
            if here := HERE.search(parts[-1]):
                while parts[-1] != here[1]:
                    parts.append(next(lines)[1].removeprefix("    "))
            found.append(Shown(number, match[1], COMMENT.sub("", "\n".join(parts))))
            inside = True
        elif inside and line.startswith("    "):
            last = found[-1]
            found[-1] = Shown(last.line, last.prompt, last.text, (*last.prints, line[4:]))
        else:
            inside = False
    return found


def pages() -> dict[str, list[Shown]]:
    """The commands of each page; CONTRIBUTING shows code in blocks too, where # is a comment."""
    paths = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").glob("*.md"))]
    found = {str(path.relative_to(TOP)): shown(path.read_text(encoding="utf-8")) for path in paths}
    found["CONTRIBUTING.md"] = [one for one in found["CONTRIBUTING.md"] if one.prompt == "$"]
    return {page: commands for page, commands in found.items() if commands}


def on_machine(commands: list[Shown]) -> list[Shown]:
    """The commands that a guest can run."""
    return [one for one in commands if not one.is_labs and here(one)]


def here(one: Shown) -> bool:
    """Whether a command is run by this file."""
    return not one.text.startswith(tuple(ELSEWHERE))


ON_HOST = [(page, one) for page, commands in pages().items() for one in commands if one.is_labs and here(one)]


@pytest.mark.parametrize(("page", "one"), ON_HOST, ids=[f"{page}:{one.line}" for page, one in ON_HOST])
def test_a_command_of_the_lab_is_well_formed(page: str, one: Shown) -> None:
    """The command line takes it, and make has its target."""
    words = shlex.split(one.text)
    if words[0] == "make":
        done = subprocess.run(["make", "-n", *words[1:]], cwd=TOP, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{page}:{one.line}: {done.stderr}"
    else:
        assert cli.main(["--check", *words[1:]]) == cli.GO_ON, f"{page}:{one.line}"


def test_pages_with_commands_for_a_machine_are_known() -> None:
    assert {page for page, commands in pages().items() if on_machine(commands)} == {*BEFORE}


def page_job(page: str) -> job.Job:
    """The job that runs a page's commands in one shell, each with its output and status in files below /out."""
    commands = on_machine(pages()[page])
    typed = "\n".join(one.text for one in commands)
    files = {**modules.build(kernels.DEFAULT), "shown.sh": (TOP / "tests/shown.sh").read_bytes()}
    if "iolat" in typed:
        files |= iolat.build()
    if "sluice-vfs" in typed:
        files |= contrib.build("sqlite")
    if "sluice " in typed:
        files["sluice"] = (TOP / "sluice").read_bytes()
        sources = [*(TOP / "lab").iterdir(), *(TOP / "lab/host").iterdir()]
        files |= {str(path.relative_to(TOP)): path.read_bytes() for path in sources if path.is_file()}
    files |= {f"command-{number}": one.text.encode() for number, one in enumerate(commands)}
    run = "\n".join(
        f"beside {beside(one) or ':'}\n"
        f"(exit $last); . /job/command-{number} >/out/{number} 2>&1; last=$?; echo $last >/out/{number}.status"
        for number, one in enumerate(commands)
    )
    files["page.sh"] = f". ./shown.sh\n{BEFORE[page]}\nlast=0\n{run}\n".encode()
    return job.Job(kernels.DEFAULT, "exec bash page.sh", files)


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("page", BEFORE)
def test_a_pages_commands_run(page: str) -> None:
    """Each ends with status 0, and prints what the page shows."""
    outcome = passes.outcome(page_job(page))
    said = outcome.files.get("stderr", b"").decode(errors="replace")
    assert outcome.status == 0, said
    for number, one in enumerate(on_machine(pages()[page])):
        printed = outcome.files[f"{number}"].decode(errors="replace")
        status = int(outcome.files[f"{number}.status"])
        allowed = next((of for name, of in STATUSES.items() if one.text.startswith(name)), (0,))
        assert status in allowed, f"{page}:{one.line}: {one.text}: status {status}: {printed}{said}"
        wrong = difference(one.prints, printed.splitlines(), *limits(one))
        assert not wrong, f"{page}:{one.line}: {one.text}: {wrong}\n{printed}"


def beside(one: Shown) -> str:
    """The load beside a command; empty: none."""
    return next((load for name, load in BESIDE.items() if one.text.startswith(name)), "")


def limits(one: Shown) -> tuple[float, float]:
    """How far numbers that a command prints may be from those on the page: a factor, and what may be added to it."""
    return (TAIL, FEW) if beside(one) else (NEAR, 0)


def difference(wanted: tuple[str, ...], got: list[str], times: float = NEAR, more: float = 0) -> str:
    """Which line of a page's output is not printed, in the page's order; numbers may be near; … leaves out lines.

    A page shows where Ctrl-C was typed.
    """
    rest = iter(got)
    for line in wanted:
        if line.strip() not in ("…", "^C") and not any(near(line, other, times, more) for other in rest):
            return f"not printed: {line!r}"
    return ""


def near(first: str, second: str, times: float = NEAR, more: float = 0) -> bool:
    """Whether two lines differ only by white space and, within limits, by their numbers."""
    first, second = (ONE_LOST.sub("nothing lost", line) for line in (first, second))
    texts = [" ".join(NUMBER.sub("0", line).split()) for line in (first, second)]
    pairs = zip(NUMBER.findall(first), NUMBER.findall(second), strict=False)
    values = [[float(part.replace(",", "")) for part in pair] for pair in pairs]
    return texts[0] == texts[1] and all(max(pair) <= times * min(pair) + more for pair in values)


def test_commands_are_found() -> None:
    page = "Text.\n\n    # echo 1 > a     # why\n    out 1\n    $ cat <<END\n    x\n    END\n"
    page += "    sluice# a \\\n      b\n\n    no\n"
    assert shown(page) == [
        Shown(3, "#", "echo 1 > a", ("out 1",)),
        Shown(5, "$", "cat <<END\nx\nEND"),
        Shown(8, "#", "a \\\nb"),
    ]


def test_outputs_are_compared() -> None:
    got = ["read: IOPS=1,000", "x", "p99 4.0 ms"]
    assert not difference(("read: IOPS=1,100", "…", "p99  4.2 ms"), got)
    assert "IOPS" in difference(("read: IOPS=2,300",), got)
    assert "x" in difference(("p99 4.0 ms", "x"), got)
    assert difference(("p99 4.0 s",), got)
    assert not difference(("p99 39.0 ms", "^C"), got, TAIL)
    assert "p99" in difference(("p99 41.0 ms",), got, TAIL)
    lost = "LOST: 1 I/Os, 0 without a free row, 0 in the tables of order, 0 in those of files, %d events"
    assert near("5 followed, nothing lost", f"5 followed, {lost % 1}")
    assert not near("5 followed, nothing lost", f"5 followed, {lost % 2}")
