"""The backend that docs/adding-a-backend.md builds passes the conformance kit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "adding-a-backend.md"


def defined(path: Path) -> dict[str, Any]:
    """What the Python blocks of a page define."""
    names: dict[str, Any] = {"__name__": __name__}
    exec("\n".join(match["text"] for match in blocks(path, "python")), names)
    return names


class TestNumpyCode(defined(PAGE)["TestNumpyCode"]):
    pass
