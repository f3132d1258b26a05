# SPDX-License-Identifier: GPL-2.0-only
"""Sluice's lab: kernels booted, modules loaded, schedulers measured on a virtual clock."""

__version__ = "0.1.0"
"""Of the tools and the modules."""
