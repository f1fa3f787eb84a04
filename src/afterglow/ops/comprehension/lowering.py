"""Statements in index notation from ops that have fast kernels.

Sums of products become matrix products, windows convolutions and pools. A reduction over anything
else is a reduction of an element-wise expression, which the compiler fuses; a small window that is
neither is written out, element by element, as a stencil is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product

import numpy as np

from afterglow.graph import Builder, Op, Value
from afterglow.ops.comprehension.contraction import contracted
from afterglow.ops.comprehension.ranges import Range
from afterglow.ops.comprehension.tree import (
    Access,
    Affine,
    Call,
    Expression,
    Index,
    Number,
    Reduction,
    Statement,
    accesses,
    indices_of,
    parts,
)
from afterglow.ops.comprehension.vocabulary import REDUCTIONS, apply_function
from afterglow.ops.comprehension.windows import as_convolution, as_pool
from afterglow.ops.einsum import Labels, Term
from afterglow.ops.elementwise import Add, Max, Min, Mul
from afterglow.ops.indexing import Gather, Iota
from afterglow.ops.movement import Expand, Reshape, Slice
from afterglow.ops.reduction import Reduction as ReductionOp
from afterglow.support.errors import UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import DType

_UNROLLED = 64
"""Elements of a window that are written out at most; more are gathered."""
_MOST_GATHERED = 1 << 24
"""Elements along an axis of which copies are made."""
_COMBINE: dict[str, Op] = {"sum": Add(), "mean": Add(), "prod": Mul(), "max": Max(), "min": Min()}


@dataclass(frozen=True)
class StatementLowering:
    """Emits the ops of one statement; `fixed` has the indices that were written out."""

    b: Builder
    statement: Statement
    ranges: Mapping[str, Range]
    tensors: Mapping[str, Value]
    number: DType
    fixed: Mapping[str, int]

    def result(self) -> Value:
        """The tensor that the statement defines."""
        term = self.term(self.statement.value)
        free = self.statement.free
        own = term.ordered(self.b, tuple(name for name in free if name in term.labels))
        shape = tuple(self.ranges[name].extent for name in free)
        if own.labels == free:
            return own.value
        return self.b.emit(Expand(shape), own.spread(self.b, free))

    @cached_property
    def order(self) -> Labels:
        """The axes of intermediate results: the one that most operands have last is innermost."""
        bound = (p.indices for p in parts(self.statement.value) if isinstance(p, Reduction))
        names = (*self.statement.free, *(name for names in bound for name in names))
        votes = dict.fromkeys(names, 0)
        for access in accesses(self.statement.value):
            for name, factor in access.indices[-1].terms[:1] if access.indices else ():
                votes[name] += factor == 1
        for name in self.statement.free[-1:]:
            votes[name] += 1
        innermost = max(names, key=lambda name: votes[name], default="")
        return (*(name for name in names if name != innermost), innermost)

    def term(self, value: Expression) -> Term:
        """A value, with its axes named."""
        match value:
            case Number(number):
                return self._scalar(number)
            case Index(name):
                return self._counted(name)
            case Access():
                return self._read(value)
            case Call("pow", (base, Number(2))):
                squared = self.term(base)
                return Term(self.b.emit(Mul(), squared.value, squared.value), squared.labels)
            case Call(function, arguments):
                return self._applied(function, [self.term(each) for each in arguments])
            case Reduction():
                return self._reduced(value)

    def _scalar(self, number: float) -> Term:
        return Term(self.b.constant(np.array(number, self.number.numpy), "scalar"), ())

    def _counted(self, name: str) -> Term:
        if name in self.fixed:
            return self._scalar(self.fixed[name])
        counts = self.b.emit(Iota((self.ranges[name].extent,), 0, self.number))
        own = Term(counts, (name,))
        first = self.ranges[name].first
        return self._applied("+", [own, self._scalar(first)]) if first else own

    def _applied(self, function: str, arguments: Sequence[Term]) -> Term:
        """A function of terms, whose axes are aligned first."""
        axes = {term.labels for term in arguments if term.labels}
        labels = axes.pop() if len(axes) == 1 else self._ordered(*axes)
        values = [self._aligned(term, labels) if term.labels else term.value for term in arguments]
        result: Value = apply_function(function, self.b.emit, *values)
        return Term(result, labels)

    def _ordered(self, *labels: Labels) -> Labels:
        return tuple(name for name in self.order if any(name in each for each in labels))

    def _aligned(self, term: Term, labels: Labels) -> Value:
        own = term.ordered(self.b, tuple(name for name in labels if name in term.labels))
        kept = self._with_reduced_axes(own.value, tuple(own.extents.get(n, 1) for n in labels))
        return own.spread(self.b, labels) if kept is None else kept

    def _with_reduced_axes(self, value: Value, shape: tuple[int, ...]) -> Value | None:
        """A reduction with axes of extent 1 for those that it reduces, if they make this shape."""
        node = value.producer
        if node is None or not isinstance(node.op, ReductionOp) or node.op.keepdims:
            return None
        op = replace(node.op, keepdims=True)
        (x,) = node.op.required_of(node.operands)
        kept = tuple(1 if axis in op.axes else n for axis, n in enumerate(x.type.shape))
        return self.b.emit(op, x) if kept == shape else None

    def affine(self, affine: Affine) -> Affine:
        """An index expression with numbers for the indices that were written out."""
        constant = affine.constant
        constant += sum(factor * self.fixed[n] for n, factor in affine.terms if n in self.fixed)
        return Affine(constant, tuple(term for term in affine.terms if term[0] not in self.fixed))

    def _read(self, access: Access) -> Term:
        """The part of a tensor that an access reads."""
        indices = [self.affine(affine) for affine in access.indices]
        value = self.sliced(self.tensors[access.tensor], indices)
        labels: list[str] = []
        for affine in indices:
            if len(affine.terms) > 1:
                places = self.b.constant(self._places(affine), "places")
                value = self.b.emit(Gather(len(labels)), value, places)
            elif not affine.terms:
                shape = value.type.shape
                kept = (*shape[: len(labels)], *shape[len(labels) + 1 :])
                value = self.b.emit(Reshape(kept), value)
            labels += affine.indices
        return Term(value, tuple(labels)).diagonal(self.b)

    def sliced(self, value: Value, indices: Sequence[Affine]) -> Value:
        """A tensor without what lies outside of the ranges of single indices."""
        axes = [
            self._slice(affine, extent)
            for affine, extent in zip(indices, value.type.shape, strict=True)
        ]
        if all(axis == (0, n, 1) for axis, n in zip(axes, value.type.shape, strict=True)):
            return value
        starts, extents, steps = zip(*axes, strict=True)
        return self.b.emit(Slice(starts, extents, steps), value)

    def _slice(self, affine: Affine, extent: int) -> tuple[int, int, int]:
        match affine.terms:
            case ():
                return affine.constant, 1, 1
            case ((name, step),):
                own = self.ranges[name]
                return affine.constant + step * own.first, own.extent, step
        return 0, extent, 1

    def _places(self, affine: Affine) -> Array:
        """The values of an index expression for all values of its indices."""
        count = math.prod(self.ranges[name].extent for name in affine.indices)
        if count > _MOST_GATHERED:
            raise UnsupportedError(
                f"comprehension: index {affine} has {count:,} values, which would be gathered",
                help="write a sum of products, or the maximum or mean of windows",
            )
        total = np.array(affine.constant)
        for name, factor in affine.terms:
            own = self.ranges[name]
            total = total[..., None] + factor * np.arange(own.first, own.first + own.extent)
        return total.astype(np.int64)

    def _reduced(self, value: Reduction) -> Term:
        indices = tuple(name for name in value.indices if name not in self.fixed)
        windowed = [name for name in indices if name in self._windowed(value.body)]
        if windowed:
            found = as_convolution(self, value) or as_pool(self, value)
            if found is not None:
                return found
            if math.prod(self.ranges[name].extent for name in windowed) <= _UNROLLED:
                return self._written_out(value, windowed)
        if value.kind in ("sum", "mean"):
            found = contracted(self, value.body, indices)
            if found is not None:
                return self.meant(value, found)
        body = self._spread(self.term(value.body), indices)
        axes = tuple(body.labels.index(name) for name in indices)
        kept = tuple(name for name in body.labels if name not in indices)
        return Term(self.b.emit(REDUCTIONS[value.kind](axes), body.value), kept)

    def _windowed(self, body: Expression) -> set[str]:
        """The indices that share an axis of a tensor with others."""
        found = (self.affine(a).indices for access in accesses(body) for a in access.indices)
        return {name for names in found if len(names) > 1 for name in names}

    def _spread(self, term: Term, indices: Labels) -> Term:
        """A term repeated along the indices that it does not depend on."""
        missing = tuple(name for name in indices if name not in term.labels)
        if not missing:
            return term
        labels = self._ordered(term.labels, missing)
        shape = tuple(self.ranges[name].extent for name in labels)
        return Term(self.b.emit(Expand(shape), self._aligned(term, labels)), labels)

    def meant(self, value: Reduction, total: Term) -> Term:
        """A sum, or a mean if that was asked for."""
        if value.kind == "sum":
            return total
        count = math.prod(self.ranges[name].extent for name in value.indices)
        return self._applied("*", [total, self._scalar(1 / count)])

    def _written_out(self, value: Reduction, windowed: Sequence[str]) -> Term:
        """A reduction over few elements, combined pair by pair."""
        rest = tuple(n for n in value.indices if n not in windowed and n not in self.fixed)
        kind = "sum" if value.kind == "mean" else value.kind
        inner = Reduction(kind, rest, value.body, value.at) if rest else value.body
        terms = [lowering.term(inner) for lowering in self._each(windowed)]
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2], strict=False)
            combined = [self._combined(value.kind, *pair) for pair in pairs]
            terms = combined + terms[len(combined) * 2 :]
        return self.meant(value, terms[0]) if value.kind == "mean" else terms[0]

    def _combined(self, kind: str, left: Term, right: Term) -> Term:
        labels = left.labels if left.labels == right.labels else self.order
        labels = tuple(name for name in labels if name in left.labels + right.labels)
        pair = self._aligned(left, labels), self._aligned(right, labels)
        return Term(self.b.emit(_COMBINE[kind], *pair), labels)

    def _each(self, names: Sequence[str]) -> Iterator[StatementLowering]:
        """The lowering with each combination of values of some indices."""
        runs = (range(r.first, r.first + r.extent) for r in (self.ranges[n] for n in names))
        for values in product(*runs):
            fixed = {**self.fixed, **dict(zip(names, values, strict=True))}
            yield StatementLowering(
                self.b, self.statement, self.ranges, self.tensors, self.number, fixed
            )

    def multiplied(self, left: Term, right: Term) -> Term:
        """The product of two terms."""
        return self._applied("*", [left, right])

    def depends(self, value: Expression, indices: Sequence[str]) -> bool:
        """Whether a value depends on one of some indices."""
        return not indices_of(value).isdisjoint(indices)
