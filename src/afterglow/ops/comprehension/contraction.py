"""Sums of products as matrix products, two factors at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from afterglow.ops.comprehension.terms import Terms, factors_of
from afterglow.ops.comprehension.tree import Expression
from afterglow.ops.einsum import Term, multiply


def contracted(lowering: Terms, body: Expression, indices: Sequence[str]) -> Term | None:
    """The sum of a product over indices; None if fewer than two factors depend on them."""
    factors = list(factors_of(body))
    inner = [factor for factor in factors if lowering.depends(factor, indices)]
    covered = all(any(lowering.depends(factor, [name]) for factor in inner) for name in indices)
    if len(inner) < 2 or not covered:
        return None
    terms = [lowering.term(factor) for factor in inner]
    result = _product(lowering, terms, {*indices})
    for factor in factors:
        if factor not in inner:
            result = lowering.multiplied(result, lowering.term(factor))
    return result


def _product(lowering: Terms, terms: list[Term], summed: set[str]) -> Term:
    """The product of terms, the pair with the smallest result first."""
    while len(terms) > 1:
        terms = [term.summed(lowering.b, _alone(term, terms) & summed) for term in terms]
        left, right = min(combinations(terms, 2), key=lambda pair: _size(pair, terms, summed))
        others = [term for term in terms if term is not left and term is not right]
        terms = [_pair(lowering, left, right, _kept((left, right), terms, summed)), *others]
    return terms[0].summed(lowering.b, summed)


def _alone(term: Term, terms: Sequence[Term]) -> set[str]:
    """The labels that no other term has."""
    return {*term.labels}.difference(*(other.labels for other in terms if other is not term))


def _kept(pair: tuple[Term, Term], terms: Sequence[Term], summed: set[str]) -> set[str]:
    """The labels of a product of two terms that are needed later."""
    later = {label for term in terms if all(term is not p for p in pair) for label in term.labels}
    return {n for n in (*pair[0].labels, *pair[1].labels) if n not in summed or n in later}


def _size(pair: tuple[Term, Term], terms: Sequence[Term], summed: set[str]) -> int:
    extents = pair[0].extents | pair[1].extents
    return math.prod(extents[name] for name in _kept(pair, terms, summed))


def _pair(lowering: Terms, left: Term, right: Term, kept: set[str]) -> Term:
    shared = {*left.labels} & {*right.labels}
    inner, batch = shared - kept, shared & kept
    is_matrix = {*left.labels} - shared and {*right.labels} - shared
    if not inner or (batch and not is_matrix):
        return lowering.multiplied(left, right).summed(lowering.b, inner)
    return multiply(lowering.b, left, right, kept)
