"""Running compiled models: what goes in and out, and what runs share."""

from __future__ import annotations

import inspect
import os
import resource
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.runtime import CompiledModel
from afterglow.runtime.native.executable import address_of
from afterglow.runtime.versions import SPECIALISATIONS
from afterglow.support.errors import UsageError
from tests.backends.cpu import networks
from tests.effort import calls
from tests.frontends.models import BOOL, INT64, body, info, model, node

DIGITS = Path("examples/digits")
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


@pytest.fixture(scope="module")
def tiny() -> CompiledModel:
    return afterglow.compile(networks.tiny(), threads=1)


def misaligned(array: np.ndarray) -> np.ndarray:
    room = np.zeros(array.nbytes + 1, np.uint8)
    made = room[1:].view(array.dtype).reshape(array.shape)
    made[...] = array
    assert not made.flags.aligned
    return made


def read_only(array: np.ndarray) -> np.ndarray:
    made = array.copy()
    made.flags.writeable = False
    return made


FORMS = {
    "fortran": np.asfortranarray(X),
    "negative strides": np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "gaps": np.repeat(np.repeat(X, 2, 0), 3, 1)[::2, ::3],
    "repeated rows": np.broadcast_to(X[:1], (2, 3)),
    "misaligned": misaligned(X),
    "read-only": read_only(X),
    "list": [[np.float32(x) for x in row] for row in X],
}


@pytest.mark.parametrize("given", FORMS.values(), ids=FORMS)
def test_inputs_may_lie_in_any_way(tiny: CompiledModel, given: np.ndarray) -> None:
    np.testing.assert_array_equal(tiny(given), np.maximum(np.asarray(given), 0))


def test_contiguous_inputs_are_not_copied(tiny: CompiledModel) -> None:
    executable = tiny.compiled.executable
    plain, locked = X.copy(), read_only(X)
    for array in (plain, locked):
        (used,) = executable.prepared([array], {})
        assert used is array
        assert address_of(used) == array.ctypes.data
    (used,) = executable.prepared([X.T], {})
    assert used is not X.T


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "object"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (4,)])
def test_addresses_of_arrays(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.zeros(shape, dtype)
    assert address_of(array) == array.__array_interface__["data"][0]


def test_outputs_are_fresh_in_each_run(tiny: CompiledModel) -> None:
    first = tiny(X)
    kept = first.copy()
    second = tiny(X + 1)
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, kept)
    first[...] = -1
    np.testing.assert_array_equal(tiny(X), kept)


def test_inputs_are_left_as_they_are_unless_donated() -> None:
    nodes = [node("Exp", ["x"], ["a"]), node("Softmax", ["a"], ["b"]), node("Neg", ["b"], ["y"])]
    plain = afterglow.compile(model(nodes))
    donating = afterglow.compile(model(nodes), donate_inputs=True)
    x = X.copy()
    want = plain(x)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(donating(read_only(X)), want)
    np.testing.assert_array_equal(donating(X[::-1][::-1]), want)
    np.testing.assert_array_equal(donating(x), want)


def test_one_array_for_two_inputs_that_are_donated() -> None:
    nodes = [node("Exp", ["x"], ["a"]), node("Exp", ["z"], ["b"]), node("Sub", ["a", "b"], ["y"])]
    donating = afterglow.compile(model(nodes, inputs=("x", "z")), donate_inputs=True)
    x = X.copy()
    np.testing.assert_array_equal(donating(x, x), np.zeros_like(X))


def test_scalars_and_empty_tensors() -> None:
    nodes = [node("Add", ["x", "x"], ["y"])]
    scalar = afterglow.compile(model(nodes, inputs=[info("x", ())], outputs=[info("y", ())]))
    assert scalar(np.float32(3)) == 6
    assert scalar(np.array(3, np.float32)).shape == ()
    empty = afterglow.compile(
        model(nodes, inputs=[info("x", (2, 0, 3))], outputs=[info("y", (2, 0, 3))])
    )
    assert empty(np.zeros((2, 0, 3), np.float32)).shape == (2, 0, 3)


def test_a_sum_over_nothing() -> None:
    source = model(
        [node("ReduceSum", ["x"], ["y"], keepdims=0)],
        inputs=[info("x", (0, 3))],
        outputs=[info("y", ())],
    )
    assert afterglow.compile(source)(np.zeros((0, 3), np.float32)) == 0


