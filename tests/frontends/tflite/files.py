"""Small files of every op, as they are and with odd numbers."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from tests.frontends.tflite.cases import Case, Const, Variable, all_cases

ODD = (-1, 0, 1, 2, 3, 5, 64, -2, -100, 2**15, 2**31 - 1, -(2**31))


def small_files() -> list[bytes]:
    """One file for each case."""
    return [case.file() for case in all_cases()]


def odd_file(case: Case, rng: random.Random) -> bytes:
    """A well-formed file of an op with constants, shapes, types or options that may not fit."""
    inputs, fields = [*case.inputs], dict(case.fields)
    for _ in range(rng.choice([1, 1, 2, 3])):
        if fields and rng.random() < 0.4:
            name = rng.choice([*fields])
            fields[name] = _odd_field(fields[name], rng)
        elif inputs:
            place = rng.randrange(len(inputs))
            inputs[place] = _odd_input(inputs[place], rng)
    if rng.random() < 0.1:
        del inputs[rng.randrange(len(inputs)) :]
    return replace(case, inputs=inputs, fields=fields).file()


def _odd_field(value: Any, rng: random.Random) -> Any:
    match value:
        case bool():
            return not value
        case int() if -128 <= value < 128:
            return rng.choice([number for number in ODD if -128 <= number < 128])
        case float():
            return rng.choice([0.0, -1.0, 1e30, float("nan"), float("inf")])
        case list():
            return [rng.choice(ODD) for _ in range(rng.randrange(4))]
    return value


def _odd_input(given: Any, rng: random.Random) -> Any:
    match given:
        case Const():
            return Const(_odd_array(given.array, rng))
        case np.ndarray():
            return _odd_array(given, rng)
        case Variable():
            return Variable(tuple(rng.randrange(4) for _ in given.shape))
    return Const(np.zeros(rng.randrange(4), np.float32))


def _odd_array(array: np.ndarray[Any, Any], rng: random.Random) -> np.ndarray[Any, Any]:
    """Another element, shape or type."""
    match rng.randrange(4):
        case 0 | 1 if array.size and array.dtype.kind == "i":
            changed = array.copy().reshape(-1)
            number = np.array(rng.choice(ODD)).astype(array.dtype)
            changed[rng.randrange(changed.size)] = number
            return changed.reshape(array.shape)
        case 2:
            kinds = ("int32", "float32", "bool", "int8", "int64", "uint8", "float16")
            return array.astype(rng.choice(kinds))
    shape = [rng.choice([0, 1, 2, 3, 5]) for _ in range(rng.randrange(6))]
    return np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)
