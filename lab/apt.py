# SPDX-License-Identifier: GPL-2.0-only
"""Debian's packages and their sources, downloaded by apt."""

from __future__ import annotations

from pathlib import Path

from lab import toolbox


class Apt:
    """apt inside the toolbox, looking at one suite only, with all its files in `work`; downloads go to debs/."""

    def __init__(self, suite: str, work: Path) -> None:
        self.box = toolbox.Sandbox(rw={"/tmp/apt": work}, cwd="/tmp/apt", network=True)
        for folder in ("state/lists/partial", "cache/archives/partial", "debs"):
            (work / folder).mkdir(parents=True)
        lines = toolbox.sources(suite)
        (work / "status").touch()
        (work / "sources.list").write_text(
            "".join(f"{line}\n{line.replace('deb ', 'deb-src ', 1)}\n" for line in lines)
        )
        (work / "apt.conf").write_text(
            'Dir::State "/tmp/apt/state"; Dir::State::status "/tmp/apt/status"; Dir::Cache "/tmp/apt/cache";\n'
            'Dir::Etc::SourceList "/tmp/apt/sources.list"; Dir::Etc::SourceParts "/dev/null";\n'
            'APT::Sandbox::User "root"; Acquire::Languages "none";\n'
        )
        self._run("apt-get", "-q", "update")

    def download(self, packages: list[str]) -> None:
        """Download packages."""
        self._run("sh", "-euc", 'cd debs && apt-get -q download "$@"', "sh", *packages)

    def source(self, package: str) -> None:
        """Download a package's source."""
        self._run("sh", "-euc", 'cd debs && apt-get -q --download-only source "$@"', "sh", package)

    def depends(self, package: str) -> list[str]:
        """The packages that a package depends on."""
        listing = self._run("apt-cache", "depends", "--no-recommends", "--no-suggests", package)
        return [line.split()[-1] for line in listing.splitlines() if "Depends:" in line]

    def _run(self, *args: str) -> str:
        return toolbox.run(args, self.box, env={"APT_CONFIG": "/tmp/apt/apt.conf"})
