"""Cases of afterglow.ops.control."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Subgraph, parse_module
from afterglow.ops.control import If, Loop, Scan
from afterglow.testing.cases.case import boolean, case, f16, f32, i64
from afterglow.types import Array

BODIES = parse_module("""
    const @half : f16[] = [0.5]
    const @limit : f32[] = [100.0]
    const @one : i64[] = [1]

    func @double(%x: f32[2, 3], %y: f32[3]) {
      %sum = add(%x, %x) : f32[2, 3]
      return %sum
    }
    func @combine(%x: f32[2, 3], %y: f32[3]) {
      %sum = add(%x, %y) : f32[2, 3]
      return %sum
    }
    func @halve(%x: f16[4]) {
      %product = mul(%x, @half) : f16[4]
      return %product, %x
    }
    func @same(%x: f16[4]) {
      return %x, %x as "again"
    }
    func @grow(%iteration: i64[], %x: f32[], %factor: f32[]) {
      %larger = mul(%x, %factor) : f32[]
      %go = less(%larger, @limit) : bool[]
      return %go, %larger
    }
    func @count(%iteration: i64[], %total: i64[]) {
      %next = add(%total, %iteration) : i64[]
      %go = less_equal(@one, @one) : bool[]
      return %go, %next
    }
    func @accumulate(%sum: f32[2], %part: f32[2], %shift: f32[2]) {
      %moved = add(%part, %shift) : f32[2]
      %next = add(%sum, %moved) : f32[2]
      return %next, %moved, %next as "sums"
    }
    func @alone() {
      return @one
    }
""").functions


def body(name: str) -> Subgraph:
    """One of the functions above, for an op to carry."""
    return Subgraph(BODIES[name])


def flag(value: bool) -> Array:
    """A boolean as an operand."""
    return np.array(value)


DOUBLE_OR_COMBINE = If(body("double"), body("combine"))
GROW, COUNT = Loop(body("grow"), carried=1), Loop(body("count"), carried=1)


def number(value: int) -> Array:
    """A number as an operand."""
    return np.array(value, np.int64)


CASES = [
    case(DOUBLE_OR_COMBINE, boolean(), f32(2, 3), f32(3), given={0: flag(True)}),
    case(DOUBLE_OR_COMBINE, boolean(), f32(2, 3), f32(3), given={0: flag(False)}),
    case(If(body("halve"), body("same")), boolean(), f16(4), given={0: flag(True)}),
    case(If(body("alone"), body("alone")), boolean()),
    case(GROW, i64(), boolean(), f32(), f32(), given={0: number(50), 1: flag(True)}, low=1.5),
    case(GROW, i64(), boolean(), f32(), f32(), given={0: number(50), 1: flag(False)}),
    case(COUNT, i64(), boolean(), i64(), given={0: number(7), 1: flag(True)}),
    case(COUNT, i64(), boolean(), i64(), given={0: number(-1), 1: flag(True)}),
    case(Scan(body("accumulate"), 5, carried=1, scanned=1), f32(2), f32(5, 2), f32(2)),
    case(Scan(body("accumulate"), 5, 1, 1, reverse=True), f32(2), f32(5, 2), f32(2)),
    case(Scan(body("accumulate"), 0, carried=1, scanned=1), f32(2), f32(0, 2), f32(2)),
    case(Scan(body("alone"), 3, carried=0, scanned=0)),
]
