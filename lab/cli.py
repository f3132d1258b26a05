# SPDX-License-Identifier: GPL-2.0-only
"""The command line of a checkout: the commands for this host's disks, and the lab's."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lab import cache, kernels, progress
from lab.errors import UsageError
from lab.host import cli as host
from lab.host.cli import Parser, count, tunable

if TYPE_CHECKING:
    from lab import plan
    from lab.host.cli import Commands

GO_ON = 64
"""With --check: the command line is valid, and needs what the launcher installs."""
PORT = 8786
"""The port of a scheduler where an address names none: Dask's own default."""
TOP = Path(__file__).parent.parent


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(args)
    return guarded(lambda: _do(options))


def _do(options: argparse.Namespace) -> int:
    options.names(options)
    return GO_ON if options.check else int(options.do(options))


def guarded(action: Callable[[], int]) -> int:
    """Run an action; any failure ends in a sentence and an exit status, and leaves no process behind."""

    def inside() -> int:
        try:
            with cache.host_space():
                return action()
        except KeyboardInterrupt:
            progress.stop()
            raise

    return host.guarded(inside, "interrupted; results of guests that have ended are kept")


def _parser() -> Parser:
    about = "Choose and watch the I/O schedulers of this host's disks; measure schedulers in virtual machines."
    parser = Parser("sluice", description=about, epilog=host.WITH, allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    commands = host.commands(parser)
    _add_list(commands)
    _add_run(commands)
    _add_sweep(commands)
    _add_cluster(commands)
    _add_test(commands)
    _add_shell(commands)
    _add_reports(commands)
    _add_docs(commands)
    commands.add_parser("build", help="build the modules for every kernel").set_defaults(do=_build)
    commands.add_parser("deb", help="build the Debian packages").set_defaults(do=_deb)
    commands.add_parser("site", help="build the site of docs/").set_defaults(do=_site)
    commands.add_parser("style", help="check the style of everything").set_defaults(do=_style)
    return parser


def _add_list(commands: Commands) -> None:
    add = commands.add_parser("list", help="list experiments, devices, stacks, schedulers, kernels")
    add.add_argument("what", nargs="?", choices=["experiments", "devices", "stacks", "schedulers", "kernels"])
    add.set_defaults(do=_list)


def _add_run(commands: Commands) -> None:
    status = "exit status: 0 all claims hold, 1 one fails, 2 usage, 3 the lab could not run"
    add = commands.add_parser("run", help="measure, judge, report", epilog=status)
    add.add_argument("experiments", nargs="+", metavar="EXPERIMENT")
    _add_places(add)
    add.add_argument(
        "--set", type=tunable, action="append", default=[], metavar="KNOB=V", help="a knob of the scheduler"
    )
    add.add_argument("--iolat", action="store_true", help="do each run again with iolat watching: stages, and its cost")
    _add_measuring(add)
    _add_accel(add)
    add.add_argument("--destroy", default="", metavar="/dev/DISK", help="with --device /dev/DISK: lose what it holds")
    add.set_defaults(do=_run, names=_run_points, real=None)


def _add_places(add: argparse.ArgumentParser) -> None:
    add.add_argument("--device", type=_names, default=(), metavar="P,…", help="only on these devices")
    add.add_argument("--scheduler", type=_names, default=(), metavar="S,…", help="only these schedulers")
    add.add_argument("--kernel", type=_names, default=(), metavar="K,…", help="on these kernels")
    add.add_argument("--stack", default="", metavar="STACK", help="with a stack on the devices: crypt-lvm, raid1 …")


def _add_measuring(add: argparse.ArgumentParser) -> None:
    add.add_argument("--cluster", type=_address, metavar="ADDRESS", help="run on this Dask cluster: tcp://HOST:8786")
    add.add_argument("--out", type=Path, metavar="DIR", help="where the report goes")
    add.add_argument("--json", action="store_true", help="print results.json")
    add.add_argument("--fresh", action="store_true", help="ignore kept results")
    add.add_argument(
        "-j", type=count, default=os.cpu_count() or 1, metavar="N", help="guests that run in parallel on this machine"
    )


def _add_sweep(commands: Commands) -> None:
    add = commands.add_parser("sweep", help="measure an experiment at many settings of a scheduler's knobs")
    add.add_argument("experiment", metavar="EXPERIMENT")
    add.add_argument(
        "--set",
        type=tunable,
        action="append",
        required=True,
        metavar="KNOB=FIRST:LAST[:STEP]",
        help="the settings of a knob; several knobs: each setting of one with each of the others",
    )
    add.add_argument(
        "--seeds", default="", metavar="FIRST:LAST", help="the seeds of each cell, if not the experiment's"
    )
    add.add_argument("--variant", type=_names, default=(), metavar="V,…", help="only these variants")
    _add_places(add)
    _add_measuring(add)
    add.set_defaults(do=_sweep, names=_sweep_choice)


def _add_cluster(commands: Commands) -> None:
    add = commands.add_parser("scheduler", help="be the scheduler of a cluster, until interrupted")
    add.add_argument("address", type=_address, metavar="ADDRESS", help="the scheduler's address: tcp://HOST:8786")
    add.set_defaults(do=_scheduler)
    add = commands.add_parser("worker", help="do a cluster's runs on this machine, until interrupted")
    add.add_argument("address", type=_address, metavar="ADDRESS", help="the scheduler's")
    add.add_argument("-j", type=count, default=os.cpu_count() or 1, metavar="N", help="guests that run in parallel")
    add.set_defaults(do=_worker)


def _add_accel(add: argparse.ArgumentParser) -> None:
    add.add_argument(
        "--accel", choices=["tcg", "kvm"], default="tcg", help="kvm: real time, where a guest boots with it"
    )


def _add_test(commands: Commands) -> None:
    add = commands.add_parser("test", help="run the tests")
    add.add_argument("-k", metavar="EXPR", help="only tests that match, as pytest's -k")
    add.add_argument("--full", action="store_true", help="the long tests too")
    add.add_argument("--planted", action="store_true", help="only the planted bugs, which test the guests' tests")
    add.add_argument("--fresh", action="store_true", help="ignore kept passes")
    add.add_argument("-j", type=count, default=os.cpu_count() or 1, metavar="N", help="tests side by side")
    add.set_defaults(do=_test)


def _add_shell(commands: Commands) -> None:
    add = commands.add_parser("shell", help="a prompt in a guest, modules loaded")
    which = add.add_mutually_exclusive_group()
    which.add_argument("--device", metavar="P", help="with a simulated disk")
    which.add_argument("--job", metavar="KEY", help="run a failed job's script again, and then the prompt")
    add.add_argument("--kernel", default=kernels.DEFAULT, metavar="K")
    _add_accel(add)
    add.set_defaults(do=_shell, names=_shell_names)


def _add_reports(commands: Commands) -> None:
    add = commands.add_parser("report", help="draw the report of a folder of results again")
    add.add_argument("folder", type=_folder, metavar="DIR")
    add.set_defaults(do=_report)
    add = commands.add_parser("compare", help="what differs between two folders of results")
    add.add_argument("first", type=_folder, metavar="DIR")
    add.add_argument("second", type=_folder, metavar="DIR")
    add.set_defaults(do=_compare)


def _add_docs(commands: Commands) -> None:
    add = commands.add_parser("docs", help="write the figures in README and docs/ from the results of the last runs")
    results = "the folder of results (default: results/)"
    add.add_argument("folder", nargs="?", type=Path, default=Path("results"), metavar="DIR", help=results)
    add.set_defaults(do=_docs)


def _list(options: argparse.Namespace) -> int:
    lists = {"experiments": _experiments, "devices": _devices, "stacks": _stacks}
    lists |= {"schedulers": _schedulers, "kernels": _kernels}
    for title in [options.what] if options.what else lists:
        if not options.what:
            print(f"{title}:")
        rows = lists[title]()
        width = max(map(len, rows))
        for name, about in rows.items():
            print(f"{name:{width}}  {about}")
    return 0


def _experiments() -> dict[str, str]:
    """Each experiment with its approximate duration on this host, and the first sentence of its question."""
    from lab import description, plan

    found = {}
    for name in description.names():
        one = description.load(name)
        minutes = plan.rough_cpu_s(one) / 60 / (os.cpu_count() or 1)
        sentence = re.split(r"(?<=[?.]) ", one.question)[0]
        found[name] = f"about {max(1, round(minutes)):3} min  {sentence}"
    return found


def _devices() -> dict[str, str]:
    from lab.devices import DEVICES

    return DEVICES


def _stacks() -> dict[str, str]:
    from lab.devices import STACKS

    return STACKS


def _schedulers() -> dict[str, str]:
    from lab.schedulers import PHRASES, SCHEDULERS

    return {name: PHRASES[name] for name in SCHEDULERS}


def _kernels() -> dict[str, str]:
    return {kernel.name: f"Debian's, of {kernel.suite}" for kernel in kernels.KERNELS}


def _run_points(options: argparse.Namespace) -> list[plan.Point]:
    """The cells that a run is to measure; UsageError if there are none."""
    from lab import description, plan

    if any(name.startswith("/dev/") for name in options.device) or options.destroy:
        return _real_points(options)
    if options.cluster and options.accel == "kvm":
        raise UsageError("a cluster has the virtual clock only", "./sluice run … --cluster ADDRESS, without --accel")
    description.known("experiment", options.experiments, description.names())
    choice = plan.Choice(options.device, options.scheduler, options.kernel, tuple(options.set), stack=options.stack)
    plan.check(choice)
    return [point for one in options.experiments for point in plan.points(description.load(one), choice)]


def _real_points(options: argparse.Namespace) -> list[plan.Point]:
    """The cells that a real disk is to take the place in; UsageError where it can't."""
    from lab import description, plan
    from lab.host import real

    here = "./sluice run EXPERIMENT --device /dev/DISK --scheduler S,…"
    guests = ("kernel", "stack", "cluster", "iolat")
    given = [f"--{name}" for name in guests if getattr(options, name)] + ["--accel kvm"] * (options.accel == "kvm")
    if len(options.device) != 1 or not options.device[0].startswith("/dev/"):
        raise UsageError("one real disk is measured at a time, and --destroy repeats its path", here)
    if given:
        raise UsageError(f"{given[0]} is for guests, not for a real disk", here)
    description.known("experiment", options.experiments, description.names())
    disk = real.target(options.device[0], writes=False, destroy=options.destroy)
    choice = plan.Choice((disk.profile,), options.scheduler, (kernels.DEFAULT,), tuple(options.set))
    plan.check(choice)
    loaded = [description.load(name) for name in options.experiments]
    found = [(one, plan.on_real(one, plan.points(one, choice), disk.profile)) for one in loaded]
    writes = not all(plan.only_reads(one, points) for one, points in found)
    options.real = real.target(disk.path, writes, options.destroy)
    return [point for _, points in found for point in points]


def _run(options: argparse.Namespace) -> int:
    from lab import experiment, plan
    from lab.host import real
    from lab.schedulers import SCHEDULERS

    points = _run_points(options)
    if options.real:
        options.kernel = (kernels.DEFAULT,)
        for name in dict.fromkeys(point.scheduler for point in points):
            real.load(options.real, SCHEDULERS[name].elevator, SCHEDULERS[name].beside)
    else:
        wanted = {name for point in points for name in plan.modules(point)}
        _prepare(tuple(dict.fromkeys(point.kernel for point in points)), options.accel, sorted(wanted))
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
        cluster=options.cluster,
        stack=options.stack,
        real=options.real,
    )


