"""Results of compiled expressions against what the ops say themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.backends.cpu import Target
from afterglow.graph import Op
from afterglow.ops import activation, elementwise, functions, slopes
from afterglow.ops.power import Pow
from afterglow.types import Array
from afterglow.types.dtype import DType, f4e2m1, f32, f64
from tests.backends.cpu.pointwise.harness import Job, evaluated, run_jobs, steps_apart
from tests.backends.cpu.running import HOST

_ACTIVATIONS = {activation.__name__, slopes.__name__}
_SIGN_OF_ZERO_IS_FREE = (elementwise.Max, elementwise.Min, activation.Relu, activation.Clip)


def run_and_check(jobs: Sequence[Job], target: Target = HOST) -> None:
    """Each job's results are those of `evaluate`."""
    for job, found in zip(jobs, run_jobs(jobs, target), strict=True):
        check(job, found)


def allowed(op: Op, dtype: DType) -> int:
    """How many steps of the result's type an op may be off."""
    if isinstance(op, (functions.Tan, functions.Erf)):
        return 4  # `evaluate` itself is off by 3
    if isinstance(op, functions.Tanh):
        return 3  # NumPy's is off by 1.4 and this by 2.5, for the sake of speed
    if type(op).__module__ == functions.__name__ or isinstance(op, Pow):
        return 2 if dtype in (f32, f64) else 1
    if type(op).__module__ in _ACTIVATIONS:
        return 4 if dtype in (f32, f64) else 1
    return 0


def wrong_places(job: Job, found: Array, wanted: Array) -> Array:
    """Where a result is too far from what it should be."""
    if not job.result.is_float:
        return np.flatnonzero(found != wanted)
    limit = allowed(job.op, job.result)
    wide, exact = found.astype(np.float64), wanted.astype(np.float64)
    wrong = steps_apart(found, wanted, job.result) > limit
    signed = job.result is not f4e2m1  # there a zero also stands for NaN, of either sign
    if limit == 0 and signed and not isinstance(job.op, _SIGN_OF_ZERO_IS_FREE):
        wrong |= (np.signbit(wide) != np.signbit(exact)) & ~np.isnan(exact)
    if type(job.op).__module__ in _ACTIVATIONS:
        wrong &= ~(np.abs(wide - exact) <= 1e-6 * np.maximum(1, np.abs(exact)))
    return np.flatnonzero(wrong)


def check(job: Job, found: Array) -> None:
    wanted = evaluated(job)
    with np.errstate(all="ignore"):
        places = wrong_places(job, found, wanted)[:6]
    operands = [None if x is None else x[places] for x in job.operands]
    assert not places.size, f"{job}: of {operands} it is {found[places]}, not {wanted[places]}"
