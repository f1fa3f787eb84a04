"""One node through our importer and through ONNX Runtime: the numbers must agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from afterglow.frontends.onnx import import_onnx
from afterglow.graph import run_function, verify_module
from afterglow.types import Array

MICROSOFT = "com.microsoft"


def one_node(
    op_type: str,
    inputs: list[Array | None],
    attributes: dict[str, Any],
    outputs: int | tuple[bool, ...],
    domain: str,
    version: int,
    constants: tuple[int, ...],
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    wanted = (True,) * outputs if isinstance(outputs, int) else outputs
    results = [f"y{i}" if want else "" for i, want in enumerate(wanted)]
    node = helper.make_node(op_type, names, results, domain=domain, **attributes)
    given = {name: x for name, x in zip(names, inputs, strict=True) if x is not None}
    fixed = {f"x{i}" for i in constants}
    graph = helper.make_graph(
        [node],
        "one_node",
        [
            helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for k, x in given.items()
            if k not in fixed
        ],
        [helper.make_value_info(name, onnx.TypeProto()) for name in results if name],
        [numpy_helper.from_array(x, k) for k, x in given.items() if k in fixed],
    )
    opsets = [helper.make_opsetid("", version), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return model, {k: x for k, x in given.items() if k not in fixed}


def check_node(
    op_type: str,
    *inputs: Array | None,
    outputs: int | tuple[bool, ...] = 1,
    domain: str = "",
    version: int = 21,
    constants: tuple[int, ...] = (),
    tolerance: float = 1e-5,
    **attributes: Any,
) -> None:
    """Import and run one node; integers may differ by `tolerance` if it is at least 1."""
    model, feed = one_node(op_type, [*inputs], attributes, outputs, domain, version, constants)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    module = import_onnx(model)
    verify_module(module)
    got = run_function(module.main, [feed[x.name] for x in module.main.inputs])
    want = session.run(None, feed)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        kind = np.float64 if w.dtype.kind == "f" else np.int64
        relative = tolerance if w.dtype.kind == "f" else 0
        np.testing.assert_allclose(g.astype(kind), w.astype(kind), relative, tolerance)
