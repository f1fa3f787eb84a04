"""What counts as agreement: tolerances, or a function of the user's own."""

from __future__ import annotations

import inspect
import runpy
import traceback
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from afterglow.driver.options import PRECISIONS
from afterglow.report.agreement import Difference
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import u4

RTOL = 1e-4
"""The largest error that agrees, by the largest magnitude of the reference's tensor."""
ATOL = 1e-6
"""The largest error that agrees in any case: what is left where large numbers cancel."""
L2_OF_INTEGERS = 0.1
"""The norm of the error by that of the tensor, which agrees in 8 bits: a ratio of 20 dB."""
L2_OF_4_BITS = 0.3
L2_OF_HALVES = 0.02
"""The same for floats of 16 bits: 34 dB."""


class Verdict(Enum):
    """Whether a tensor agrees with the reference."""

    AGREES = "agrees"
    DIFFERS = "differs"
    DRIFTS = "drifts"
    """It is beyond the tolerance, but hardly further off than what its node reads: rounding adds
    up."""
    UNDECIDED = "no numbers"
    """The reference holds nothing but NaN: nothing can agree with that."""


class Judge(Protocol):
    """Decides whether a tensor agrees with the reference."""

    def __call__(
        self, name: str, actual: Array, expected: Array, difference: Difference
    ) -> Verdict:
        """The verdict on one tensor."""

    def __str__(self) -> str: ...


@dataclass(frozen=True)
class Tolerance:
    """The errors that agree: the largest one of a tensor, or its L2 error if that has a limit."""

    rtol: float = RTOL
    atol: float = ATOL
    l2: float | None = None

    def __call__(
        self, name: str, actual: Array, expected: Array, difference: Difference
    ) -> Verdict:
        """Compare the error with the limits. NaN agrees with NaN, but not if there is no number."""
        if difference.mismatch:
            return Verdict.DIFFERS
        if difference.no_numbers and difference.absolute == 0:
            return Verdict.UNDECIDED
        if self.l2 is not None and np.isfinite(difference.absolute):
            within = difference.l2 <= self.l2 or difference.absolute <= self.atol
        else:
            within = difference.absolute <= self.atol + self.rtol * difference.scale
        exact = difference.absolute == 0
        return Verdict.AGREES if within or exact else Verdict.DIFFERS

    def __str__(self) -> str:
        if self.l2 is None:
            return f"tolerance {self.rtol:g} relative, {self.atol:g} absolute"
        decibels = f" ({-20 * np.log10(self.l2):.0f} dB)" if self.l2 > 0 else ""
        return f"tolerance {self.l2:g} relative L2{decibels}, {self.atol:g} absolute"

    def error(self, difference: Difference) -> float:
        """The error that is judged."""
        return difference.relative if self.l2 is None else difference.l2

    def by_atol_alone(self, difference: Difference) -> bool:
        """Whether an error agrees only because it is small in absolute terms."""
        limit = self.rtol if self.l2 is None else self.l2
        return 0 < difference.absolute <= self.atol and self.error(difference) > limit


def tolerance_for(
    precision: str,
    rtol: float | None,
    atol: float | None,
    l2: float | None,
    *,
    quantized: bool = False,
) -> Tolerance:
    """The tolerance that a user gives; in fewer bits than 32, without one, of the L2 error.

    `quantized` says whether the model itself computes in integers.
    """
    if rtol is not None and l2 is not None:
        raise UsageError(
            "a tensor is judged by its largest error or by its relative L2 error, not by both",
            help="give rtol or l2",
        )
    if l2 is None and rtol is None:
        l2 = _l2_of(precision) or (L2_OF_INTEGERS if quantized else None)
    return Tolerance(RTOL if rtol is None else rtol, ATOL if atol is None else atol, l2)


def _l2_of(precision: str) -> float | None:
    """The relative L2 error that a precision makes in good models; None for that of f32."""
    chosen = PRECISIONS.get(precision)
    if chosen is None or precision == "float32":
        return None
    if not chosen.has_integers:
        return L2_OF_HALVES
    return L2_OF_4_BITS if chosen.weights is u4 else L2_OF_INTEGERS


@dataclass(frozen=True)
class Check:
    """A function of the user's own: `check(actual, expected)`, or with the tensor's name third."""

    function: Callable[..., Any]
    label: str = "check"
    takes_name: bool = False

    @staticmethod
    def of(function: Callable[..., Any], label: str = "") -> Check:
        """A function that takes two or three arguments."""
        label = label or getattr(function, "__name__", "check")
        parameters = inspect.signature(function).parameters.values()
        fixed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        count = sum(parameter.kind in fixed for parameter in parameters)
        if count not in (2, 3):
            raise UsageError(
                f"{label} takes {count} arguments, but is called with 2 or 3",
                help="write def check(actual, expected): or def check(actual, expected, name):",
            )
        return Check(function, label, count == 3)

    @staticmethod
    def load(path: Path) -> Check:
        """The function `check` of a Python file."""
        try:
            found = runpy.run_path(str(path)).get("check")
        except OSError as error:
            raise UsageError(f"cannot read {path}: {(error.strerror or '').lower()}") from None
        except Exception as error:  # of the user's own code: any
            raise _failed(f"{path} cannot be run", error) from None
        if not callable(found):
            raise UsageError(
                f"{path} defines no function check",
                help="write def check(actual, expected): return True if they agree",
            )
        return Check.of(found, f"check of {path.name}")

    def __call__(
        self, name: str, actual: Array, expected: Array, difference: Difference
    ) -> Verdict:
        """What the function says."""
        arguments = (actual, expected, name) if self.takes_name else (actual, expected)
        try:
            agrees = self.function(*arguments)
        except Exception as error:  # of the user's own code: any
            raise _failed(f"{self.label} failed on tensor {name!r}", error) from None
        if not isinstance(agrees, (bool, np.bool_)):
            raise UsageError(
                f"{self.label} returned {agrees!r} for tensor {name!r}",
                help="return True if the tensors agree, and False if not",
            )
        return Verdict.AGREES if agrees else Verdict.DIFFERS

    def __str__(self) -> str:
        return self.label


def _failed(what: str, error: Exception) -> UsageError:
    """The error about code of the user's own, with the line that it failed at."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"in {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
    return UsageError(f"{what}: {type(error).__name__}: {error}", where=where)
