"""One node, as a version of ONNX writes it, through Afterglow and through ONNX Runtime.

A `Form` is such a node with its inputs. Where ONNX Runtime does not have the version, ONNX's own
reference stands in, and where neither does, the form says itself what it expects.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import afterglow
from afterglow.types import Array, TensorType
from afterglow.types.dtype import Kind

Expectation: TypeAlias = Callable[..., Array | tuple[Array, ...]]

onnxruntime.set_default_logger_severity(4)


@dataclass(frozen=True, eq=False)
class Fixed:
    """An input that is a constant of the model."""

    array: Array


Input: TypeAlias = TensorType | Array | Fixed | None
"""Random elements of a type, given ones, a constant, or nothing."""


@dataclass(frozen=True, eq=False)
class Form:
    """A node with its inputs; `expect` computes the outputs from them."""

    op_type: str
    version: int
    inputs: tuple[Input, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int | Sequence[bool] = 1
    """How many, or which are named."""
    low: float = -2.0
    high: float = 2.0
    tolerance: float = 1e-5
    expect: Expectation | None = None

    def arrays(self) -> list[Array | None]:
        """The inputs, the same each time."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        return [self._array(given, rng) for given in self.inputs]

    def _array(self, given: Input, rng: np.random.Generator) -> Array | None:
        match given:
            case TensorType():
                return random_array(rng, given, self.low, self.high)
            case Fixed():
                return given.array
        return given

    def model(self) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """A model of the node alone, and what to feed it."""
        given = {f"x{i}": x for i, x in enumerate(self.arrays()) if x is not None}
        fixed = {f"x{i}" for i, x in enumerate(self.inputs) if isinstance(x, Fixed)}
        feed = {name: x for name, x in given.items() if name not in fixed}
        named = (True,) * self.outputs if isinstance(self.outputs, int) else self.outputs
        results = [f"y{i}" if wanted else "" for i, wanted in enumerate(named)]
        names = ["" if x is None else f"x{i}" for i, x in enumerate(self.inputs)]
        node = helper.make_node(self.op_type, names, results, **self.attributes)
        constants = [numpy_helper.from_array(given[name], name) for name in sorted(fixed)]
        return one_graph([node], feed, [y for y in results if y], constants, self.version), feed

    def __str__(self) -> str:
        inputs = [_text(x) for x in self.inputs]
        attributes = [f"{name}={_text(value)}" for name, value in self.attributes.items()]
        return f"{self.op_type}-{self.version}({', '.join(inputs + attributes)})"


def _text(x: object) -> str:
    match x:
        case TensorType():
            return str(x)
        case Fixed():
            return _text(x.array)
        case np.ndarray() if x.size > 4:
            return f"{x.dtype}{list(x.shape)}"
        case np.ndarray():
            return f"{x.dtype}({x.tolist()})"
        case onnx.TensorProto():
            return _text(numpy_helper.to_array(x))
    return str(x)


def random_array(rng: np.random.Generator, type: TensorType, low: float, high: float) -> Array:
    """Elements of a type between two numbers."""
    match type.dtype.kind:
        case Kind.BOOL:
            return rng.random(type.shape) < 0.5
        case Kind.INT | Kind.UINT:
            least = int(low) if type.dtype.is_signed else max(0, int(low))
            return rng.integers(least, int(high) + 1, type.shape).astype(type.dtype.numpy)
        case Kind.STRING:
            return rng.choice(["a", "b", "longer"], type.shape).astype(object)
    return rng.uniform(low, high, type.shape).astype(type.dtype.numpy)


def form(op_type: str, version: int | Sequence[int], *inputs: Input, **rest: Any) -> list[Form]:
    """Write a form down, once for each version; attributes of the node come last, by name."""
    options = {name: rest.pop(name) for name in Form.__dataclass_fields__ if name in rest}
    versions = (version,) if isinstance(version, int) else version
    return [Form(op_type, v, inputs, rest, **options) for v in versions]


def each_form(*forms: Iterable[Form]) -> pytest.MarkDecorator:
    """Run a test once for each form."""
    return pytest.mark.parametrize("form", [one for some in forms for one in some], ids=str)


def giving(expect: Expectation, *forms: Iterable[Form]) -> list[Form]:
    """Forms that nobody else computes, with a function of the inputs that does."""
    return [replace(one, expect=expect) for some in forms for one in some]


def const(*numbers: float, dtype: Any = np.int64) -> Fixed:
    """A constant vector."""
    return Fixed(np.array(numbers, dtype))


def scalar(number: float, dtype: Any = np.float32) -> Fixed:
    """A constant of rank 0."""
    return Fixed(np.array(number, dtype))


def fed(form: Iterable[Form]) -> list[Form]:
    """The same forms with every constant fed as an input."""
    return [
        replace(one, inputs=tuple(x.array if isinstance(x, Fixed) else x for x in one.inputs))
        for one in form
    ]


def one_graph(
    nodes: Sequence[onnx.NodeProto],
    feed: dict[str, Array],
    results: Sequence[str],
    constants: Sequence[onnx.TensorProto],
    version: int,
) -> onnx.ModelProto:
    """A model of nodes whose inputs have the types of `feed`."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in feed.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in results]
    graph = helper.make_graph(nodes, "one_node", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def check(form: Form) -> None:
    """Compile and run a form, optimised and not, and compare what it gives."""
    model, feed = form.model()
    if form.expect is None:
        want = reference(model, feed)
    else:
        expected = form.expect(*form.arrays())
        want = list(expected) if isinstance(expected, tuple) else [expected]
    compare(model, feed, want, form.tolerance)


def compare(
    model: onnx.ModelProto, feed: dict[str, Array], want: list[Array], tolerance: float = 1e-5
) -> None:
    """Run a model, optimised and not; integers may be `tolerance` apart if it is at least 1."""
    for optimize in (True, False):
        got = afterglow.compile(model, optimize=optimize, verify=True).run(None, feed)
        for g, w in zip(got, map(np.asarray, want), strict=True):
            assert (g.dtype, g.shape) == (w.dtype, w.shape), f"{g!r} instead of {w!r}"
            _agree(g, w, tolerance)


def _agree(got: Array, want: Array, tolerance: float) -> None:
    if want.dtype.kind in "OSUb":
        np.testing.assert_array_equal(got, want)
    elif want.dtype.kind in "iu":
        distance = np.abs(got.astype(object) - want.astype(object))
        allowed = tolerance if tolerance >= 1 else 0
        assert distance.max(initial=0) <= allowed, f"{got} instead of {want}"
    else:
        if want.dtype.kind != "f" or want.dtype.itemsize < 4:
            tolerance = max(tolerance, 1e-2 if want.dtype.name == "bfloat16" else 2e-3)
            got, want = got.astype(np.float32), want.astype(np.float32)
        np.testing.assert_allclose(got, want, 10 * tolerance, tolerance)


def _typed(array: Array, type: str) -> Array:
    """ONNX Runtime gives the bytes of an element type that NumPy does not have."""
    return array.view(ml_dtypes.float8_e4m3fn) if type == "tensor(float8e4m3fn)" else array


def reference(model: onnx.ModelProto, feed: dict[str, Array]) -> list[Array]:
    """What ONNX Runtime computes, or ONNX's reference if it refuses."""
    try:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        outputs = zip(session.get_outputs(), session.run(None, feed), strict=True)
        return [_typed(y, info.type) for info, y in outputs]
    except Exception:  # of types that ONNX Runtime does not publish
        return list(ReferenceEvaluator(model).run(None, feed))
