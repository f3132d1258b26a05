# SPDX-License-Identifier: GPL-2.0-only
"""The command line for the disks of this host: use, status, bench, doctor, explain, wrr. The lab has these too."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from lab import errors
from lab.errors import LabError, UsageError
from lab.host import wrr

if TYPE_CHECKING:
    from lab.host import use

    Commands = argparse._SubParsersAction["Parser"]

USAGE, FAILED, INTERRUPTED = 2, 3, 130
WITH = "sluice with --help: run a command with a rate or deadlines, on this host"


def main(args: Sequence[str] | None = None) -> int:
    """Run the installed command line; returns the exit status."""
    errors.called = "sluice"
    options = parser().parse_args(args)
    return guarded(lambda: int(options.do(options)))


def parser() -> Parser:
    """The installed command line."""
    about = "Choose and watch the I/O schedulers of this host's disks."
    made = Parser("sluice", description=about, epilog=WITH, allow_abbrev=False)
    commands(made)
    return made


def guarded(action: Callable[[], int], interrupted: str = "interrupted") -> int:
    """Run an action; any failure ends in a sentence and an exit status."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        return action()
    except LabError as error:
        print(error, file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else FAILED
    except KeyboardInterrupt:
        print(f"\nsluice: {interrupted}\n   next: the same command again", file=sys.stderr)
        return INTERRUPTED


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


class Parser(argparse.ArgumentParser):
    """A parser whose errors look like all others."""

    def error(self, message: str) -> NoReturn:
        print(UsageError(message, f"./{self.prog} --help"), file=sys.stderr)
        sys.exit(USAGE)


def commands(parser: Parser) -> Commands:
    """Add the commands to a parser; returns where others can be added."""
    parser.set_defaults(names=lambda options: None)
    there = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_use(there)
    _add_status(there)
    _add_bench(there)
    _add_doctor(there)
    _add_explain(there)
    _add_wrr(there)
    return there


def _add_use(there: Commands) -> None:
    status = "exit status: 0 done, 2 usage, 3 it could not be done; then nothing has changed"
    usage = (
        "sluice use SCHEDULER DISK… [--set KNOB=V]… [--persist] [--json]\n       sluice use --default [DISK…] [--json]"
    )
    add = there.add_parser("use", help="give disks of this host a scheduler", usage=usage, epilog=status)
    add.add_argument("words", nargs="*", metavar="SCHEDULER DISK…", help="a scheduler, and disks: sda, /dev/sda")
    add.add_argument(
        "--default",
        action="store_true",
        help="the kernel's default, now and at each boot; without DISK for each disk that has a scheduler of Sluice's",
    )
    add.add_argument("--set", type=tunable, action="append", default=[], metavar="KNOB=V", help="a knob: low_share=10")
    add.add_argument("--persist", action="store_true", help="at each boot too")
    add.add_argument("--json", action="store_true", help="print what was done as data")
    add.set_defaults(do=_use, names=_use_choice)


def _add_status(there: Commands) -> None:
    status = "exit status: 0 no problem, 1 a problem, 2 usage, 3 a disk could not be read"
    about = "this host's disks, their schedulers, and what gets through to them"
    add = there.add_parser("status", help=about, epilog=status)
    add.add_argument("--json", action="store_true", help="print it as data")
    add.set_defaults(do=_status)


def _add_bench(there: Commands) -> None:
    status = "exit status: 0 measured, 2 usage, 3 it could not be done; the disk has its scheduler again in any case"
    about = "what a scheduler does for a database beside a copy, on a disk of this host"
    add = there.add_parser("bench", help=about, epilog=status)
    add.add_argument("device", metavar="DISK", help="sda, /dev/sda, or a partition")
    add.add_argument(
        "--scheduler",
        default="sluice",
        metavar="S",
        help="the scheduler to compare with the disk's own (default: sluice)",
    )
    add.add_argument(
        "--dir",
        default="",
        metavar="DIR",
        help="a folder on the disk (default: in the file system with most free space)",
    )
    add.add_argument(
        "--seconds",
        type=_seconds,
        default=20.0,
        metavar="N",
        help="the length of each of the twelve runs (default: 20)",
    )
    add.add_argument("--json", action="store_true", help="print the runs as data")
    add.set_defaults(do=_bench)


def _add_doctor(there: Commands) -> None:
    status = "exit status: 0 nothing to advise, 1 advice given, 2 usage, 3 the disk could not be read"
    add = there.add_parser("doctor", help="what holds a disk of this host back; changes nothing", epilog=status)
    add.add_argument("device", metavar="DEVICE", help="sda, /dev/sda, or a partition")
    add.add_argument(
        "--seconds", type=_seconds, default=5.0, metavar="N", help="watch for so many seconds (default: 5)"
    )
    add.add_argument("--json", action="store_true", help="print the findings as data")
    add.set_defaults(do=_doctor)


def _add_explain(there: Commands) -> None:
    status = "exit status: 0 shown, 2 usage, 3 the disk could not be read"
    about = "which process waits for which on a disk with sluice, live"
    add = there.add_parser("explain", help=about, epilog=status)
    add.add_argument("device", metavar="DEVICE", help="sda, /dev/sda, or a partition")
    add.add_argument(
        "--seconds", type=_seconds, default=2.0, metavar="N", help="seconds between two screens (default: 2)"
    )
    add.add_argument(
        "--screens", type=count, default=0, metavar="N", help="end after so many screens (default: when interrupted)"
    )
    add.add_argument("--json", action="store_true", help="print each screen as a line of data")
    add.set_defaults(do=_explain)


def _add_wrr(there: Commands) -> None:
    status = "exit status: 0 done, 2 usage, 3 it could not be done"
    add = there.add_parser("wrr", help="NVMe weighted round robin on this host", epilog=status)
    wrr.arguments(add)
    add.set_defaults(do=wrr.run)


def _use_choice(options: argparse.Namespace) -> use.Choice:
    """The scheduler and the disks that are asked for; UsageError if that makes no sense."""
    from lab.host import use

    example = "./sluice use sluice sda --persist"
    if options.default and (options.set or options.persist):
        raise UsageError("--default takes no --set and no --persist: it ends both", "./sluice use --default sda")
    if options.default:
        return use.Choice("", options.words)
    if len(options.words) < 2:
        raise UsageError("a scheduler and at least one disk are needed", example)
    scheduler, *names = options.words
    if "/" in scheduler or Path("/sys/block", scheduler).exists():
        raise UsageError(f"{scheduler} is a disk, and the scheduler comes first", example)
    for knob, value in options.set:
        if not re.fullmatch(r"\w+", knob) or not re.fullmatch(r"[\w.+=, -]+", value):
            raise UsageError(f"--set {knob}={value} is not KNOB=VALUE", "./sluice use … --set low_share=10")
    return use.Choice(scheduler, names, dict(options.set), options.persist)


def _use(options: argparse.Namespace) -> int:
    from lab.host import use

    return use.run(_use_choice(options), options.json)


def _status(options: argparse.Namespace) -> int:
    from lab.host import status

    return status.run(options.json)


def _bench(options: argparse.Namespace) -> int:
    from lab.host import bench

    return bench.run(options.device, options.scheduler, options.dir, options.seconds, options.json)


def _doctor(options: argparse.Namespace) -> int:
    from lab.host import doctor

    return doctor.run(options.device, options.seconds, options.json)


def _explain(options: argparse.Namespace) -> int:
    from lab.host import explain

    return explain.run(options.device, options.seconds, options.screens, options.json)


def tunable(text: str) -> tuple[str, str]:
    """A knob and its value."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not KNOB=VALUE")
    return name, value


def count(text: str) -> int:
    """A positive number."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text) or not 0.1 <= float(text) <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.1 to 86400")
    return float(text)


if __name__ == "__main__":
    sys.exit(main())
