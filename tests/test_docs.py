"""Documents run: their Python blocks without error, and all blocks with the output shown.

The output of commands is in their console block; that of Python, in an output block behind it.
`pytest tests/test_docs.py --bless` writes the output of today into both.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from afterglow.backends.cpu import Target

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)(?P<target>[^)#\s]+)[^)]*\)")
VARYING = {
    r"(?m)^ (scratch, all threads|weights|code) +[\d,]+$": r"\1 (bytes)",
    r"\b\d+(\.\d+)? (µs|ms|s)\b": "(time)",
    r"\b\d+(\.\d+)? GFLOP/s": "(speed)",
    r"\b\d+(\.\d+)? % of peak": "(share)",
    r"\b\d(\.\d+)?e-\d\d\b": "(tiny)",
    r"─+": "─",
    r" +": " ",
}
"""What depends on the machine: bytes of its code, times and speeds, numbers as small as rounding
errors; and with them the width of tables."""
MARK = "\x1e"

each_document = pytest.mark.parametrize(
    "path", DOCUMENTS, ids=[str(path.relative_to(ROOT)) for path in DOCUMENTS]
)


def blocks(path: Path, language: str) -> list[re.Match[str]]:
    return [
        m for m in BLOCK.finditer(path.read_text(encoding="utf-8")) if m["language"] == language
    ]


@each_document
def test_python_blocks_run_and_print_what_is_shown(
    path: Path, request: pytest.FixtureRequest
) -> None:
    """All blocks of one document run one after the other, as one program."""
    if not blocks(path, "python"):
        pytest.skip("it has none")
    shown = blocks(path, "output")
    printed = printed_by(path)
    if not request.config.getoption("--bless"):
        assert [steady(text) for text in printed] == [steady(match["text"]) for match in shown]
        return
    text = path.read_text(encoding="utf-8")
    for match, actual in reversed(list(zip(shown, printed, strict=True))):
        if steady(actual) != steady(match["text"]):
            text = text[: match.start("text")] + actual + text[match.end("text") :]
    path.write_text(text, encoding="utf-8")


@pytest.mark.slow
def test_the_guide_to_fast_kernels_holds_for_avx2() -> None:
    if not Target.host().avx512:
        pytest.skip("that is what the page itself runs, or the machine lacks it")
    target = 'TARGET = "{}"'.format
    printed_by(ROOT / "docs/write-a-fast-kernel.md", target("host"), target("x86-64-v3"))


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


def printed_by(path: Path, old: str = "", new: str = "") -> list[str]:
    """What the Python blocks of a document print before each of its output blocks.

    Other text may take the place of some of the code.
    """
    parts = {"python": lambda text: text, "output": lambda _: f"print({MARK!r}, end='')\n"}
    found = BLOCK.finditer(path.read_text(encoding="utf-8"))
    code = "\n".join(parts[m["language"]](m["text"]) for m in found if m["language"] in parts)
    assert old in code
    done = subprocess.run(
        [sys.executable, "-c", code.replace(old, new) if old else code],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUTF8": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [f"{text.rstrip()}\n" for text in done.stdout.split(MARK)[:-1]]


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
    text = "stage   time\n────────────\nlower  12.25 s, error 5.6e-07\n1.5 GFLOP/s  2 % of peak\n"
    assert steady(text) == "stage time\n─\nlower (time), error (tiny)\n(speed) (share)\n"
