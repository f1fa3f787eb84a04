"""Opens pages in headless Chromium and runs a test script in them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

_HARNESS = """
<script>
const wait = (ms = 30) => new Promise((done) => setTimeout(done, ms));
const all = (query) => [...document.querySelectorAll(query)];
const one = (query) => document.querySelector(query);
const text = (query) => (one(query) ? one(query).textContent : null);
const press = (key, target = document.activeElement) =>
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const type = (input, value) => {
  input.focus();
  input.value = value;
  input.dispatchEvent(new Event("input", { bubbles: true }));
};
const pointer = (target, kind, x, y) => target.dispatchEvent(
  new PointerEvent(kind, { clientX: x, clientY: y, bubbles: true, pointerId: 1 }));
const problems = [];
addEventListener("error", (event) => problems.push(String(event.message)));
HTMLElement.prototype.setPointerCapture = () => {};
addEventListener("load", async () => {
  const found = {};
  try {
    await (async (found) => { SCRIPT })(found);
  } catch (error) {
    problems.push(String(error.stack || error));
  }
  document.body.replaceChildren();
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = JSON.stringify({ ...found, problems });
  document.body.append(out);
});
</script>
"""


def browser() -> str:
    """The program; the test is skipped where there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("needs Chromium: apt install chromium")
    return found


def run_in_page(page: str, script: str, folder: Path) -> dict[str, Any]:
    """What a test script writes to `found` in a page; `problems` are its errors."""
    path = folder / "page.html"
    harness = _HARNESS.replace("SCRIPT", script)
    path.write_text(page.replace("<style>", harness + "<style>", 1), encoding="utf-8")
    command = [
        browser(),
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--window-size=1440,900", "--virtual-time-budget=20000", "--dump-dom"),
        f"--user-data-dir={folder / 'browser'}",
        path.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    written = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    if written is None:
        pytest.skip(f"Chromium does not run here: {done.stderr.strip()[-200:]}")
    return dict(json.loads(unescape(written[1])))
