"""What a small model may ask for: memory and time are bounded, or it is refused."""

from __future__ import annotations

import inspect
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.frontends.definition.limits import LEAST_LIMIT, MOST_GROWTH, tensor_limit
from afterglow.runtime.native.machine import usable_memory
from afterglow.support.errors import CompileError, MemoryLimitError, ModelError, UnsupportedError
from tests.frontends.models import INT64, info, model, node

MIB = 2**20
BACKENDS = ("cpu", "interpreter")


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Python and NumPy take no more than this meanwhile."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < size


def one(op: str, operands: str = "x", *, opset: int = 17, **rest: object) -> onnx.ModelProto:
    """A model of one node; what is an array is a constant, the rest attributes."""
    constants = {name: x for name, x in rest.items() if isinstance(x, np.ndarray)}
    attributes = {name: x for name, x in rest.items() if name not in constants and name != "shape"}
    shape = rest.get("shape", (2, 3))
    inputs = [info("x", shape)] if "x" in operands.split() else []  # type: ignore[arg-type]
    made = node(op, operands.split(), ["y"], name="here", **attributes)
    return model([made], opset=opset, inputs=inputs, outputs=[info("y", None)], constants=constants)


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported() -> None:
    """What is imported first takes memory too, and long while it is traced."""
    for backend in BACKENDS:
        afterglow.compile(one("Relu"), backend=backend, cache=False)(np.ones((2, 3), np.float32))


