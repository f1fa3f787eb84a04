"""ONNX's own backend suite on a backend: models with the outputs that are expected of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from afterglow.driver.api import compile
from afterglow.runtime import CompiledModel
from afterglow.support.errors import UnsupportedError
from afterglow.testing import onnx_suite
from afterglow.testing.base import Checks


class OnnxChecks(Checks):
    """Cases of the suite; those that no backend passes are expected to fail."""

    onnx_stride: ClassVar[int] = 10
    """Of so many cases one is run always; the others have the mark `slow`."""
    onnx_options: ClassVar[Mapping[str, Any]] = {}
    """Options of `afterglow.compile` for them."""
    onnx_unoptimised: ClassVar[bool] = False
    """Whether each is also compiled without optimisations, and compared."""

    def parameters(self, metafunc: pytest.Metafunc) -> dict[str, Sequence[object]]:
        """The names of cases."""
        own: dict[str, Sequence[object]] = {}
        if "onnx_case" in metafunc.fixturenames:
            own["onnx_case"] = [self._marked(i, n) for i, n in enumerate(onnx_suite.names())]
        return super().parameters(metafunc) | own

    def _marked(self, index: int, name: str) -> object:
        marks: list[pytest.MarkDecorator] = []
        if name in onnx_suite.GAPS:
            marks.append(pytest.mark.xfail(reason=onnx_suite.GAPS[name], strict=True))
        if index % self.onnx_stride:
            marks.append(pytest.mark.slow)
        return pytest.param(name, marks=marks)

    @pytest.mark.filterwarnings("ignore")
    def test_onnx(self, onnx_case: str) -> None:
        """A model gives the outputs that the suite expects."""
        try:
            self.check_onnx(onnx_suite.load(onnx_case))
        except UnsupportedError as error:
            self.no_kernel(error)

    def check_onnx(self, case: onnx_suite.SuiteCase) -> None:
        """Compile a model and run it on each of its data sets."""
        model = self._compiled(case)
        literal = None
        if self.onnx_unoptimised:
            literal = self._compiled(case, optimize=False, verify=False)
        names = [info.name for info in model.inputs]
        for inputs, outputs in case.data_sets:
            feed = dict(zip(names, inputs, strict=False))
            got = model.run(None, feed)
            for want, have in zip(outputs, got, strict=True):
                onnx_suite.agree(want, have, case.rtol, case.atol)
            if literal is not None:
                for have, same in zip(got, literal.run(None, feed), strict=True):
                    onnx_suite.agree(same, have, 1e-3, 1e-5)

    def _compiled(self, case: onnx_suite.SuiteCase, **options: Any) -> CompiledModel:
        chosen = {"backend": self.backend, "target": self.target, **self.onnx_options, **options}
        return compile(case.model, **chosen)
