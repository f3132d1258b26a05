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
STACKS = {
    "lvm": "a volume of LVM",
    "crypt": "LUKS, with a cipher that changes nothing",
    "crypt-lvm": "a volume of LVM on LUKS",
    "thin": "a thin volume of LVM, all of it there",
    "raid1": "RAID 1 of md, of two disks",
    "raid10": "RAID 10 of md, of four disks",
    "loop": "a file of an ext4 as a disk",
}
"""What may lie between a simulated drive and a file system; lab/guest/stack.sh makes them."""
DISKS = {"raid1": 2, "raid10": 4}
"""The number of drives below the stacks that have several."""
