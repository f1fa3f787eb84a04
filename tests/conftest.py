"""Options of the test suite."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Hashable, Iterator
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, settings

from afterglow.backends.cpu.llvm import compile as llvm_compile
from afterglow.backends.cpu.target import Target

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A machine may be slow, or busy with something else: that is no failure."""
settings.register_profile("fixed", PATIENT, derandomize=True)
settings.register_profile("fresh", PATIENT, print_blob=True)
settings.load_profile("fixed")
"""Random programs are the same in each run of `make test`; `make test-all` draws new ones with
`--hypothesis-profile=fresh`, and what fails is stored in .hypothesis and tried again first."""

BYTECODE = "AFTERGLOW_TEST_BYTECODE"
"""The variable with the folder for the bytecode of processes that tests start.

Where Python is told to write none, each of them would compile all that it imports.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--bless`: expected texts become what they are today; review the change as code."""
    parser.addoption("--bless", action="store_true", help="rewrite expected texts")


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled code away from the user's cache: all processes of a run share a folder."""
    if "AFTERGLOW_CACHE" not in os.environ:
        os.environ["AFTERGLOW_CACHE"] = _shared_folder(config)
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if not is_worker:
        os.environ[BYTECODE] = _shared_folder(config)
    runs_tests = is_worker or not config.getoption("numprocesses", None)
    if runs_tests and os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        os.environ["PYTHONPYCACHEPREFIX"] = os.environ[BYTECODE]


def _shared_folder(config: pytest.Config) -> str:
    """A folder for all processes of a run."""
    folder = tempfile.mkdtemp(prefix="afterglow-tests-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    return folder


@pytest.fixture(scope="session", autouse=True)
def _equal_code_is_compiled_once() -> Iterator[None]:
    """LLVM makes the same of the same code, and half of what tests compile others have compiled."""
    compiled, known = llvm_compile.object_code, dict[Hashable, bytes]()

    def object_code(text: str, target: Target, level: int) -> bytes:
        key = sha256(text.encode()).digest(), target, level
        if key not in known:
            known[key] = compiled(text, target, level)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llvm_compile, "object_code", object_code)
        yield


@pytest.fixture
def exact_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have dynamic dimensions without bounds compiled for each shape, not for ranges that grow."""
    monkeypatch.setattr("afterglow.driver.ranges.Ranges.__init__.__kwdefaults__", {"grows": False})
