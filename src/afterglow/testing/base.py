"""What all checks of the conformance kit have in common: settings of a class, and compiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import pytest

from afterglow.backends.backend import Backend, BackendFactory
from afterglow.backends.registry import backend_factory
from afterglow.driver.devices import find_device
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import Function
from afterglow.runtime import CompiledFunction
from afterglow.runtime.device import Device
from afterglow.support.errors import UnsupportedError

NO_KERNEL = "no kernel"
"""Why a test is skipped whose ops the backend neither computes nor has lowered."""


class Checks:
    """A backend under test, and how it is tested: what a conformance class says of itself."""

    backend: ClassVar[str] = ""
    """The name of the backend."""
    target: ClassVar[str] = "host"
    tolerance: ClassVar[float] = 1e-5
    """The relative error that is allowed at least; cases that need more say so."""
    skip: ClassVar[Mapping[str, str]] = {}
    """Tests, or cases of tests, that are not run, by patterns such as "cast*", with the reason."""
    complete: ClassVar[bool] = False
    """Whether a missing kernel is a failure, rather than a test that is skipped."""
    ranged: ClassVar[bool] = False
    """Whether the backend has programs for ranges; others are asked for exact ones only."""
    options: ClassVar[Mapping[str, Any]] = {}
    """Further options of the compiler, such as {"threads": 1}."""

    @pytest.fixture(autouse=True)
    def _leave_out(self, request: pytest.FixtureRequest) -> None:
        """Skip what the class says is to be skipped."""
        item = request.node
        names = [getattr(item, "originalname", item.name)]
        if hasattr(item, "callspec"):
            names.append(item.callspec.id)
        for pattern, reason in self.skip.items():
            if any(fnmatchcase(name, pattern) for name in names):
                pytest.skip(reason)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrise a test by the argument that it takes."""
        for name, values in self.parameters(metafunc).items():
            metafunc.parametrize(name, values, ids=str)

    def parameters(self, metafunc: pytest.Metafunc) -> dict[str, Sequence[object]]:
        """The values of those arguments of a test that are not fixtures."""
        return {}

    @cached_property
    def factory(self) -> BackendFactory:
        """What makes the backend."""
        return backend_factory(self.backend)

    @cached_property
    def device(self) -> Device:
        """The device that runs what the backend compiles."""
        return find_device(self.factory.device)

    def made_backend(self, **options: Any) -> Backend:
        """The backend, made anew."""
        return self.stages(**options).backend

    def stages(self, **options: Any) -> Stages:
        """The compiler for the backend."""
        chosen = {"backend": self.backend, "target": self.target, **self.options, **options}
        return Stages(Options(**chosen))

    def compiled(self, function: Function, **options: Any) -> CompiledFunction:
        """A function compiled and loaded; the test is skipped if there is no kernel for it."""
        try:
            return self.stages(**options).finish(function.module.clone())
        except UnsupportedError as error:
            self.no_kernel(error)

    def no_kernel(self, error: UnsupportedError) -> NoReturn:
        """Skip a test for want of a kernel, if that is what an error says, or let it fail."""
        if self.complete or not error.what.startswith(f"backend {self.backend!r} has no kernel"):
            raise error
        assert error.excerpt, "the error must list the nodes"
        assert error.help, "the error must say what to do"
        pytest.skip(NO_KERNEL)
