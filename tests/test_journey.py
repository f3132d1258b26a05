# SPDX-License-Identifier: GPL-2.0-only
"""The packages' way through whole machines: installed, chosen, booted, with a newer kernel, interrupted, removed."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from test_guest import complaints
from test_packages import AUDIT, FILES, HOST

from lab import cache, deb, toolbox, whole
from lab.apt import Apt

pytestmark = [pytest.mark.full, pytest.mark.alone]

INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get -y install"
PURGE = "DEBIAN_FRONTEND=noninteractive apt-get -y purge sluice sluice-dkms"
# What each boot changes by itself is left out.
THERE = f"{{ {FILES}; }} | grep -v -e /var/lib/systemd/ -e /var/tmp/systemd-private -e /var/lib/apt/"
SCHEDULER = "cat /sys/block/vda/queue/scheduler"
SHOW = f"uname -r; {SCHEDULER}; sluice status || :; cat /sys/block/vda/queue/iosched/costs || :"
DOCS = Path(__file__).parents[1] / "docs"
ELEVATORS = ("mq-prio", "cpq", "afq", "split-token", "split-deadline", "wrr", "sluice")
# Each elevator in turn has the root's disk, on whose virtio queues files are written, synced and verified.
LOAD = f"""
fio --eta=never --name=load --directory=/var/tmp --size=16m --rw=randwrite --bsrange=4k-64k --fsync=8 --verify=crc32c \\
    --verify_backlog=64 --verify_fatal=1 --time_based --runtime=6000 --trigger-file=/run/enough --output=/run/fio &
for name in none {" ".join(ELEVATORS)}; do
    [ "$name" = none ] || modprobe "$name-iosched"
    echo "$name" >/sys/block/vda/queue/scheduler
    sleep 5
    kill -0 $! || {{ cat /run/fio; exit 1; }}
done
touch /run/enough
wait $! || {{ cat /run/fio; exit 1; }}
rm /var/tmp/load*
echo kernel log:
dmesg
"""
# What takes minutes, since modules are built under emulation, is done on the newest Debian alone.
NEWEST = "trixie"
CUTS = 4


class Machine:
    """A whole machine, and what it runs from one boot to the next."""

    def __init__(self, suite: str, folder: Path) -> None:
        self.suite = suite
        self.folder = folder
        disk = whole.disk(suite, (*HOST, "fio", "libelf1"))
        subprocess.run(["cp", "--sparse=always", disk, folder / "disk"], check=True)

    def run(self, script: str, files: Mapping[str, bytes] = {}) -> str:
        """Boot, run a script as root and shut down; what it printed. Its failure is the test's."""
        said, status = whole.run(self.folder, script, files)
        console = (self.folder / "console").read_text(encoding="utf-8", errors="replace")
        assert status == 0, f"{said}\n{console[-4000:]}"
        return said

    def run_load(self) -> str:
        """What the root's disk has, before each elevator is tried on it; the kernel's log has no complaint."""
        said, _, log = self.run(f"{SHOW}; {LOAD}").partition("kernel log:\n")
        assert not complaints(log, "stall_timeout")
        return said


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Our packages by their files' names."""
    return {path.name: path.read_bytes() for path in deb.build(tmp_path_factory.mktemp("packages"))}


@pytest.fixture(params=("bookworm", NEWEST))
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A machine of a suite."""
    with cache.scratch() as folder:
        yield Machine(request.param, folder)


def say_flash() -> tuple[str, str]:
    """The line of docs/sluice.md that has a virtual disk of flash treated so at each boot, and the file it writes."""
    text = (DOCS / "sluice.md").read_text(encoding="utf-8")
    found = re.search(r"^    # (echo .* > (\S+\.rules))$", text, re.MULTILINE)
    assert found
    return found[1], found[2]


def newer_kernel(suite: str) -> tuple[str, dict[str, bytes], dict[str, bytes]]:
    """The newest kernel of a suite's backports: its release, the packages of its image, and of its headers."""
    with cache.scratch() as work:
        apt = Apt(f"{suite}{toolbox.BACKPORTS}", work / "apt")
        (name,) = (name for name in apt.depends("linux-image-amd64") if name.startswith("linux-image-"))
        release = name.removeprefix("linux-image-")
        needs = {top: _with_needs(apt, top) for top in (name, f"linux-headers-{release}")}
        apt.download(sorted(set().union(*needs.values())))
        found = {path.name: path.read_bytes() for path in (work / "apt/debs").iterdir()}
    image, headers = ({one: found[one] for one in found if one.split("_")[0] in some} for some in needs.values())
    return release, image, headers


def _with_needs(apt: Apt, package: str) -> list[str]:
    """A package and those of the kernel's that it depends on."""
    wanted = [package]
    for one in wanted:
        wanted += [more for more in apt.depends(one) if more.startswith("linux-") and more not in wanted]
    return wanted


def test_installed_chosen_and_removed(machine: Machine, packages: Mapping[str, bytes]) -> None:
    """In two commands a disk has its scheduler at each boot, with a newer kernel too; at the end nothing is left."""
    release, image, headers = newer_kernel(machine.suite)
    # An upgrade of the packages that both kernels share stays.
    shared = {name: data for name, data in image.items() if release not in name}
    machine.run(f"{INSTALL} ./*.deb", shared)
    before = machine.run(THERE)
    line, file = say_flash()
    machine.run(f"{INSTALL} ./*.deb; {line}; sluice use sluice /dev/vda --persist", packages)
    said = machine.run_load()
    assert "[sluice]" in said and "next boot" in said and "kind=flash" in said
    machine.run(f"{INSTALL} ./*.deb", image)
    said = machine.run(SHOW)
    assert said.startswith(release) and "[none]" in said
    assert f"kernel {release} has no module for sluice: apt-get install linux-headers-{release}" in said
    if machine.suite == NEWEST:
        machine.run(f"{INSTALL} ./*.deb", headers)
        said = machine.run_load()
        assert said.startswith(release) and "[sluice]" in said
    machine.run(f"rm {file}; {PURGE} 'linux-*-{release.rsplit('-', 1)[0]}*'")
    assert "[none]" in machine.run(SCHEDULER)
    assert machine.run(THERE) == before


@pytest.mark.parametrize("machine", [NEWEST], indirect=True)
def test_the_power_fails_during_an_installation(machine: Machine, packages: Mapping[str, bytes]) -> None:
    """The machine boots, dpkg goes on, and nothing is half configured. Without headers nothing is built."""
    chance = random.Random(machine.suite)
    install = f"echo begun; date +%s.%N; {INSTALL} ./*.deb; sync; date +%s.%N"
    machine.run("mv /usr/src/linux-headers-* /var/tmp")
    begun, ended = map(float, re.findall(r"^\d+\.\d+$", machine.run(install, packages), re.MULTILINE))
    machine.run(PURGE)
    for _ in range(CUTS):
        cut_s = chance.uniform(0, ended - begun)
        whole.run(machine.folder, install, packages, cut_s=cut_s)
        machine.run("dpkg --configure -a")
        left = machine.run(f"{INSTALL} ./*.deb >/dev/null; {AUDIT}", packages)
        assert left == "", f"the power failed after {cut_s:.2f} s"
        machine.run(PURGE)
