# SPDX-License-Identifier: GPL-2.0-only
"""Stacks: the disks of device-mapper, md or loop that a job puts on its simulated disks."""

from __future__ import annotations

from pathlib import Path

from lab import image, kernels

MODULES = ("dm-crypt", "crypto_null", "ecb", "xts", "aesni-intel", "dm-thin-pool", "raid1", "raid10")
"""The kernel's modules that stacks need beside those of the guest's image."""


def files(kernel_name: str) -> dict[str, bytes]:
    """What a job with a stack needs: the shell functions, and the modules that the image lacks."""
    kernel = kernels.get(kernel_name)
    there = {path for path, _ in image.modules(kernel, image.GUEST_MODULES)}
    found = {Path(path).name: data for path, data in image.modules(kernel, MODULES) if path not in there}
    return {"stack.sh": (image.GUEST / "stack.sh").read_bytes(), **found}