def test_the_host_runs_texts_between_numbers() -> None:
    compiled = afterglow.compile(networks.texts())
    y, joined = compiled(X, ["a", "b"], np.array(["c", "d"], object))
    np.testing.assert_array_equal(y, 2 * X * X)
    assert joined.tolist() == ["ac!", "bd!"]


def test_trees_run_between_numbers() -> None:
    compiled = afterglow.compile(networks.trees())
    assert compiled.compiled.executable.native.host is None
    np.testing.assert_array_equal(compiled(X), [[-10], [-20]])


def test_loops_run_between_numbers() -> None:
    compiled = afterglow.compile(networks.loop())
    assert compiled.compiled.executable.native.host is None
    for count in (0, 1, 3):
        got = compiled.run(None, {"x": X, "n": np.array(count)})[0]
        np.testing.assert_array_equal(got, -(np.abs(X) + count * X))


def test_what_a_condition_leaves_out_changes_nothing() -> None:
    branches = {
        "then_branch": body([node("Exp", ["x"], ["t"])], [], ["t"]),
        "else_branch": body([node("Neg", ["x"], ["e"])], [], ["e"]),
    }
    source = model(
        [node("If", ["c"], ["z"], **branches), node("Abs", ["z"], ["y"])],
        inputs=["x", info("c", (), BOOL)],
    )
    compiled = afterglow.compile(source)
    np.testing.assert_allclose(compiled(X, np.array(True)), np.exp(X), rtol=1e-6)
    np.testing.assert_array_equal(compiled(X, np.array(False)), np.abs(X))


NETWORKS = {"cnn": networks.cnn, "mlp": networks.mlp, "transformer": networks.transformer}


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_any_number_of_threads_gives_the_same_bits(network) -> None:
    source = network()
    models = [afterglow.compile(source, threads=n) for n in (1, 2, 4)]
    (declared,) = models[0].inputs
    x = np.random.default_rng(3).standard_normal(declared.shape).astype(np.float32)
    first = models[0](x)
    reference = afterglow.compile(source, backend="interpreter")(x)
    np.testing.assert_allclose(first, reference, rtol=1e-4, atol=1e-5)
    for other in models[1:]:
        assert any(part.is_shared for part in other.compiled.executable.native.parts)
        for _ in range(5):
            assert other(x).tobytes() == first.tobytes()


def test_digits_on_any_number_of_threads() -> None:
    images = np.load(DIGITS / "test_images.npz")["images"][:20]
    models = [afterglow.compile(DIGITS / "digits.onnx", threads=n) for n in (1, 2, 4)]
    for image in images.astype(np.float32):
        first, *others = (m(image.reshape(1, 1, 8, 8)) for m in models)
        assert all(other.tobytes() == first.tobytes() for other in others)


@pytest.mark.parametrize("threads", [1, 2])
def test_several_callers_at_once(threads: int) -> None:
    compiled = afterglow.compile(networks.mlp(), threads=threads)
    random = np.random.default_rng(1)
    inputs = [random.standard_normal((33, 100)).astype(np.float32) for _ in range(8)]
    want = [compiled(x).tobytes() for x in inputs]
    with ThreadPoolExecutor(4) as callers:
        for _ in range(5):
            got = callers.map(lambda x: compiled(x).tobytes(), inputs)
            assert list(got) == want


def test_callers_at_once_when_the_host_takes_part() -> None:
    compiled = afterglow.compile(networks.texts())

    def call(number: int) -> bool:
        y, joined = compiled(X + number, [str(number), "b"], ["-", "d"])
        return joined.tolist() == [f"{number}-!", "bd!"] and (y == 2 * (X + number) ** 2).all()

    with ThreadPoolExecutor(4) as callers:
        assert all(callers.map(call, range(40)))


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_memory_does_not_grow(tiny: CompiledModel) -> None:
    feed = {"x": X}
    for _ in range(2000):
        tiny.run(None, feed)
    before = resident_bytes()
    for _ in range(20_000):
        tiny.run(None, feed)
    assert resident_bytes() - before < 1 << 20


