"""The program in docs/bundles.md is built and run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.emulation.models import DIGITS
from tests.runtime.bundle.building import build, export, run

DOCUMENT = Path(__file__).parents[3] / "docs" / "bundles.md"


@pytest.mark.parametrize("sanitize", [False, True])
def test_the_program_of_the_document_runs(
    sanitize: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"^```c\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    export(DIGITS, tmp_path, "digits")
    (tmp_path / "program.c").write_text(blocks[0])
    sources = [tmp_path / "program.c", tmp_path / "digits.o"]
    # The weights are never freed: that is the system's business when the program ends.
    program = build(tmp_path, sources, sanitize=sanitize)
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")
    monkeypatch.chdir(tmp_path)
    assert run(program) == "it is a 0\n"
