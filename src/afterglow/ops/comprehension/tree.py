"""What a text in index notation says, as a tree; every part knows where it stands in the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import TypeAlias

from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Affine:
    """An index expression: a constant plus multiples of indices, in the order of the text."""

    constant: int
    terms: tuple[tuple[str, int], ...]

    @property
    def indices(self) -> tuple[str, ...]:
        """The indices that it depends on."""
        return tuple(name for name, _ in self.terms)

    @property
    def is_bare(self) -> bool:
        """Whether it is one index, unshifted and with step 1."""
        return self.constant == 0 and len(self.terms) == 1 and self.terms[0][1] == 1

    def plus(self, other: Affine, times: int = 1) -> Affine:
        """The sum with a multiple of another one."""
        found = dict(self.terms)
        for name, factor in other.terms:
            found[name] = found.get(name, 0) + times * factor
        terms = tuple((name, factor) for name, factor in found.items() if factor)
        return Affine(self.constant + times * other.constant, terms)

    def __str__(self) -> str:
        parts = [display(n) if c == 1 else f"{c}*{display(n)}" for n, c in self.terms]
        parts += [str(self.constant)] if self.constant or not parts else []
        return " + ".join(parts).replace("+ -", "- ")


@dataclass(frozen=True)
class Number:
    """A literal."""

    value: float
    at: int = field(compare=False)


@dataclass(frozen=True)
class Index:
    """The value of an index."""

    name: str
    at: int = field(compare=False)


@dataclass(frozen=True)
class Access:
    """An element of a tensor."""

    tensor: str
    indices: tuple[Affine, ...]
    at: int = field(compare=False)


@dataclass(frozen=True)
class Call:
    """A function or an operator, by its name in the vocabulary, applied to expressions."""

    function: str
    arguments: tuple[Expression, ...]
    at: int = field(compare=False)


@dataclass(frozen=True)
class Reduction:
    """A sum, product, mean or extreme over all values of some indices."""

    kind: str
    indices: tuple[str, ...]
    body: Expression
    at: int = field(compare=False)


Expression: TypeAlias = Number | Index | Access | Call | Reduction


@dataclass(frozen=True)
class Statement:
    """`target[free] = value`, with the ranges that the text gives for indices."""

    target: str
    free: tuple[str, ...]
    value: Expression
    ranges: tuple[tuple[str, int, int, int], ...]
    """Index, first value, end, and where the text says so."""
    at: int = field(compare=False)


@dataclass(frozen=True)
class Notation:
    """All statements of a text: the last one defines the result, those before it temporaries."""

    text: str
    statements: tuple[Statement, ...]

    @property
    def operands(self) -> tuple[str, ...]:
        """The tensors that no statement defines, in the order in which they are first read."""
        made = {statement.target for statement in self.statements}
        read = (a.tensor for s in self.statements for a in accesses(s.value))
        return tuple(dict.fromkeys(name for name in read if name not in made))


def accesses(expression: Expression) -> Iterator[Access]:
    """Every element that an expression reads."""
    return (part for part in parts(expression) if isinstance(part, Access))


def parts(expression: Expression) -> Iterator[Expression]:
    """An expression and everything in it."""
    yield expression
    match expression:
        case Call(_, arguments):
            for argument in arguments:
                yield from parts(argument)
        case Reduction(_, _, body):
            yield from parts(body)


def indices_of(expression: Expression) -> set[str]:
    """The indices that a value depends on: those that a reduction in it binds do not count."""
    match expression:
        case Index(name):
            return {name}
        case Access(_, indices):
            return {name for affine in indices for name in affine.indices}
        case Call(_, arguments):
            return {name for argument in arguments for name in indices_of(argument)}
        case Reduction(_, bound, body):
            return indices_of(body) - {*bound}
    return set()


def display(index: str) -> str:
    """An index as the text has it: one name may be bound by several reductions."""
    return index.partition("#")[0]
