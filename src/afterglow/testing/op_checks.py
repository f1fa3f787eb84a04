"""Every case of every op on a backend, in the forms in which models have ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest

from afterglow.graph.function import subgraphs_of
from afterglow.instr import OpInstr, Program, Stack, ops_of, parse_program, print_program
from afterglow.runtime import CompiledFunction
from afterglow.testing.arrays import assert_close
from afterglow.testing.base import NO_KERNEL, Checks
from afterglow.testing.case_functions import FORMS, CaseFunction, plain
from afterglow.testing.cases import CASES, Case


class OpChecks(Checks):
    """Whatever becomes of an op, it computes what `Op.evaluate` says."""

    cases: ClassVar[Sequence[Case]] = CASES
    """The cases that are run: all, unless a class says otherwise."""
    form_stride: ClassVar[int] = 4
    """Of so many cases one is run in all forms always; for the others that has the mark `slow`."""

    def parameters(self, metafunc: pytest.Metafunc) -> dict[str, Sequence[object]]:
        """The cases."""
        own: dict[str, Sequence[object]] = {}
        if "case" in metafunc.fixturenames:
            own["case"] = list(self.cases)
        if "case_in_forms" in metafunc.fixturenames:
            own["case_in_forms"] = [
                pytest.param(case, marks=[pytest.mark.slow] if index % self.form_stride else [])
                for index, case in enumerate(self.cases)
            ]
        return super().parameters(metafunc) | own

    @pytest.mark.filterwarnings("ignore")
    def test_op(self, case: Case) -> None:
        """The op alone; its plans are the same each time, and print and parse."""
        made = plain(case)
        compiled = self.compiled(made.function)
        self.check_results(compiled, made, case)
        self.check_plans(compiled.program)

    @pytest.mark.filterwarnings("ignore")
    def test_op_in_other_forms(self, case_in_forms: Case) -> None:
        """The op with constants, lowered, and where it may overwrite its operands."""
        forms = ((form, function_of(case_in_forms)) for form, function_of in FORMS.items())
        done = [self._check_form(form, made, case_in_forms) for form, made in forms if made]
        if not any(done):
            pytest.skip(NO_KERNEL if done else "has no other form")

    def _check_form(self, form: str, made: CaseFunction, case: Case) -> bool:
        """Check a form of a case; False if there is no kernel for it."""
        try:
            compiled = self.compiled(made.function, donate_inputs=form == "in place")
            self.check_results(compiled, made, case)
        except pytest.skip.Exception:
            return False
        except Exception as error:
            error.add_note(f"in the form {form!r} of {case}")
            raise
        return True

    def check_results(self, compiled: CompiledFunction, made: CaseFunction, case: Case) -> None:
        """Run a case, and compare; inputs that are not donated stay as they are."""
        inputs = [np.array(array) for array in made.inputs]
        results = compiled.run(inputs)
        assert_close(results, made.wanted, max(case.tolerance, self.tolerance))
        for port, array, given in zip(compiled.interface.inputs, inputs, made.inputs, strict=True):
            assert port.donated or array.tobytes() == np.array(given).tobytes()

    def check_plans(self, program: Program) -> None:
        """Asked again, the backend has the same plans for each step, and they print and parse."""
        backend, again = self.made_backend(), self.made_backend()
        for step in program.body:
            if isinstance(step, (OpInstr, Stack)):
                assert list(backend.plans(step)) == list(again.plans(step))
        if not any(subgraphs_of(op.op) for step in program.body for op in ops_of(step)):
            text = print_program(program)
            assert print_program(parse_program(text)) == text
