"""The site of the documents: each page can be reached, and MkDocs builds it without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import afterglow as ag

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
PAGES = re.findall(r"^ +- [^#\n]*?: (\S+\.md)$", CONFIG, re.MULTILINE)
"""What the navigation lists. Decisions are listed by their index."""


def test_every_page_is_in_the_navigation_once() -> None:
    found = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    decisions = {name for name in found if name.startswith("decisions/0")}
    assert sorted(PAGES) == sorted(found - decisions)


def test_every_page_begins_with_its_title() -> None:
    untitled = [n for n in PAGES if not (DOCS / n).read_text(encoding="utf-8").startswith("# ")]
    assert untitled == []


def test_troubleshooting_names_every_error_that_users_can_catch() -> None:
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    names = [name for name in ag.__all__ if name.endswith("Error") and name != "AfterglowError"]
    assert [name for name in names if f"`{name}`" not in page] == []


def test_the_site_builds_and_fetches_nothing(tmp_path: Path) -> None:
    """`--strict` makes an error of a link or an anchor that leads nowhere."""
    pytest.importorskip("material", reason="MkDocs is not installed: pip install '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    fetched = re.compile(r"<(?:script|link|img)[^>]*(?:src|href)=\"https?:[^>]*>")
    pages = [path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")]
    assert [m[0] for text in pages for m in fetched.finditer(text)] == []
