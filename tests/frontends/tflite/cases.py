"""One op after the other, as a file with its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.frontends.tflite.build import Array, Tensor, constant, one_op


@dataclass
class Case:
    """An op on arrays; those wrapped by `const` are constants of the file."""

    op: str
    inputs: Sequence[Any]
    options: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] = ("float32",)
    note: str = ""
    version: int = 1
    tolerance: float = 2e-6
    runs: int = 1

    def __str__(self) -> str:
        return f"{self.op} {self.note}".strip()

    def file(self) -> bytes:
        """The file."""
        tensors = [_tensor(index, given) for index, given in enumerate(self.inputs)]
        results = [Tensor(f"y{i}", (), dtype) for i, dtype in enumerate(self.outputs)]
        return one_op(self.op, tensors, results, self.options, version=self.version, **self.fields)

    def feeds(self) -> list[Array]:
        """The inputs."""
        return [each for each in self.inputs if isinstance(each, np.ndarray)]


@dataclass
class Const:
    """A constant of the file."""

    array: Array


@dataclass
class Variable:
    """A variable tensor of a shape."""

    shape: tuple[int, ...]


def const(data: Any, dtype: str = "float32") -> Const:
    """A constant."""
    return Const(np.asarray(data, dtype))


def ints(*numbers: int) -> Const:
    """A constant vector of integers."""
    return const(numbers, "int32")


def _tensor(index: int, given: Any) -> Tensor | None:
    match given:
        case Const():
            return constant(f"c{index}", given.array)
        case Variable():
            return Tensor(f"v{index}", given.shape, variable=True)
        case None:
            return None
    return Tensor(f"x{index}", given.shape, given.dtype.name)


_RNG = np.random.default_rng(7)


def floats(*shape: int, low: float = -2.0, high: float = 2.0) -> Array:
    """Random numbers."""
    return _RNG.uniform(low, high, shape).astype(np.float32)


def whole(*shape: int, low: int = -5, high: int = 6, dtype: str = "int32") -> Array:
    """Random integers."""
    return _RNG.integers(low, high, shape).astype(dtype)


def truths(*shape: int) -> Array:
    """Random truth values."""
    return _RNG.random(shape) < 0.5


X = floats(2, 3, 4)
IMAGE = floats(2, 5, 6, 4)
CONV = {"stride_w": 1, "stride_h": 1, "dilation_w_factor": 1, "dilation_h_factor": 1}
POOL = {"stride_w": 2, "stride_h": 2, "filter_width": 3, "filter_height": 2}
SAME, VALID = 0, 1


def all_cases() -> list[Case]:
    """All of them."""
    return [
        *_elementwise(),
        *_activations(),
        *_reductions(),
        *_windows(),
        *_linear(),
        *_movement(),
        *_slices(),
        *_blocks(),
        *_indexing(),
        *_images(),
        *_recurrent(),
        *_boxes(),
    ]


def _elementwise() -> Iterator[Case]:
    for op in ("ABS", "CEIL", "COS", "EXP", "FLOOR", "NEG", "ROUND", "SIN", "SQUARE"):
        yield Case(op, [X])
    yield Case("SIGN", [X], "SignOptions", note="floats")
    for op in ("LOG", "SQRT", "RSQRT"):
        yield Case(op, [np.abs(X) + 0.1])
    for op, options in (("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul"), ("DIV", "Div")):
        for number, note in enumerate(("plain", "relu", "relu_n1_to_1", "relu6")):
            fields = {"fused_activation_function": number}
            yield Case(op, [X, floats(3, 1)], f"{options}Options", fields, note=note)
    for op in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD"):
        yield Case(op, [X, floats(2, 3, 4)])
    for op in ("FLOOR_DIV", "FLOOR_MOD"):
        yield Case(op, [whole(3, 4), whole(3, 4, low=1)], outputs=["int32"], note="integers")
    yield Case("POW", [np.abs(X) + 0.1, floats(2, 3, 4)], tolerance=1e-5)
    for op in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
        yield Case(op, [whole(3, 4), whole(1, 4)], outputs=["bool"])
    for op in ("LOGICAL_AND", "LOGICAL_OR"):
        yield Case(op, [truths(3, 4), truths(3, 4)], outputs=["bool"])
    yield Case("LOGICAL_NOT", [truths(3, 4)], outputs=["bool"])
    yield Case("ADD_N", [X, floats(2, 3, 4), floats(2, 3, 4)])
    yield Case("SELECT", [truths(2), X, floats(2, 3, 4)], note="rows")
    yield Case("SELECT_V2", [truths(3, 1), X, floats(1, 4)])
    yield Case("BITWISE_XOR", [whole(4), whole(4)], outputs=["int32"])
    yield Case("RIGHT_SHIFT", [whole(5), whole(5, low=0)], outputs=["int32"])
    yield Case("BITCAST", [floats(4)], outputs=["int32"])
    yield Case("ATAN2", [floats(9), floats(9)], tolerance=1e-5)
    fields = {"min": -1.1, "max": 1.7, "num_bits": 8}
    yield Case("FAKE_QUANT", [X], "FakeQuantOptions", fields)
    fields = {"boundaries": [-1.0, 0.5, 1.0]}
    yield Case("BUCKETIZE", [X], "BucketizeOptions", fields, outputs=["int32"])
    yield Case("CAST", [X], "CastOptions", {"in_data_type": 0, "out_data_type": 2}, ["int32"])
    half = Const(floats(3, 4).astype(np.float16))
    yield Case("DEQUANTIZE", [half], note="halves", version=3)


def _activations() -> Iterator[Case]:
    for op in ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "TANH", "LOGISTIC", "ELU"):
        yield Case(op, [3 * X], tolerance=1e-5)
    yield Case("HARD_SWISH", [3 * X])
    yield Case("LEAKY_RELU", [X], "LeakyReluOptions", {"alpha": 0.3})
    yield Case("PRELU", [X, const(floats(4))])
    for flag in (False, True):
        yield Case(
            "GELU", [X], "GeluOptions", {"approximate": flag}, tolerance=1e-5, note=f"{flag}"
        )
    yield Case("SOFTMAX", [X], "SoftmaxOptions", {"beta": 0.7}, tolerance=1e-5)
    yield Case("LOG_SOFTMAX", [X], tolerance=1e-5)
    yield Case("L2_NORMALIZATION", [floats(3, 4)], "L2NormOptions")
    fields = {"radius": 1, "bias": 0.9, "alpha": 0.6, "beta": 0.5}
    yield Case("LOCAL_RESPONSE_NORMALIZATION", [IMAGE], "LocalResponseNormalizationOptions", fields)


def _reductions() -> Iterator[Case]:
    for op in ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"):
        for keep in (False, True):
            note = "kept" if keep else ""
            yield Case(op, [X, ints(-1, 0)], "ReducerOptions", {"keep_dims": keep}, note=note)
    for op in ("REDUCE_ANY", "REDUCE_ALL"):
        yield Case(op, [truths(2, 3), ints(1)], "ReducerOptions", outputs=["bool"])
    yield Case("ARG_MAX", [X, ints(1)], "ArgMaxOptions", {"output_type": 2}, ["int32"])
    yield Case("ARG_MIN", [X, ints(-1)], "ArgMinOptions", {"output_type": 4}, ["int64"])
    yield Case("TOPK_V2", [X, const(2, "int32")], outputs=["float32", "int32"])
    for exclusive in (False, True):
        fields = {"exclusive": exclusive, "reverse": not exclusive}
        yield Case("CUMSUM", [X, const(1, "int32")], "CumsumOptions", fields, note=f"{exclusive}")


def _windows() -> Iterator[Case]:
    weight, bias = const(floats(3, 3, 2, 4)), const(floats(3))
    for padding in (SAME, VALID):
        note = "valid" if padding else "same"
        fields = {**CONV, "padding": padding, "stride_h": 2, "fused_activation_function": 1}
        yield Case("CONV_2D", [IMAGE, weight, bias], "Conv2DOptions", fields, note=note)
        fields = {**POOL, "padding": padding}
        for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"):
            yield Case(op, [IMAGE], "Pool2DOptions", fields, note=note)
        fields = {"padding": padding, "stride_w": 2, "stride_h": 1}
        shape = ints(2, 5, 12, 3) if padding == SAME else ints(2, 7, 12, 3)
        yield Case(
            "TRANSPOSE_CONV", [shape, weight, IMAGE], "TransposeConvOptions", fields, note=note
        )
    fields = {**CONV, "dilation_w_factor": 2, "padding": SAME}
    yield Case("CONV_2D", [IMAGE, weight, bias], "Conv2DOptions", fields, note="dilated")
    grouped = const(floats(4, 3, 3, 2))
    fields = {**CONV, "padding": SAME}
    yield Case(
        "CONV_2D", [IMAGE, grouped, const(floats(4))], "Conv2DOptions", fields, note="groups"
    )
    fields = {**CONV, "padding": SAME, "depth_multiplier": 2, "fused_activation_function": 3}
    depthwise = [IMAGE, const(floats(1, 3, 3, 8)), const(floats(8))]
    yield Case("DEPTHWISE_CONV_2D", depthwise, "DepthwiseConv2DOptions", fields)
    fields = {"padding": VALID, "stride_d": 1, "stride_w": 2, "stride_h": 1}
    dilations = {f"dilation_{axis}_factor": 1 for axis in "dwh"}
    volume = floats(1, 3, 4, 5, 2)
    weights = const(floats(2, 2, 3, 2, 3))
    yield Case("CONV_3D", [volume, weights], "Conv3DOptions", fields | dilations, tolerance=1e-5)
    inputs = [ints(1, 4, 5, 11, 3), const(floats(2, 2, 3, 3, 2)), volume]
    yield Case("CONV_3D_TRANSPOSE", inputs, "Conv3DOptions", fields | dilations, tolerance=1e-5)
    for number, name in enumerate(("add", "mul", "minimum", "maximum"), 1):
        inputs = [floats(5, 6), const(0.5), *(const(e, "int64") for e in ([2, 3], [1, 2], [2, 1]))]
        fields = {"reduce_function": number}
        yield Case("REDUCE_WINDOW", inputs, "ReduceWindowOptions", fields, note=name)


def _linear() -> Iterator[Case]:
    weight, bias = const(floats(5, 4)), const(floats(5))
    for keep in (False, True):
        fields = {"keep_num_dims": keep, "fused_activation_function": 1}
        yield Case(
            "FULLY_CONNECTED", [X, weight, bias], "FullyConnectedOptions", fields, note=f"{keep}"
        )
    yield Case("FULLY_CONNECTED", [X, weight, None], "FullyConnectedOptions", note="without bias")
    fields = {"adj_x": True, "adj_y": True}
    yield Case("BATCH_MATMUL", [X, floats(1, 5, 3)], "BatchMatMulOptions", fields)


def _movement() -> Iterator[Case]:
    yield Case("RESHAPE", [X, ints(4, -1)], "ReshapeOptions", {"new_shape": [4, -1]})
    yield Case("SQUEEZE", [floats(1, 3, 1)], "SqueezeOptions", {"squeeze_dims": [0]})
    yield Case("EXPAND_DIMS", [X, ints(-1)])
    yield Case("SHAPE", [X], "ShapeOptions", {"out_type": 2}, ["int32"])
    yield Case("RANK", [X], outputs=["int32"])
    yield Case("TRANSPOSE", [X, ints(2, 0, 1)])
    yield Case("CONCATENATION", [X, floats(2, 1, 4)], "ConcatenationOptions", {"axis": 1})
    yield Case("PACK", [X, floats(2, 3, 4)], "PackOptions", {"axis": 1, "values_count": 2})
    yield Case("UNPACK", [X], "UnpackOptions", {"axis": 1, "num": 3}, ["float32"] * 3)
    yield Case("SPLIT", [ints(2), X], "SplitOptions", {"num_splits": 2}, ["float32"] * 2)
    lengths = [X, ints(1, -1), ints(1)]
    yield Case("SPLIT_V", lengths, "SplitVOptions", {"num_splits": 2}, ["float32"] * 2)
    yield Case("TILE", [X, ints(1, 2, 3)])
    yield Case("BROADCAST_TO", [floats(3, 1), ints(2, 3, 4)], version=2)
    yield Case("BROADCAST_ARGS", [ints(3, 1), ints(2, 3, 4)], outputs=["int32"])
    yield Case("PAD", [X, const([[0, 1], [2, 0], [1, 1]], "int32")])
    yield Case("PADV2", [X, const([[0, 1], [2, 0], [1, 1]], "int32"), const(1.5)])
    for mode, note in enumerate(("reflect", "symmetric")):
        pads = const([[0, 1], [2, 0], [1, 2]], "int32")
        yield Case("MIRROR_PAD", [X, pads], "MirrorPadOptions", {"mode": mode}, note=note)
    yield Case("REVERSE_V2", [X, ints(2)])
    yield Case("FILL", [ints(2, 3), const(1.5)])
    yield Case("ZEROS_LIKE", [X])
    yield Case("DILATE", [floats(3, 2), ints(2, 3), const(0.5)], "DilateOptions")
    numbers = (const(1, "int32"), const(9, "int32"), const(3, "int32"))
    yield Case("RANGE", numbers, outputs=["int32"])


def _slices() -> Iterator[Case]:
    yield Case("SLICE", [X, ints(0, 1, 1), ints(2, -1, 2)])
    masks: list[tuple[str, list[Const], dict[str, int]]] = [
        ("plain", [ints(0, -2, 3), ints(2, 3, 0), ints(1, 1, -2)], {}),
        ("begin", [ints(1, 1, 1), ints(2, 3, 3), ints(1, 1, 1)], {"begin_mask": 5}),
        ("backwards", [ints(1, 1, 1), ints(0, 0, 0), ints(-1, -1, 1)], {"end_mask": 7}),
        ("shrink", [ints(1, -1, 0), ints(2, 0, 4), ints(1, 1, 2)], {"shrink_axis_mask": 3}),
        ("new", [ints(0, 0, 1), ints(0, 2, 3), ints(1, 1, 1)], {"new_axis_mask": 1}),
        ("ellipsis", [ints(0, 1), ints(0, 3), ints(1, 1)], {"ellipsis_mask": 1}),
    ]
    for note, bounds, fields in masks:
        version = 8 if note in ("new", "ellipsis") else 1
        yield Case(
            "STRIDED_SLICE", [X, *bounds], "StridedSliceOptions", fields, note=note, version=version
        )
    for starts in (ints(1, 9, 0), whole(3, low=0, high=4)):
        note = "known" if isinstance(starts, Const) else "computed"
        yield Case("DYNAMIC_UPDATE_SLICE", [X, floats(1, 2, 2), starts], note=note)


def _blocks() -> Iterator[Case]:
    yield Case("DEPTH_TO_SPACE", [floats(1, 2, 3, 8)], "DepthToSpaceOptions", {"block_size": 2})
    yield Case("SPACE_TO_DEPTH", [floats(1, 4, 2, 3)], "SpaceToDepthOptions", {"block_size": 2})
    pads = const([[1, 0], [0, 2]], "int32")
    yield Case("SPACE_TO_BATCH_ND", [floats(2, 3, 4, 3), ints(2, 3), pads])
    crops = const([[1, 0], [0, 1]], "int32")
    yield Case("BATCH_TO_SPACE_ND", [floats(8, 2, 3, 2), ints(2, 2), crops])


def _indexing() -> Iterator[Case]:
    yield Case("GATHER", [X, const([[2, 0]], "int32")], "GatherOptions", {"axis": 1})
    fields = {"axis": 2, "batch_dims": 1}
    yield Case("GATHER", [X, whole(2, 2, low=0, high=3)], "GatherOptions", fields, note="batch")
    yield Case("GATHER_ND", [X, const([[1, 2], [0, 1]], "int32")])
    yield Case("EMBEDDING_LOOKUP", [ints(2, 0, 2), floats(3, 4)])
    keys = [whole(4, low=0, high=8), ints(1, 3, 4, 6), floats(4, 2)]
    yield Case("HASHTABLE_LOOKUP", keys, outputs=["float32", "uint8"])
    for number, name in enumerate(("sum", "mean", "sqrtn")):
        tuples = const([[0, 0], [0, 2], [2, 1]], "int32")
        inputs = [ints(1, 0, 2), tuples, ints(3, 3), const([1.0, 2.0, 0.5]), floats(3, 4)]
        fields = {"combiner": number}
        options = "EmbeddingLookupSparseOptions"
        yield Case("EMBEDDING_LOOKUP_SPARSE", inputs, options, fields, note=name)
    places = const([[1], [3], [1]], "int32")
    yield Case("SCATTER_ND", [places, floats(3, 2), ints(5, 2)])
    inputs = [const([[0, 1], [2, 0]], "int32"), ints(3, 2), const([1.0, 2.0]), const(-1.0)]
    yield Case("SPARSE_TO_DENSE", inputs)
    depth = [const(4, "int32"), const(2.0), const(-1.0)]
    yield Case("ONE_HOT", [whole(3, low=-1, high=4), *depth], "OneHotOptions", {"axis": 0})
    lengths = const([1, 3], "int32")
    fields = {"seq_dim": 1, "batch_dim": 0}
    yield Case("REVERSE_SEQUENCE", [X, lengths], "ReverseSequenceOptions", fields)
    yield Case("SEGMENT_SUM", [floats(4, 2), ints(0, 0, 1, 2)])
    for name in ("SUM", "PROD", "MAX", "MIN"):
        yield Case(f"UNSORTED_SEGMENT_{name}", [floats(4, 2), ints(2, 0, -1, 2), const(4, "int32")])
    yield Case("MATRIX_DIAG", [floats(2, 3)])
    yield Case("MATRIX_SET_DIAG", [floats(2, 3, 4), floats(2, 3)], note="wide")
    yield Case("MATRIX_SET_DIAG", [floats(4, 3), floats(3)], note="high")


def _images() -> Iterator[Case]:
    ways = {"plain": {}, "aligned": {"align_corners": True}, "half": {"half_pixel_centers": True}}
    for op, options in (("BILINEAR", "Bilinear"), ("NEAREST_NEIGHBOR", "NearestNeighbor")):
        for note, fields in ways.items():
            for size in ((7, 4), (1, 12)):
                yield Case(
                    f"RESIZE_{op}",
                    [floats(1, 5, 6, 2), ints(*size)],
                    f"Resize{options}Options",
                    fields,
                    note=f"{note} {size}",
                    version=3,
                )


def _gates(count: int, *shape: int) -> list[Const]:
    return [const(floats(*shape, low=-1, high=1)) for _ in range(count)]


def _recurrent() -> Iterator[Case]:
    fields: dict[str, Any] = {"fused_activation_function": 4}
    weights = [const(floats(3, 4)), const(floats(3, 3)), const(floats(3))]
    state = Variable((2, 3))
    yield Case("RNN", [floats(2, 4), *weights, state], "RNNOptions", fields, runs=2, tolerance=1e-5)
    yield Case(
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        [floats(2, 5, 4), *weights, state],
        "SequenceRNNOptions",
        fields,
        runs=2,
        tolerance=1e-5,
    )
    back = [const(floats(3, 4)), const(floats(3, 3)), const(floats(3)), state]
    yield Case(
        "BIDIRECTIONAL_SEQUENCE_RNN",
        [floats(2, 5, 4), *weights, state, *back, None, None, None],
        "BidirectionalSequenceRNNOptions",
        {**fields, "merge_outputs": True},
        runs=2,
        tolerance=1e-5,
    )
    filters = [const(floats(6, 4)), const(floats(6, 5)), const(floats(3)), Variable((2, 30))]
    yield Case("SVDF", [floats(2, 4), *filters], "SVDFOptions", {"rank": 2}, runs=3, tolerance=1e-5)
    yield from _lstms(fields)


def _lstms(fields: dict[str, Any]) -> Iterator[Case]:
    plain = [*_gates(4, 3, 4), *_gates(4, 3, 3), *[None] * 3, *_gates(4, 3), None, None]
    coupled = [None, *plain[1:4], None, *plain[5:11], None, *plain[12:]]
    peep = [*plain[:8], *_gates(3, 3), *plain[11:]]
    projected = [
        *_gates(4, 3, 4), *_gates(4, 3, 2), *[None] * 3, *_gates(4, 3),
        *_gates(1, 2, 3), *_gates(1, 2),
    ]  # fmt: skip
    states = [Variable((2, 3)), Variable((2, 3))]
    small = [Variable((2, 2)), Variable((2, 3))]
    clip = {**fields, "cell_clip": 0.3}
    name, options = "UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions"
    x = floats(2, 5, 4)
    major = {**fields, "time_major": True}
    for note, weights, kept, given, norms in (
        ("plain", plain, states, fields, []),
        ("time first", plain, [Variable((5, 3)), Variable((5, 3))], major, []),
        ("coupled", coupled, states, fields, []),
        ("peepholes, clipped", peep, states, clip, []),
        ("projected", projected, small, fields, []),
        ("norms", plain, states, fields, _gates(4, 3)),
    ):
        yield Case(
            name, [x, *weights, *kept, *(norms or [None] * 4)], options, given, note=note, runs=2,
            tolerance=1e-5,
        )  # fmt: skip
    given = {**fields, "kernel_type": 0}
    yield Case(
        "LSTM", [floats(2, 4), *plain, *states], "LSTMOptions", given, runs=2, tolerance=1e-5
    )
    both = [*plain, *_gates(4, 3, 4), *_gates(4, 3, 3), *[None] * 3, *_gates(4, 3), None, None]
    yield Case(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        [x, *both, *states, *states, *[None] * 9],
        "BidirectionalSequenceLSTMOptions",
        {**fields, "merge_outputs": False, "time_major": False},
        ["float32"] * 2,
        runs=2,
        tolerance=1e-5,
    )


def _boxes() -> Iterator[Case]:
    corners = _RNG.uniform(0, 3, (9, 2)).astype(np.float32)
    boxes = np.concatenate([corners, corners + 1.5], axis=1)
    scores = _RNG.permutation(9).astype(np.float32) / 9
    limits = [const(6, "int32"), const(0.3), const(0.15)]
    yield Case("NON_MAX_SUPPRESSION_V4", [boxes, scores, *limits], outputs=["int32", "int32"])
    for sigma in (0.0, 0.4):
        yield Case(
            "NON_MAX_SUPPRESSION_V5",
            [boxes, scores, *limits, const(sigma)],
            outputs=["int32", "float32", "int32"],
            note=f"sigma {sigma}",
        )
