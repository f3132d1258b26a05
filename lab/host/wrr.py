# SPDX-License-Identifier: GPL-2.0-only
"""NVMe weighted round robin on this host: `sluice wrr` binds controllers to nvme-wrr, sets them, and tries them.

Imports only Python's standard library, so that it runs on any host. `probe` needs fio; no venv is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError, ToolMissing, UsageError

OURS, STOCK = "nvme-wrr", "nvme"
NVME_CLASS = "0x010802"
LEVELS = ("urgent", "high", "medium", "low")
# Classes and levels of I/O priority, by their names in the driver's file, with the values of fio's options.
CLASSES = (("rt", 1, 0), *((f"be-{level}", 2, level) for level in range(8)), ("idle", 3, 0))
# A drive honours its weights if each share is within this part of its target. It ignores them if each share is within
# the same part of its share with equal weights.
NEAR = 0.1
# With these schedulers the drive chooses the order; others order requests before the drive sees them.
PLAIN = ("none", "wrr")
_ADVICE = ", which orders before the drive can; next: echo none > /sys/block/{}/queue/scheduler"
TRIALS = ((1, 1, 1), (64, 32, 8), (8, 32, 64))
WAIT_S = 30.0


@dataclass(frozen=True)
class Controller:
    """An NVMe controller on PCI: its address, folder, driver ("" for none) and name like nvme0 ("" for none)."""

    address: str
    folder: Path
    driver: str
    name: str

    @property
    def wrr(self) -> Path:
        """The driver's files."""
        return self.folder / "nvme" / self.name / "wrr"

    def read(self, file: str) -> str:
        """The content of one of the driver's files."""
        return (self.wrr / file).read_text(encoding="ascii").strip()

    def paths(self) -> list[str]:
        """The names of its namespaces below /sys/block, which have its queues."""
        found = (self.folder / "nvme" / self.name).glob("nvme*n*") if self.name else iter(())
        return sorted(path.name for path in found if (Path("/sys/block") / path.name).exists())

    def disks(self) -> list[str]:
        """The names of its namespaces below /dev; they differ from `paths` if a drive may have several controllers."""
        return [disk_of(path) for path in self.paths()]


