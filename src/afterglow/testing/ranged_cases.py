"""Cases of ops for ranges: extents of operands made dimensions, and the runs that are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any

import numpy as np

from afterglow.graph import Builder, Constant, Function, Op, Subgraph, Value, run_op
from afterglow.graph.dims import dims_of_op
from afterglow.graph.function import bind_op
from afterglow.graph.op import result_types
from afterglow.support.errors import TypeRuleError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.testing.case_functions import owned
from afterglow.testing.cases import Case
from afterglow.types import Array, TensorType
from afterglow.types.dtype import boolean
from afterglow.types.extent import Dim, Extents, dims_of, ranged
from afterglow.types.extent.samples import sample_extents

_SHAPES = ("shape", "sizes", "extents", "length")
"""Attributes of ops that state extents: numbers in them become dimensions too."""
CARRIER = "extents"
"""The name of an input that only has dimensions which no operand has."""


@dataclass(frozen=True)
class RangedCase:
    """A case in which some extents of the operands are dimensions."""

    case: Case
    op: Op
    types: tuple[TensorType | None, ...]

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dimensions, by name."""
        return dims_of(*self._extents(), *map(ranged, dims_of_op(self.op)))

    @property
    def carrier(self) -> TensorType | None:
        """The type of a further input that tells dimensions which no operand tells."""
        missing = [dim for dim in self.dims if dim not in dims_of(*self._extents())]
        return TensorType(boolean, tuple(map(ranged, missing))) if missing else None

    def _extents(self) -> list[int]:
        return [n for type in self.types if type is not None for n in type.shape]

    def runs(self) -> list[Extents]:
        """The extents that are compared."""
        return sample_extents(self.dims)

    def function(self) -> Function:
        """The op alone: its operands are inputs, its results outputs."""
        f = Function("main")
        operands = [None if t is None else f.input(f"x{i}", t) for i, t in enumerate(self.types)]
        if self.carrier is not None:
            f.input(CARRIER, self.carrier)
        for index, value in enumerate(Builder(f).emit_all(owned(self.op, f), *operands)):
            f.output(f"y{index}", value)
        return f

    def bound(self, extents: Extents) -> Case:
        """The exact case of a run; arrays that the case gives are cut to its extents."""
        types = tuple(None if type is None else type.bind(extents) for type in self.types)
        given = {
            index: array[tuple(map(slice, type.shape))]
            for index, array in self.case.given.items()
            if (type := types[index]) is not None
        }
        return replace(self.case, op=bind_op(self.op, extents), types=types, given=given)

    def inputs(self, extents: Extents) -> list[Array | None]:
        """Operands of a run: those of the largest run, cut to its extents."""
        whole = self.case.inputs()
        bound = self.bound(extents)
        pairs = zip(whole, bound.types, strict=True)
        return [
            None if x is None or type is None else np.array(_cut(x, type), order="C")
            for x, type in pairs
        ]

    def wanted(self, extents: Extents) -> tuple[Array, ...]:
        """The results of a run, by the definition of the op."""
        bound = self.bound(extents)
        return run_op(bound.op, self.inputs(extents), bound.results())

    def __str__(self) -> str:
        ranges = ", ".join(dim.with_bounds for dim in self.dims)
        return f"{replace(self.case, op=self.op, types=self.types, given={})} for {ranges}"


def ranged_cases(case: Case) -> Iterator[RangedCase]:
    """The ways to make a case ranged that the op accepts, the one with most dimensions first.

    If there is none, the error about the first way is raised.
    """
    problem: Exception | None = None
    found = False
    for made in _attempts(case):
        try:
            made.op.infer(*made.types)
        except (TypeRuleError, ValueError) as error:
            problem = problem or error
        else:
            found = True
            yield made
    if not found:
        raise problem or TypeRuleError("it has no extent that could be ranged")


def _attempts(case: Case) -> Iterator[RangedCase]:
    """Ways to make a case ranged: all extents, those of the first operand alone, one by one.

    First they may be any from 1, then only large ones.
    """
    shapes = [type.shape for type in case.types if type is not None]
    numbers = sorted({n for n in (*chain(*shapes), *_stated(case.op)) if n > 1})
    own = [n for n in numbers if n in chain(*shapes[:1]) and n not in chain(*shapes[1:])]
    choices = [numbers, own, *([n] for n in numbers)]
    choices = [each for place, each in enumerate(choices) if each not in choices[:place]]
    for least in (lambda n: 1, lambda n: max(1, n - 3)):
        for chosen in choices:
            dims = {n: ranged(Dim(f"d{n}", least(n), n)) for n in chosen}
            yield from _made(case, dims)


def _made(case: Case, dims: Mapping[int, int]) -> Iterator[RangedCase]:
    if not dims:
        return
    try:
        types = tuple(
            None if t is None else replace(t, shape=_named(t.shape, dims)) for t in case.types
        )
    except ValueError:  # there is a scale for each index of an axis
        return
    with_names = _named_op(case.op, dims)
    if with_names != case.op:
        yield RangedCase(case, with_names, types)
    if dims_of(*(n for type in types if type is not None for n in type.shape)):
        yield RangedCase(case, case.op, types)


def _stated(op: Op) -> list[int]:
    """The extents that an op states."""
    stated = [getattr(op, name, ()) for name in _SHAPES]
    return [n for value in stated for n in (value if isinstance(value, tuple) else (value,))]


def _named_op(op: Op, dims: Mapping[int, int]) -> Op:
    """An op with dimensions in the extents that it states, and in the functions that it carries."""
    named: dict[str, Any] = {}
    for field in fields(op):  # type: ignore[arg-type]  # ops are dataclasses
        value = getattr(op, field.name)
        if isinstance(value, Subgraph):
            named[field.name] = Subgraph(_named_function(value.function, dims))
        elif field.name in _SHAPES and isinstance(value, tuple):
            named[field.name] = _named(value, dims)
        elif field.name in _SHAPES:
            named[field.name] = dims.get(value, value)
    return replace(op, **named)  # type: ignore[type-var]  # as above


def _named_function(function: Function, dims: Mapping[int, int]) -> Function:
    """A copy of a function with dimensions in its types, which are inferred anew."""
    copy = Function(function.name)
    b = Builder(copy)
    values: dict[Value, Value] = {}
    for given in function.inputs:
        type = replace(given.type, shape=_named(given.type.shape, dims))
        values[given] = copy.input(given.name, type)

    def found(value: Value) -> Value:
        return b.constant(value.data, value.name) if isinstance(value, Constant) else values[value]

    for node in function.nodes:
        operands = [None if value is None else found(value) for value in node.operands]
        made = b.emit_all(_named_op(node.op, dims), *operands)
        values.update(zip(node.results, made, strict=True))
    for output in function.outputs:
        copy.output(output.name, found(output.value))
    return copy


def _named(extents: Sequence[int], dims: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(dims.get(n, n) for n in extents)


def _cut(array: Array, type: TensorType) -> Array:
    return array[tuple(map(slice, type.shape))]


def results_of(case: RangedCase) -> tuple[TensorType, ...]:
    """The types of the results, as the op infers them from ranged types."""
    return result_types(case.op.infer(*case.types))