def _sweep_choice(options: argparse.Namespace) -> plan.Choice:
    """The choice of a sweep; UsageError if it selects nothing."""
    from lab import description, plan, sweep

    seeds = [seed for seed in sweep.values(options.seeds) if seed]
    if not all(re.fullmatch("[0-9]+", seed) for seed in seeds):
        raise UsageError(f"--seeds {options.seeds} is not a range of whole numbers", "./sluice sweep … --seeds 1:20")
    knobs = [knob for knob, _ in options.set]
    if len(set(knobs)) < len(knobs):
        raise UsageError("--set names a knob twice", "./sluice sweep … --set low_share=1:50")
    choice = plan.Choice(
        options.device,
        options.scheduler,
        options.kernel,
        variants=options.variant,
        seeds=tuple(map(int, seeds)),
        sweep=tuple((knob, sweep.values(text)) for knob, text in options.set),
        stack=options.stack,
    )
    plan.check(choice)
    plan.points(description.load(options.experiment), choice)
    return choice


def _sweep(options: argparse.Namespace) -> int:
    from lab import description, experiment, plan

    choice = _sweep_choice(options)
    points = plan.points(description.load(options.experiment), choice)
    wanted = {name for point in points for name in plan.modules(point)}
    _prepare(tuple(dict.fromkeys(point.kernel for point in points)), "tcg", sorted(wanted))
    return experiment.sweep(
        options.experiment, choice, options.out, options.json, options.fresh, options.j, options.cluster
    )


