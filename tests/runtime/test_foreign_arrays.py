"""Arrays of other libraries, by DLPack."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import afterglow
from afterglow.runtime.dlpack import read_in_place
from afterglow.runtime.foreign_arrays import array_of, is_foreign, shared_array
from afterglow.support.errors import UsageError
from tests.frontends.models import info, model, node

X = np.arange(6, dtype=np.float32).reshape(2, 3)
CUDA = (2, 0)


class Foreign:
    """An array of a library that has nothing but DLPack, on a device that may be another one."""

    def __init__(self, array, device=None) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, *, max_version=None, dl_device=None):
        if self.device is not None and dl_device is None:
            raise BufferError("the elements are on another device")
        return self.array.__dlpack__(max_version=max_version)

    def __dlpack_device__(self):
        return self.device or self.array.__dlpack_device__()


class Unversioned(Foreign):
    """The same, of a library that is older than versions of the standard."""

    def __dlpack__(self):
        return self.array.__dlpack__()


class Closed(Foreign):
    """The same, which copies nothing to the host by itself."""

    def __dlpack__(self, **_):
        raise BufferError("the elements are on another device")

    def __array__(self, *_, **__):
        raise TypeError("ask for a copy")


@pytest.fixture(scope="module")
def doubled():
    made = model(
        [node("Mul", ["x", "w"], ["y"])],
        inputs=[info("x", [2, 3])],
        outputs=[info("y", [2, 3])],
        constants={"w": np.full(3, 2, np.float32)},
    )
    return afterglow.compile(made)


@pytest.mark.parametrize("kind", [Foreign, Unversioned])
@pytest.mark.parametrize(
    "array",
    [
        *(X, X.T, X[:, ::2], X[:, :0], np.array(3, np.int64), X > 2, X.astype(np.uint8)),
        X.astype(np.complex64),
    ],
    ids=str,
)
def test_elements_are_read_where_they_lie(kind, array) -> None:
    read = read_in_place(kind(array))
    assert read.dtype == array.dtype
    assert read.tolist() == array.tolist()
    assert not array.size or np.shares_memory(read, array)


def test_the_memory_lives_as_long_as_what_was_read_of_it() -> None:
    array = X.copy()
    gone = weakref.ref(array)
    read = read_in_place(Foreign(array))
    del array
    gc.collect()
    assert gone() is not None
    assert read.tolist() == X.tolist()
    del read
    gc.collect()
    assert gone() is None


def test_what_may_not_be_written_cannot_be() -> None:
    frozen = X.copy()
    frozen.flags.writeable = False
    assert not read_in_place(Foreign(frozen)).flags.writeable
    assert shared_array(Foreign(X.copy())).flags.writeable


def test_numpy_is_not_foreign() -> None:
    assert not is_foreign(X)
    assert not is_foreign(np.float32(3))
    assert is_foreign(Foreign(X))


def test_a_library_without_a_namespace_gets_arrays_of_numpy(doubled) -> None:
    assert doubled(Foreign(X)).tolist() == (X * 2).tolist()


def test_elements_on_another_device_are_copied(doubled) -> None:
    assert doubled(Foreign(X, CUDA)).tolist() == (X * 2).tolist()


def test_a_library_that_copies_nothing_is_an_error(doubled) -> None:
    with pytest.raises(UsageError) as caught:
        doubled(Closed(X, CUDA))
    assert str(caught.value) == (
        "error: input 'x': the elements of this tests Closed cannot be read: they are on another "
        "device, or of a type that is not exchanged\n"
        "  help: copy it to the memory of the host first"
    )


def test_outputs_are_never_written_to_a_copy(doubled) -> None:
    with pytest.raises(UsageError, match="cannot be written: its elements are not in the memory"):
        doubled.run_into(Foreign(X.copy(), CUDA), X)


class Namespaced(Foreign):
    """An array of a library with a namespace, which takes nothing in the memory of the host."""

    @staticmethod
    def from_dlpack(array):
        raise BufferError("this library has no arrays on the host")

    @staticmethod
    def asarray(array):
        return Namespaced(array.copy(), CUDA)

    def __array_namespace__(self):
        return Namespaced


def test_outputs_are_arrays_of_the_library_of_the_inputs(doubled) -> None:
    y = doubled(Namespaced(X, CUDA))
    assert isinstance(y, Namespaced)
    assert y.array.tolist() == (X * 2).tolist()


def test_bfloat16_of_pytorch_by_the_standard() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    read = read_in_place(tensor)
    assert read.dtype.name == "bfloat16"
    assert read.astype(np.float32).tolist() == X.tolist()
    assert np.shares_memory(read, array_of(tensor))


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int32"])
def test_arrays_of_jax(name: str) -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    dtype = jax.numpy.dtype(name)
    number = {"float32": 1, "int32": 6, "bfloat16": 16}[name]
    made = model(
        [node("Add", ["x", "x"], ["y"])],
        inputs=[info("x", [2, 3], number)],
        outputs=[info("y", [2, 3], number)],
    )
    x = jax.numpy.arange(6, dtype=dtype).reshape(2, 3)
    y = afterglow.compile(made)(x)
    assert isinstance(y, jax.Array)
    assert y.dtype == dtype
    assert y.tolist() == (X * 2).tolist()
