"""Every element-wise op, on every element type that it takes, against its own `evaluate`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from afterglow.backends.cpu.pointwise import has_expression, supports
from afterglow.graph import OPS, Op
from afterglow.graph.op import result_types
from afterglow.ops import activation, slopes, strings
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import BitCast, IsInf, Mod, Where
from afterglow.ops.fixed_point import ByteTable
from afterglow.support.errors import TypeRuleError
from afterglow.types import TensorType
from afterglow.types.dtype import DType, boolean, f16, f32, f64, i32, u8
from tests.backends.cpu.pointwise.checking import run_and_check
from tests.backends.cpu.pointwise.harness import Job
from tests.backends.cpu.pointwise.samples import DTYPES_HELD, pairs, sample

_STRINGS = {c for c in OPS.values() if c.__module__ == strings.__name__}
_TESTED_APART = {BitCast, ByteTable, Cast, Where}
_CLASSES = [c for c in OPS.values() if c.elementwise and c not in _STRINGS | _TESTED_APART]
_OPS = [
    *(op_class() for op_class in _CLASSES),
    Mod(truncated=True),
    IsInf(positive=False),
    IsInf(negative=False),
    IsInf(positive=False, negative=False),
    activation.LeakyRelu(0.3),
    activation.HardSigmoid(0.3, 0.1),
    activation.Swish(1.7),
    activation.Gelu(approximate=True),
    slopes.GeluSlope(approximate=True),
    slopes.SwishSlope(1.7),
    activation.Elu(0.7),
    activation.Celu(0.7),
    activation.Celu(-0.7),
    activation.ThresholdedRelu(0.3),
    activation.Shrink(0.3, 0.2),
    activation.Clip(low=1.0),
    activation.Clip(high=3.0),
    activation.Clip(1.0, 3.0),
    activation.Clip(3.0, 1.0),
]
_KINDS = ("scalars", "constants")


def test_every_op_has_an_expression() -> None:
    lacking = [c for c in OPS.values() if c.elementwise and not has_expression(c)]
    assert set(lacking) == _STRINGS


def jobs_of(op: Op) -> Iterator[Job]:
    rng = np.random.default_rng(0)
    for dtype in DTYPES_HELD:
        result = _result(op, dtype)
        if result is None or not supports(op, result, [dtype] * len(op.operand_names)):
            continue
        single = len(op.operand_names) == 1
        operands = (sample(dtype, rng),) if single else pairs(dtype, rng)
        yield Job(op, result, operands)
        if dtype in (f32, f64, i32, boolean):
            yield Job(op, result, operands, vectors=False)


def _result(op: Op, dtype: DType) -> DType | None:
    types = [TensorType(dtype, (1,))] * len(op.operand_names)
    try:
        (result,) = result_types(op.infer(*types))
    except TypeRuleError:
        return None
    return result.dtype


@pytest.mark.parametrize("op", _OPS, ids=str)
def test_expression_is_what_evaluate_says(op: Op) -> None:
    run_and_check(list(jobs_of(op)))


@pytest.mark.parametrize("dtype", [f32, f16, i32, u8], ids=str)
@pytest.mark.parametrize("op", [op for op in _OPS if len(op.operand_names) == 2], ids=str)
def test_scalars_and_constants_stand_beside_vectors(op: Op, dtype: DType) -> None:
    result = _result(op, dtype)
    if result is None:
        pytest.skip("the op does not take the type")
    x = sample(dtype, np.random.default_rng(0))
    numbers = [np.full(x.size, number, dtype.numpy) for number in (0, 1, 2, 3, 7)]
    jobs = [Job(op, result, (x, n), **{kind: (1,)}) for n in numbers for kind in _KINDS]
    jobs += [Job(op, result, (n, x), scalars=(0,)) for n in numbers]
    run_and_check(jobs)
