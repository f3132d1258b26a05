# SPDX-License-Identifier: GPL-2.0-only
"""Debian's packages and their sources, downloaded by the host's apt."""

from __future__ import annotations

from pathlib import Path

from lab import toolbox


class Apt:
    """The host's apt, looking at one suite only, with all its files in `work`; downloads go to debs/.

    It needs no toolbox, so that both can be fetched at the same time.
    """

    def __init__(self, suite: str, work: Path) -> None:
        self._work = work
        for folder in ("state/lists/partial", "cache/archives/partial", "debs"):
            (work / folder).mkdir(parents=True)
        lines = toolbox.sources(suite)
        # Backports rank below their suite unless they are asked for.
        preferred = f'APT::Default-Release "{suite}";' if suite.endswith(toolbox.BACKPORTS) else ""
        (work / "status").touch()
        (work / "sources.list").write_text(
            "".join(f"{line}\n{line.replace('deb ', 'deb-src ', 1)}\n" for line in lines)
        )
        (work / "apt.conf").write_text(
            f'Dir::State "{work}/state"; Dir::State::status "{work}/status"; Dir::Cache "{work}/cache";\n'
            f'Dir::Etc::SourceList "{work}/sources.list"; Dir::Etc::SourceParts "/dev/null";\n'
            'APT::Sandbox::User "root"; Acquire::Languages "none"; APT::Architecture "amd64";\n'
            f"{preferred}\n"
            "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n"
            "#clear APT::Update::Post-Invoke-Success;\n"
        )
        self._run("apt-get", "-q", "update")

    def download(self, packages: list[str]) -> None:
        """Download packages."""
        self._run("apt-get", "-q", "download", *packages)

    def source(self, package: str) -> None:
        """Download a package's source."""
        self._run("apt-get", "-q", "--download-only", "source", package)

    def depends(self, package: str) -> list[str]:
        """The packages that a package depends on."""
        listing = self._run("apt-cache", "depends", "--no-recommends", "--no-suggests", package)
        return [line.split()[-1] for line in listing.splitlines() if "Depends:" in line]

    def _run(self, *args: str) -> str:
        return toolbox.on_host(args, self._work / "debs", {"APT_CONFIG": str(self._work / "apt.conf")})
