"""Constants of a program: each is stored once."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu.codegen import constants as constants_module
from afterglow.backends.cpu.codegen.constants import Constants
from afterglow.backends.cpu.kernels.matmul.packing import pack_panels
from afterglow.backends.cpu.micro.kernel import Packed
from afterglow.backends.cpu.micro.packing import Packing
from afterglow.backends.cpu.micro.tile import RegisterTile
from afterglow.instr import Buffer, Region
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32
from afterglow.types.later import ReorderedArray, ScaledArray


def constant() -> Buffer:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    return Buffer("w", TensorType(f32, (2, 3)), Region.CONSTANT, data=data)


def test_kernels_that_pack_a_constant_alike_share_it() -> None:
    constants, weight = Constants(), constant()
    first = constants.packed(weight, Packed(0, lambda x: x.T))
    other = constants.packed(weight, Packed(0, lambda x: x))
    again = constants.packed(weight, Packed(1, lambda x: x.T.copy()))
    assert first == again != other
    block = constants.block()
    assert block[first : first + 24].view(np.float32).tolist() == [0, 3, 1, 4, 2, 5]


def test_constants_that_only_look_alike_when_packed_are_stored_apart() -> None:
    constants, weights = Constants(), (constant(), constant())
    first, other = (constants.packed(weight, Packed(0, lambda x: x)) for weight in weights)
    assert first != other


def test_a_product_is_made_when_it_is_written_and_not_kept() -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    product = ScaledArray(data, np.array([[2.0], [3.0]]))
    weight = Buffer("w", TensorType(f32, (2, 3)), Region.CONSTANT, data=product)
    constants, packed = Constants(), []

    def pack(x: Array) -> Packing:
        packed.append(x)
        return Packing.of(x.T)

    place = constants.packed(weight, Packed(0, pack))
    assert [bool(x.any()) for x in packed] == [False]
    packed.clear()
    block = constants.block()
    assert block[place : place + 24].view(np.float32).tolist() == [0, 9, 2, 12, 4, 15]
    assert [bool(x.any()) for x in packed] == [True]


@pytest.mark.parametrize("room", [8, 60, 1000])
def test_what_is_packed_by_rows_is_made_some_rows_at_a_time(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants_module, "MADE_BYTES", room)
    data = np.arange(33, dtype=np.float32).reshape(11, 3)
    later = ReorderedArray(data, 1, (3, 1), (1, 0))
    product = ScaledArray(data, np.arange(11.0)[:, None])
    for content in (later, product):
        weight = Buffer("w", TensorType(f32, (11, 3)), Region.CONSTANT, data=content)
        pack = pack_panels(RegisterTile(lanes=2, rows=1, vectors=1), f32, transposed=True)
        constants = Constants()
        place = constants.packed(weight, Packed(0, pack))
        whole = pack(content.array())
        assert isinstance(whole, Packing)
        packed = constants.block()[place : place + whole.nbytes].view(np.float32)
        assert np.array_equal(packed, whole.array().reshape(-1))


def test_a_product_that_is_packed_at_once_is_made_at_once() -> None:
    product = ScaledArray(np.ones((2, 3), np.float32), np.array(2.0))
    weight = Buffer("w", TensorType(f32, (2, 3)), Region.CONSTANT, data=product)
    constants = Constants()
    place = constants.packed(weight, Packed(0, lambda x: x.T.copy()))
    assert constants.block()[place : place + 24].view(np.float32).tolist() == [2.0] * 6
