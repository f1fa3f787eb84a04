"""ONNX's own backend suite: every case of the installed package, with its expected outputs."""

from __future__ import annotations

import contextlib
import io
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.loader import load_model_tests

from afterglow.support.lazy_dataclass import dataclass

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
_DRAWN = (
    "the suite draws its expected values with np.random.binomial, and says itself that "
    "implementations differ, even with a seed"
)
_MASKED = (
    "the suite draws its mask from NumPy's Mersenne Twister, one number after the other; ours are "
    "Philox's, which every backend can compute alike"
)
GAPS = {
    **{
        f"test_bernoulli{kind}{expanded}": _DRAWN
        for kind in ("", "_double", "_seed")
        for expanded in ("", "_expanded")
    },
    **{
        f"test_training_dropout{kind}": _MASKED
        for kind in ("_default", "_default_mask", "", "_mask")
    },
}
"""Cases that no backend passes, with the reason."""


@dataclass(frozen=True)
class SuiteCase:
    """A model, inputs and expected outputs, and how closely they must agree."""

    name: str
    model: onnx.ModelProto
    data_sets: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


@cache
def node_cases() -> dict[str, Any]:
    """The generated cases of single nodes."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        return {case.name: case for case in collect_testcases(None)}


@cache
def folder_cases() -> dict[str, Any]:
    """The cases that are stored as folders."""
    kinds = ("simple", "pytorch-converted", "pytorch-operator")
    return {case.name: case for kind in kinds for case in load_model_tests(kind=kind)}


def light_cases() -> dict[str, Path]:
    """Whole networks without stored weights."""
    return {f"test_{path.stem}": path for path in sorted(LIGHT.glob("*.onnx"))}


def names() -> list[str]:
    """Every case, by name."""
    return [*node_cases(), *folder_cases(), *light_cases()]


def load(name: str) -> SuiteCase:
    """Read one case."""
    if name in node_cases():
        case = node_cases()[name]
        sets = [([_value(x) for x in i], [_value(x) for x in o]) for i, o in case.data_sets]
        return SuiteCase(name, case.model, sets, case.rtol, case.atol)
    if name in folder_cases():
        case = folder_cases()[name]
        folder = Path(case.model_dir)
        model = onnx.load(folder / "model.onnx")
        sets = [_stored(path, model) for path in sorted(folder.glob("test_data_set_*"))]
        return SuiteCase(name, model, sets, case.rtol, case.atol)
    return _light(name, light_cases()[name])


def _light(name: str, path: Path) -> SuiteCase:
    model = onnx.load(path)
    constants = {tensor.name for tensor in model.graph.initializer}
    info = next(i for i in model.graph.input if i.name not in constants)
    shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
    size = int(np.prod(shape))
    ramp = (np.arange(size) / size).astype(np.float32).reshape(shape)
    expected = _read(path.with_name(f"{path.stem}_output_0.pb"), onnx.TensorProto())
    return SuiteCase(name, model, [([ramp], [expected])], 1e-3, 1e-7)


def _stored(folder: Path, model: onnx.ModelProto) -> tuple[list[Any], list[Any]]:
    inputs = [
        _read(folder / f"input_{index}.pb", _proto(info))
        for index, info in enumerate(model.graph.input)
        if (folder / f"input_{index}.pb").exists()
    ]
    outputs = [
        _read(folder / f"output_{index}.pb", _proto(info))
        for index, info in enumerate(model.graph.output)
    ]
    return inputs, outputs


def _proto(info: onnx.ValueInfoProto) -> Any:
    if info.type.HasField("sequence_type"):
        return onnx.SequenceProto()
    return onnx.OptionalProto() if info.type.HasField("optional_type") else onnx.TensorProto()


def _read(path: Path, proto: Any) -> Any:
    proto.ParseFromString(path.read_bytes())
    return _value(proto)


def _value(x: Any) -> Any:
    match x:
        case onnx.TensorProto():
            return numpy_helper.to_array(x)
        case onnx.SequenceProto():
            return numpy_helper.to_list(x)
        case onnx.OptionalProto():
            return numpy_helper.to_optional(x)
    return x


def agree(want: Any, got: Any, rtol: float, atol: float) -> None:
    """Raise AssertionError unless both are the same within tolerance."""
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for one, other in zip(want, got, strict=True):
            agree(one, other, rtol, atol)
        return
    if want is None:
        assert got is None
        return
    want, got = np.asarray(want), np.asarray(got)
    assert got.shape == want.shape
    if want.dtype == object or want.dtype.kind in "US":
        np.testing.assert_array_equal(got.astype(str), want.astype(str))
        return
    assert got.dtype == want.dtype
    if want.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)  # two units in the last place, as the suite's own runner
    if want.dtype.kind not in "fciub":
        want, got = want.astype(np.float32), got.astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
