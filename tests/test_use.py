# SPDX-License-Identifier: GPL-2.0-only
"""`sluice use`: disks get a scheduler, or nothing changes; and what keeps them from it at the next boot."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from test_guest import HOST, complaints
from test_status import Host

from lab import cache, cli, job, kernels, modules, passes, toolbox
from lab.apt import Apt
from lab.errors import LabError, UsageError
from lab.host import boot, status, system, use
from lab.host import disk as disks
from lab.host.cli import USAGE

TUNED_PROFILE = Path(__file__).parent.parent / "packaging/tuned.conf"
UDEV = "E:DEVTYPE=disk\nE:ID_WWN={wwn}\nE:ID_WWN_WITH_EXTENSION={wwn}{more}\nE:ID_SERIAL={serial}\nE:ID_PATH=pci-0\n"


def drive(host: Host, name: str, number: str, wwn: str, serial: str, more: str = "") -> disks.Disk:
    host.disk(name, number, "mq-deadline")
    host.write(f"run/udev/data/b{number}", UDEV.format(wwn=wwn, serial=serial, more=more))
    return disks.read(name, host.root)


def test_a_rule_names_what_no_other_disk_has(tmp_path: Path) -> None:
    """Two namespaces with one WWN, a disk whose serial has characters that mean something to udev, one without any."""
    made = Host(tmp_path)
    drive(made, "nvme0n1", "259:0", "eui.1", "A_1")
    drive(made, "nvme0n2", "259:1", "eui.1", "A_2")
    drive(made, "sda", "8:0", "", 'X "*[1]')
    made.disk("vda", "252:0", "none")
    found = {name: boot.identity(disks.read(name, tmp_path), tmp_path) for name in ("nvme0n1", "nvme0n2", "sda", "vda")}
    assert found == {
        "nvme0n1": ("ENV{ID_SERIAL}", "A_1"),
        "nvme0n2": ("ENV{ID_SERIAL}", "A_2"),
        "sda": ("ENV{ID_SERIAL}", "X????1?"),
        "vda": ("KERNEL", "vda"),
    }


def test_volumes_of_an_array_share_half_of_their_number(tmp_path: Path) -> None:
    made = Host(tmp_path)
    disk = drive(made, "sda", "8:0", "0x6000", "ARRAY", "0001")
    assert boot.identity(disk, tmp_path) == ("ENV{ID_WWN_WITH_EXTENSION}", "0x60000001")


def test_a_disk_that_udev_gives_nothing(tmp_path: Path) -> None:
    """A path of NVMe's own multipath has no number; dm-multipath has no queue yet when it is added."""
    made = Host(tmp_path)
    for name, number in (("nvme0c0n1", ""), ("dm-0", "254:0")):
        made.disk(name, number, "none")
        made.write("sys/block/dm-0/dm/uuid", "mpath-1")
        with pytest.raises(UsageError, match=f"udev can't give {name} a scheduler at boot"):
            boot.identity(disks.read(name, tmp_path), tmp_path)


def test_rules_are_read_as_they_were_written(tmp_path: Path) -> None:
    made = Host(tmp_path)
    sda, sdb = drive(made, "sda", "8:0", "0x5000", "X 1"), drive(made, "sdb", "8:16", "", "X 2")
    rules = [
        boot.Rule(*boot.identity(sda, tmp_path), "sluice", {"low_share": "10", "hold_ms": "0"}),
        boot.Rule(*boot.identity(sdb, tmp_path), "mq-prio", {}),
    ]
    boot.write(rules, tmp_path)
    assert boot.rules(tmp_path) == rules
    assert [boot.of(disk, rules, tmp_path) for disk in (sda, sdb)] == rules
    seen = made.seen()
    assert "    at the next boot: sluice, low_share 10, hold_ms 0" in status.text([seen["sda"]])
    boot.write([], tmp_path)
    assert not (tmp_path / boot.RULES).exists()


def test_rules_load_xfs_first_where_it_is_used(tmp_path: Path) -> None:
    """For the schedulers that know file systems, and still when XFS isn't loaded at a later call."""
    made = Host(tmp_path)
    ours, other = boot.Rule("KERNEL", "sda", "sluice", {}), boot.Rule("KERNEL", "sdb", "mq-prio", {})
    for there, wanted, first in (
        ("\text4\n", [ours], []),
        ("nodev\tsysfs\n\txfs\n", [other], []),
        ("nodev\tsysfs\n\txfs\n", [ours, other], [boot.XFS]),
        ("\text4\n", [ours], [boot.XFS]),
    ):
        made.write("proc/filesystems", there)
        boot.write(wanted, tmp_path)
        assert (tmp_path / boot.RULES).read_text().splitlines()[1:] == [*first, *map(str, wanted)]
        assert boot.rules(tmp_path) == wanted


