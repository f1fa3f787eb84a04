"""Converters and compilers that engines bring as commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from .engine import CannotConvertError

LONGEST = 200
"""Characters of what is told of a failure."""
SIGNS = ("error:", "what():", "Error", "error", "not supported", "unsupported", "failed")
"""What the line of a log that tells why has in it, the surest sign first."""


def run_tool(name: str, *words: str, folder: Path) -> str:
    """Run a command that is installed beside this Python, in a folder; what it printed."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise ModuleNotFoundError(f"no command {name}", name=name)
    return run(str(path), *words, folder=folder)


def run(*words: str, folder: Path) -> str:
    """Run a command in a folder; what it printed, or an error with the line that tells most."""
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
    return lines[-1][:LONGEST] if lines else "it said nothing"
