"""The memory functions of freestanding bundles, against what bytes do."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from afterglow.backends.cpu import Module, Target, compile_module, load_host
from afterglow.backends.cpu.bundle.memory import MEMORY_FUNCTIONS, write_memory_functions
from afterglow.types import Array

SIZES = [0, 1, 2, 7, 15, 16, 17, 31, 63, 64, 65, 200]


@pytest.fixture(scope="module", params=["x86-64", "x86-64-v3", "host"])
def library(request: pytest.FixtureRequest):
    target = Target.of(request.param)
    if target.missing_on(Target.host()):
        pytest.skip(f"this machine is no {request.param}")
    module = Module(target)
    write_memory_functions(module)
    return load_host(compile_module(module, target), list(MEMORY_FUNCTIONS), target)


def numbered(size: int = 512) -> Array:
    return np.arange(size, dtype=np.uint8)


@pytest.mark.parametrize("size", SIZES)
def test_memcpy_copies(library, size: int) -> None:
    word = ctypes.c_int64
    memcpy = library.function("memcpy", word, word, word, result=word)
    source, to = numbered(), np.zeros(512, np.uint8)
    place = to.ctypes.data + 3
    assert memcpy(place, source.ctypes.data + 1, size) == place
    assert (to[3 : 3 + size] == source[1 : 1 + size]).all()
    assert not to[:3].any()
    assert not to[3 + size :].any()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shift", [-70, -16, -5, -1, 0, 1, 5, 16, 70])
def test_memmove_moves_what_overlaps(library, size: int, shift: int) -> None:
    word = ctypes.c_int64
    memmove = library.function("memmove", word, word, word, result=word)
    data, wanted = numbered(), numbered()
    wanted[100 + shift : 100 + shift + size] = wanted[100 : 100 + size].copy()
    memmove(data.ctypes.data + 100 + shift, data.ctypes.data + 100, size)
    assert (data == wanted).all()


@pytest.mark.parametrize("size", SIZES)
def test_memset_fills(library, size: int) -> None:
    word = ctypes.c_int64
    memset = library.function("memset", word, ctypes.c_int32, word, result=word)
    data, wanted = numbered(), numbered()
    wanted[5 : 5 + size] = 0xAB
    memset(data.ctypes.data + 5, 0x1AB, size)
    assert (data == wanted).all()
