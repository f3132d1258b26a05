# SPDX-License-Identifier: GPL-2.0-only
"""The devices that a guest can have, by name."""

from __future__ import annotations

DEVICES = {
    "ssd": "SATA SSD, as the Intel X25-M G2 80 GB",
    "hdd": "hard disk of 7200 rpm, as the WD Caviar Blue WD5000AAKX",
    "emmc": "eMMC 5.1, as Samsung's of 64 GB",
    "nvme": "NVMe SSD, as the Samsung 970 PRO 1 TB",
}
"""The simulated drives; kernel/simdisk/profile.c has their figures."""
NULL = "null"
"""The device that costs nothing: null_blk, completing inside the submission."""
