"""Each op of TFLite, against LiteRT's own kernels."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

from afterglow.frontends.definition.binding import Binding
from afterglow.frontends.definition.importer import ModelImporter
from afterglow.frontends.tflite import importers  # noqa: F401  fills the table
from afterglow.frontends.tflite.reader import read_file
from afterglow.frontends.tflite.translate import translate_file
from afterglow.graph.evaluate import run_function
from tests.frontends.tflite.build import run_litert
from tests.frontends.tflite.cases import Case, all_cases


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_an_op_computes_what_litert_does(case: Case) -> None:
    data, feeds = case.file(), case.feeds()
    expected = run_litert(data, *[feeds] * case.runs)
    model = translate_file(read_file(memoryview(data)))
    module, _ = ModelImporter(model, Binding()).run()
    states = {name: np.zeros(s.type.shape, s.type.dtype.numpy) for name, s in module.states.items()}
    for _ in range(case.runs):
        found = run_function(module.main, feeds, states)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, case.tolerance, case.tolerance)
