"""Checks of ops that users declare: of the types that they infer, and the arrays they return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afterglow.graph.op import Op
from afterglow.support.errors import AfterglowError, EvaluationError, TypeRuleError
from afterglow.types import Array, TensorType

_WRITES = "operands belong to others: write into a copy of them, x = x.copy()"


def own_types(op: Op, operands: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
    """The types of the results, by a rule that may be wrong."""
    try:
        found: Any = op.infer(*operands)
    except AfterglowError:
        raise
    except Exception as error:  # whatever the code of a stranger raises
        raise TypeRuleError(f"infer failed: {_described(error)}") from error
    types: tuple[Any, ...] = found if isinstance(found, tuple) else (found,)
    for type in types:
        if not isinstance(type, TensorType):
            raise TypeRuleError(f"infer must return a TensorType or a tuple of them, got {found!r}")
    return types


def own_results(
    op: Op, operands: Sequence[Array | None], types: Sequence[TensorType]
) -> tuple[Array, ...]:
    """What an op computes of arrays, if that is what its type rule says."""
    try:
        found: Any = op.evaluate(*map(_read_only, operands))
    except AfterglowError:
        raise
    except Exception as error:  # whatever the code of a stranger raises
        what = f"{op.mnemonic}: evaluate failed: {_described(error)}"
        raise EvaluationError(what, help=_WRITES if "read-only" in what else "") from error
    results = found if isinstance(found, tuple) else (found,)
    if len(results) != len(types):
        raise EvaluationError(
            f"{op.mnemonic}: evaluate returned {len(results)} results, infer says {len(types)}"
        )
    return tuple(
        _checked(op, np.asarray(result), type) for result, type in zip(results, types, strict=True)
    )


def _read_only(operand: Array | None) -> Array | None:
    """An operand as an op may have it: an op that writes into it would change a caller's array."""
    if not isinstance(operand, np.ndarray):
        return operand
    view = operand.view()
    view.flags.writeable = False
    return view


def _checked(op: Op, result: Array, type: TensorType) -> Array:
    """A result that fits its type, in memory of its own if it is an operand, or a part of one."""
    fits = result.dtype == type.dtype.numpy
    narrow = type.dtype.is_float and type.dtype.bits < 32 and result.dtype == np.float32
    if result.shape == type.shape and (fits or narrow):
        return result if result.flags.writeable else result.copy()
    text = f"{result.dtype}[{', '.join(map(str, result.shape))}]"
    wanted = type.dtype.numpy.name
    raise EvaluationError(
        f"{op.mnemonic}: evaluate returned {text}, infer says {type}",
        help=f"return result.astype(np.{wanted})" if result.shape == type.shape else "",
    )


def _described(error: Exception) -> str:
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first}".rstrip(": ")
