"""Nodes with too few operands, or operands that do not fit together."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from afterglow.support.errors import AfterglowError, MemoryLimitError, ModelError
from tests.errors.malformed import Cases, Made, check
from tests.frontends.models import info, model, node

CASES = Cases()
refused = CASES.refused


@refused(
    ModelError,
    """
    error: 'x' must have 3 axes, it is f32[4, 8]
      in node 'look' (Attention of com.microsoft version 1)
    """,
)
def attention_of_rows_without_a_batch() -> onnx.ModelProto:
    return _contrib("Attention", {"x": (4, 8), "w": (8, 24)}, num_heads=2)


@refused(
    ModelError,
    """
    error: 'past' must have 5 axes, it is f32[1, 2, 4, 4]
      in node 'look' (Attention of com.microsoft version 1)
    """,
)
def attention_to_a_past_of_keys_alone() -> onnx.ModelProto:
    shapes = {"x": (1, 4, 8), "w": (8, 24), "b": (24,), "": (), "past": (1, 2, 4, 4)}
    return _contrib("Attention", shapes, num_heads=2)


@refused(
    ModelError,
    """
    error: 'b' must have 1 axes, it is f32[1, 24]
      in node 'look' (MultiHeadAttention of com.microsoft version 1)
    """,
)
def multi_head_attention_with_biases_in_a_row() -> onnx.ModelProto:
    shapes = {"q": (1, 4, 8), "k": (1, 4, 8), "v": (1, 4, 8), "b": (1, 24)}
    return _contrib("MultiHeadAttention", shapes, num_heads=2)


@refused(
    ModelError,
    """
    error: 'cos' must have 2 axes, it is f32[4]
      in node 'look' (RotaryEmbedding of com.microsoft version 1)
    """,
)
def a_rotation_by_a_row_of_cosines() -> onnx.ModelProto:
    return _contrib("RotaryEmbedding", {"x": (1, 4, 8), "p": (1,), "cos": (4,), "sin": (4,)})


@refused(
    ModelError,
    """
    error: 'r' must have 3 axes, it is f32[4, 16]
      in node 'look' (DynamicQuantizeLSTM of com.microsoft version 1)
    """,
)
def a_quantized_lstm_without_directions() -> onnx.ModelProto:
    none = dict.fromkeys(("b", "l", "h", "c", "p"), ())
    shapes = {"x": (2, 1, 3), "w": (3, 16), "r": (4, 16), **none, "ws": (1,), "wz": (1,)}
    return _contrib("DynamicQuantizeLSTM", {**shapes, "rs": (1,), "rz": (1,)}, hidden_size=4)


def _contrib(op: str, shapes: dict[str, tuple[int, ...]], **attributes: object) -> onnx.ModelProto:
    """One node of com.microsoft; inputs without axes are not given."""
    integers = {"p": TensorProto.INT64}
    names = [name if shapes[name] else "" for name in shapes]
    look = node(op, names, ["y"], name="look", domain="com.microsoft", **attributes)
    inputs = [
        info(name, shapes[name], integers.get(name, TensorProto.FLOAT)) for name in names if name
    ]
    return model([look], inputs=inputs, outputs=[info("y", None)], domains={"com.microsoft": 1})


@refused(
    ModelError,
    """
    error: it takes 3 values for each tensor, and has 0 in all
      in node 'step' (Adagrad of ai.onnx.preview.training version 1)
    """,
)
def an_optimizer_without_tensors() -> onnx.ModelProto:
    step = node("Adagrad", ["x"], ["y"], name="step", domain="ai.onnx.preview.training")
    return model([step], domains={"ai.onnx.preview.training": 1})


@refused(
    ModelError,
    """
    error: u8[3] has no axis -2 for the zero points u8[2]
      in node 'product' (MatMulInteger of ai.onnx version 17)
    """,
)
def zero_points_along_an_axis_that_is_not_there() -> onnx.ModelProto:
    byte = TensorProto.UINT8
    product = node("MatMulInteger", ["a", "b", "zeros"], ["y"], name="product")
    return model(
        [product],
        inputs=[info("a", (3,), byte), info("b", (3, 2), byte), info("zeros", (2,), byte)],
        outputs=[info("y", (2,), TensorProto.INT32)],
    )


@refused(
    ModelError,
    """
    error: a mask must hold bool or floats, it is i64[2, 2]
      in node 'attend' (Attention of ai.onnx version 24)
    """,
)
def a_mask_of_integers_that_is_too_short() -> onnx.ModelProto:
    attend = node("Attention", ["q", "k", "v", "mask"], ["y"], name="attend")
    heads = {name: (1, 1, extent, 4) for name, extent in (("q", 2), ("k", 3), ("v", 3))}
    inputs = [info(name, shape) for name, shape in heads.items()]
    mask = info("mask", (2, 2), TensorProto.INT64)
    return model([attend], inputs=[*inputs, mask], outputs=[info("y", None)], opset=24)


@refused(
    ModelError,
    """
    error: x must hold strings, it is f32[2]
      in node 'words' (StringNormalizer of ai.onnx version 17)
    """,
)
def numbers_where_texts_are_needed() -> onnx.ModelProto:
    words = node("StringNormalizer", ["x"], ["y"], name="words", stopwords=["a"])
    return model([words], inputs=[], constants={"x": np.ones(2, np.float32)})


@refused(
    ModelError,
    """
    error: input 0 must hold one real number, it is c64[]
      in node 'steps' (Range of ai.onnx version 17)
    """,
)
def a_range_of_complex_numbers() -> onnx.ModelProto:
    steps = node("Range", ["start", "one", "one"], ["y"], name="steps")
    numbers = {"start": np.array(1j, np.complex64), "one": np.array(1, np.complex64)}
    return model([steps], inputs=[], constants=numbers)


@refused(
    ModelError,
    """
    error: input 1 must hold one real number, it is c128[]
      in node 'sums' (CumSum of ai.onnx version 17)
    """,
)
def an_axis_that_is_complex() -> onnx.ModelProto:
    sums = node("CumSum", ["x", "axis"], ["y"], name="sums")
    return model([sums], constants={"axis": np.array(1j)})


@refused(
    ModelError,
    """
    error: 18446744073709551615 does not fit into 64 bits
      in node 'hot' (OneHot of ai.onnx version 17)
    """,
)
def a_depth_beyond_all_integers() -> onnx.ModelProto:
    hot = node("OneHot", ["i", "depth", "values"], ["y"], name="hot")
    constants = {"depth": np.array(2**64 - 1, np.uint64), "values": np.zeros(2, np.float32)}
    return model([hot], inputs=[info("i", (2,), TensorProto.INT64)], constants=constants)


@refused(
    ModelError,
    """
    error: a result has 33 axes, at most 32 can be
      in node 'wide' (Expand of ai.onnx version 17)
    """,
)
def more_axes_than_arrays_have() -> onnx.ModelProto:
    wide = node("Expand", ["x", "shape"], ["y"], name="wide")
    return model([wide], constants={"shape": np.ones(33, np.int64)})


@refused(ModelError, "error: input 'x': it has 33 axes, at most 32 can be")
def an_input_with_more_axes_than_arrays_have() -> onnx.ModelProto:
    return model([node("Relu", ["x"], ["y"])], inputs=[info("x", (1,) * 33)])


@refused(ModelError, "error: tensor 'w': it has 33 axes, at most 32 can be")
def a_constant_with_more_axes_than_arrays_have() -> onnx.ModelProto:
    return model([node("Relu", ["w"], ["y"])], constants={"w": np.zeros((1,) * 33, np.float32)})


@refused(
    ModelError,
    """
    error: extents [2, 3] times scales [1.0, 3.0000000054977558e+38] are too large
      in node 'larger' (Resize of ai.onnx version 17)
    """,
)
def scales_beyond_all_extents() -> onnx.ModelProto:
    larger = node("Resize", ["x", "", "scales"], ["y"], name="larger")
    return model([larger], constants={"scales": np.array([1, 3e38], np.float32)})


@refused(
    MemoryLimitError,
    """
    error: resampling needs a table of 20,000,000 neighbours along an axis, the limit is 16,777,216
      in node 'larger' (Resize of ai.onnx version 17)
    """,
)
def positions_beyond_all_measure() -> onnx.ModelProto:
    larger = node("Resize", ["x", "", "", "sizes"], ["y"], name="larger", mode="linear")
    return model([larger], constants={"sizes": np.array([2, 10**7])})


@refused(
    ModelError,
    """
    error: i32 has no inf
      in node 'product' (Gemm of ai.onnx version 17)
    """,
)
def a_factor_that_is_no_integer() -> onnx.ModelProto:
    product = node("Gemm", ["a", "a"], ["y"], name="product", alpha=float("inf"))
    whole = TensorProto.INT32
    return model([product], inputs=[info("a", (2, 2), whole)], outputs=[info("y", None, whole)])


@refused(
    ModelError,
    """
    error: a shape has no negative extents, got (2, -3)
      in node 'wide' (Expand of ai.onnx version 17)
    """,
)
def a_negative_extent() -> onnx.ModelProto:
    wide = node("Expand", ["x", "shape"], ["y"], name="wide")
    return model([wide], constants={"shape": np.array([2, -3])})


@refused(
    ModelError,
    """
    error: input 2 must hold floats, it is str[2]
      in node 'larger' (Resize of ai.onnx version 17)
    """,
)
def scales_that_are_texts() -> onnx.ModelProto:
    larger = node("Resize", ["x", "", "scales"], ["y"], name="larger")
    return model([larger], constants={"scales": np.array(["", "a"], object)})


@refused(
    ModelError,
    """
    error: u8[3] has no axis 1 for the zero points u8[2]
      in node 'slide' (ConvInteger of ai.onnx version 17)
    """,
)
def zero_points_along_channels_that_are_not_there() -> onnx.ModelProto:
    byte = TensorProto.UINT8
    slide = node("ConvInteger", ["x", "w", "zeros"], ["y"], name="slide")
    return model(
        [slide],
        inputs=[info("x", (3,), byte), info("w", (1, 1, 3), byte), info("zeros", (2,), byte)],
        outputs=[info("y", None, TensorProto.INT32)],
    )


@refused(
    ModelError,
    """
    error: axis 1 is out of range for x: f32[4] has 1 axes
      in node 'normal' (LRN of ai.onnx version 17)
      help: axes run from -1 to 0
    """,
)
def a_response_without_channels() -> onnx.ModelProto:
    normal = node("LRN", ["x"], ["y"], name="normal", size=3)
    return model([normal], inputs=[info("x", (4,))], outputs=[info("y", None)])


def group_normalization(shape: tuple[int, ...], groups: int) -> onnx.ModelProto:
    normal = node("GroupNormalization", ["x", "s", "s"], ["y"], name="normal", num_groups=groups)
    inputs = [info("x", shape), info("s", (2,))]
    return model([normal], inputs=inputs, outputs=[info("y", None)], opset=18)


@refused(
    ModelError,
    """
    error: axis 1 is out of range for x: f32[4] has 1 axes
      in node 'normal' (GroupNormalization of ai.onnx version 18)
      help: axes run from -1 to 0
    """,
)
def groups_without_channels() -> onnx.ModelProto:
    return group_normalization((4,), 2)


@refused(
    ModelError,
    """
    error: 4 channels do not divide into 0 groups
      in node 'normal' (GroupNormalization of ai.onnx version 18)
    """,
)
def channels_in_no_groups() -> onnx.ModelProto:
    return group_normalization((2, 4, 3), 0)


@refused(
    ModelError,
    """
    error: einsum: one operand repeats index 'i', with extents 3 and 1
      in node 'sum' (Einsum of ai.onnx version 17)
        > %y = einsum(%x) {equation = "ii->i"}
    """,
)
def a_diagonal_of_what_is_not_square() -> onnx.ModelProto:
    diagonal = node("Einsum", ["x"], ["y"], name="sum", equation="ii->i")
    return model([diagonal], inputs=[info("x", (3, 1))], outputs=[info("y", None)])


@refused(
    ModelError,
    """
    error: einsum: indices must be letters from a to z or A to Z, got 'éj'
      in node 'sum' (Einsum of ai.onnx version 17)
        > %y = einsum(%x) {equation = "\\u00e9j->j"}
    """,
)
def an_index_beyond_the_alphabet() -> onnx.ModelProto:
    return model([node("Einsum", ["x"], ["y"], name="sum", equation="éj->j")])


@pytest.mark.parametrize(("make", "kind", "text"), CASES)
def test_refused(make: Made, kind: type[AfterglowError], text: str) -> None:
    check(make(), kind, text)
