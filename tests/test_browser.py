# SPDX-License-Identifier: GPL-2.0-only
"""The report's page and the site in a headless browser, as wide as a phone and as a desk, light and dark."""

from __future__ import annotations

import json
import re
import shutil
from html import unescape
from pathlib import Path

import pytest
from msgspec.structs import replace
from test_report import mixed, page

from lab import book, toolbox

pytestmark = pytest.mark.full
PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")
# CSS pixels; what each text must have: WCAG 2.2, level AA, 1.4.3.
PHONE, DESK = 390, 1280
SMALLEST = 9.5
CONTRAST = 4.5
# What is measured: how much wider the page is than the window, each text's size on the screen, its contrast with what
# is behind it, and whether it leaves its drawing.
MEASURE = """<script>
function rgba(colour) { return colour.match(/[\\d.]+/g).map(Number); }
function light(colour) {
  const linear = x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  const [r, g, b] = rgba(colour).map(part => linear(part / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function behind(node) {
  for (; node; node = node.parentElement) {
    const colour = rgba(getComputedStyle(node).backgroundColor);
    if (colour.length < 4 || colour[3] > 0.5) return getComputedStyle(node).backgroundColor;
  }
  return "rgb(255, 255, 255)";
}
addEventListener("load", () => {
  const texts = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.data.trim(), node = walk.currentNode.parentElement;
    const shown = node.getBoundingClientRect().width && node.checkVisibility();
    if (!text || !shown || node.closest("script, style")) continue;
    const style = getComputedStyle(node), drawn = node.closest("svg");
    const [one, two] = [drawn ? style.fill : style.color, behind(node)].map(light).sort((a, b) => b - a);
    const size = parseFloat(style.fontSize) * (drawn ? node.getScreenCTM().d : 1);
    const cut = drawn && node.getBoundingClientRect().right > drawn.getBoundingClientRect().right + 1;
    texts.push({ text, size, cut, contrast: (one + 0.05) / (two + 0.05) });
  }
  const measured = { wider: document.scrollingElement.scrollWidth - innerWidth, texts };
  document.body.innerHTML = "<pre id=measured></pre>";
  document.getElementById("measured").textContent = JSON.stringify(measured);
});
</script>"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the report's page and the site, each page with the script that measures it."""
    folder = tmp_path_factory.mktemp("pages")
    for name, found in (("report.html", mixed()), ("claims.html", replace(mixed(), experiment="wrr-share", cells=()))):
        (folder / name).write_text(page(found) + MEASURE, encoding="utf-8")
    site = book.build().parent
    for name in ("tutorial.html", "sluice.html"):
        (folder / name).write_text((site / name).read_text(encoding="utf-8") + MEASURE, encoding="utf-8")
    for name in ("css", "js", "img"):
        shutil.copytree(site / name, folder / name)
    shutil.copy(site / "site.css", folder)
    return folder


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", ["report.html", "claims.html", "tutorial.html", "sluice.html"])
def test_a_page_fits_and_can_be_read(pages: Path, name: str, width: int, dark: bool) -> None:
    root = toolbox.make(PACKAGES, "Browser: Debian 13 with Chromium")
    box = toolbox.Sandbox(ro={"/tmp/pages": pages}, root=root)
    line = ["chromium-headless-shell", "--no-sandbox", "--disable-gpu", f"--window-size={width},900", "--dump-dom"]
    line += ["--virtual-time-budget=5000", f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    found = re.search(r'<pre id="measured">(.*)</pre>', toolbox.run([*line, f"file:///tmp/pages/{name}"], box))
    assert found
    measured = json.loads(unescape(found[1]))
    assert measured["wider"] <= 0
    assert len(measured["texts"]) > 50
    assert not [text for text in measured["texts"] if text["cut"]]
    assert not [text for text in measured["texts"] if text["size"] < SMALLEST]
    assert not [text for text in measured["texts"] if text["contrast"] < CONTRAST]
