"""ONNX graphs whose dimensions are ranged: imported once, and checked at each extent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import afterglow as ag
from afterglow.graph import Module, run_function
from afterglow.types import Array
from afterglow.types.extent import Dim, Extents, ranged

ELEMENTS = {"f": onnx.TensorProto.FLOAT, "i": onnx.TensorProto.INT64}


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[Any]],
    constants: Mapping[str, Any] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 18,
) -> onnx.ModelProto:
    """A model; an input whose first extent is "i" holds integers, others floats."""
    infos = []
    for name, (kind, *shape) in inputs.items():
        infos.append(helper.make_tensor_value_info(name, ELEMENTS[kind], shape))
    stored = [numpy_helper.from_array(np.array(x), name) for name, x in (constants or {}).items()]
    given = [
        helper.make_value_info(name, helper.make_empty_tensor_value_info("").type)
        for name in outputs
    ]
    made = helper.make_graph(list(nodes), "g", infos, given, stored)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(made, opset_imports=opsets, ir_version=10)


def imported(model: onnx.ModelProto, *dims: Dim) -> Module:
    """The model with ranged dimensions."""
    return ag.import_model(model, dims={dim.name: ranged(dim) for dim in dims})


def check(model: onnx.ModelProto, dims: Sequence[Dim], runs: Iterable[Extents]) -> Module:
    """Import a model for ranges; at each extent it computes what ONNX's reference does."""
    module = imported(model, *dims)
    rng = np.random.default_rng(0)
    for extents in runs:
        exact = module.bind(extents)
        feed = {value.name: _random(rng, value.type) for value in exact.main.inputs}
        wanted = ReferenceEvaluator(model).run(None, feed)
        got = run_function(exact.main, list(feed.values()))
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
            assert one.dtype == other.dtype
    return module


def _random(rng: np.random.Generator, type: Any) -> Array:
    if type.dtype.is_float:
        return rng.standard_normal(type.shape).astype(np.float32)
    return rng.integers(0, 2, type.shape)
