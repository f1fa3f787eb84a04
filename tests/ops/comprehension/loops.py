"""What a text in index notation means, element by element in plain Python: the oracle of tests."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from afterglow.ops.comprehension.ranges import ranges_of
from afterglow.ops.comprehension.syntax import parse_notation
from afterglow.ops.comprehension.tree import Access, Call, Index, Number, Reduction

FUNCTIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "max": max,
    "min": min,
    "neg": lambda a: -a,
    "abs": abs,
    "exp": math.exp,
    "tanh": math.tanh,
    "relu": lambda a: max(a, 0.0),
    "where": lambda c, a, b: a if c else b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": lambda a: not a,
}
REDUCTIONS = {
    "sum": sum,
    "prod": math.prod,
    "min": min,
    "max": max,
    "mean": lambda values: sum(values) / len(values),
}


def by_loops(text: str, *arrays: np.ndarray) -> np.ndarray:
    """The result of a text, one element after the other."""
    notation = parse_notation(text)
    tensors = dict(zip(notation.operands, arrays, strict=True))
    for statement in notation.statements:
        ranges = ranges_of(text, statement, {name: t.shape for name, t in tensors.items()})
        result = np.empty([ranges[name].extent for name in statement.free])
        for place in np.ndindex(result.shape):
            at = dict(zip(statement.free, place, strict=True))
            result[place] = _value(statement.value, at, tensors, ranges)
        tensors[statement.target] = result
    return result


def _value(value, at, tensors, ranges):
    match value:
        case Number(number):
            return number
        case Index(name):
            return at[name]
        case Access(tensor, indices):
            place = (a.constant + sum(f * at[name] for name, f in a.terms) for a in indices)
            return tensors[tensor][tuple(place)].item()
        case Call(function, arguments):
            return FUNCTIONS[function](*(_value(each, at, tensors, ranges) for each in arguments))
        case Reduction(kind, indices, body):
            runs = [range(r.first, r.first + r.extent) for r in (ranges[n] for n in indices)]
            return REDUCTIONS[kind](
                [
                    _value(body, {**at, **dict(zip(indices, values, strict=True))}, tensors, ranges)
                    for values in product(*runs)
                ]
            )