def test_a_line_by_another_hand_is_not_lost(tmp_path: Path) -> None:
    made = Host(tmp_path)
    ours = str(boot.Rule("KERNEL", "sda", "sluice", {"low_share": "10"}))
    for line in ('SUBSYSTEM=="block", RUN+="/bin/true"', ours.replace("add", "add|change"), f'{ours}, MODE="0600"'):
        made.write(boot.RULES, f"{ours}\n{line}\n")
        with pytest.raises(LabError, match="a line that sluice didn't write"):
            boot.rules(tmp_path)


def test_rules_of_another_hand_are_told(tmp_path: Path) -> None:
    """Those that assign a scheduler; a file in /etc replaces the one with its name in /usr/lib."""
    made = Host(tmp_path, "6.12.1")
    installed(made, "6.12.1", sluice=b"")
    assign = 'SUBSYSTEM=="block", ATTR{queue/scheduler}="bfq"\n'
    made.write("usr/lib/udev/rules.d/60-io.rules", assign)
    made.write("etc/udev/rules.d/60-io.rules", f"# {assign}")
    made.write("etc/udev/rules.d/90-look.rules", assign.replace("}=", "}=="))
    made.write(boot.RULES, assign)
    assert not list(system.problems(["sluice"], tmp_path))
    made.write("etc/udev/rules.d/60-io.rules", assign)
    assert [one.what for one in system.problems(["sluice"], tmp_path)] == [
        "/etc/udev/rules.d/60-io.rules sets schedulers too, perhaps of the same disks"
    ]


def installed(made: Host, kernel: str, **files: bytes) -> None:
    """A kernel with modules of ours; a __ in a name is a dash."""
    folder = made.root / "lib/modules" / kernel
    (folder / "kernel").mkdir(parents=True, exist_ok=True)
    (folder / "updates").mkdir()
    names = [f"{name.replace('__', '-')}.ko.xz" for name in files]
    for name, data in zip(names, files.values(), strict=True):
        (folder / "updates" / name).write_bytes(lzma.compress(data))
    (folder / "modules.dep").write_text("".join(f"updates/{name}:\n" for name in names))


def test_kernels_without_a_module(tmp_path: Path) -> None:
    made = Host(tmp_path, "6.12.1")
    installed(made, "6.12.1", sluice=b"", split__token=b"")
    installed(made, "6.12.2", sluice=b"")
    (tmp_path / "lib/modules/6.12.0/updates").mkdir(parents=True)
    assert status.kernels(tmp_path) == [
        status.Kernel("6.12.1", True, ("sluice", "split-token", "scs-token"), None),
        status.Kernel("6.12.2", False, ("sluice",), None),
    ]
    assert not list(system.problems(["sluice", "mq-deadline"], tmp_path))
    (problem,) = system.problems(["sluice", "scs-token"], tmp_path)
    assert problem.what == "kernel 6.12.2 has no module for scs-token"
    assert problem.type.startswith("make -C kernel install K=6.12.2")
    made.write("usr/lib/sluice/modules", "")
    made.write("var/lib/sluice/6.12.2/reason", "apt-get install linux-headers-6.12.2\n")
    (problem,) = system.problems(["scs-token"], tmp_path)
    assert problem.what == "kernel 6.12.2 has no module for scs-token: apt-get install linux-headers-6.12.2"
    assert problem.type == "/usr/lib/sluice/modules 6.12.2"
    said = status.text([], status.kernels(tmp_path))
    assert "kernel 6.12.2: our modules: sluice (apt-get install linux-headers-6.12.2)" in said


@pytest.mark.parametrize(
    ("module", "enrolled", "said"),
    [
        (b"code", b"", "aren't signed: sluice.ko.xz"),
        (b"code" + system.SIGNED, b"another", "isn't enrolled"),
        (b"code" + system.SIGNED, b"before THE KEY after", ""),
    ],
)
def test_secure_boot(tmp_path: Path, module: bytes, enrolled: bytes, said: str) -> None:
    made = Host(tmp_path, "6.12.1")
    installed(made, "6.12.1", sluice=module)
    for path, data in ((system.SECURE_BOOT, b"\6\0\0\0\0"), (system.ENROLLED, enrolled), (system.MOK, b"THE KEY")):
        made.write(path, "")
        (tmp_path / path).write_bytes(data)
    assert not list(system.problems(["sluice"], tmp_path))
    (tmp_path / system.SECURE_BOOT).write_bytes(b"\6\0\0\0\1")
    assert [said in one.what for one in system.problems(["sluice"], tmp_path)] == ([True] if said else [])


