"""Capsules of our own memory: what is in them, and how long they keep it alive."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from afterglow.runtime.dlpack import opened
from afterglow.runtime.dlpack_export import capsule_of
from afterglow.types.dtype import bf16, f32, i8

CPU = (1, 0)


class Owner:
    """Memory of the host, for libraries that read it by DLPack."""

    def __init__(self, array, *, versioned):
        self.array, self.versioned = array, versioned

    def __dlpack_device__(self):
        return CPU

    def __dlpack__(self, **_):
        address = self.array.ctypes.data
        return capsule_of(self, address, f32, self.array.shape, CPU, versioned=self.versioned)


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("dtype", [f32, i8, bf16])
def test_a_capsule_says_what_it_holds(versioned, dtype):
    capsule = capsule_of(None, 4096, dtype, (2, 3), (2, 5), versioned=versioned)
    tensor, found, _ = opened(capsule)
    assert (tensor.data, tensor.device_type, tensor.device_id) == (4096, 2, 5)
    assert found is dtype
    assert (tensor.shape[:2], bool(tensor.strides)) == ([2, 3], False)


@pytest.mark.parametrize("versioned", [False, True])
def test_a_capsule_that_nobody_uses_lets_its_owner_go(versioned):
    owner = Owner(np.zeros(3, np.float32), versioned=versioned)
    capsule, alive = owner.__dlpack__(), weakref.ref(owner)
    del owner
    gc.collect()
    assert alive() is not None
    del capsule
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("versioned", [False, True])
def test_the_user_of_a_capsule_keeps_its_owner_alive(versioned):
    owner = Owner(np.arange(3, dtype=np.float32), versioned=versioned)
    array, alive = np.from_dlpack(owner), weakref.ref(owner)
    del owner
    gc.collect()
    assert alive() is not None
    assert array.tolist() == [0, 1, 2]
    del array
    gc.collect()
    assert alive() is None
