# SPDX-License-Identifier: GPL-2.0-only
"""What can go wrong in the lab: each error says what happened and what to type next."""

from __future__ import annotations

CHECKOUT = "./sluice"
"""How messages call the command line, as in a checkout."""
called = CHECKOUT
"""How it is called here: messages are printed with this instead."""


class LabError(Exception):
    """The lab could not do its work (exit status 3)."""

    def __init__(self, what: str, next_step: str, detail: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.next_step = next_step
        self.detail = detail

    def __str__(self) -> str:
        lines = [self.detail.rstrip()] if self.detail else []
        lines += [f"sluice: {self.what}", f"   next: {self.next_step.replace(CHECKOUT, called)}"]
        return "\n".join(lines)


class UsageError(LabError):
    """The command line asks for something that does not exist (exit status 2)."""


class ToolMissing(LabError):
    """A program that the host must have is not there."""


class SetupFailed(LabError):
    """A part of the lab (toolbox, kernel, image, machine, modules) could not be built."""


class GuestCrashed(LabError):
    """The guest's kernel panicked or the guest rebooted by itself."""


class GuestHung(LabError):
    """The guest used up its CPU seconds, or stood still."""


class GuestOutOfMemory(LabError):
    """The guest's kernel ran out of memory."""


class HostFull(LabError):
    """The host's disk has no room for the lab's files."""