def _scheduler(options: argparse.Namespace) -> int:
    from lab import cluster

    return cluster.schedule(options.address)


def _worker(options: argparse.Namespace) -> int:
    from lab import cluster

    return cluster.work(options.address, options.j)


def _test(options: argparse.Namespace) -> int:
    import pytest

    _prepare(kernels.names(), "tcg")
    chosen = ["-k", options.k] if options.k else []
    chosen += [f"--{name}" for name in ("full", "planted", "fresh") if getattr(options, name)]
    # One test at a time for each worker, so that the longest, which come first, are spread.
    return int(pytest.main(["-n", str(options.j), "--maxschedchunk=1", "-q", *chosen, str(TOP / "tests")]))


def _shell_names(options: argparse.Namespace) -> None:
    from lab import plan, shape

    if options.job and not (cache.failed() / options.job).is_file():
        there = [path.name for path in sorted(cache.failed().glob("*"))]
        raise UsageError(shape.unknown("failed job", options.job, there), "the command that failed, again")
    plan.check(plan.Choice((options.device,) if options.device else (), (), (options.kernel,)))


def _shell(options: argparse.Namespace) -> int:
    from lab import job, shell

    failed = job.failed(options.job) if options.job else None
    _prepare((failed.kernel if failed else options.kernel,), options.accel)
    return shell.run(shell.repeat(failed) if failed else shell.prompt(options.kernel, options.device))


