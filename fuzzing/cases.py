"""The op case tables of the tests, as programs with hostile inputs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from afterglow.graph import print_module
from afterglow.support.errors import AfterglowError
from afterglow.testing.cases import CASES
from afterglow.testing.cases.case import Case
from afterglow.types import TensorType
from afterglow.types.dtype import DTYPES
from fuzzing.hostile_values import hostile_array
from fuzzing.program import ProgramExample, module_of

STRIDE = 487
"""Has no factor in common with the number of cases, or else some are never reached."""
EXTENTS = [0, 0, 1, 2, 3, 5, 17]
ODD: dict[str, Any] = {
    "none": None,
    "text": "abc",
    "number": 1.5,
    "list": [1, 2, 3],
    "ragged": [[1], [2, 3]],
    "object": object(),
    "objects": np.array([None, 1], dtype=object),
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
}
"""What is no array of numbers, by name."""


def all_cases() -> list[Case]:
    """Every case of every op."""
    return CASES


def case_of(number: int) -> Case:
    """One of the cases; neighbouring numbers are of different families."""
    cases = all_cases()
    return cases[number * STRIDE % len(cases)]


def hostile_values(case: Case, rng: random.Random) -> ProgramExample:
    """A case with inputs of the right types, but odd numbers in them."""
    inputs = {
        f"x{i}": array if array is None or rng.random() < 0.4 else _hostile(case.types[i], rng)
        for i, array in enumerate(case.inputs())
    }
    given = {name: array for name, array in inputs.items() if array is not None}
    return ProgramExample(print_module(module_of(case.op, case.types)), inputs=given)


def hostile_types(case: Case, rng: random.Random) -> ProgramExample:
    """A case with other types: empty axes, other extents, ranks and elements."""
    types = tuple(None if t is None else _other_type(t, rng) for t in case.types)
    inputs = {f"x{i}": _hostile(t, rng) for i, t in enumerate(types) if t is not None}
    try:
        text = print_module(module_of(case.op, types))
    except Exception as error:
        text = _with_types(print_module(module_of(case.op, case.types)), case, types)
        if not isinstance(error, AfterglowError):
            text = f"# {error!r}\n{text}"
    return ProgramExample(text, inputs=inputs)


def hostile_call(case: Case, rng: random.Random) -> ProgramExample:
    """A case whose call has arrays of wrong types, objects, too few or too many arrays."""
    arrays = {f"x{i}": array for i, array in enumerate(case.inputs()) if array is not None}
    odd: dict[str, str] = {}
    if not arrays:
        odd["x0"] = "none"
    else:
        name = rng.choice(list(arrays))
        match rng.randint(0, 3):
            case 0:
                odd[name] = rng.choice(list(ODD))
                del arrays[name]
            case 1:
                arrays["nosuch"] = arrays[name]
            case 2:
                del arrays[name]
            case _:
                arrays[name] = _hostile(_other_type(TensorType.of(arrays[name]), rng), rng)
    return ProgramExample(print_module(module_of(case.op, case.types)), inputs=arrays, odd=odd)


def _hostile(type: TensorType | None, rng: random.Random) -> Any:
    assert type is not None
    return hostile_array(type.dtype, type.shape, rng)


def _other_type(type: TensorType, rng: random.Random) -> TensorType:
    shape = list(type.shape)
    dtype = type.dtype
    match rng.randint(0, 5):
        case 0 | 1 | 2 if shape:
            shape[rng.randrange(len(shape))] = rng.choice(EXTENTS)
        case 3 if shape:
            shape.pop(rng.randrange(len(shape)))
        case 4:
            shape.insert(rng.randint(0, len(shape)), rng.choice(EXTENTS))
        case 5:
            dtype = rng.choice(list(DTYPES.values()))
    return TensorType(dtype, tuple(shape))


def _with_types(text: str, case: Case, types: tuple[TensorType | None, ...]) -> str:
    """The text of a program with other types for its inputs: the parser infers the rest."""
    for index, (old, new) in enumerate(zip(case.types, types, strict=True)):
        text = text.replace(f"%x{index}: {old}", f"%x{index}: {new}")
    return text
