from __future__ import annotations

import pytest

from tests.cli.command import Command


@pytest.fixture
def command(capsys):
    return Command(capsys)
