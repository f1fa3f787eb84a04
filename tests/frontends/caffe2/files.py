"""Small nets of every operator, as they are and with odd numbers."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from tests.frontends.caffe2 import cases, test_quantized
from tests.frontends.caffe2.nets import FILLS, Net, Op, fill

ODD = (-1, 0, 1, 2, 3, 5, 64, -2, -100, 2**15, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
ODD_FLOATS = (0.0, -1.0, 0.5, 1e30, -1e-30, float("nan"), float("inf"))


def small_nets() -> list[Net]:
    """One net for each case: its operands are filled, the first one is an input in some."""
    nets = [_net(case, is_input) for case in cases.CASES for is_input in (False, True)]
    return [*nets, *map(_int8_net, test_quantized.CASES)]


def _net(case: cases.Case, is_input: bool) -> Net:
    names = [f"x{index}" for index in range(len(case.operands))]
    fills = [fill(name, array) for name, array in zip(names, case.operands, strict=True)]
    outputs = ["y", "rest"] if case.type == "Split" else ["y"]
    kept, inputs = (fills[1:], names[:1]) if is_input else (fills, [])
    return Net([*kept, Op(case.type, names, outputs, case.args)], inputs, ["y"])


def _int8_net(type: str) -> Net:
    inputs, args, _ = test_quantized.CASES[type]
    real = fill("real", test_quantized.IMAGE)
    ops = [*test_quantized.INIT.ops, real, test_quantized.QUANTIZE, Op(type, inputs, ["y"], args)]
    needed = {"real", "x", "y", *inputs}
    return Net([op for op in ops if needed.intersection(op.output)], [], ["y"])


def odd_net(net: Net, rng: random.Random) -> Net:
    """A well-formed net with arguments, elements, shapes, types or wires that may not fit."""
    ops = [*net.ops]
    for _ in range(rng.choice([1, 1, 2, 3])):
        place = rng.choice([-1, rng.randrange(len(ops))])
        ops[place] = _odd_op(ops[place], net, rng)
    return replace(net, ops=ops)


def _odd_op(op: Op, net: Net, rng: random.Random) -> Op:
    if op.type in FILLS.values() and rng.random() < 0.7:
        return fill(op.output[0], _odd_array(rng))
    match rng.randrange(6):
        case 0:
            return replace(op, input=[*op.input][: rng.randrange(len(op.input) + 1)])
        case 1:
            blobs = [name for each in net.ops for name in (*each.input, *each.output)]
            return replace(op, input=[rng.choice(blobs) for _ in range(rng.randrange(5))])
        case 2:
            return replace(op, output=[rng.choice(["y", "x0", "z"]) for _ in range(3)])
    args = dict(op.args) or {"axis": 0}
    name = rng.choice([*args])
    return replace(op, args={**args, name: _odd_argument(args[name], rng)})


def _odd_argument(value: Any, rng: random.Random) -> Any:
    if rng.random() < 0.2:
        return rng.choice([1, 1.5, "NHWC", [2], [1.0], [], b"\xff", ["a", "b"]])
    match value:
        case int():
            return rng.choice(ODD)
        case float():
            return rng.choice(ODD_FLOATS)
        case list() if value and isinstance(value[0], int):
            return [rng.choice([*value, *ODD]) for _ in range(rng.randrange(6))]
    return value


def _odd_array(rng: random.Random) -> np.ndarray[Any, Any]:
    """Elements of some type in some shape."""
    shape = [rng.choice([0, 1, 2, 3, 5, 7]) for _ in range(rng.randrange(6))]
    numbers = [rng.choice(ODD[:11]) for _ in range(4)]
    return np.resize(np.array(numbers), shape).astype(rng.choice([*FILLS]))
