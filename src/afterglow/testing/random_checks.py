"""Random programs on a backend, optimised and not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from afterglow.graph import Function, run_function
from afterglow.graph.dims import dims_of_functions
from afterglow.instr import parse_program, print_program, verify_program
from afterglow.runtime import CompiledFunction
from afterglow.testing.arrays import random_inputs
from afterglow.testing.base import NO_KERNEL, Checks
from afterglow.testing.graphs import functions_of_floats
from afterglow.types import Array
from afterglow.types.extent import UndecidedExtentError
from afterglow.types.extent.samples import sample_extents


class RandomProgramChecks(Checks):
    """What a random graph computes is what its ops define."""

    examples: ClassVar[int] = 25
    """How many programs are drawn."""
    ranged_examples: ClassVar[int] = 12
    """How many programs with ranged axes are drawn, if the backend takes such."""
    more_examples: ClassVar[int] = 300
    """How many larger ones the slow test draws."""
    program_tolerance: ClassVar[float] = 2e-3
    """The relative error of a whole program."""

    @pytest.mark.parametrize("optimize", [True, False], ids=["optimised", "as_it_is"])
    def test_random_programs(self, optimize: bool) -> None:
        """Some programs."""
        self._draw(self.examples, most_steps=12, optimize=optimize)

    @pytest.mark.parametrize("optimize", [True, False], ids=["optimised", "as_it_is"])
    def test_random_programs_for_ranges(self, optimize: bool) -> None:
        """Some programs with ranged axes, at several extents each."""
        self._draw(self.ranged_examples, most_steps=10, optimize=optimize, ranged=True)

    @pytest.mark.slow
    @pytest.mark.parametrize("optimize", [True, False], ids=["optimised", "as_it_is"])
    def test_many_larger_random_programs_for_ranges(self, optimize: bool) -> None:
        """Many of them."""
        self._draw(self.more_examples, most_steps=20, optimize=optimize, ranged=True)

    @pytest.mark.slow
    @pytest.mark.parametrize("optimize", [True, False], ids=["optimised", "as_it_is"])
    def test_many_larger_random_programs(self, optimize: bool) -> None:
        """Many of them."""
        self._draw(self.more_examples, most_steps=25, optimize=optimize)

    def _draw(self, count: int, *, most_steps: int, optimize: bool, ranged: bool = False) -> None:
        """Check programs that hypothesis draws; those that need missing kernels do not count."""
        if ranged and not self.ranged:
            pytest.skip("the backend has no programs for ranges")
        quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]
        checked = 0

        @settings(max_examples=count, deadline=None, suppress_health_check=quiet)
        @given(functions_of_floats(most_steps, ranged=ranged))
        def check(function: Function) -> None:
            nonlocal checked
            try:
                compiled = self.compiled(function, optimize=optimize, verify=True)
            except (pytest.skip.Exception, UndecidedExtentError):
                return
            checked += 1
            for extents in sample_extents(dims_of_functions([function])):
                exact = function.module.bind(extents).main
                inputs = random_inputs(exact)
                self.check_program(compiled, inputs, run_function(exact, inputs))

        check()
        if not checked:
            pytest.skip(NO_KERNEL)

    def check_program(
        self, compiled: CompiledFunction, inputs: Sequence[Array], wanted: Sequence[Array]
    ) -> None:
        """A compiled program is valid, prints and parses, and computes what is wanted."""
        verify_program(compiled.program)
        text = print_program(compiled.program)
        assert print_program(parse_program(text)) == text
        self.check_outputs(compiled.run(inputs), wanted)

    def check_outputs(self, outputs: Sequence[Array], wanted: Sequence[Array]) -> None:
        """Outputs of a program are those that are wanted."""
        limit = self.program_tolerance
        for have, expected in zip(outputs, wanted, strict=True):
            assert have.shape == expected.shape
            np.testing.assert_allclose(have, expected, rtol=limit, atol=limit / 10)
