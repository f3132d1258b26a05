# SPDX-License-Identifier: GPL-2.0-only
"""Set-up: everything that a run needs, made beforehand and side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lab import cache, image, kernels, machine, modules, progress, toolbox

FIRST_RUN = """\
sluice: first run. It downloads about 600 MB of Debian packages (toolbox with compilers and QEMU, guest,
        Linux {names}) into {cache}, where they take 3 GB."""
FIRST_RUN_MIB = 4096


def ready(names: Sequence[str], machines: bool = True) -> None:
    """Make the toolbox, and for each named kernel its modules, image and saved machine; quick where they are there."""
    if not toolbox.exists():
        cache.need_space(FIRST_RUN_MIB)
        progress.say(FIRST_RUN.format(names=" and ".join(names), cache=cache.root()))
    _side_by_side([toolbox.path, *([image.rootfs] if machines else [])])
    _side_by_side([partial(kernels.get, name) for name in names])
    parts = (machine.get, modules.build) if machines else (modules.build,)
    _side_by_side([partial(part, name) for name in names for part in parts])


def _side_by_side(steps: Sequence[Callable[[], object]]) -> None:
    """Run steps two at a time; the first error, or Ctrl-C, ends all."""
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(step) for step in steps]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            toolbox.stop_all()
            raise
