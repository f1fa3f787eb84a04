"""The weights of a bundle: stored once, and told apart by a sum."""

from __future__ import annotations

import numpy as np

from afterglow.backends.bundling.checksum import checksum
from afterglow.backends.cpu.bundle.weights import SharedConstants
from afterglow.backends.cpu.micro.kernel import Table


def test_every_bit_and_every_place_matters() -> None:
    block = np.random.default_rng(0).integers(0, 256, 512).astype(np.uint8)
    sums = {checksum(block)}
    for place in range(0, 512, 37):
        changed = block.copy()
        changed[place] ^= 1 << place % 8
        sums.add(checksum(changed))
    signs = block.copy()
    signs[[7, 15]] ^= 0x80
    for changed in (signs, block.reshape(-1, 8)[::-1].reshape(-1).copy()):
        sums.add(checksum(changed))
    assert len(sums) == len(range(0, 512, 37)) + 3


def test_equal_constants_lie_at_one_place() -> None:
    constants = SharedConstants()
    first, equal, other = (Table(np.full(10, n, np.float32)) for n in (1, 1, 2))
    assert constants.table(first) == constants.table(equal)
    assert constants.table(first) != constants.table(other)
    assert constants.size == 128
