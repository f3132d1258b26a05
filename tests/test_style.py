# SPDX-License-Identifier: GPL-2.0-only
"""The findings of our own style checkers."""

from __future__ import annotations

import pytest

from lab import style

NEXT = "; next: split.h has what a policy needs; else give the file its line in LAYERS"
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in (style.TOP / "kernel/split").glob("*.[ch]")}


def test_the_framework_is_in_layers() -> None:
    """Each file uses the layers below its own."""
    assert style.out_of_layer(SOURCES) == []


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("memory.c", '#include "gate.h"\n', "includes gate.h, which is of a higher layer"),
        ("account.h", '#include "device.h"\n', "includes device.h, which is of a higher layer"),
        ("afq.c", '#include "device.h"\n', f"includes device.h, which is of a higher layer{NEXT}"),
        ("causes.c", '#include "account.h"\n', f"includes account.h, which is of a higher layer{NEXT}"),
    ],
)
def test_a_higher_layer_is_found(name: str, line: str, said: str) -> None:
    """A file that includes the header of a higher layer is named, and so is that header."""
    assert style.out_of_layer({**SOURCES, name: line + SOURCES[name]}) == [f"kernel/split/{name}: {said}"]


def test_a_file_in_no_layer_is_found() -> None:
    """A file of a layer that no longer includes its header, or is gone, is named."""
    assert style.out_of_layer({**SOURCES, "block.c": SOURCES["block.c"].replace('"request.h"', '"dirty.h"')}) == [
        "kernel/split/block.c: doesn't include request.h, its layer's header"
    ]
    assert style.out_of_layer({name: text for name, text in SOURCES.items() if name != "proxy.c"}) == [
        "kernel/split/proxy.c: there is no such file; next: mend LAYERS"
    ]
