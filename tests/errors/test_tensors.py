"""Tensors of a model that cannot be what they say they are."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from tests.errors.malformed import Cases, Made, check
from tests.frontends.models import FLOAT, graph, model, node, tensor

CASES = Cases()
refused = CASES.refused


def with_tensor(**fields: object) -> onnx.ModelProto:
    """A model that adds a tensor with these fields to its input."""
    made = graph([node("Add", ["x", "w"], ["y"], name="sum")])
    made.initializer.append(TensorProto(name="w", **fields))
    return model(made)


@refused(
    ModelError,
    "error: tensor 'w': its shape (1125899906842624,) is too large: "
    "more than 1,099,511,627,776 bytes",
)
def a_tensor_of_absurd_size() -> onnx.ModelProto:
    return with_tensor(data_type=FLOAT, dims=[2**50])


@refused(ModelError, "error: tensor 'w': its shape (-3,) has a negative extent")
def a_tensor_of_negative_size() -> onnx.ModelProto:
    return with_tensor(data_type=FLOAT, dims=[-3])


@refused(ModelError, "error: tensor 'w': it has 8 bytes, its shape (3,) needs 12")
def a_tensor_with_too_few_bytes() -> onnx.ModelProto:
    return with_tensor(data_type=FLOAT, dims=[3], raw_data=bytes(8))


@refused(ModelError, "error: tensor 'w': it has 4 numbers, its shape (3,) needs 3")
def a_tensor_with_too_many_numbers() -> onnx.ModelProto:
    return with_tensor(data_type=FLOAT, dims=[3], float_data=[1, 2, 3, 4])


@refused(ModelError, "error: tensor 'w': it has 0 numbers, its shape (3,) needs 3")
def a_tensor_without_data() -> onnx.ModelProto:
    return with_tensor(data_type=FLOAT, dims=[3])


@refused(ModelError, "error: tensor 'w': it has 1 strings, its shape (2,) needs 2")
def a_tensor_with_too_few_strings() -> onnx.ModelProto:
    return with_tensor(data_type=TensorProto.STRING, dims=[2], string_data=[b"a"])


@refused(ModelError, "error: tensor 'w': there is no element type 0")
def a_tensor_without_element_type() -> onnx.ModelProto:
    return with_tensor(dims=[3])


@refused(UnsupportedError, "error: tensor 'w': unsupported element type float6e2m3")
def a_tensor_of_an_exotic_element_type() -> onnx.ModelProto:
    return with_tensor(data_type=TensorProto.FLOAT6E2M3, dims=[4], raw_data=bytes(3))


@refused(UnsupportedError, "error: tensor 'w': it is stored in segments")
def a_tensor_in_segments() -> onnx.ModelProto:
    return with_tensor(data_type=FLOAT, dims=[1], segment=TensorProto.Segment(begin=0, end=1))


def sparse(values: object, indices: object, dims: list[int]) -> onnx.ModelProto:
    made = graph([node("Add", ["x", "w"], ["y"])])
    made.sparse_initializer.append(
        helper.make_sparse_tensor(tensor("w", values), tensor("", indices), dims)
    )
    return model(made)


ONES = np.ones(2, np.float32)


@refused(ModelError, "error: tensor 'w': it has indices outside of its shape (3,)")
def a_sparse_tensor_with_an_index_outside() -> onnx.ModelProto:
    return sparse(ONES, np.array([0, 3]), [3])


@refused(ModelError, "error: tensor 'w': it has 2 values, but indices int64[2, 3]")
def a_sparse_tensor_with_indices_of_another_rank() -> onnx.ModelProto:
    return sparse(ONES, np.zeros((2, 3), np.int64), [3])


@refused(
    UnsupportedError, "error: tensor 'w': it is sparse, and its shape (1073741824, 3) too large"
)
def a_sparse_tensor_of_absurd_size() -> onnx.ModelProto:
    return sparse(ONES, np.array([0, 3]), [2**30, 3])


@pytest.mark.parametrize(("make", "kind", "text"), CASES)
def test_the_tensor_is_refused(make: Made, kind: type[AfterglowError], text: str) -> None:
    check(make(), kind, text)
