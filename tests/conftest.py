"""Options of the test suite."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True)
settings.register_profile("fresh", print_blob=True)
settings.load_profile("fixed")
"""Random programs are the same in each run of `make test`; `make test-all` draws new ones with
`--hypothesis-profile=fresh`, and what fails is stored in .hypothesis and tried again first."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--bless`: expected texts become what they are today; review the change as code."""
    parser.addoption("--bless", action="store_true", help="rewrite expected texts")


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled code away from the user's cache: all processes of a run share a folder."""
    if "AFTERGLOW_CACHE" not in os.environ:
        folder = tempfile.mkdtemp(prefix="afterglow-tests-")
        os.environ["AFTERGLOW_CACHE"] = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.fixture
def exact_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have dynamic dimensions without bounds compiled for each shape, not for ranges that grow."""
    monkeypatch.setattr("afterglow.driver.ranges.Ranges.__init__.__kwdefaults__", {"grows": False})
