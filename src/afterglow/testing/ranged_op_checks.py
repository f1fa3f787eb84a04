"""Every case of every op on a backend with extents that are known only when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest

from afterglow.runtime import CompiledFunction
from afterglow.support.errors import IndexRangeError, TypeRuleError
from afterglow.testing.arrays import assert_close
from afterglow.testing.base import Checks
from afterglow.testing.cases import CASES, Case
from afterglow.testing.ranged_cases import RangedCase, ranged_cases, results_of
from afterglow.types.extent import Extents, UndecidedExtentError
from afterglow.types.extent.samples import run_text


class RangedOpChecks(Checks):
    """Compiled once for ranges, an op computes at each extent what `Op.evaluate` says."""

    ranged_stride: ClassVar[int] = 12
    """Of so many cases one is run always; for the others that has the mark `slow`."""

    def parameters(self, metafunc: pytest.Metafunc) -> dict[str, Sequence[object]]:
        """The cases."""
        own: dict[str, Sequence[object]] = {}
        if "case_to_range" in metafunc.fixturenames:
            own["case_to_range"] = [
                pytest.param(case, marks=[pytest.mark.slow] if index % self.ranged_stride else [])
                for index, case in enumerate(getattr(self, "cases", CASES))
                if self.ranged
            ]
        return super().parameters(metafunc) | own

    @pytest.mark.filterwarnings("ignore")
    def test_ranged_op(self, case_to_range: Case) -> None:
        """The op alone, with as many dimensions as it and the backend take."""
        reason = ""
        try:
            for made in ranged_cases(case_to_range):
                try:
                    compiled = self.compiled(made.function())
                except UndecidedExtentError as error:
                    reason = reason or f"the backend cannot have it ranged: {error.what}"
                else:
                    return self.check_runs(compiled, made)
        except (TypeRuleError, ValueError) as error:
            reason = f"the op cannot be ranged: {getattr(error, 'what', error)}"
        pytest.skip(reason)

    def check_runs(self, compiled: CompiledFunction, made: RangedCase) -> None:
        """Run a compiled case at several extents, and compare."""
        for extents in made.runs():
            try:
                self.check_run(compiled, made, extents)
            except Exception as error:
                error.add_note(f"with {run_text(extents)}: {made}")
                raise

    def check_run(self, compiled: CompiledFunction, made: RangedCase, extents: Extents) -> None:
        """One run, unless the definition refuses the operands, such as indices too large."""
        bound = made.bound(extents)
        assert tuple(type.bind(extents) for type in results_of(made)) == bound.results()
        try:
            wanted = made.wanted(extents)
        except IndexRangeError:
            return
        inputs = [array for array in made.inputs(extents) if array is not None]
        if made.carrier is not None:
            inputs.append(np.zeros(made.carrier.bind(extents).shape, np.bool_))
        limit = max(made.case.tolerance, self.tolerance)
        assert_close(compiled.run(inputs), wanted, limit)
