"""Runs the command-line converters and compilers of engines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from .engine import CannotConvertError

LONGEST = 200
"""Maximum length of a failure message in characters."""
SIGNS = ("error:", "what():", "Error", "error", "not supported", "unsupported", "failed")
"""Words that mark the line of a log that states the error, the most specific first."""


def run_tool(name: str, *words: str, folder: Path) -> str:
    """Run a command that is installed next to this Python; return its output."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise ModuleNotFoundError(f"no command {name}", name=name)
    return run(str(path), *words, folder=folder)


def run(*words: str, folder: Path) -> str:
    """Run a command in a folder; return its output, or raise with the line that says why."""
    done = subprocess.run(
        words,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise CannotConvertError(f"{os.path.basename(words[0])}: {telling(done.stdout)}")
    return done.stdout


def telling(log: str) -> str:
    """The line of a log that is most likely to say what went wrong."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for sign in SIGNS:
        for line in lines:
            if sign in line:
                return line[:LONGEST]
    return lines[-1][:LONGEST] if lines else "no output"
