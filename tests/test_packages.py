# SPDX-License-Identifier: GPL-2.0-only
"""The Debian packages: what they contain, and their way through the installations that they are for.

A host is a Debian root with dpkg, DKMS and kernels, without a running kernel of its own.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import __version__, cache, deb, modules, toolbox
from lab.apt import Apt

SUITES = ("bookworm", "trixie")
PARTS = ("etc", "usr", "var", "boot")
# What the packages depend on, and no more.
CONTROL = (deb.TOP / "packaging/debian/control").read_text(encoding="utf-8")
DEPENDS = ", ".join(re.findall(r"^Depends: (.+)", CONTROL, re.MULTILINE))
HOST = sorted(set(re.findall(r"(?<!\S)[a-z][\w-]*", DEPENDS)))
PARTS_OF_A_KERNEL = ("image", "headers")
FLAVOURS = {
    "bookworm": ("amd64",),
    "trixie": ("amd64",),
    "trixie-backports": ("amd64", "cloud-amd64", "rt-amd64"),
}
KILLS = 20
# Of these the last ones have headers, so that modules are built.
KILLS_BUILDING = 5
# All but what dpkg and depmod remember of what was there.
AWAY = " ".join(f"! -path '{path}'" for path in ("/var/lib/dpkg/*", "/var/log/*", "/var/cache/*", "*/modules.*"))
FOUND = f"find /etc /usr /var /boot {AWAY}"
FILES = f"{FOUND} -printf '%y %p %l\\n' | sort; {FOUND} -type f -print0 | sort -z | xargs -0 md5sum"
KERNELS = "ls /lib/modules"
OURS = "find /lib/modules/ -path '*/updates/dkms/*' -printf '%P\n'"
AUDIT = "dpkg --audit; dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | grep -v '^ii' || :"

TUNED = deb.TOP / "packaging/tuned.conf"
# Prints the scheduler and the readahead that TuneD gives disks with the named profiles.
LOAD = """
import sys
from tuned import consts
from tuned.profiles import Factory, Loader, Locator, Merger
from tuned.profiles.variables import Variables
from tuned.utils.global_config import GlobalConfig
config = GlobalConfig()
named = getattr(consts, "CFG_PROFILE_DIRS", None)
places = config.get_list(named) if named else consts.LOAD_DIRECTORIES
options = Loader(Locator(places), Factory(), Merger(), config, Variables()).load(sys.argv[1:]).units["disk"].options
print(options.get("elevator"), options.get("readahead"))
"""


def test_the_changelog_has_the_version() -> None:
    log = (deb.TOP / "packaging/debian/changelog").read_text(encoding="utf-8")
    assert log.startswith(f"sluice ({__version__}) ")


class Host:
    """A Debian root that can be written to."""

    def __init__(self, suite: str, folder: Path) -> None:
        self.suite = suite
        # apt takes a package of backports only where the suite is named.
        of = f"/{suite}" if suite.endswith(toolbox.BACKPORTS) else ""
        packages = [
            *HOST,
            *(f"linux-{part}-{flavour}{of}" for flavour in FLAVOURS[suite] for part in PARTS_OF_A_KERNEL),
        ]
        self.root = toolbox.make(packages, f"Debian ({suite}) with DKMS and kernels", suite)
        self.folder = folder
        subprocess.run(["cp", "-a", *(self.root / part for part in PARTS), folder], check=True)
        # The root itself is read-only.
        (folder / "etc/kernel-img.conf").write_text("link_in_boot = yes\n", encoding="utf-8")

    def run(self, script: str) -> str:
        """What a script prints as root of this host; its failure is the test's."""
        done = self.start(script).communicate()[0]
        said, _, status = done.rpartition("status: ")
        assert status.strip() == "0", said
        return said

    def start(self, script: str) -> subprocess.Popen[str]:
        """A script that has been started there."""
        rw = {f"/{part}": self.folder / part for part in PARTS}
        box = toolbox.Sandbox(ro={"/tmp/debs": self.folder / "debs"}, rw=rw, root=self.root)
        line = toolbox.command(["sh", "-c", f"(set -eu; {script}) 2>&1; echo status: $?"], box)
        return subprocess.Popen(line, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the packages."""
    folder = tmp_path_factory.mktemp("packages")
    deb.build(folder)
    return folder


@pytest.fixture(params=SUITES)
def host(request: pytest.FixtureRequest, packages: Path) -> Iterator[Host]:
    """A host of a suite, with our packages in /tmp/debs."""
    with cache.scratch() as folder:
        shutil.copytree(packages, folder / "debs")
        yield Host(request.param, folder)


newest = pytest.mark.parametrize("host", SUITES[-1:], indirect=True)
"""Where the same files do the same on each suite."""


INSTALL = "dpkg -i /tmp/debs/sluice*.deb"
REMOVE = "dpkg -P sluice sluice-dkms"


@pytest.mark.full
def test_installed_and_removed_nothing_is_left(host: Host) -> None:
    """Each kernel has its modules, the command works without the lab, and removing leaves no file."""
    before, kernel = host.run(FILES), host.run(KERNELS).strip()
    host.run(INSTALL)
    built = {Path(line).name.split(".")[0] for line in host.run(OURS).splitlines()}
    assert built >= {"sluice", "mq-prio", "cpq", "afq", "split-token", "split-deadline", "wrr", "sluice-carry"}
    assert "simdisk" not in built
    assert f"kernel {kernel}: our modules: sluice, afq" in host.run("sluice status")
    assert "no setting is given" in host.run("sluice with || [ $? = 2 ]")
    assert "next: sluice use sluice DISK" in host.run("sluice use sluice nonsense || [ $? = 2 ]")
    for shell in ("bash-completion/completions/sluice", "zsh/vendor-completions/_sluice"):
        assert "explain" in host.run(f"cat /usr/share/{shell}")
    assert "iolat" in host.run("iolat --help")
    assert "drop=elevator" in host.run("cat /usr/lib/tuned/sluice/tuned.conf")
    host.run(REMOVE)
    assert host.run(FILES) == before


@pytest.mark.full
def test_another_kernel_gets_its_modules_and_loses_them(host: Host) -> None:
    """At its installation, with its headers after it, and from the type data of its own image."""
    first = host.run(KERNELS).strip()
    host.run(INSTALL)
    with cache.scratch() as work:
        apt = Apt(host.suite, work / "apt")
        (image,) = [name for name in apt.depends("linux-image-cloud-amd64") if name.startswith("linux-image-")]
        (headers,) = [name for name in apt.depends("linux-headers-cloud-amd64") if name.startswith("linux-headers-")]
        apt.download([image, headers])
        for path in (work / "apt/debs").iterdir():
            shutil.copy(path, host.folder / "debs")
    release = image.removeprefix("linux-image-")
    said = host.run("dpkg -i /tmp/debs/linux-image-*.deb")
    assert f"sluice: no modules for kernel {release}: apt-get install {headers}" in said
    assert release not in host.run(OURS)
    said = host.run("dpkg -i /tmp/debs/linux-headers-*.deb")
    assert f"{release}/updates/dkms/sluice.ko" in host.run(OURS), said
    assert host.run(AUDIT) == ""
    host.run(f"dpkg -P {headers} {image}")
    assert release not in host.run(OURS)
    assert f"{first}/updates/dkms/sluice.ko" in host.run(OURS)
    assert not (host.folder / "var/lib/sluice" / release).exists()


@pytest.mark.full
@newest
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("mv /usr/bin/pahole /usr/bin/pfunct /var/tmp", "pahole and pfunct aren't installed; they read type data"),
        ("rm /boot/vmlinuz-*; rm -f /usr/src/linux-headers-*/vmlinux", "no type data of "),
        (
            "sed -i '1i #error of another kernel' /usr/src/linux-headers-*-common/include/linux/blkdev.h",
            "no module can be",
        ),
        ("printf '#!/bin/sh\\nexit 1\\n' >/usr/sbin/dkms", "DKMS can't install them, see "),
    ],
    ids=["tools", "types", "sources", "dkms"],
)
def test_a_kernel_that_can_not_be_served_is_skipped(host: Host, spoil: str, reason: str) -> None:
    """The reason is said and kept, and dpkg has nothing half configured."""
    kernel = host.run(KERNELS).strip()
    host.run(spoil)
    assert f"sluice: no modules for kernel {kernel}: {reason}" in host.run(INSTALL)
    assert host.run(AUDIT) == host.run(OURS) == ""
    assert (host.folder / "var/lib/sluice" / kernel / "reason").read_text(encoding="utf-8").startswith(reason)


@pytest.mark.full
@newest
def test_what_another_run_left_does_not_last(host: Host) -> None:
    """Modules of an earlier build go with it; broken records of DKMS or a folder that is a file are no obstacle."""
    kernel, before = host.run(KERNELS).strip(), host.run(FILES)
    host.run(INSTALL)
    scripts = "/var/lib/dpkg/info/sluice-dkms"
    host.run(f"{scripts}.prerm upgrade 9; {scripts}.postinst abort-upgrade 9")
    assert "sluice.ko" in host.run(OURS)
    host.run("mv /usr/src/linux-headers-* /var/tmp")
    hook = f"/etc/kernel/postinst.d/sluice-dkms {kernel}"
    assert f"no modules for kernel {kernel}: apt-get install linux-headers-{kernel}" in host.run(hook)
    assert host.run(OURS) == ""
    host.run("mv /var/tmp/linux-headers-* /usr/src; rm -rf /var/lib/sluice; touch /var/lib/sluice")
    assert f"the modules for kernel {kernel} could not be installed" in host.run(hook)
    host.run(f"rm /var/lib/sluice; mkdir -p /var/lib/dkms/sluice/{__version__}")
    host.run(REMOVE)
    assert host.run(FILES) == before


@pytest.mark.full
@newest
def test_rules_of_the_administrator_outlast_a_removal(host: Host) -> None:
    rules = "/etc/udev/rules.d/70-sluice.rules"
    host.run("mv /usr/src/linux-headers-* /var/tmp")
    host.run(f"{INSTALL}; mkdir -p /etc/udev/rules.d; echo 'KERNEL==\"sda\"' >{rules}; dpkg -r sluice; cat {rules}")
    host.run(f"{REMOVE}; [ ! -e {rules} ]")


@pytest.mark.full
@pytest.mark.parametrize("host", ["trixie-backports"], indirect=True)
def test_a_newer_kernel_gets_what_can_be_built_for_it(host: Host) -> None:
    """All modules are there but the NVMe driver, for which the kernel's source is missing, as is said."""
    said = host.run(INSTALL)
    built = set(re.findall(r"^(\S+)/updates/dkms/([\w-]+)\.ko", host.run(OURS), re.MULTILINE))
    reasons = set(re.findall(r"^sluice: kernel (\S+) has no ([\w-]+): .", said, re.MULTILINE))
    releases = host.run(KERNELS).split()
    assert len(releases) == len(FLAVOURS[host.suite])
    wanted = modules.OBJECTS.keys() - {"simdisk", "nvme-wrr"}
    assert built == {(release, name) for release in releases for name in wanted}
    assert reasons == {(release, "nvme-wrr") for release in releases}


@pytest.mark.full
@newest
def test_an_interrupted_installation_can_be_finished(host: Host) -> None:
    """dpkg is killed at any moment, as by a power cut; afterwards it goes on, and nothing is half configured."""
    chance = random.Random(host.suite)
    before = host.run(FILES)
    took_s = {True: duration(host)}
    host.run("mkdir /var/tmp/kept; mv /usr/src/linux-headers-* /var/tmp/kept")
    took_s[False] = duration(host)
    for kill in range(KILLS):
        building = kill >= KILLS - KILLS_BUILDING
        if kill == KILLS - KILLS_BUILDING:
            host.run("mv /var/tmp/kept/* /usr/src; rmdir /var/tmp/kept")
        after = chance.uniform(0.0, took_s[building])
        host.run(f"timeout -s KILL {after:.2f} {INSTALL} || :")
        host.run(f"dpkg --configure -a; {INSTALL}")
        assert host.run(AUDIT) == "", f"killed after {after:.2f} s"
        assert bool(host.run(OURS)) == building
        host.run(f"timeout -s KILL {chance.uniform(0.0, 1.0):.2f} {REMOVE} || :")
        host.run(f"{REMOVE} || {{ dpkg --configure -a && {REMOVE}; }}")
    assert host.run(FILES) == before


def duration(host: Host) -> float:
    """Seconds of an installation, which is removed again."""
    begun = time.monotonic()
    host.run(INSTALL)
    took_s = time.monotonic() - begun
    host.run(REMOVE)
    return took_s


@pytest.mark.full
@pytest.mark.parametrize("suite", SUITES)
def test_tuned_leaves_the_scheduler_to_udev(suite: str, tmp_path: Path) -> None:
    """TuneD's own loader merges another profile with ours, from where the package installs it for the suite."""
    for name in ("sluice", "other"):
        (tmp_path / name).mkdir()
    shutil.copy(TUNED, tmp_path / "sluice")
    (tmp_path / "other/tuned.conf").write_text("[disk]\nelevator=bfq\nreadahead=64\n", encoding="utf-8")
    place = {"bookworm": "/usr/lib/tuned"}.get(suite, "/usr/lib/tuned/profiles")
    root = toolbox.make(["tuned"], f"Debian ({suite}) with TuneD", suite)
    box = toolbox.Sandbox(ro={f"{place}/{path.name}": path for path in tmp_path.iterdir()}, root=root)
    lines = [["python3", "-c", LOAD, "other", *more] for more in ([], ["sluice"])]
    found = [subprocess.check_output(toolbox.command(line, box), text=True).split() for line in lines]
    assert found == [["bfq", "64"], ["None", "64"]]


def test_the_hooks_are_named_as_debian_calls_them() -> None:
    """run-parts ignores a name with a dot."""
    rules = (deb.TOP / "packaging/debian/rules").read_text(encoding="utf-8")
    hooks = re.findall(r"/etc/kernel/(\w+)\.d/(\S+)", rules)
    assert hooks and all(re.fullmatch(r"[\w-]+", name) for _, name in hooks)
