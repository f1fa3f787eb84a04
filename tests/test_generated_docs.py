"""Pages that are made from the code are up to date."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
sys.path.insert(0, str(DOCS))
PAGES = import_module("generate").pages()


@pytest.mark.parametrize("name", PAGES)
def test_page_is_what_the_generator_writes(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name], "run: python docs/generate.py"
