# SPDX-License-Identifier: GPL-2.0-only
"""The book: the pages of docs/ as a static site, in which every link leads somewhere.

properdocs.yml has the pages' order, and names this module as a hook of the generator.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lab import cache
from lab.errors import LabError

if TYPE_CHECKING:
    from properdocs.config.defaults import ProperDocsConfig
    from properdocs.structure.files import Files

TOP = Path(__file__).parent.parent
CONTRIBUTING = "../CONTRIBUTING.md"
# A link from a page to a file of the tree outside docs/.
OUTSIDE = re.compile(r"\]\((\.\./[^)#\s]+)")


def build(top: Path = TOP) -> Path:
    """Build the site of a tree in the cache, and return its first page; LabError if a link or a page is wrong."""
    site = cache.root() / "site"
    cache.replace(site, partial(_generate, top))
    return site / "index.html"


def _generate(top: Path, site: Path) -> None:
    line = [sys.executable, "-m", "properdocs", "build"]
    line += ["--config-file", str(top / "properdocs.yml"), "--site-dir", str(site)]
    done = subprocess.run(line, cwd=TOP, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError("the site cannot be built", "make site   after mending them", done.stdout + done.stderr)


def on_files(files: Files, config: ProperDocsConfig) -> None:
    """Add CONTRIBUTING.md as a page, and each file outside docs/ that a page links to as it is.

    The generator calls this. A file has the same place beside the pages as in the tree, without the folder docs/. A
    link to a file that isn't there stays, and the generator refuses it.
    """
    from properdocs.structure.files import File, InclusionLevel

    linked = {path for page in files.documentation_pages() for path in OUTSIDE.findall(page.content_string)}
    for path in sorted({CONTRIBUTING, *linked}):
        if (Path(config.docs_dir) / path).is_file():
            place = path.removeprefix("../").replace(".md", ".html")
            # Else it counts as hidden, since its path begins with a dot.
            shown = InclusionLevel.INCLUDED
            files.append(File(path, config.docs_dir, config.site_dir, False, dest_uri=place, inclusion=shown))