def disk_of(path: str) -> str:
    """The disk of a namespace: of nvme0c1n1, a hidden path, it is nvme0n1."""
    return re.sub(r"c\d+(?=n\d+$)", "", path)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line."""
    commands = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    of = argparse.ArgumentParser(add_help=False)
    of.add_argument(
        "-c", "--controller", metavar="C", help="nvme0, /dev/nvme0n1 or a PCI address; needed if there are several"
    )
    for name, text in {
        "status": "what each controller can do, and does",
        "bind": "give a controller to nvme-wrr; refused while its disks are in use",
        "unbind": "give it back to the stock driver; refused likewise",
    }.items():
        commands.add_parser(name, parents=[of], help=text, description=text)
    add = commands.add_parser("weights", parents=[of], help="set the weights, 1 to 256 each")
    for name in LEVELS[1:]:
        add.add_argument(name, type=_weight, metavar=name.upper())
    add = commands.add_parser("probe", parents=[of], help="measure whether a drive honours its weights; reads only")
    add.add_argument("--seconds", type=_seconds, default=5.0, metavar="N", help="for each of four trials (5)")
    add.add_argument("--depth", type=_depth, default=128, metavar="N", help="reads under way of each level (128)")
    add.add_argument("--json", action="store_true", help="print the figures as data")


def run(options: argparse.Namespace) -> int:
    """Do what the command line asks for; returns the exit status."""
    actions = {"status": _status, "bind": _bind, "unbind": _unbind, "weights": _weights, "probe": _probe}
    return actions[options.action](options)


def controllers(root: Path = Path("/sys/bus/pci/devices")) -> list[Controller]:
    """All NVMe controllers of this host, by address."""
    found = []
    for folder in sorted(root.iterdir()):
        if (folder / "class").read_text(encoding="ascii").strip() != NVME_CLASS:
            continue
        driver = (folder / "driver").resolve().name if (folder / "driver").exists() else ""
        names = [path.name for path in (folder / "nvme").glob("nvme*")] if driver else []
        found.append(Controller(folder.name, folder, driver, next(iter(names), "")))
    return found


def choose(wanted: str | None, among: Sequence[Controller]) -> Controller:
    """The controller that was named, or the only one."""
    if not among:
        raise LabError("there is no NVMe controller on PCI here", "lspci -nn   to see what there is")
    names = ", ".join(one.name or one.address for one in among)
    if wanted is None:
        if len(among) > 1:
            raise UsageError(
                f"there are several controllers: {names}", f"sluice wrr … -c {among[0].name or among[0].address}"
            )
        return among[0]
    short = wanted.removeprefix("/dev/")
    for one in among:
        if short in (one.address, one.name, *one.disks(), *one.paths()):
            return one
    raise UsageError(f"no NVMe controller {wanted}; there are {names}", "sluice wrr status")


def users(controller: Controller) -> list[str]:
    """The users of the controller's disks: the kernel, which claims them or has them open, and processes.

    A file is recognized as one of the disks by its device number: its node may have any name, and may be a character
    device.
    """
    found = []
    for name in controller.disks():
        try:
            os.close(os.open(f"/dev/{name}", os.O_RDONLY | os.O_EXCL))
        except OSError:
            found.append(f"{name} is {_claim(name)}")
    numbers = _numbers(controller.disks())
    for file, user in _opened_by_kernel():
        with suppress(OSError):
            if _number(file) in numbers:
                found.append(f"{file} is open for {user}")
    for pattern in ("[0-9]*/fd/*", "[0-9]*/map_files/*"):
        for link in Path("/proc").glob(pattern):
            with suppress(OSError):
                if _number(link) in numbers:
                    found.append(f"process {link.parts[2]} has {os.readlink(link)} open")
    return list(dict.fromkeys(found))


def _opened_by_kernel() -> Iterator[tuple[str, Path]]:
    """Files that the kernel has open without a claim, with their use: loop devices, and exports of NVMe's target."""
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(FileNotFoundError):
            yield _line(path), path.parents[1]
    for path in Path("/sys/kernel/config/nvmet/subsystems").glob("*/namespaces/*/device_path"):
        with suppress(FileNotFoundError):
            if _line(path.with_name("enable")) == "1":
                yield _line(path), path.parent


def _line(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape").rstrip("\n")


def _numbers(disks: Sequence[str]) -> set[tuple[bool, int]]:
    """The device numbers of disks, partitions and character devices, each with whether it is a block device."""
    found = set()
    for name in disks:
        disk = Path("/sys/block", name)
        # nvme0n1's character device is ng0n1.
        other = Path("/sys/class/nvme-generic", name.replace("nvme", "ng", 1))
        parts = [path.parent for path in disk.glob("*/partition")]
        for is_block, folder in [(True, disk), *((True, part) for part in parts), (False, other)]:
            with suppress(FileNotFoundError):
                major, minor = map(int, _line(folder / "dev").split(":"))
                found.add((is_block, os.makedev(major, minor)))
    return found


def _number(path: str | Path) -> tuple[bool, int] | None:
    """The device number of a node; None for any other file."""
    found = os.stat(path)
    is_block = stat.S_ISBLK(found.st_mode)
    return (is_block, found.st_rdev) if is_block or stat.S_ISCHR(found.st_mode) else None


def _claim(disk: str) -> str:
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"/dev/{disk}"):
            return f"mounted at {line.split()[1]}"
    for line in Path("/proc/swaps").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"/dev/{disk}"):
            return "used for swap"
    holders = [path.name for path in Path("/sys/class/block").glob(f"{disk}*/holders/*")]
    return f"part of {', '.join(holders)}" if holders else "claimed by something"