@pytest.mark.slow
def test_memory_does_not_grow_with_several_callers() -> None:
    compiled = afterglow.compile(networks.mlp(), threads=2)
    x = np.zeros((33, 100), np.float32)
    want = compiled(x).tobytes()

    def soak(_: int) -> bool:
        return all(compiled(x).tobytes() == want for _ in range(25_000))

    with ThreadPoolExecutor(4) as callers:
        assert all(callers.map(lambda _: compiled(x).tobytes() == want, range(400)))
        before = resident_bytes()
        assert all(callers.map(soak, range(4)))
    assert resident_bytes() - before < 16 << 20


def test_a_call_costs_little(tiny: CompiledModel) -> None:
    """Some microseconds: a call of a function in Python takes a tenth of one or so."""
    feed = {"x": X}
    tiny.run(None, feed)
    assert calls(lambda: tiny.run(None, feed)) <= 36


NO_Z = """
    error: the model has no input 'z'
      help: it has x
"""
WRONG = {
    "element type": (
        {"x": X.astype(np.float64)},
        """
        error: input 'x' holds float32, got float64
          help: convert it: array.astype('float32')
        """,
    ),
    "byte order": (
        {"x": X.astype(">f4")},
        """
        error: input 'x' holds float32, got >f4
          help: convert it: array.astype('float32')
        """,
    ),
    "shape": ({"x": X.T}, "error: input 'x: f32[2, 3]' does not take an array of shape (3, 2)"),
    "rank": ({"x": X[0]}, "error: input 'x: f32[2, 3]' does not take an array of shape (3,)"),
    "scalar": (
        {"x": np.float32(1)},
        "error: input 'x: f32[2, 3]' does not take an array of shape ()",
    ),
    "name": ({"z": X}, NO_Z),
    "one too many": ({"x": X, "z": X}, NO_Z),
    "none given": (
        {},
        """
        error: input 'x' is missing
          help: the model takes x: f32[2, 3]
        """,
    ),
    "nothing": (
        {"x": None},
        """
        error: input 'x' is None
          help: it takes x: f32[2, 3]
        """,
    ),
    "ragged list": (
        {"x": [[1, 2, 3], [4]]},
        """
        error: input 'x' takes an array, and this list cannot be converted to one
          help: it takes x: f32[2, 3]
        """,
    ),
    "objects": (
        {"x": X.astype(object)},
        """
        error: input 'x' holds float32, got object
          help: convert it: array.astype('float32')
        """,
    ),
}


