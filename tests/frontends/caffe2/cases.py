"""Operators of Caffe2 with operands, and what each computes: its ONNX twin, or NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper

rng = np.random.default_rng(0)


def f32(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return np.abs(f32(*shape)) + np.float32(0.1)


@dataclass
class Case:
    """An operator with operands, and what it computes: ONNX nodes, or a function of arrays."""

    type: str
    operands: list[np.ndarray]
    expected: Any
    args: dict[str, Any] = field(default_factory=dict)
    twins: list[np.ndarray] | None = None


CASES: list[Case] = []


def case(type: str, operands: Any, expected: Any = None, twin: Any = None, **args: Any) -> None:
    """`expected` is a function of the operands, or an ONNX op with attributes on `twin`."""
    operands = operands if isinstance(operands, list) else [operands]
    CASES.append(Case(type, operands, expected or type, args, twin))


def nhwc(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def nchw(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


IMAGE, WEIGHT, BIAS = f32(2, 4, 7, 9), f32(6, 4, 3, 3), f32(6)
GROUPED = f32(6, 2, 3, 3)
MATRIX, ROW = f32(3, 5), f32(5)

# element-wise functions
for each in ("Abs", "Sign", "Floor", "Ceil", "Exp", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh"):
    case(each, MATRIX)
for each in ("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "Erf"):
    case(each, MATRIX)
for each in ("Log", "Sqrt", "Reciprocal"):
    case(each, positive(3, 5))
for each in ("Asin", "Acos"):
    case(each, np.tanh(MATRIX))
case("Negative", MATRIX, "Neg")
case("Log1p", positive(3, 5), np.log1p)
case("Rsqrt", positive(3, 5), lambda x: 1 / np.sqrt(x))
case("Sqr", MATRIX, np.square)
case("Cube", MATRIX, lambda x: x**3)
case("Swish", MATRIX, lambda x: x / (1 + np.exp(-x)))
case("Gelu", MATRIX, ("Gelu", {}))
case("Gelu", MATRIX, ("Gelu", {"approximate": "tanh"}), fast_gelu=1)
case("LeakyRelu", MATRIX, ("LeakyRelu", {"alpha": 0.01}))
case("LeakyRelu", MATRIX, ("LeakyRelu", {"alpha": 0.3}), alpha=0.3)
case("Elu", MATRIX, ("Elu", {"alpha": 0.7}), alpha=0.7)
case("Selu", MATRIX, "Selu")
case("HardSigmoid", MATRIX, ("HardSigmoid", {"alpha": 0.1, "beta": 0.4}), alpha=0.1, beta=0.4)
case("ReluN", MATRIX * 9, lambda x: x.clip(0, 6))
case("Clip", MATRIX, lambda x: x.clip(-0.5, None), min=-0.5)
case("Clip", MATRIX, lambda x: x.clip(-0.5, 0.25), min=-0.5, max=0.25)
case("PRelu", [IMAGE, f32(4)], lambda x, s: np.where(x > 0, x, x * s[:, None, None]))
case("PRelu", [IMAGE, f32(1)], lambda x, s: np.where(x > 0, x, x * s))
case("PRelu", [nhwc(IMAGE), f32(4)], lambda x, s: np.where(x > 0, x, x * s), order="NHWC")
case("Logit", rng.random((3, 5), np.float32), lambda x: np.log(x / (1 - x)))
case("Softmax", MATRIX, ("Softmax", {"axis": 1}))
case("Softmax", f32(2, 3, 4), lambda x: _softmax(x.reshape(2, 12)).reshape(2, 3, 4))
case("Softmax", f32(2, 3, 4), ("Softmax", {"axis": -1}), axis=-1)
case("LogSoftmax", MATRIX, ("LogSoftmax", {"axis": 1}))
case("Not", np.array([True, False]))
case("IsNanOp", np.array([1, np.nan], np.float32), "IsNaN")
case("ReplaceNaN", np.array([1, np.nan], np.float32), lambda x: np.array([1, 3]), value=3.0)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# functions of several operands
for each in ("Add", "Sub", "Mul", "Div"):
    case(each, [MATRIX, f32(3, 5)])
    case(each, [MATRIX, ROW], broadcast=1)
case("Add", [IMAGE, f32(4)], lambda x, y: x + y[:, None, None], broadcast=1, axis=1)
case("Mul", [IMAGE, f32(2, 4)], lambda x, y: x * y[:, :, None, None], broadcast=1, axis=0)
case("Sub", [IMAGE, f32(7, 9)], np.subtract, broadcast=1, axis=-1)
ONES, OTHERS = np.array([[1, 2, 3]], np.float32), np.array([[1, 3, 2]], np.float32)
for each, twin in {"EQ": "Equal", "LT": "Less", "LE": "LessOrEqual", "GT": "Greater"}.items():
    case(each, [ONES, OTHERS], twin)
case("GE", [ONES, OTHERS], "GreaterOrEqual")
case("NE", [ONES, OTHERS], np.not_equal)
BITS = [np.array([True, True, False, False]), np.array([True, False, True, False])]
for each in ("And", "Or", "Xor"):
    case(each, BITS)
NUMBERS = [np.array([12, 10], np.int32), np.array([10, 6], np.int32)]
for each in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    case(each, NUMBERS)
for each in ("Sum", "Max", "Min", "Mean"):
    case(each, [MATRIX, f32(3, 5), f32(3, 5)])
    case(each, [MATRIX])
case("Pow", positive(3, 5), lambda x: x**2.5, exponent=2.5)
case("Pow", [positive(3, 5), f32(3, 5)])
case("Mod", np.array([-7, 7], np.int64), lambda x: np.fmod(x, 3), divisor=3)
case("Mod", np.array([-7, 7], np.int64), lambda x: np.mod(x, 3), divisor=3, sign_follow_divisor=1)
case("Scale", MATRIX, lambda x: x * np.float32(2.5), scale=2.5)
case("Where", [ONES > OTHERS, ONES, OTHERS])
case(
    "Where",
    [np.array([True, False, True]), MATRIX, f32(3, 5)],
    lambda c, x, y: np.where(c[:, None], x, y),
    enable_broadcast=1,
    broadcast_on_rows=1,
)
LAMBDAS = np.array([0, 0.5, 0, 2, 1], np.float32)
case(
    "BatchBoxCox",
    [positive(3, 5), LAMBDAS, ROW * 0],
    lambda x, a, b: np.where(a == 0, np.log(x), (x**a - 1) / np.where(a == 0, 1, a)),
)
case(
    "SigmoidCrossEntropyWithLogits",
    [MATRIX, rng.random((3, 5), np.float32)],
    lambda x, t: (np.log1p(np.exp(x)) - x * t).mean(1),
)
case("ElementwiseLinear", [MATRIX, ROW, f32(5)], lambda x, w, b: x * w + b)
case(
    "ElementwiseLinear",
    [MATRIX, f32(3), f32(3)],
    lambda x, w, b: x * w[:, None] + b[:, None],
    axis=0,
)
case("Cast", MATRIX * 9, lambda x: x.astype(np.int32), to="int32")
case("Cast", np.arange(5, dtype=np.int32), lambda x: x.astype(np.float32), to=1)
case("FloatToHalf", MATRIX, lambda x: x.astype(np.float16))
case("HalfToFloat", MATRIX.astype(np.float16), lambda x: x.astype(np.float32))

# convolutions
PADS = {"pads": [1, 1, 1, 1]}
case("Conv", [IMAGE, WEIGHT, BIAS], ("Conv", {}), kernel=3)
case("Conv", [IMAGE, WEIGHT], ("Conv", PADS), kernels=[3, 3], pad=1)
case(
    "Conv",
    [IMAGE, WEIGHT, BIAS],
    ("Conv", {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}),
    kernel_h=3, kernel_w=3, pad_t=1, pad_b=2, pad_r=1, stride_h=2, stride_w=1, dilations=[1, 2],
)  # fmt: skip
case("Conv", [IMAGE, GROUPED, BIAS], ("Conv", {"group": 2, **PADS}), kernel=3, group=2, pad=1)
case(
    "Conv",
    [nhwc(IMAGE), nhwc(WEIGHT), BIAS],
    lambda *_: nhwc(run_onnx("Conv", [IMAGE, WEIGHT, BIAS], **PADS)),
    kernel=3, pad=1, order="NHWC",
)  # fmt: skip
case("Conv", [IMAGE, WEIGHT], ("Conv", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
     kernel=3, stride=2, legacy_pad=2)  # fmt: skip
case("Conv", [IMAGE, WEIGHT], ("Conv", {}), kernel=3, pad=1, legacy_pad=1)
case("ConvRelu", [IMAGE, WEIGHT, BIAS],
     lambda *x: run_onnx("Conv", x).clip(0, None), kernel=3)  # fmt: skip
case("Conv", [f32(2, 3, 8), f32(4, 3, 3)], ("Conv", {}), kernels=[3])
UP = f32(4, 5, 3, 3)
case("ConvTranspose", [IMAGE, UP, f32(5)], ("ConvTranspose", {"strides": [2, 2]}),
     kernel=3, stride=2)  # fmt: skip
case(
    "ConvTranspose",
    [IMAGE, UP],
    ("ConvTranspose", {"strides": [2, 2], "output_padding": [1, 1], **PADS}),
    kernel=3, stride=2, pad=1, adj=1,
)  # fmt: skip
case(
    "ConvTranspose",
    [nhwc(IMAGE), nhwc(UP)],
    lambda *_: nhwc(run_onnx("ConvTranspose", [IMAGE, UP])),
    kernel=3, order="NHWC",
)  # fmt: skip

case(
    "Conv",
    [nhwc(IMAGE), WEIGHT],
    lambda *_: nhwc(run_onnx("Conv", [IMAGE, WEIGHT])),
    kernel=3,
    order="NHWC",
)

# pooling
for each in ("MaxPool", "AveragePool"):
    case(each, IMAGE, (each, {"kernel_shape": [3, 3], "strides": [2, 2]}), kernel=3, stride=2)
    case(each, IMAGE, (each, {"kernel_shape": [3, 2], **PADS}), kernel_h=3, kernel_w=2, pad=1)
    case(each, IMAGE, f"Global{each}", global_pooling=1)
    case(each, nhwc(IMAGE), lambda x, each=each: nhwc(run_onnx(f"Global{each}", [nchw(x)])),
         global_pooling=1, order="NHWC")  # fmt: skip
    case(each, nhwc(IMAGE),
         lambda x, each=each: nhwc(run_onnx(each, [nchw(x)], kernel_shape=[2, 2])),
         kernel=2, order="NHWC")  # fmt: skip
    case(each, f32(1, 2, 8, 7), (each, {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
         kernel=3, stride=2, legacy_pad=3)  # fmt: skip
for each in ("MaxPool", "AveragePool"):
    case(f"{each}2D", IMAGE, (each, {"kernel_shape": [2, 2]}), kernel=2)
    case(f"{each}1D", f32(2, 3, 8), (each, {"kernel_shape": [2]}), kernels=[2])
    case(f"{each}3D", f32(1, 2, 3, 4, 5), (each, {"kernel_shape": [2, 2, 2]}), kernels=[2, 2, 2])
case("AveragePool", IMAGE,
     ("AveragePool", {"kernel_shape": [3, 3], "count_include_pad": 1, **PADS}),
     kernel=3, pad=1, count_include_pad=1)  # fmt: skip

# dense layers and products
case("FC", [MATRIX, f32(4, 5), f32(4)], lambda x, w, b: x @ w.T + b)
case("FbFCPacked", [MATRIX, f32(4, 5), f32(4)], lambda x, w, b: x @ w.T + b)
case("FC", [f32(2, 5, 1, 1), f32(4, 5), f32(4)], lambda x, w, b: x.reshape(2, 5) @ w.T + b)
case("FC", [f32(2, 3, 5), f32(4, 5), f32(4)], lambda x, w, b: x @ w.T + b, axis=2)
case("FCTransposed", [MATRIX, f32(5, 4), f32(4)], lambda x, w, b: x @ w + b)
case("MatMul", [MATRIX, f32(5, 4)])
case("MatMul", [f32(5, 3), f32(4, 5)], lambda x, y: x.T @ y.T, trans_a=1, trans_b=1)
case("BatchMatMul", [f32(2, 3, 5), f32(2, 5, 4)], np.matmul)
case("BatchMatMul", [f32(2, 3, 5), f32(2, 4, 5)], lambda x, y: x @ y.swapaxes(1, 2), trans_b=1)
case("DotProduct", [MATRIX, f32(3, 5)], lambda x, y: (x * y).sum(1))

# normalizations
BN = [IMAGE, f32(4), f32(4), f32(4), positive(4)]
case("SpatialBN", BN, ("BatchNormalization", {"epsilon": 1e-3}), is_test=1, epsilon=1e-3)
case("SpatialBN", [nhwc(IMAGE), *BN[1:]],
     lambda x, *rest: nhwc(run_onnx("BatchNormalization", [nchw(x), *rest])),
     is_test=1, order="NHWC")  # fmt: skip
case("InstanceNorm", BN[:3], ("InstanceNormalization", {"epsilon": 1e-3}), epsilon=1e-3)
case("GroupNorm", BN[:3], ("GroupNormalization", {"num_groups": 2}), group=2)
case("LRN", IMAGE, ("LRN", {"size": 3, "alpha": 0.1, "beta": 0.75, "bias": 2.0}),
     size=3, alpha=0.1, beta=0.75, bias=2.0)  # fmt: skip
case("LayerNorm", MATRIX, lambda x: _normal(x), epsilon=1e-5)
case("LayerNorm", [MATRIX, ROW, f32(5)], ("LayerNormalization", {"axis": 1}), elementwise_affine=1)
case("RMSNorm", [MATRIX, ROW, f32(5)],
     lambda x, g, b: x / np.sqrt((x * x).mean(-1)[:, None] + 1e-3) * g + b, eps=1e-3)  # fmt: skip
case("Normalize", MATRIX, ("LpNormalization", {"axis": -1, "p": 2}))
case("NormalizeL1", MATRIX, ("LpNormalization", {"axis": 0, "p": 1}), axis=0)


def _normal(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


# reductions
for each in ("Sum", "Mean", "Max", "Min", "L1", "L2"):
    case(f"Reduce{each}", f32(2, 3, 4), f"Reduce{each}", twin=[np.array([0, 2])], axes=[0, 2])
    case(f"Reduce{each}", f32(2, 3), lambda x, each=each: _reduced(each, x), keepdims=0)
for each in ("Sum", "Mean", "Max"):
    function = {"Sum": np.sum, "Mean": np.mean, "Max": np.max}[each]
    case(f"ReduceBack{each}", f32(2, 3, 4), lambda x, f=function: f(x, 2))
    case(f"ReduceFront{each}", f32(2, 3, 4), lambda x, f=function: f(x, (0, 1)), num_reduce_dim=2)
case("LpNorm", MATRIX, lambda x: np.array([np.abs(x).sum()]), p=1)
case("LpNorm", MATRIX, lambda x: np.array([(x * x).mean()]), p=2, average=1)
case("ArgMax", MATRIX, ("ArgMax", {"axis": -1}))
case("ArgMin", MATRIX, ("ArgMin", {"axis": 0, "keepdims": 0}), axis=0, keepdims=0)
case("TopK", MATRIX, "TopK", twin=[np.array([2])], k=2)
case("AveragedLoss", MATRIX, np.mean)


def _reduced(kind: str, x: np.ndarray) -> Any:
    norms = {"L1": lambda x: np.abs(x).sum(), "L2": lambda x: np.sqrt((x * x).sum())}
    return norms[kind](x) if kind in norms else getattr(np, kind.lower())(x)


# movement
for each in ("Alias", "Copy", "CopyCPUToGPU", "CopyCPUToMKL", "CopyFromCPUInput", "CopyGPUToCPU"):
    case(each, MATRIX, lambda x: x)
for each in ("CopyMKLToCPU", "EnsureCPUOutput", "EnsureDense", "ScaleGradient", "StopGradient"):
    case(each, MATRIX, lambda x: x)
case("Dropout", MATRIX, lambda x: x, is_test=1, ratio=0.5)
case("Reshape", f32(2, 3, 4), lambda x: x.reshape(2, 12), shape=[0, -1])
case("Reshape", [f32(2, 3), np.array([3, 2])], lambda x, _: x.reshape(3, 2))
case("Flatten", IMAGE, ("Flatten", {"axis": 1}))
case("Flatten", IMAGE, ("Flatten", {"axis": 2}), axis=2)
case("FlattenToVec", MATRIX, lambda x: x.reshape(-1))
case("ResizeLike", [f32(2, 6), f32(3, 4)], lambda x, y: x.reshape(y.shape))
case("Squeeze", f32(2, 1, 3, 1), lambda x: x[:, 0, :, 0], dims=[1, 3])
case("ExpandDims", MATRIX, lambda x: x[:, None, :, None], dims=[1, 3])
case("Transpose", IMAGE, "Transpose")
case("Transpose", IMAGE, ("Transpose", {"perm": [0, 2, 3, 1]}), axes=[0, 2, 3, 1])
case("NCHW2NHWC", IMAGE, nhwc)
case("NHWC2NCHW", IMAGE, nchw)
case("Concat", [IMAGE, f32(2, 1, 7, 9)], ("Concat", {"axis": 1}))
case("Concat", [MATRIX, f32(3, 5)], lambda x, y: np.stack([x, y], 1), axis=1, add_axis=1)
case("Concat", [nhwc(IMAGE), f32(2, 7, 9, 3)], ("Concat", {"axis": 3}), order="NHWC")
case("DepthConcat", [IMAGE, f32(2, 1, 7, 9)], ("Concat", {"axis": 1}))
case("Split", f32(2, 6), lambda x: x[:, :3])
case("Slice", f32(3, 6), lambda x: x[1:2, 2:], starts=[1, 2], ends=[2, -1])
case("Slice", f32(3, 6), lambda x: x[1:, 2:5], starts=[1, 2], ends=[-1, -2])
case("Tile", MATRIX, lambda x: np.tile(x, (1, 3)), tiles=3, axis=1)
case("ChannelShuffle", IMAGE,
     lambda x: x.reshape(2, 2, 2, 7, 9).swapaxes(1, 2).reshape(x.shape), group=2)  # fmt: skip
case("Shape", IMAGE)
case("Shape", IMAGE, lambda x: np.array([9, 2]), axes=[3, 0])
case("Size", IMAGE)

# indices and tables
PLACES = np.array([2, 0, 1, 2, 0], np.int32)
LENGTHS = np.array([2, 0, 3], np.int32)
TABLE = f32(3, 4)
case("Gather", [TABLE, PLACES])
case("Gather", [TABLE, PLACES], ("Gather", {"axis": 1}), axis=1)
case("BatchGather", [TABLE, PLACES], ("Gather", {"axis": 1}))
case("OneHot", [np.array([2, 0]), np.array(3)], lambda i, n: np.eye(3, dtype=bool)[i])
case("ScatterAssign", [TABLE, np.array([2, 0]), f32(2, 4)],
     lambda x, i, s: np.stack([s[1], x[1], s[0]]))  # fmt: skip
case("Bucketize", np.array([0, 1, 2], np.int32), lambda x: np.array([0, 0, 1]),
     boundaries=[1.5])  # fmt: skip
case("Bucketize", np.array([0.5, 1, 7], np.float32), lambda x: np.array([0, 1, 2]) * (x > 0),
     boundaries=[0.75, 2.0])  # fmt: skip
WEIGHTS = f32(5)


def _sums(rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    ends = np.cumsum(lengths)
    return np.stack([rows[end - n : end].sum(0) for n, end in zip(lengths, ends, strict=True)])


def _means(rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    return _sums(rows, lengths) / np.maximum(lengths, 1)[:, None]


case("LengthsSum", [f32(5, 4), LENGTHS], _sums)
case("LengthsMean", [f32(5, 4), LENGTHS], _means)
case("SparseLengthsSum", [TABLE, PLACES, LENGTHS], lambda t, i, n: _sums(t[i], n))
case("SparseLengthsMean", [TABLE, PLACES, LENGTHS], lambda t, i, n: _means(t[i], n))
case("SparseLengthsWeightedSum", [TABLE, WEIGHTS, PLACES, LENGTHS],
     lambda t, w, i, n: _sums(t[i] * w[:, None], n))  # fmt: skip
BYTES = rng.integers(0, 256, (3, 4), np.uint8)
SCALES = np.array([[0.5, 1], [0.25, 2], [2, -1]], np.float32)
REAL = BYTES * SCALES[:, :1] + SCALES[:, 1:]
FUSED8 = np.concatenate([BYTES, SCALES.view(np.uint8)], 1)
FUSED4 = np.concatenate([BYTES, SCALES.astype(np.float16).view(np.uint8)], 1)
REAL4 = np.stack([BYTES & 15, BYTES >> 4], -1).reshape(3, 8) * SCALES[:, :1] + SCALES[:, 1:]
for each, stored, real in (("8", FUSED8, REAL), ("4", FUSED4, REAL4)):
    case(f"SparseLengthsSumFused{each}BitRowwise", [stored, PLACES, LENGTHS],
         lambda t, i, n, real=real: _sums(real[i], n))  # fmt: skip
    case(f"SparseLengthsWeightedSumFused{each}BitRowwise", [stored, WEIGHTS, PLACES, LENGTHS],
         lambda t, w, i, n, real=real: _sums(real[i] * w[:, None], n))  # fmt: skip
case("SparseLengthsSum8BitsRowwise", [BYTES, PLACES, LENGTHS, SCALES],
     lambda t, i, n, s: _sums(REAL[i], n))  # fmt: skip
case("SparseLengthsWeightedSum8BitsRowwise", [BYTES, WEIGHTS, PLACES, LENGTHS, SCALES],
     lambda t, w, i, n, s: _sums(REAL[i] * w[:, None], n))  # fmt: skip
case(
    "SparseToDenseMask",
    [np.array([7, 9, 7, 3, 8]), np.arange(5, dtype=np.float32), np.array(-1, np.float32), LENGTHS],
    lambda *_: np.array([[-1, 0], [-1, -1], [3, 2]]),
    mask=[3, 7],
)
case("LengthsToRanges", LENGTHS, lambda n: np.array([[0, 2], [2, 0], [2, 3]]))
case(
    "SparseToDense",
    [np.array([2, 0, 2]), f32(3, 2), f32(4)],
    lambda i, v, _: np.stack([v[1], v[1] * 0, v[0] + v[2], v[1] * 0]),
)
case(
    "BatchSparseToDense",
    [LENGTHS, np.array([1, 0, 3, 1, 0]), np.arange(5, dtype=np.float32)],
    lambda *_: np.array([[1, 0, 9, 9], [9, 9, 9, 9], [4, 3, 9, 2]]),
    dense_last_dim=4,
    default_value=9.0,
)
case(
    "FillExamplesWithIndicator",
    [f32(2, 3), np.array([0, 1, 0, 1], np.int32)],
    lambda x, _: np.stack([x[0] * 0, x[0], x[0] * 0, x[1]]),
)
case("LengthsRangeFill", LENGTHS, lambda n: np.array([0, 1, 0, 1, 2]))
case("Range", np.array(4, np.int32), np.arange)
case("Range", [np.array(2, np.int64), np.array(9, np.int64), np.array(3, np.int64)], np.arange)
case("ConstantFill", [], lambda: np.full((2, 3), 1.5), shape=[2, 3], value=1.5)
case("ConstantFill", MATRIX, lambda x: np.full((3, 5), 7), value=7, dtype=10)
case("ConstantFill", np.array([2, 3]), lambda x: np.full((2, 3, 4), 7), value=7, dtype=10,
     input_as_shape=1, extra_shape=[4])  # fmt: skip

# images
case("PadImage", IMAGE, ("Pad", {"mode": "reflect"}), twin=[np.array([0, 0, 2, 1, 0, 0, 3, 4])],
     pad_t=2, pad_l=1, pad_b=3, pad_r=4, mode="reflect")  # fmt: skip
case("PadImage", IMAGE, lambda x: np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=2),
     pad=1, value=2.0)  # fmt: skip
case("PadImage", nhwc(IMAGE), lambda x: np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), "edge"),
     pad=1, mode="edge", order="NHWC")  # fmt: skip
case("ResizeNearest", IMAGE, lambda x: x.repeat(2, 2).repeat(3, 3), height_scale=2.0,
     width_scale=3.0)  # fmt: skip
case("ResizeNearest", nhwc(IMAGE), lambda x: x.repeat(2, 1).repeat(2, 2), height_scale=2.0,
     width_scale=2.0, order="NHWC")  # fmt: skip
ALIGNED = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
case("UpsampleBilinear", IMAGE, ("Resize", ALIGNED),
     twin=[np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)],
     height_scale=2.0, width_scale=2.0)  # fmt: skip
BOXES = np.array([[1, 0, 0, 4, 4], [0, 1, 2, 6, 5]], np.float32)
case("RoIAlign", [IMAGE, BOXES],
     lambda x, r: run_onnx("RoiAlign", [x, r[:, 1:], r[:, 0].astype(np.int64)], output_height=2,
                           output_width=3, sampling_ratio=2, spatial_scale=0.5,
                           coordinate_transformation_mode="output_half_pixel"),
     pooled_h=2, pooled_w=3, sampling_ratio=2, spatial_scale=0.5)  # fmt: skip


def run_onnx(op: str, operands: Any, **attributes: Any) -> np.ndarray:
    """What ONNX Runtime computes."""
    names = [f"x{index}" if array.size else "" for index, array in enumerate(operands)]
    count = 2 if op == "TopK" else 1
    node = helper.make_node(op, names, [f"y{index}" for index in range(count)], **attributes)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, operands, strict=True)
        if name
    ]
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info("y0")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    feed = {name: x for name, x in zip(names, operands, strict=True) if name}
    return session.run(None, feed)[0]