def _status(options: argparse.Namespace) -> int:
    among = controllers()
    for one in [choose(options.controller, among)] if options.controller or not among else among:
        disks = " ".join(one.disks()) or "none"
        print(f"{one.name or 'no name'}: {one.address}, driver {one.driver or 'none'}, disks: {disks}")
        if one.driver != OURS:
            print(f"  weighted round robin: not used; next: sluice wrr bind -c {one.name or one.address}")
            continue
        print(f"  weighted round robin: {one.read('state')}")
        for path in one.paths():
            print(
                f"  scheduler of {path}: {_scheduler(path)}{'' if _scheduler(path) in PLAIN else _ADVICE.format(path)}"
            )
        high, medium, low = one.read("weights").split()
        print(f"  weights: high {high}, medium {medium}, low {low}; burst {2 ** int(one.read('burst'))}")
        print(f"  others than urgent are helped up to {one.read('cap')} %")
        table = zip((name for name, _class, _level in CLASSES), one.read("classes").split(), strict=True)
        print(f"  classes: {', '.join(f'{name} {level}' for name, level in table)}")
    return 0


def _scheduler(disk: str) -> str:
    """The scheduler in use."""
    text = Path(f"/sys/block/{disk}/queue/scheduler").read_text(encoding="ascii")
    return text.partition("[")[2].partition("]")[0] or text.strip()


@contextmanager
def _unscheduled(disk: str) -> Iterator[None]:
    """Set no scheduler while the block lasts, so that the drive chooses the order."""
    before = _scheduler(disk)
    path = Path(f"/sys/block/{disk}/queue/scheduler")
    _write(path, "none")
    try:
        yield
    finally:
        _write(path, before)


def _weights(options: argparse.Namespace) -> int:
    one = _bound(options)
    _write(one.wrr / "weights", f"{options.high} {options.medium} {options.low}")
    print(f"{one.name}: high {options.high}, medium {options.medium}, low {options.low}")
    return 0


def _bound(options: argparse.Namespace) -> Controller:
    """A controller that has weighted round robin and uses it."""
    _need_root()
    among = [one for one in controllers() if one.driver == OURS] or controllers()
    one = choose(options.controller, among)
    if one.driver != OURS:
        raise LabError(
            f"{one.name or one.address} is with {one.driver or 'no driver'}, not {OURS}",
            f"sluice wrr bind -c {one.name or one.address}",
        )
    if not one.read("state").startswith("on"):
        raise LabError(
            f"{one.name} has no weighted round robin: {one.read('state')}", f"sluice wrr unbind -c {one.name}"
        )
    return one


def _bind(options: argparse.Namespace) -> int:
    return _give(options, OURS)


def _unbind(options: argparse.Namespace) -> int:
    return _give(options, STOCK)


def _give(options: argparse.Namespace, driver: str) -> int:
    """Bind a controller to a driver; on any failure, bind it to its previous driver again."""
    _need_root()
    one = choose(options.controller, controllers())
    if one.driver == driver:
        print(f"{one.name}: is with {driver}")
        return 0
    if busy := users(one):
        raise LabError(
            f"{one.name} is in use: {'; '.join(busy)}", "umount, swapoff or end these, then the same command"
        )
    load(driver, Path("/sys/module"))
    try:
        now = _move(one, driver)
    except BaseException:
        if one.driver:
            _move(one, one.driver)
        raise
    print(f"{now.name}: {now.address} is with {driver}, disks: {' '.join(now.disks()) or 'none'}")
    if driver == OURS:
        print(f"  weighted round robin: {now.read('state')}")
        print("  until the next boot; docs/nvme-wrr.md has a unit that binds it again then")
    return 0


def _move(one: Controller, driver: str) -> Controller:
    override = "\n" if driver == STOCK else driver
    _write(one.folder / "driver_override", override)
    if (one.folder / "driver").exists():
        _write(one.folder / "driver/unbind", one.address)
    _write(Path("/sys/bus/pci/drivers_probe"), one.address)
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        now = choose(one.address, controllers())
        if now.driver == driver and now.disks() and (driver != OURS or now.read("state")):
            return now
        time.sleep(0.1)
    raise LabError(
        f"{one.address} has no disk with {driver} after {WAIT_S:.0f} s; it goes back", "dmesg | tail -20   to see why"
    )


