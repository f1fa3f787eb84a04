"""Constants of a program: each is stored once."""

from __future__ import annotations

import numpy as np

from afterglow.backends.cpu.codegen.constants import Constants
from afterglow.backends.cpu.micro.kernel import Packed
from afterglow.instr import Buffer, Region
from afterglow.types import TensorType
from afterglow.types.dtype import f32


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
