"""Options of the test suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--bless`: expected texts become what they are today; review the change as code."""
    parser.addoption("--bless", action="store_true", help="rewrite expected texts")