def test_tuned_that_chooses_another_scheduler(tmp_path: Path) -> None:
    """Its own profile, one that it includes, and two profiles of which the last decides."""
    made = Host(tmp_path, "6.12.1")
    installed(made, "6.12.1", sluice=b"")
    made.write("usr/lib/tuned/profiles/base/tuned.conf", "[main]\n[disk]\nelevator=bfq\nreadahead=>4096\n")
    made.write("etc/tuned/profiles/mine/tuned.conf", "[main]\ninclude = base\n")
    made.write("usr/lib/tuned/ours/tuned.conf", "[disk]\nelevator=sluice\n")
    made.write("usr/lib/tuned/slow/tuned.conf", "[slow]\ntype=disk\ndevices=sdb\nelevator=kyber\n")
    made.write("etc/tuned/active_profile", "mine\n")
    assert not list(system.problems(["sluice"], tmp_path))
    made.write("run/tuned/tuned.pid", "1")
    (problem,) = system.problems(["sluice"], tmp_path)
    assert "profile mine gives disks the scheduler bfq" in problem.what
    assert problem.type.startswith("editor /usr/lib/tuned/profiles/base/tuned.conf ")
    made.write("etc/tuned/active_profile", "mine ours\n")
    assert not list(system.problems(["sluice"], tmp_path))
    made.write("usr/lib/tuned/profiles/sluice/tuned.conf", TUNED_PROFILE.read_text(encoding="utf-8"))
    made.write("etc/tuned/active_profile", "mine\n")
    assert [one.type for one in system.problems(["sluice"], tmp_path)] == ["tuned-adm profile mine sluice"]
    made.write("etc/tuned/active_profile", "mine sluice\n")
    assert not list(system.problems(["sluice"], tmp_path))
    made.write("etc/tuned/active_profile", "mine slow sluice\n")
    (problem,) = system.problems(["sluice"], tmp_path)
    assert problem.type.startswith("editor /usr/lib/tuned/slow/tuned.conf ")


