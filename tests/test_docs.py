"""Documents run: their Python blocks without error, their console blocks with the output shown.

`pytest tests/test_docs.py --bless` writes the output of today into the console blocks.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)(?P<target>[^)#\s]+)[^)]*\)")
VARYING = {
    r"(?m)^ (scratch, all threads|weights|code) +[\d,]+$": r"\1 (bytes)",
    r"\b\d+(\.\d+)? (µs|ms|s)\b": "(time)",
    r"\b\d(\.\d+)?e-\d\d\b": "(tiny)",
    r"─+": "─",
    r" +": " ",
}
"""What depends on the machine: bytes of its code, times, and numbers as small as rounding errors;
and with them the width of tables."""
MARK = "\x1e"

each_document = pytest.mark.parametrize(
    "path", DOCUMENTS, ids=[str(path.relative_to(ROOT)) for path in DOCUMENTS]
)


def blocks(path: Path, language: str) -> list[re.Match[str]]:
    return [
        m for m in BLOCK.finditer(path.read_text(encoding="utf-8")) if m["language"] == language
    ]


@each_document
def test_python_blocks_run(path: Path) -> None:
    """All blocks of one document run one after the other, as one program."""
    code = "\n".join(match["text"] for match in blocks(path, "python"))
    if not code:
        pytest.skip("it has none")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@each_document
def test_console_blocks_show_what_happens(path: Path, request: pytest.FixtureRequest) -> None:
    found = blocks(path, "console")
    if not found:
        pytest.skip("it has none")
    text = path.read_text(encoding="utf-8")
    for match in reversed(found):
        actual = played(match["text"])
        if not request.config.getoption("--bless"):
            assert steady(actual) == steady(match["text"])
        elif steady(actual) != steady(match["text"]):
            text = text[: match.start("text")] + actual + text[match.end("text") :]
    if request.config.getoption("--bless"):
        path.write_text(text, encoding="utf-8")


@each_document
def test_links_lead_somewhere(path: Path) -> None:
    for match in LINK.finditer(path.read_text(encoding="utf-8")):
        assert (path.parent / match["target"]).exists(), match["target"]


def played(block: str) -> str:
    """The block with the output that its commands, the lines that begin with `$`, give now."""
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    script = "\n".join(f"{c}\nstatus=$?; printf '{MARK}'; (exit $status)" for c in commands)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONUTF8": "1",
        "NO_COLOR": "1",
    }
    environment.pop("FORCE_COLOR", None)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    outputs = done.stdout.split(MARK)
    pairs = zip(commands, outputs, strict=False)
    shown = "".join(f"$ {command}\n{output.rstrip()}\n" for command, output in pairs)
    return "".join(f"{line.rstrip()}\n" for line in shown.splitlines())


def steady(text: str) -> str:
    """The text without what varies from run to run, and from machine to machine."""
    for pattern, replacement in VARYING.items():
        text = re.sub(pattern, replacement, text)
    return text


def test_what_varies_is_left_out() -> None:
    text = "stage   time\n────────────\nlower  12.25 s, error 5.6e-07\n"
    assert steady(text) == "stage time\n─\nlower (time), error (tiny)\n"
