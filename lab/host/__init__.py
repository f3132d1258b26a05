# SPDX-License-Identifier: GPL-2.0-only
"""The commands for the disks of this host. They need Python's standard library alone."""
