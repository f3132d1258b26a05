# SPDX-License-Identifier: GPL-2.0-only
"""The command line: list, run, test, shell, report, compare, doctor, wrr."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab import cache, kernels, progress, wrr
from lab.errors import LabError, UsageError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

USAGE, LAB_FAILED, INTERRUPTED = 2, 3, 130
TOP = Path(__file__).parent.parent


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(args)
    return guarded(lambda: int(options.do(options)))


def guarded(action: Callable[[], int]) -> int:
    """Do something; whatever goes wrong ends in a sentence and an exit status, and in no process left behind."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with cache.host_space():
            return action()
    except LabError as error:
        print(error, file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else LAB_FAILED
    except KeyboardInterrupt:
        progress.stop()
        print("\nsluice: interrupted; finished results are kept\n   try: the same command again", file=sys.stderr)
        return INTERRUPTED


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "sluice",
        description="I/O priorities that mean something: the lab.",
        epilog="sluice with --help: run a command with a rate or deadlines, on this host",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_list(commands)
    _add_run(commands)
    _add_test(commands)
    _add_shell(commands)
    _add_reports(commands)
    _add_doctor(commands)
    _add_wrr(commands)
    commands.add_parser("build", help="build the modules for every kernel").set_defaults(do=_build)
    commands.add_parser("style", help="check the style of everything").set_defaults(do=_style)
    return parser


def _add_list(commands: Commands) -> None:
    add = commands.add_parser("list", help="what there is")
    add.add_argument("what", nargs="?", choices=["experiments", "devices", "schedulers", "kernels"])
    add.set_defaults(do=_list)


def _add_run(commands: Commands) -> None:
    status = "exit status: 0 all claims hold, 1 one fails, 2 usage, 3 the lab could not run"
    add = commands.add_parser("run", help="measure, judge, report", epilog=status)
    add.add_argument("experiments", nargs="+", metavar="EXPERIMENT")
    add.add_argument("--device", type=_names, default=(), metavar="P,…", help="only on these devices")
    add.add_argument("--scheduler", type=_names, default=(), metavar="S,…", help="only these schedulers")
    add.add_argument("--kernel", type=_names, default=(), metavar="K,…", help="on these kernels")
    add.add_argument(
        "--set", type=_tunable, action="append", default=[], metavar="TUNABLE=V", help="a knob of the scheduler"
    )
    add.add_argument("--iolat", action="store_true", help="do each run again with iolat watching: stages, and its cost")
    add.add_argument("--out", type=Path, metavar="DIR", help="where the report goes")
    add.add_argument("--json", action="store_true", help="print results.json")
    add.add_argument("--fresh", action="store_true", help="ignore kept results")
    add.add_argument("-j", type=_count, default=os.cpu_count() or 1, metavar="N", help="guests side by side")
    _add_accel(add)
    add.set_defaults(do=_run)


def _add_accel(add: argparse.ArgumentParser) -> None:
    add.add_argument(
        "--accel", choices=["tcg", "kvm"], default="tcg", help="kvm: real time, where a guest boots with it"
    )


def _add_test(commands: Commands) -> None:
    add = commands.add_parser("test", help="run the tests")
    add.add_argument("-k", metavar="EXPR", help="only tests that match, as pytest's -k")
    add.add_argument("--full", action="store_true", help="the long tests too")
    add.add_argument("-j", type=_count, default=os.cpu_count() or 1, metavar="N", help="tests side by side")
    add.set_defaults(do=_test)


def _add_shell(commands: Commands) -> None:
    add = commands.add_parser("shell", help="a prompt in a guest, modules loaded")
    add.add_argument("--device", metavar="P", help="with a simulated disk")
    add.add_argument("--kernel", default=kernels.DEFAULT, metavar="K")
    _add_accel(add)
    add.set_defaults(do=_shell)


def _add_reports(commands: Commands) -> None:
    add = commands.add_parser("report", help="draw the report of a folder of results again")
    add.add_argument("folder", type=_folder, metavar="DIR")
    add.set_defaults(do=_report)
    add = commands.add_parser("compare", help="what differs between two folders of results")
    add.add_argument("first", type=_folder, metavar="DIR")
    add.add_argument("second", type=_folder, metavar="DIR")
    add.set_defaults(do=_compare)


def _add_doctor(commands: Commands) -> None:
    status = "exit status: 0 nothing to advise, 1 advice given, 2 usage, 3 the disk could not be read"
    add = commands.add_parser("doctor", help="what holds a disk of this host back; changes nothing", epilog=status)
    add.add_argument("device", metavar="DEVICE", help="sda, /dev/sda, or a partition")
    add.add_argument("--seconds", type=_seconds, default=5.0, metavar="N", help="watch for so long (5)")
    add.add_argument("--json", action="store_true", help="print the findings as data")
    add.set_defaults(do=_doctor)


def _add_wrr(commands: Commands) -> None:
    status = "exit status: 0 done, 2 usage, 3 it could not be done"
    add = commands.add_parser("wrr", help="NVMe weighted round robin on this host", epilog=status)
    wrr.arguments(add)
    add.set_defaults(do=wrr.run)


def _list(options: argparse.Namespace) -> int:
    from lab import experiment, schedulers

    there = {
        "experiments": experiment.names(),
        "devices": experiment.DEVICES,
        "schedulers": tuple(schedulers.SCHEDULERS),
        "kernels": kernels.names(),
    }
    for title in [options.what] if options.what else there:
        print(f"{title}: {' '.join(there[title])}")
    return 0


def _run(options: argparse.Namespace) -> int:
    from lab import experiment

    experiment.check(experiment.Choice(options.device, options.scheduler, options.kernel, tuple(options.set)))
    asked = [name for one in options.experiments for name in experiment.load(one).kernels]
    _prepare(options.kernel or tuple(dict.fromkeys(asked)), options.accel)
    return experiment.run(
        options.experiments,
        devices=options.device,
        schedulers=options.scheduler,
        kernels=options.kernel,
        tunables=options.set,
        out=options.out,
        json_output=options.json,
        fresh=options.fresh,
        parallel=options.j,
        watch=options.iolat,
    )


def _test(options: argparse.Namespace) -> int:
    import pytest

    _prepare(kernels.names(), "tcg")
    chosen = [*(["-k", options.k] if options.k else []), *(["--full"] if options.full else [])]
    return int(pytest.main(["-n", str(options.j), "-q", *chosen, str(TOP / "tests")]))


def _shell(options: argparse.Namespace) -> int:
    from lab import experiment, shell

    experiment.check(experiment.Choice((options.device,) if options.device else (), (), (options.kernel,)))
    _prepare((options.kernel,), options.accel)
    return shell.run(options.kernel, options.device)


def _prepare(names: Sequence[str], accel: str) -> None:
    """Set up what is missing and choose how guests run."""
    from lab import job, setup

    setup.ready(names)
    if accel == "kvm":
        job.try_kvm(names[0])


def _doctor(options: argparse.Namespace) -> int:
    from lab import doctor

    return doctor.run(options.device, options.seconds, options.json)


def _build(_options: argparse.Namespace) -> int:
    from lab import modules, setup

    setup.ready(kernels.names(), machines=False)
    for name in kernels.names():
        print(modules.folder(name))
    return 0


def _style(_options: argparse.Namespace) -> int:
    from lab import setup, style

    setup.ready(kernels.names(), machines=False)
    return style.run()


def _report(options: argparse.Namespace) -> int:
    from lab import report

    print(report.render(options.folder))
    return 0


def _compare(options: argparse.Namespace) -> int:
    from lab import report

    return report.compare(options.first, options.second)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _tunable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not TUNABLE=VALUE")
    return name, value


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number")
    return int(text)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text) or not 0.1 <= float(text) <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.1 to 86400")
    return float(text)


def _folder(text: str) -> Path:
    if not (Path(text) / "results.json").exists():
        raise argparse.ArgumentTypeError(f"{text} holds no results.json; make one: ./sluice run prio-mix --out {text}")
    return Path(text)


if __name__ == "__main__":
    sys.exit(main())
