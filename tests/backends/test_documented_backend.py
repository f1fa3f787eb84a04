"""The backend that docs/adding-a-backend.md builds passes the conformance kit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from afterglow.support import plugins
from tests.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "adding-a-backend.md"


def defined(path: Path) -> tuple[dict[str, Any], dict[tuple[str, str], Any]]:
    """What the Python blocks of a page define, and the plug-ins that they add, taken away again."""
    names: dict[str, Any] = {"__name__": __name__}
    with pytest.MonkeyPatch.context() as patch:
        added: dict[tuple[str, str], Any] = {}
        patch.setattr(plugins, "_ADDED", added)
        exec("\n".join(match["text"] for match in blocks(path, "python")), names)
    return names, added


NAMES, ADDED = defined(PAGE)


class TestNumpyCode(NAMES["TestNumpyCode"]):
    @pytest.fixture(autouse=True)
    def _added(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plugins, "_ADDED", ADDED)
            yield