@pytest.mark.parametrize(("feed", "message"), WRONG.values(), ids=WRONG)
def test_wrong_inputs_are_refused(tiny: CompiledModel, feed: dict, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        tiny.run(None, feed)
    assert str(caught.value) == inspect.cleandoc(message)


def test_wrong_calls_are_refused(tiny: CompiledModel) -> None:
    with pytest.raises(UsageError) as caught:
        tiny(X, X)
    assert str(caught.value) == "error: the model takes 1 input, got 2\n  help: it takes x"
    with pytest.raises(UsageError) as caught:
        tiny(X, x=X)
    assert str(caught.value) == "error: input 'x' is given by position and by name"
    with pytest.raises(UsageError) as caught:
        tiny.run(["z"], {"x": X})
    assert str(caught.value) == "error: the model has no output 'z'\n  help: it has y"


def test_threads_must_be_some() -> None:
    with pytest.raises(UsageError) as caught:
        afterglow.compile(networks.tiny(), threads=0)
    assert str(caught.value) == "error: threads must be 1 or more, got 0"


@pytest.fixture
def heeds_interrupts() -> Iterator[None]:
    """A process that was started in the background ignores interrupts; not so here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_interrupts")
def test_an_interrupt_arrives_after_a_run() -> None:
    compiled = afterglow.compile(networks.transformer(), threads=2)
    x = np.zeros((2, 65, 96), np.float32)
    want = compiled(x).tobytes()

    def run_until_interrupted() -> None:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            compiled(x)

    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_until_interrupted()
    assert compiled(x).tobytes() == want


def test_states_live_as_long_as_the_model() -> None:
    module = afterglow.parse_module(networks.COUNTER)
    compiled = afterglow.compile(module)
    one = np.ones(3, np.float32)
    assert [compiled(one).tolist()[0] for _ in range(3)] == [0, 1, 2]
    assert afterglow.compile(module)(one).tolist() == [0, 0, 0]


@pytest.mark.usefixtures("exact_versions")
def test_free_dimensions_are_compiled_for_each_shape() -> None:
    source = model(
        [node("Add", ["x", "z"], ["y"])],
        inputs=[info("x", ("n", 3)), info("z", (3,))],
        outputs=[info("y", ("n", 3))],
    )
    compiled = afterglow.compile(source)
    z = np.ones(3, np.float32)
    for rows in (1, 4, 0, 1):
        x = np.full((rows, 3), rows, np.float32)
        np.testing.assert_array_equal(compiled.run(None, {"z": z, "x": x})[0], x + 1)
    assert len(compiled.versions()) == 3
    with pytest.raises(UsageError) as caught:
        compiled(np.zeros((2, 4), np.float32), z)
    message = "error: input 'x: f32[n, 3]' does not take an array of shape (2, 4)"
    assert str(caught.value) == message


def test_shapes_that_values_decide() -> None:
    source = model(
        [node("Reshape", ["x", "shape"], ["y"])],
        inputs=["x", info("shape", (2,), INT64)],
        outputs=[info("y", ("a", "b"))],
    )
    compiled = afterglow.compile(source)
    for shape in ((3, 2), (6, 1), (3, 2)):
        assert compiled(X, np.array(shape)).shape == shape
    with pytest.raises(UsageError, match="depend on the values of shape"):
        compiled.export_bundle("never")


def test_code_can_be_looked_at(tiny: CompiledModel) -> None:
    assert "define void @main_0(" in tiny.ir("llvm")
    assert "main_0:" in tiny.ir("asm")
    with pytest.raises(UsageError) as caught:
        tiny.ir("ptx")
    stages = "import, graph, lowered, instructions, llvm, asm"
    assert str(caught.value) == f"error: no stage 'ptx'\n  help: there are {stages}"
    interpreted = afterglow.compile(networks.tiny(), backend="interpreter")
    with pytest.raises(UsageError, match="backend 'interpreter' generates no code to print"):
        interpreted.ir("asm")


def test_perf_is_told_the_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = []
    name = "afterglow.runtime.native.executable.write_perf_map"
    monkeypatch.setattr(name, lambda loaded: told.append(loaded))
    source = tmp_path / "tiny.onnx"
    onnx.save(networks.tiny(), source)
    afterglow.compile(source)
    assert told == []
    monkeypatch.setenv("AFTERGLOW_PERF_MAP", "1")
    compiled = afterglow.compile(source)
    compiled.save(tmp_path / "tiny.agc")
    afterglow.load(tmp_path / "tiny.agc")
    assert ["main_0" in loaded.addresses for loaded in told] == [True, True]


def free_relu() -> onnx.ModelProto:
    return model(
        [node("Relu", ["x"], ["y"])], inputs=[info("x", ("n",))], outputs=[info("y", ("n",))]
    )


@pytest.mark.usefixtures("exact_versions")
def test_code_for_shapes_of_long_ago_is_given_back() -> None:
    compiled = afterglow.compile(free_relu())
    freed = []
    for size in range(1, 2 * SPECIALISATIONS):
        compiled(np.ones(size, np.float32))
        weakref.finalize(compiled.compiled.executable.loaded, freed.append, size)
    assert len(compiled.versions()) == SPECIALISATIONS
    assert freed == list(range(1, SPECIALISATIONS))


@pytest.mark.usefixtures("exact_versions")
def test_callers_with_new_shapes_at_once() -> None:
    compiled = afterglow.compile(free_relu())

    def call(size: int) -> bool:
        return bool((compiled(np.full(size, -1, np.float32)) == 0).all())

    with ThreadPoolExecutor(4) as callers:
        assert all(callers.map(call, [1, 2, 3, 4] * 10))
    assert len(compiled.versions()) == 4


PREDICATED = """
    func @main(%x: f32[4], %flag: bool[]) {
      %no = not(%flag) : bool[]
      %e = exp(%x) if %flag : f32[4]
      %n = neg(%x) if %no : f32[4]
      %y = where(%flag, %e, %n) : f32[4]
      return %y
    }
"""


def test_predicates_change_no_result() -> None:
    compiled = afterglow.compile(afterglow.parse_module(PREDICATED))
    x = np.array([0, 1, -1, 2], np.float32)
    np.testing.assert_allclose(compiled(x, np.array(True)), np.exp(x), rtol=1e-6)
    np.testing.assert_array_equal(compiled(x, np.array(False)), -x)