ONES = np.ones((1, 1, 3, 3), np.float32)
IMAGE = (1, 1, 4, 4)
BOUNDED: Mapping[str, onnx.ModelProto] = {
    "pads": one("Conv", "x w", shape=IMAGE, w=ONES, pads=[2**20] * 4, strides=[2**21] * 2),
    "dilations": one(
        "Conv", "x w", shape=IMAGE, w=ONES, pads=[2**25] * 4, strides=[2**24] * 2,
        dilations=[2**24] * 2,
    ),
    "cut": one(
        "ConvTranspose", "x w", shape=IMAGE, w=ONES, pads=[3 * 2**30] * 4, strides=[2**31] * 2
    ),
    "average": one(
        "AveragePool", shape=IMAGE, kernel_shape=[2**31] * 2, strides=[2**31] * 2,
        pads=[2**31 - 1] * 4,
    ),
    "maximum": one(
        "MaxPool", shape=IMAGE, kernel_shape=[2**31] * 2, strides=[2**31] * 2, pads=[2**31 - 1] * 4
    ),
    "reflected": one("Pad", "x p", opset=19, p=np.array([0, 0, 100_000, 7]), mode="reflect"),
    "wrapped": one("Pad", "x p", opset=19, p=np.array([7, 100_000, 0, 0]), mode="wrap"),
    "transform": one("DFT", shape=(1, 10_007, 1)),
    "cut transform": one("DFT", "x n", shape=(1, 50_000, 1), n=np.array(8)),
    "neighbours": one("LRN", shape=IMAGE, size=2**40),
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", BOUNDED)
def test_numbers_in_a_model_do_not_make_it_large(name: str, backend: str) -> None:
    source = BOUNDED[name]
    extents = source.graph.input[0].type.tensor_type.shape.dim
    x = np.ones([extent.dim_value for extent in extents], np.float32)
    with at_most(64 * MIB):
        afterglow.compile(source, backend=backend, cache=False)(x)


REFUSED: Mapping[str, tuple[onnx.ModelProto, type[Exception], str]] = {
    "expanded": (
        one("Expand", "w s", w=np.ones(1, np.float32), s=np.array([2**20])),
        MemoryLimitError,
        """
        error: a result is too large: f32[1048576] takes 4,194,304 bytes, the limit is 1,048,576
          in node 'here' (Expand of ai.onnx version 17)
          help: allow more with max_memory, or --max-memory
        """,
    ),
    "counted": (
        one("Range", "a b c", a=np.array(0), b=np.array(2**62), c=np.array(1)),
        MemoryLimitError,
        """
        error: a result is too large: i64[4611686018427387904] takes 36,893,488,147,419,103,232 \
bytes, the limit is 1,048,576
          in node 'here' (Range of ai.onnx version 17)
          help: allow more with max_memory, or --max-memory
        """,
    ),
    "indexed": (
        one(
            "TfIdfVectorizer", "x i", i=np.array(0), mode="TF", min_gram_length=1,
            max_gram_length=1, max_skip_count=0, ngram_counts=[0], ngram_indexes=[0, 2**31],
            pool_int64s=[1, 2],
        ),
        MemoryLimitError,
        """
        error: a result is too large: f32[2, 2147483649] takes 17,179,869,192 bytes, \
the limit is 1,048,576
          in node 'here' (TfIdfVectorizer of ai.onnx version 17)
          help: allow more with max_memory, or --max-memory
        """,
    ),
    "an empty tensor": (
        one("Pad", "x p", shape=(0, 3), p=np.array([0, 0, 0, 2**61])),
        MemoryLimitError,
        """
        error: a result is too large: no array has the shape of f32[0, 2305843009213693955]
          in node 'here' (Pad of ai.onnx version 17)
        """,
    ),
    "a window": (
        one("HannWindow", "n", n=np.array(2**40)),
        MemoryLimitError,
        """
        error: a table of 1,099,511,627,776 elements is too large, the limit is 33,554,432
          in node 'here' (HannWindow of ai.onnx version 17)
          help: give it to the model as an input
        """,
    ),
    "frames": (
        one("STFT", "x s w", shape=(1, 2**13, 1), s=np.array(1), w=np.ones(2**12, np.float32)),
        MemoryLimitError,
        """
        error: a result is too large: i64[4097, 4096] takes 134,250,496 bytes, \
the limit is 1,048,576
          in node 'here' (STFT of ai.onnx version 17)
          help: allow more with max_memory, or --max-memory
        """,
    ),
    "a long transform": (
        one("DFT", "x n", shape=(1, 8, 1), n=np.array(2**40)),
        ModelError,
        """
        error: dft: length must be at most 16,777,216, got 1,099,511,627,776
          in node 'here' (DFT of ai.onnx version 17)
            > %y = dft(%x) {axis = 1, length = 1099511627776, inverse = false, onesided = false}
        """,
    ),
    "samples": (
        one(
            "RoiAlign", "x r b", shape=IMAGE, sampling_ratio=2**31,
            r=np.zeros((1, 4), np.float32), b=np.zeros(1, np.int64),
        ),
        UnsupportedError,
        """
        error: sampling_ratio is 2,147,483,648, the limit is 1,024
          in node 'here' (RoiAlign of ai.onnx version 17)
        """,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_too_large_is_refused_before_it_is_made(name: str) -> None:
    source, kind, text = REFUSED[name]
    if name == "indexed":
        source.graph.input[0].type.tensor_type.elem_type = INT64
        del source.graph.node[0].input[1]
    with at_most(16 * MIB), pytest.raises(kind) as caught:
        afterglow.compile(source, max_memory="1MiB", cache=False)
    assert str(caught.value) == inspect.cleandoc(text)


def test_a_run_that_takes_too_much_is_refused() -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["wide"], name="first"),
        node("MatMul", ["wide", "v"], ["y"], name="second"),
    ]
    constants = {"w": np.ones((8, 1000), np.float32), "v": np.ones((1000, 8), np.float32)}
    source = model(
        nodes, inputs=[info("x", (200, 8))], outputs=[info("y", None)], constants=constants
    )
    with pytest.raises(MemoryLimitError) as caught:
        afterglow.compile(source, max_memory=800_000, threads=1, cache=False, backend="interpreter")
    assert str(caught.value) == inspect.cleandoc("""
        error: a run takes 806,400 bytes of memory, the limit is 800,000: 800,000 for \
intermediate results, 6,400 for outputs, 0 for kernels
          the largest tensor is f32[200, 1000], of node 'first'
          help: allow more with max_memory, or --max-memory; max_arena computes in parts
    """)
    afterglow.compile(source, max_memory="1MB", cache=False, backend="interpreter")


def test_what_the_host_computes_is_bounded_too() -> None:
    nodes = [node("NonZero", ["x"], ["n"]), node("Expand", ["c", "s"], ["e"], name="here")]
    nodes += [node("Gather", ["e", "n"], ["y"])]
    shape = np.array([2**19])
    source = model(
        [node("Shape", ["x"], ["d"]), node("Mul", ["d", "m"], ["s"]), *nodes],
        inputs=[info("x", ("k",))],
        outputs=[info("y", None)],
        constants={"c": np.ones(1, np.float32), "m": shape},
    )
    compiled = afterglow.compile(source, max_memory="1MiB", cache=False)
    with at_most(64 * MIB), pytest.raises(MemoryLimitError, match=r"f32.1048576. takes 4,194,304"):
        compiled(np.ones(2, np.float32))


def test_large_models_may_have_large_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tensor_limit(0, None) == min(LEAST_LIMIT, usable_memory())
    monkeypatch.setattr("afterglow.frontends.definition.limits.usable_memory", lambda: 10**12)
    assert tensor_limit(10**9, None) == MOST_GROWTH * 10**9
    assert tensor_limit(10**11, None) == 10**12
    assert tensor_limit(10**9, 5) == 5


def test_the_environment_may_set_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERGLOW_MAX_MEMORY", "1MiB")
    with pytest.raises(MemoryLimitError):
        afterglow.compile(REFUSED["expanded"][0], cache=False)


def test_memory_that_cannot_be_had_is_an_error_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = afterglow.compile(one("Relu"), cache=False)

    def full(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr("afterglow.runtime.native.executable.NativeExecutable.run", full)
    with pytest.raises(MemoryLimitError) as caught:
        compiled(np.ones((2, 3), np.float32))
    assert str(caught.value) == "error: not enough memory to run the model: no room"


def test_many_iterations_take_no_memory() -> None:
    add = node("Add", ["a", "one"], ["b"])
    inner = onnx.helper.make_graph(
        [node("Identity", ["go"], ["on"]), add],
        "body",
        [info("i", (), INT64), info("go", (), onnx.TensorProto.BOOL), info("a", (1,))],
        [info("on", (), onnx.TensorProto.BOOL), info("b", (1,))],
    )
    source = model(
        [node("Loop", ["n", "", "x"], ["y"], body=inner)],
        inputs=[info("x", (1,))],
        outputs=[info("y", (1,))],
        constants={"n": np.array(10**6), "one": np.ones(1, np.float32)},
    )
    with at_most(4 * MIB):
        compiled = afterglow.compile(source, cache=False)
        assert compiled(np.zeros(1, np.float32)) == 10**6


GRAMS = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "mode": "TFIDF"}


@pytest.mark.parametrize(
    ("counts", "places", "weights", "text"),
    [
        ([0, 4], [0, 1, 2, 1], [1.0] * 4, "5 n-grams need a place each, got i64[4]"),
        ([0, 2], [0, 1, 2, 3], [1.0] * 3, "it has 3 weights for 4 ngram_indexes"),
        ([0, 2], [0, 1, 2, -1], [1.0] * 4, "ngram_indexes must not be negative, got -1"),
    ],
)
def test_n_grams_and_their_places_must_fit(
    counts: list[int], places: list[int], weights: list[float], text: str
) -> None:
    source = one(
        "TfIdfVectorizer", ngram_counts=counts, ngram_indexes=places, weights=weights,
        pool_int64s=[1, 2, 3, 4, 5, 6], **GRAMS,
    )  # fmt: skip
    source.graph.input[0].type.tensor_type.elem_type = INT64
    with pytest.raises((ModelError, CompileError)) as caught:
        afterglow.compile(source, cache=False)
    assert text in str(caught.value)