def load(driver: str, modules: Path) -> None:
    """Load a driver's module.

    Ours is built from the stock driver's source, and gets the options of the stock module.
    """
    options = module_options(modules, STOCK) if driver == OURS else {}
    if (modules / driver.replace("-", "_")).exists():
        own = module_options(modules, driver)
        if other := [f"{name}={value}" for name, value in options.items() if own.get(name, value) != value]:
            raise LabError(
                f"module {driver} is loaded, without the options {' '.join(other)} of the driver that it replaces",
                f"rmmod {driver}   if it drives nothing else; then the same command",
            )
        return
    line = ["modprobe", driver, *(f"{name}={value}" for name, value in options.items())]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(
            f"module {driver} can't be loaded: {done.stderr.strip()}", "make install   with linux-source installed"
        )


def module_options(modules: Path, driver: str) -> dict[str, str]:
    """The options of a loaded driver, as far as they are set and readable."""
    found = {}
    for path in sorted((modules / driver.replace("-", "_") / "parameters").glob("*")):
        with suppress(OSError):
            if (value := _line(path)) != "(null)":
                found[path.name] = value
    return found


@dataclass(frozen=True)
class Trial:
    """For each level its weight and its share of all reads, and the total of reads per second."""

    weights: tuple[int, ...]
    shares: Mapping[str, float]
    iops: float


def _probe(options: argparse.Namespace) -> int:
    one = _bound(options)
    if shutil.which("fio") is None:
        raise ToolMissing("fio is not installed", "apt-get install fio")
    if not one.disks():
        raise LabError(f"{one.name} has no disk", f"sluice wrr status -c {one.name}")
    if busy := users(one):
        raise LabError(
            f"{one.name} is in use, which would be measured too: {'; '.join(busy)}", "end these, then the same command"
        )
    table = one.read("classes").split()
    levels = [name for name in LEVELS[1:] if name in table]
    if len(levels) < 2:
        raise LabError(
            "fewer than two of high, medium and low have a class", f"cat {one.wrr}/classes   to see the table"
        )
    with _unscheduled(one.paths()[0]), _weighted(one):
        trials = [_trial(one, weights, {name: table.index(name) for name in levels}, options) for weights in TRIALS]
        rush = None
        if "urgent" in table:
            places = {name: table.index(name) for name in ("urgent", levels[-1])}
            rush = _trial(one, TRIALS[0], places, options)
    text = verdict(trials)
    if options.json:
        shown = [
            {"weights": t.weights, "shares": t.shares, "iops": t.iops} for t in (*trials, *([rush] if rush else []))
        ]
        print(json.dumps({"controller": one.name, "verdict": text, "trials": shown}, indent=1))
        return 0
    print(f"{one.name}, random reads of 4 KiB from {one.disks()[0]}, {options.depth} under way of each level")
    for trial in trials:
        print(f"  weights {':'.join(map(str, trial.weights)):>8}   {_shown(trial)}")
    if rush:
        print(f"  urgent beside      {_shown(rush)}")
    print(f"{one.name} {text}")
    return 0


@contextmanager
def _weighted(one: Controller) -> Iterator[None]:
    """Restore the weights when the block ends."""
    before = one.read("weights")
    try:
        yield
    finally:
        _write(one.wrr / "weights", before)


def verdict(trials: Sequence[Trial]) -> str:
    """The verdict on a drive; the first trial is with equal weights."""
    equal, rest = trials[0], trials[1:]
    off = max(_apart(trial.shares, _due(trial)) for trial in rest)
    moved = max(_apart(trial.shares, equal.shares) for trial in rest)
    if off <= NEAR:
        return f"honours its weights: shares are at most {off:.0%} off"
    if moved <= NEAR:
        return (
            f"does not act on its weights: they change shares by at most {moved:.0%}. Either it ignores them, or "
            "fetching commands isn't what limits it: try a larger --depth"
        )
    return f"acts on its weights in part: shares are up to {off:.0%} off, and move by up to {moved:.0%}"


