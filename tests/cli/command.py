"""Runs the command in this process."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from typing import Any

import pytest

from afterglow.cli.main import execute


@dataclass(frozen=True)
class Finished:
    """What a command line came to."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Command:
    """Call it with the words of a command line."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: str) -> Finished:
        self.capsys.readouterr()
        status = execute(words)
        captured = self.capsys.readouterr()
        return Finished(status, captured.out, captured.err)

    def fails(self, status: int, message: str, *words: str) -> None:
        """The command fails so, and says no more and no less than this."""
        finished = self(*words)
        assert finished.err.strip() == inspect.cleandoc(message)
        assert finished.status == status
