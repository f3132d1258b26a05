# SPDX-License-Identifier: GPL-2.0-only
"""Shared by all tests: --full and --fresh, their costs, and one set-up before the first one that needs a guest."""

from __future__ import annotations

import pytest
from costs import Costs

from lab import kernels, passes, setup


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --full and --fresh."""
    parser.addoption("--full", action="store_true", help="run the long tests too")
    parser.addoption("--fresh", action="store_true", help="ignore kept passes")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers with their meaning."""
    config.addinivalue_line("markers", "full: takes minutes; runs with --full (make check-full)")
    config.addinivalue_line("markers", "limit(seconds): of CPU time, which the test's guest may take")
    passes.fresh = config.getoption("--fresh")
    config.pluginmanager.register(Costs(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the long tests unless --full is given."""
    if not config.getoption("--full"):
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(pytest.mark.skip(reason="long: make check-full runs it"))


@pytest.fixture(scope="session")
def lab() -> None:
    """The lab, set up; quick if it exists."""
    setup.ready(kernels.names())
