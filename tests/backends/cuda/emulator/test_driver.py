"""The emulated device through the protocol of drivers."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from afterglow.backends.cuda.driver.protocol import OUT_OF_MEMORY, CudaError
from afterglow.backends.cuda.emulator.code import emulated_kernels
from afterglow.backends.cuda.emulator.driver import EmulatedDriver, emulated_driver
from afterglow.backends.cuda.kernels.kernel import HEAD, KernelSource
from afterglow.support.errors import UsageError

TEXT = f"""{HEAD}def triple(p0, p1):
    i = tl.arange(0, 4)
    tl.store(p1 + i, 3.0 * tl.load(p0 + i))
"""
TRIPLE = KernelSource("triple", TEXT, (), ("*fp32", "*fp32"), (True, True), (1, 1, 1))
X = np.arange(4, dtype="f4")


@pytest.fixture
def context():
    return EmulatedDriver().open(0)


@pytest.fixture
def triple(context):
    made = emulated_kernels([TRIPLE])["triple"]
    return context.load(made.cubin, made.symbol, made.shared)


def read(context, address: int) -> list[float]:
    found = np.zeros(4, "f4")
    context.download(found, address, 0)
    return found.tolist()


def test_it_has_one_device():
    (facts,) = emulated_driver().devices()
    assert facts.name == "emulated"


def test_kernels_run_between_copies(context, triple):
    x, y = context.alloc(16), context.alloc(16)
    context.upload(x, X, 0)
    context.launch(triple, (1, 1, 1), 128, 0, [x, y], 0)
    assert read(context, y) == [0, 3, 6, 9]
    context.copy(x, y, 8, 0)
    assert read(context, x) == [0, 3, 2, 3]
    context.fill(x, 8, 0)
    assert read(context, x) == [0, 0, 2, 3]


def test_graphs_do_again_what_was_captured(context, triple):
    x, y, z = (context.alloc(16) for _ in range(3))
    stream, other = context.new_stream(), context.new_stream()
    start, end = (context.new_event(timed=True) for _ in range(2))
    context.begin_capture(stream)
    context.record(start, stream)
    context.launch(triple, (1, 1, 1), 128, 0, [x, y], stream)
    context.record(end, stream)
    context.wait(other, end)
    context.launch(triple, (1, 1, 1), 128, 0, [y, z], other)
    graph = context.end_capture(stream)
    for factor in (1, 2):
        context.upload(x, factor * X, stream)
        context.replay(graph, stream)
        context.synchronize(stream)
        assert read(context, z) == [0, 9 * factor, 18 * factor, 27 * factor]
    assert context.elapsed(start, end) > 0


def test_a_captured_stream_cannot_be_waited_for(context):
    stream = context.new_stream()
    context.begin_capture(stream)
    with pytest.raises(CudaError, match="CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"):
        context.synchronize(stream)
    context.end_capture(stream)
    context.synchronize(stream)
    with pytest.raises(CudaError, match="CUDA_ERROR_ILLEGAL_STATE"):
        context.end_capture(stream)


def test_memory_is_bounded(context):
    free, whole = context.memory()
    assert free == whole
    with pytest.raises(CudaError) as caught:
        context.alloc(whole + 1)
    assert caught.value.name == OUT_OF_MEMORY
    address = context.alloc(1000)
    assert context.memory()[0] == whole - 1000
    context.free(address)
    assert context.memory()[0] == whole
    with pytest.raises(CudaError, match="not the address of a block"):
        context.free(address)


def test_copies_are_held_to_their_blocks(context):
    address = context.alloc(8)
    with pytest.raises(CudaError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        context.upload(address, X, 0)


def test_kernels_are_held_to_their_blocks(context, triple):
    x, y = context.alloc(16), context.alloc(12)
    with pytest.raises(CudaError, match="kernel triple: program") as caught:
        context.launch(triple, (1, 1, 1), 128, 0, [x, y], 0)
    assert caught.value.name == "CUDA_ERROR_ILLEGAL_ADDRESS"


@pytest.mark.parametrize(
    ("grid", "threads", "said"),
    [
        ((1, 1, 1), 64, "triple has 128 threads a block"),
        ((1, 70000, 1), 128, r"no grid can be \(1, 70000, 1\)"),
        ((0, 1, 1), 128, "no grid can be"),
    ],
)
def test_launches_are_as_a_device_takes_them(context, triple, grid, threads, said):
    x = context.alloc(16)
    with pytest.raises(CudaError, match=said):
        context.launch(triple, grid, threads, 0, [x, x], 0)


def test_kernels_take_as_many_pointers_as_they_say(context, triple):
    with pytest.raises(CudaError, match="kernel triple takes 2 pointers, got 1"):
        context.launch(triple, (1, 1, 1), 128, 0, [context.alloc(16)], 0)


def test_machine_code_is_not_for_the_emulator(context):
    with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_IMAGE"):
        context.load(b"\x7fELF", "triple", 0)


def test_loading_names_the_package_that_is_missing(context, monkeypatch):
    monkeypatch.delitem(sys.modules, "afterglow.backends.cuda.emulator.kernel", raising=False)
    monkeypatch.setitem(sys.modules, "triton.language", None)
    made = emulated_kernels([TRIPLE])["triple"]
    with pytest.raises(UsageError) as caught:
        context.load(made.cubin, made.symbol, made.shared)
    assert caught.value.what == "emulating CUDA needs triton, which is not installed"