def _due(trial: Trial) -> dict[str, float]:
    weights = dict(zip(LEVELS[1:], trial.weights, strict=True))
    whole = sum(weights[name] for name in trial.shares)
    return {name: weights[name] / whole for name in trial.shares}


def _apart(shares: Mapping[str, float], wanted: Mapping[str, float]) -> float:
    """The largest relative deviation of a share from its target."""
    return max(abs(share - wanted[name]) / wanted[name] for name, share in shares.items())


def _shown(trial: Trial) -> str:
    shares = ", ".join(f"{name} {share:6.1%}" for name, share in trial.shares.items())
    return f"{shares}   {trial.iops:.0f} reads a second"


def _trial(one: Controller, weights: tuple[int, ...], places: Mapping[str, int], options: argparse.Namespace) -> Trial:
    """Let each level read, from its place in the class table, and count once all have begun."""
    _write(one.wrr / "weights", " ".join(map(str, weights)))
    with _readers(f"/dev/{one.disks()[0]}", places, options) as pids:
        _wait_until_all_read(pids, 2 * options.depth * 4096)
        first, begin = {name: _read_bytes(pid) for name, pid in pids.items()}, time.monotonic()
        time.sleep(options.seconds)
        last, end = {name: _read_bytes(pid) for name, pid in pids.items()}, time.monotonic()
    count = {name: last[name] - first[name] for name in pids}
    whole = sum(count.values())
    if not whole:
        raise LabError(f"nothing was read from /dev/{one.disks()[0]}", "dmesg | tail -20   to see why")
    return Trial(weights, {name: count[name] / whole for name in count}, whole / 4096 / (end - begin))


def _wait_until_all_read(pids: Mapping[str, int], enough: int) -> None:
    """Wait until each process has read `enough` bytes: it has begun, and its first requests are done."""
    end = time.monotonic() + WAIT_S
    while any(_read_bytes(pid) < enough for pid in pids.values()) and time.monotonic() < end:
        time.sleep(0.1)


@contextmanager
def _readers(device: str, places: Mapping[str, int], options: argparse.Namespace) -> Iterator[dict[str, int]]:
    """A fio for each level, by its process, while the block lasts."""
    children = {}
    try:
        for name, place in places.items():
            _class, number, level = CLASSES[place]
            line = ["fio", f"--name=wrr-{name}", f"--filename={device}", "--readonly", "--direct=1", "--rw=randread"]
            line += [
                "--norandommap",
                "--bs=4k",
                "--ioengine=libaio",
                f"--iodepth={options.depth}",
                "--time_based",
                "--thread",
            ]
            line += ["--runtime=86400", f"--prioclass={number}", f"--prio={level}", "--output=/dev/null"]
            children[name] = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
        yield {name: child.pid for name, child in children.items()}
        for child in children.values():
            if child.poll() is not None:
                assert child.stderr is not None
                raise LabError(
                    f"fio ended: {child.stderr.read().strip()[-300:]}", f"fio --name=x --filename={device} --readonly …"
                )
    finally:
        for child in children.values():
            child.terminate()
        for child in children.values():
            child.communicate()


def _read_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines():
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="ascii")
    except OSError as error:
        raise LabError(f"{path} doesn't take {text.strip()!r}: {error.strerror}", "dmesg | tail   to see why") from None


def _need_root() -> None:
    if os.geteuid():
        raise LabError("only root may do that", "sudo sluice wrr …")


def _weight(text: str) -> int:
    return _between(text, 1, 256, "weight")


def _depth(text: str) -> int:
    return _between(text, 1, 1024, "depth")


def _between(text: str, least: int, most: int, what: str) -> int:
    if not text.isdecimal() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a {what} from {least} to {most}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.5 <= seconds <= 600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.5 to 600")
    return seconds
