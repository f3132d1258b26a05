# SPDX-License-Identifier: GPL-2.0-only
"""Shared by all tests: their options and costs, and one set-up before the first one that needs a guest."""

from __future__ import annotations

import pytest
from costs import Costs

from lab import kernels, passes, setup


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --full, --planted and --fresh."""
    parser.addoption("--full", action="store_true", help="run the long tests too")
    parser.addoption("--planted", action="store_true", help="run the tests of the guests' tests, and no others")
    parser.addoption("--fresh", action="store_true", help="ignore kept passes")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers with their meaning."""
    config.addinivalue_line("markers", "full: takes minutes; runs with --full (make check-full)")
    config.addinivalue_line("markers", "late: runs after the others, which say more in less time")
    config.addinivalue_line("markers", "alone: runs last, as it wants all processors and waits for another such test")
    config.addinivalue_line("markers", "planted: tests another test; runs with --planted (make check-planted)")
    config.addinivalue_line("markers", "limit(seconds): of CPU time, which the test's guest may take")
    passes.fresh = config.getoption("--fresh")
    config.pluginmanager.register(Costs(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the long tests unless --full is given, and those of other tests unless --planted is."""
    if config.getoption("--planted"):
        items[:] = [item for item in items if item.get_closest_marker("planted")]
        return
    for item in items:
        if item.get_closest_marker("planted"):
            item.add_marker(pytest.mark.skip(reason="long: make check-planted runs it"))
        elif item.get_closest_marker("full") and not config.getoption("--full"):
            item.add_marker(pytest.mark.skip(reason="long: make check-full runs it"))


@pytest.fixture(scope="session")
def lab() -> None:
    """The lab, set up; quick if it exists."""
    setup.ready(kernels.names())
