"""Cases of ops as functions that a backend compiles, in the forms in which models have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace

from afterglow.graph import Builder, Function, Op, Subgraph, Value
from afterglow.ops.elementwise import Neg
from afterglow.support.lazy_dataclass import dataclass
from afterglow.testing.cases import Case
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32, f64, i32, i64

_NEGATED = (f32, f64, i32, i64)
"""Element types that are negated to have an op between two others."""


@dataclass(frozen=True)
class CaseFunction:
    """A function that computes a case in some form, what it is run on, and what it must give."""

    function: Function
    inputs: list[Array]
    wanted: tuple[Array, ...]


def plain(case: Case) -> CaseFunction:
    """The op alone: its operands are inputs, its results outputs."""
    f = Function("main")
    operands = [None if t is None else f.input(f"x{i}", t) for i, t in enumerate(case.types)]
    _return(f, Builder(f).emit_all(owned(case.op, f), *operands))
    return CaseFunction(f, _given(case.inputs()), case.wanted())


def with_constants(case: Case) -> CaseFunction | None:
    """The op with every operand but the first known when it is compiled; None if it has one."""
    if sum(type is not None for type in case.types) < 2:
        return None
    f = Function("main")
    b = Builder(f)
    arrays = case.inputs()
    first = next(i for i, array in enumerate(arrays) if array is not None)
    operands = [
        None
        if a is None
        else f.input("x", TensorType.of(a))
        if i == first
        else b.constant(a, f"c{i}")
        for i, a in enumerate(arrays)
    ]
    _return(f, b.emit_all(owned(case.op, f), *operands))
    return CaseFunction(f, _given(arrays)[:1], case.wanted())


def lowered(case: Case) -> CaseFunction | None:
    """What the op is lowered to; None if it is not, or declines for these operands."""
    if not case.decomposes:
        return None
    f = Function("main")
    operands = [None if t is None else f.input(f"x{i}", t) for i, t in enumerate(case.types)]
    results = owned(case.op, f).lower(Builder(f), *operands)
    if results is None:
        return None
    _return(f, results if isinstance(results, tuple) else (results,))
    return CaseFunction(f, _given(case.inputs()), case.wanted())


def in_place(case: Case) -> CaseFunction | None:
    """The op between negations, so that it finds operands in memory that it may overwrite."""
    f = Function("main")
    b = Builder(f)
    places = _overwritable(case)
    if not places:
        return None
    arrays = case.inputs()
    operands: list[Value | None] = []
    for i, type in enumerate(case.types):
        value = None if type is None else f.input(f"x{i}", type)
        operands.append(b.emit(Neg(), value) if i in places else value)
    results = b.emit_all(owned(case.op, f), *operands)
    _return(f, [b.emit(Neg(), r) if r.type.dtype in _NEGATED else r for r in results])
    inputs = [-a if i in places and a is not None else a for i, a in enumerate(arrays)]
    pairs = zip(case.wanted(), results, strict=True)
    wanted = tuple(-w if _is_negated(r.type) else w for w, r in pairs)
    return CaseFunction(f, _given(inputs), wanted)


FORMS: Mapping[str, Callable[[Case], CaseFunction | None]] = {
    "with constants": with_constants,
    "lowered": lowered,
    "in place": in_place,
}
"""Further forms of a case by name; None for a case that does not have a form."""


def owned(op: Op, f: Function) -> Op:
    """The op with functions of its own, which compiling may change."""
    own = {
        field.name: Subgraph(value.function.clone(f"{field.name}.{value}", f.module))
        for field in fields(op)  # type: ignore[arg-type]  # ops are dataclasses
        if isinstance(value := getattr(op, field.name), Subgraph)
    }
    return replace(op, **own) if own else op  # type: ignore[type-var]  # as above


def _overwritable(case: Case) -> set[int]:
    names = zip(case.op.operand_names, case.types, strict=False)
    return {
        i
        for i, (name, type) in enumerate(names)
        if name in case.op.inplace and type is not None and _is_negated(type)
    }


def _is_negated(type: TensorType) -> bool:
    return type.dtype in _NEGATED


def _return(f: Function, values: Iterable[Value]) -> None:
    for index, value in enumerate(values):
        f.output(f"y{index}", value)


def _given(arrays: Sequence[Array | None]) -> list[Array]:
    return [array for array in arrays if array is not None]
