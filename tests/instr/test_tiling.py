"""Along which axes stacks can be cut, and how much work it is to find out."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest

from afterglow.instr import Buffer, OpInstr, Region, Stack, tiling
from afterglow.instr.tiling import tile_axes
from afterglow.ops.activation import Relu
from afterglow.types import TensorType
from afterglow.types.dtype import f32


def chain(count: int) -> Stack:
    """Steps that each read what the one before has made."""
    type = TensorType(f32, (4, 16))
    outer = Buffer("x", type, Region.INPUT)
    inner = [Buffer(f"v{number}", type, Region.LOCAL) for number in range(count - 1)]
    values = [outer, *inner, Buffer("y", type, Region.OUTPUT)]
    steps = [OpInstr(Relu(), (out,), (read,)) for read, out in pairwise(values)]
    return Stack(tuple(steps), tuple(inner))


def test_a_chain_can_be_cut_along_all_axes() -> None:
    stack = chain(5)
    axes = tile_axes(stack)
    assert [axis.extent for axis in axes] == [4, 16]
    assert all(set(axis.axis_of.values()) == {number} for number, axis in enumerate(axes))
    assert len(axes[0].axis_of) == 6


def test_each_step_of_a_chain_is_looked_at_once_for_each_axis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[OpInstr] = []
    genuine = tiling._result_axis

    def noted(step: OpInstr, axis_of: Mapping[Buffer, int | None]) -> int | None:
        seen.append(step)
        return genuine(step, axis_of)

    monkeypatch.setattr(tiling, "_result_axis", noted)
    tile_axes(chain(20))
    assert len(seen) == 2 * 20