@pytest.mark.parametrize(
    ("queues", "flags", "default"),
    [
        (1, "", "mq-deadline"),
        (2, "", "none"),
        (2, "alloc_policy=FIFO SHOULD_MERGE|TAG_HCTX_SHARED", "mq-deadline"),
        (1, "alloc_policy=FIFO NO_SCHED_BY_DEFAULT", "none"),
    ],
)
def test_the_kernels_default(tmp_path: Path, queues: int, flags: str, default: str) -> None:
    """As blk-mq has it: a scheduler for disks with one set of tags, unless their driver wants none."""
    made = Host(tmp_path)
    drive(made, "sda", "8:0", "", "X")
    made.write(f"sys/block/sda/mq/{queues - 1}/nr_tags", "32")
    made.write("sys/kernel/debug/block/sda/hctx0/flags", flags)
    assert use.default(disks.read("sda", tmp_path), tmp_path) == default


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sluice"], "a scheduler and at least one disk are needed"),
        ([], "a scheduler and at least one disk are needed"),
        (["/dev/sda", "sluice"], "/dev/sda is a disk, and the scheduler comes first"),
        (["--default", "--persist", "sda"], "--default takes no --set and no --persist"),
        (["sluice", "sda", "--set", "low_share"], "'low_share' is not KNOB=VALUE"),
        (["sluice", "sda", "--set", "../x=1"], "--set ../x=1 is not KNOB=VALUE"),
        (["sluice", "sda", "--set", "low_share=1\n2"], "is not KNOB=VALUE"),
        (["sluice", "nonesuch"], "nonesuch is not a disk or partition"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        ended = cli.main(["use", *words])
    except SystemExit as end:
        ended = int(end.code or 0)
    assert ended == USAGE
    assert said in capsys.readouterr().err


SCRIPT = r"""
. ./lib.sh
DISK=d1 disk ssd
disk ssd
mkdir -p "/lib/modules/$(uname -r)/updates" /run/udev/data
cp ./*.ko "/lib/modules/$(uname -r)/updates"
rm "/lib/modules/$(uname -r)/updates/split-token.ko"
depmod
for name in d0 d1; do
	printf 'E:DEVTYPE=disk\nE:ID_SERIAL=DRIVE %s\n' $name >"/run/udev/data/b$(cat /sys/block/simdisk-$name/dev)"
done
fio --name=load --filename=/dev/simdisk-d0 --direct=1 --rw=randread --rate_iops=100 --time_based --runtime=600 \
	--output=/dev/null &
load=$!
python3 steps.py
kill $load
wait $load || true
"""
# One process does all of it: Python takes two seconds to start in a guest.
STEPS = r"""
import contextlib, io, os, pathlib, re, subprocess
from lab.host import cli

RULES = pathlib.Path("/etc/udev/rules.d/70-sluice.rules")
QUEUES = {name: pathlib.Path(f"/sys/block/simdisk-{name}/queue") for name in ("d0", "d1")}

def sluice(*words):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            status = cli.main(words)
        except SystemExit as end:
            status = end.code
    return status, said.getvalue()

def chosen(name):
    return re.search(r"\[(.+)\]", (QUEUES[name] / "scheduler").read_text())[1]

def state():
    knobs = [(queue / "nr_requests").read_text() for queue in QUEUES.values()]
    knobs += [path.read_text() for queue in QUEUES.values() for path in sorted(queue.glob("iosched/*s[eht]*"))]
    return [*map(chosen, QUEUES), *knobs, RULES.read_text() if RULES.exists() else ""]

def refused(status, what, *words):
    before = state()
    got, said = sluice("use", *words)
    assert (got, len(said.splitlines())) == (status, 2) and what in said, (words, got, said)
    assert state() == before, (words, state(), before)

def done(*words):
    status, said = sluice(*words)
    assert status == 0, (words, said)
    return said

(QUEUES["d0"] / "nr_requests").write_text("100")
d0, d1 = "simdisk-d0", "/dev/simdisk-d1"
refused(2, "there is no scheduler nonesuch in kernel", "nonesuch", d0)
refused(3, "split-token is not built for the running kernel", "split-token", d0)
refused(2, "sluice has no knob low_shar", "sluice", d0, "--set", "low_shar=10")
refused(3, "refuses low_share=99", "sluice", d0, d1, "--set", "low_share=99", "--persist")
user = os.fork()
if not user:
    os.setuid(1000)
    refused(3, "a disk's scheduler is chosen by root", "sluice", d0)
    os._exit(0)
assert os.waitpid(user, 0)[1] == 0

said = done("use", "sluice", d0, d1, "--set", "low_share=20", "--persist").splitlines()
assert said[1] == "simdisk-d1: sluice, low_share 20 (was mq-deadline); at the next boot sluice, low_share 20", said
assert [(QUEUES[name] / "iosched/low_share").read_text() for name in QUEUES] == ["20\n", "20\n"]
rules = RULES.read_text()
assert rules.splitlines()[-1] == (
    'ACTION=="add", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{ID_SERIAL}=="DRIVE?d1", '
    'ATTR{queue/scheduler}="sluice", ATTR{queue/iosched/low_share}="20"'
), rules
assert "at the next boot: sluice, low_share 20" in done("status")
assert RULES.stat().st_mode & 0o777 == 0o644
# A knob that was set before stays in the rule as it stays on the disk.
said = done("use", "sluice", d1, "--set", "hold_ms=7", "--persist")
assert said == "simdisk-d1: sluice, hold_ms 7; at the next boot sluice, low_share 20, hold_ms 7\n", said
done("use", "sluice", d0, d1, "--persist")
assert 'hold_ms}="7"' in RULES.read_text()
rules = RULES.read_text()

(QUEUES["d0"] / "iosched/burst_ms").write_text("700")
refused(3, "refuses hold_ms=x", "sluice", d0, d1, "--set", "burst_ms=300", "--set", "hold_ms=x")
refused(2, "mq-prio has no knob burst_ms", "mq-prio", d0, "--set", "low_share=30", "--set", "burst_ms=300")
# The folder of the rules can't be written: what was done to the disks is taken back.
subprocess.run("mount -t tmpfs -o ro none /etc/udev/rules.d", shell=True, check=True)
refused(3, "70-sluice.rules can't be written", "sluice", d0, d1, "--set", "burst_ms=300", "--persist")
subprocess.run("umount /etc/udev/rules.d", shell=True, check=True)

assert done("use", "mq-prio", d0) == "simdisk-d0: mq-prio (was sluice); at the next boot sluice, low_share 20\n"
assert RULES.read_text() == rules
# A rule by the kernel's name, from before the disk had a serial number, goes with the other one.
RULES.write_text(rules + rules.splitlines()[1].replace("ENV{ID_SERIAL}", "KERNEL").replace("DRIVE?d0", d0) + "\n")
assert done("use", "mq-prio", d0, "--persist") == "simdisk-d0: mq-prio; at the next boot mq-prio\n"
assert RULES.read_text().count("ACTION") == 2
assert '"next_boot": null' in done("use", "--default", "--json")
assert [chosen(name) for name in QUEUES] == ["mq-deadline", "mq-deadline"] and not RULES.exists()
assert "no disk here has a scheduler of Sluice's" in done("use", "--default")
"""


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("kernel", kernels.names())
def test_disks_are_given_schedulers(kernel: str) -> None:
    names = ["simdisk", "sluice", "mq-prio", "split-token"]
    files = modules.needed(modules.build(kernel), names) | HOST | {"steps.py": STEPS.encode()}
    outcome = passes.outcome(job.Job(kernel, SCRIPT, files))
    assert outcome.status == 0, outcome.files["stderr"].decode()
    assert not complaints(outcome.dmesg)


# Debian's udev, which the guest's image lacks, and the libraries that it needs beside those of the image.
UDEV_PACKAGES = (
    "udev",
    "libsystemd-shared",
    "libseccomp2",
    "libcap2",
    "libpam0g",
    "libaudit1",
    "libcap-ng0",
    "libssl3t64",
)
UNPACK = """
mkdir /tmp/root
for deb in /tmp/in/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C /tmp/root; done
cd /tmp/root
rm -r usr/lib/udev/hwdb* usr/share
tar --sort=name --mtime=@0 --owner=0 --group=0 -czf /tmp/out/udev.tgz usr
"""
REAPPEARS = r"""
. ./lib.sh
tar -C / --skip-old-files -xzf udev.tgz
mkdir -p "/lib/modules/$(uname -r)/updates"
cp ./*.ko "/lib/modules/$(uname -r)/updates"
depmod
# appear: the SCSI disk is there, and udevd has done all that its rules say.
appear() {
	modprobe scsi_debug dev_size_mb=64 delay=0
	udevadm settle -t 20
	Q=$(echo /sys/block/sd*/queue)
	[ -d "$Q" ] || fail "no disk"
}
/usr/lib/systemd/systemd-udevd --daemon --resolve-names=never
modprobe sd_mod
appear
modprobe xfs
python3 -m lab.host.cli use sluice "$(basename "${Q%/queue}")" --set low_share=20 --persist
rules=/etc/udev/rules.d/70-sluice.rules
udevadm verify --resolve-names=never $rules || fail "udev refuses: $(cat $rules)"
grep -q 'ID_WWN_WITH_EXTENSION}=="0x' $rules || fail "$(cat $rules)"
modprobe -r scsi_debug
udevadm settle -t 20
modprobe -r sluice split xfs
appear
grep -qF "[sluice]" "$Q/scheduler" || fail "the disk has $(cat "$Q/scheduler")"
! dmesg | grep 'split:.*XFS' || fail "the framework was loaded before XFS"
[ -d /sys/module/xfs ] || fail "XFS isn't loaded"
[ "$(cat "$Q/iosched/low_share")" = 20 ] || fail "low_share is $(cat "$Q/iosched/low_share")"
# A later choice by hand stays.
echo none >"$Q/scheduler"
echo change >"${Q%/queue}/uevent"
udevadm settle -t 20
grep -qF "[none]" "$Q/scheduler" || fail "another event gives the disk $(cat "$Q/scheduler")"
python3 -m lab.host.cli use --default
modprobe -r scsi_debug
udevadm settle -t 20
appear
grep -qF "[mq-deadline]" "$Q/scheduler" || fail "without its rule the disk has $(cat "$Q/scheduler")"
"""


def udev() -> bytes:
    """A tar of udev's packages."""

    def fetch(part: Path) -> None:
        with cache.scratch() as work:
            Apt(toolbox.SUITE, work).download(list(UDEV_PACKAGES))
            part.mkdir()
            box = toolbox.Sandbox(ro={"/tmp/in": work / "debs"}, rw={"/tmp/out": part})
            toolbox.run(["sh", "-euc", UNPACK], box)

    return (cache.once(cache.root() / f"udev-{cache.key(*UDEV_PACKAGES, UNPACK)}", fetch) / "udev.tgz").read_bytes()


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("kernel", [kernels.DEFAULT, pytest.param("6.1", marks=pytest.mark.full)])
def test_a_disk_has_its_scheduler_when_it_appears(kernel: str) -> None:
    """With Debian's own udev, on a disk that goes and comes back, as at a boot."""
    files = modules.needed(modules.build(kernel), ["sluice"]) | HOST | {"udev.tgz": udev()}
    outcome = passes.outcome(job.Job(kernel, REAPPEARS, files))
    assert outcome.status == 0, outcome.files["stderr"].decode()
    assert not complaints(outcome.dmesg)
