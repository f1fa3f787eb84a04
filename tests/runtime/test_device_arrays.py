"""Arrays in the memory of a GPU, as their libraries describe them."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from afterglow.runtime.device_arrays import DEFAULT_STREAM, device_tensor, is_on_gpu
from afterglow.runtime.dlpack_export import capsule_of
from afterglow.support.errors import UsageError
from afterglow.types.dtype import bf16, f32


class Interface:
    """An array that has `__cuda_array_interface__` alone."""

    def __init__(self, **changed):
        said = {"version": 3, "shape": (2, 3), "typestr": "<f4", "data": (4096, False)}
        self.__cuda_array_interface__ = {**said, **changed}


class Exchanged:
    """An array that has DLPack alone."""

    def __init__(self, dtype=f32, device=(2, 1)):
        self.dtype, self.device = dtype, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, stream=None):
        self.stream = stream
        return capsule_of(self, 8192, self.dtype, (4, 2), self.device, versioned=False)


@pytest.mark.parametrize(
    ("value", "is_there"),
    [
        (np.zeros(3), False),
        ([1, 2], False),
        (None, False),
        (Interface(), True),
        (Exchanged(), True),
        (Exchanged(device=(13, 0)), True),
        (Exchanged(device=(1, 0)), False),
    ],
)
def test_arrays_on_a_gpu_are_recognised(value, is_there):
    assert is_on_gpu(value) is is_there


def test_an_interface_says_where_elements_lie():
    found = device_tensor(Interface(stream=7))
    assert (found.address, found.shape, found.ndim) == (4096, (2, 3), 2)
    assert (found.dtype, found.stream, found.device) == (np.float32, 7, None)
    assert device_tensor(found) is found
    assert device_tensor(Interface()).stream == DEFAULT_STREAM
    assert device_tensor(Interface(stream=None)).stream is None


@pytest.mark.parametrize(
    ("strides", "is_dense"),
    [(None, True), ((12, 4), True), ((4, 8), False), ((24, 4), False), ((13, 4), False)],
)
def test_strides_say_whether_elements_lie_in_order(strides, is_dense):
    assert device_tensor(Interface(strides=strides)).is_dense is is_dense


def test_strides_of_axes_with_one_element_do_not_matter():
    assert device_tensor(Interface(shape=(1, 3), strides=(99, 4))).is_dense
    assert device_tensor(Interface(shape=(0, 3), strides=(99, 99))).is_dense


def test_a_capsule_says_where_elements_lie():
    value = Exchanged(bf16)
    found = device_tensor(value)
    assert (found.address, found.shape, found.device) == (8192, (4, 2), 1)
    assert found.dtype == bf16.numpy
    assert found.is_dense
    assert value.stream == found.stream == DEFAULT_STREAM


def test_elements_that_cannot_be_read_are_an_error():
    with pytest.raises(UsageError) as caught:
        device_tensor(Interface(mask=Interface()))
    assert str(caught.value) == (
        "error: the elements of this Interface cannot be read on the GPU: it has a mask\n"
        "  help: copy it to an array of PyTorch, CuPy or NumPy first"
    )


class Tensor:
    """What is asked of a tensor of PyTorch on a GPU."""

    is_cuda = True
    dtype = "torch.bfloat16"
    shape = (2, 3)
    layout = "strided"

    def is_conj(self):
        return False

    is_neg = is_conj

    def is_contiguous(self):
        return False

    def data_ptr(self):
        return 1 << 20

    def get_device(self):
        return 2


@pytest.mark.parametrize(("current", "stream"), [(0, 1), (99, 99)])
def test_tensors_of_pytorch_are_on_its_current_stream(monkeypatch, current, stream):
    streams = SimpleNamespace(current_stream=lambda number: SimpleNamespace(cuda_stream=current))
    torch = SimpleNamespace(Tensor=Tensor, strided="strided", cuda=streams)
    monkeypatch.setitem(sys.modules, "torch", torch)
    tensor = Tensor()
    assert is_on_gpu(tensor)
    found = device_tensor(tensor)
    assert (found.address, found.shape, found.device) == (1 << 20, (2, 3), 2)
    assert (found.dtype, found.is_dense, found.stream) == (bf16.numpy, False, stream)
    tensor.dtype = "torch.quint4x2"
    with pytest.raises(UsageError, match=r"a tensor of torch\.quint4x2 was given"):
        device_tensor(tensor)
