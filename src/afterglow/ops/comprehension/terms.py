"""What the parts of a lowering ask of each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from afterglow.graph import Builder, Value
from afterglow.ops.comprehension.ranges import Range
from afterglow.ops.comprehension.tree import Affine, Call, Expression, Reduction
from afterglow.ops.einsum import Term


class Terms(Protocol):
    """The lowering of a statement, as far as the lowering of its reductions needs it."""

    @property
    def b(self) -> Builder:
        """Where ops are emitted."""

    @property
    def ranges(self) -> Mapping[str, Range]:
        """The values of each index."""

    @property
    def tensors(self) -> Mapping[str, Value]:
        """Operands and temporaries by name."""

    @property
    def fixed(self) -> Mapping[str, int]:
        """The indices that were written out, with their values."""

    def term(self, value: Expression) -> Term:
        """A value, with its axes named."""

    def multiplied(self, left: Term, right: Term) -> Term:
        """The product of two terms, element by element."""

    def depends(self, value: Expression, indices: Sequence[str]) -> bool:
        """Whether a value depends on one of some indices."""

    def affine(self, affine: Affine) -> Affine:
        """An index expression with numbers for the indices that were written out."""

    def meant(self, value: Reduction, total: Term) -> Term:
        """A sum, or a mean if that was asked for."""


def factors_of(value: Expression) -> Iterator[Expression]:
    """The factors of a product."""
    match value:
        case Call("*", (left, right)):
            yield from factors_of(left)
            yield from factors_of(right)
        case _:
            yield value