def _prepare(names: Sequence[str], accel: str, wanted: Sequence[str] = ()) -> None:
    """Set up what is missing, with the wanted modules or all, and choose the accelerator of the guests."""
    from lab import job, setup

    setup.ready(names, wanted)
    if accel == "kvm":
        job.try_kvm(names[0])


def _docs(options: argparse.Namespace) -> int:
    from lab import docs

    for page in docs.write(options.folder):
        print(page)
    return 0


def _build(_options: argparse.Namespace) -> int:
    from lab import modules, setup

    setup.ready(kernels.names(), machines=False)
    for name in kernels.names():
        modules.build(name)
        print(modules.folder(kernels.get(name)))
    return 0


def _deb(_options: argparse.Namespace) -> int:
    from lab import deb

    for path in deb.build(Path("build/deb")):
        print(path)
    return 0


def _site(_options: argparse.Namespace) -> int:
    from lab import book

    print(book.build())
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


def _address(text: str) -> str:
    """A scheduler's address, with its port."""
    try:
        at = urlsplit(text)
        port = at.port or PORT
    except ValueError:
        at, port = urlsplit(""), 0
    if at.scheme not in ("tcp", "tls") or not at.hostname or text != f"{at.scheme}://{at.netloc}":
        raise argparse.ArgumentTypeError(f"{text!r} is not an address of a scheduler, as tcp://HOST:{PORT} is")
    return text if at.port else f"{text.rstrip(':')}:{port}"


def _folder(text: str) -> Path:
    if not (Path(text) / "results.json").exists():
        raise argparse.ArgumentTypeError(f"{text} holds no results.json; make one: ./sluice run prio-mix --out {text}")
    return Path(text)


if __name__ == "__main__":
    sys.exit(main())
