"""Ranged extents as values: their expressions, computed where a function begins."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter.arithmetic import quotient, remainder, select
from afterglow.backends.cpu.llvm.emitter.code import Code
from afterglow.backends.cpu.llvm.emitter.value import Value
from afterglow.types.extent import Atom, Dim, Extreme, Quotient, RangedExtent, smallest


def extent_value(code: Code, extent: RangedExtent) -> Value:
    """The value of an extent in the run at hand, as an index; computed once in a function."""
    if extent not in code.extents:
        with code.at_entry():
            code.extents[extent] = _sum(code, extent)
    return code.extents[extent]


def _sum(code: Code, extent: RangedExtent) -> Value:
    total = _number(code, 0)
    for monomial, factor in extent.terms:
        product = _number(code, factor)
        for atom in monomial:
            product = _known_atom(code, atom) * product
        total = product + total
    return total


def _known_atom(code: Code, atom: Atom) -> Value:
    """The value of an atom, which many extents may have in them."""
    if atom not in code.extents:
        code.extents[atom] = _atom(code, atom)
    return code.extents[atom]


def _number(code: Code, extent: int) -> Value:
    return Value.of(code, code.index_type, extent)


def _atom(code: Code, atom: Atom) -> Value:
    if isinstance(atom, Dim):
        value = code.dim_value(atom)
        return quotient(value, atom.step) if atom.step > 1 else value
    first, second = (_number(code, part) for part in atom.parts)
    if isinstance(atom, Extreme):
        return select(first > second if atom.larger else first < second, first, second)
    if smallest(atom.parts[0]) >= 0:
        return (quotient if isinstance(atom, Quotient) else remainder)(first, second)
    # The machine rounds towards zero: a dividend that is not negative makes up for it.
    multiple = -(smallest(atom.parts[0]) // smallest(atom.parts[1]))
    raised = first + second * multiple
    if isinstance(atom, Quotient):
        return quotient(raised, second) - multiple
    return remainder(raised, second)
