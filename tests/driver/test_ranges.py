"""Programs for ranges: with given bounds, with bounds that grow, and where ranges are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.backends.interpreter.backend import Interpreter
from afterglow.driver.ranges import Ranges
from afterglow.driver.stages import Stages
from afterglow.graph import Module
from afterglow.support.errors import AfterglowError, UsageError
from afterglow.types.extent import Dim, UndecidedExtentError, is_ranged, smallest
from tests.frontends.models import info, model, node

X = np.linspace(-2, 2, 64 * 6, dtype=np.float32).reshape(64, 6)


def wave() -> onnx.ModelProto:
    nodes = [node("Relu", ["x"], ["r"]), node("Tanh", ["r"], ["y"])]
    declared = [info("x", ("rows", 6))], [info("y", ("rows", 6))]
    return model(nodes, inputs=declared[0], outputs=declared[1])


def check(compiled: afterglow.CompiledModel, *rows: int) -> None:
    for count in rows:
        want = np.tanh(np.maximum(X[:count], 0))
        np.testing.assert_allclose(compiled(X[:count]), want, rtol=1e-5, atol=1e-6)


def test_one_program_serves_all_extents_within_bounds(finished) -> None:
    compiled = afterglow.compile(wave(), dims={"rows": (1, 64)})
    check(compiled, 1, 7, 64)
    assert len(finished) == 1
    assert compiled.dims == {"rows": (1, 64, 1)}
    assert [str(info) for info in compiled.inputs] == ["x: f32[rows, 6]"]
    assert "x: f32[rows, 6] -> y: f32[rows, 6]" in repr(compiled)


def test_a_dimension_stays_ranged_that_is_just_in_the_same_type_as_others() -> None:
    inputs = [info("x", ("batch", "seq", 6)), info("p", ("rows", 6))]
    added = model([node("Add", ["x", "p"], ["y"])], inputs=inputs, outputs=[info("y", None)])
    bounds = {"batch": (1, 8), "seq": (1, 16), "rows": (1, 16)}
    compiled = afterglow.compile(added, dims=bounds)
    assert {*compiled.refused_ranges} == {"seq", "rows"}
    for batch in (2, 5):
        x = np.stack([X[:4]] * batch)
        np.testing.assert_array_equal(compiled(x, X[1:2]), x + X[1:2])
    assert compiled.dims == {"batch": (1, 8, 1)}
    assert len(compiled.versions()) == 1


def test_extents_may_be_multiples_of_a_step() -> None:
    compiled = afterglow.compile(wave(), dims={"rows": (8, 64, 8)})
    check(compiled, 8, 64)
    with pytest.raises(UsageError) as caught:
        compiled(X[:12])
    assert str(caught.value) == (
        "error: dimension 'rows' of input 'x' is 12, out of its bounds 8..64 by 8\n"
        "  help: compile with other bounds: dims={'rows': (FIRST, LAST)} "
        "or --dim rows=FIRST..LAST"
    )


def test_memory_is_reported_for_both_ends() -> None:
    memory = afterglow.compile(wave(), dims={"rows": (2, 64)}).memory
    assert (memory.least_io_bytes, memory.io_bytes) == (2 * 2 * 6 * 4, 2 * 64 * 6 * 4)
    assert str(memory).splitlines()[-2:] == [
        "io bytes                     3,072",
        "least io bytes                  96",
    ]
    assert "least" not in str(afterglow.compile(wave(), dims={"rows": 2}).memory)


def test_a_saved_model_serves_all_extents_within_bounds(tmp_path: Path) -> None:
    afterglow.compile(wave(), dims={"rows": (1, 64)}).save(tmp_path / "wave.agc")
    loaded = afterglow.load(tmp_path / "wave.agc")
    check(loaded, 1, 7, 64)
    assert loaded.dims == {"rows": (1, 64, 1)}
    with pytest.raises(UsageError, match="out of its bounds"):
        loaded(np.zeros((65, 6), np.float32))


def test_bounds_tell_cached_programs_apart(tmp_path: Path, finished) -> None:
    onnx.save(wave(), tmp_path / "wave.onnx")
    for high in (32, 64, 32, 64):
        made = afterglow.compile(
            tmp_path / "wave.onnx", dims={"rows": (1, high)}, cache=tmp_path / "cache"
        )
        assert made.dims == {"rows": (1, high, 1)}
        check(made, 5, high)
    assert len(finished) == 2


def test_lists_and_ranges_are_combined(finished) -> None:
    proto = model(
        [node("Relu", ["x"], ["y"])],
        inputs=[info("x", ("batch", "rows"))],
        outputs=[info("y", ("batch", "rows"))],
    )
    compiled = afterglow.compile(proto, dims={"batch": [1, 4], "rows": (1, 6)})
    assert len(finished) == 2
    for batch, rows in ((1, 6), (4, 3), (4, 1)):
        np.testing.assert_array_equal(compiled(X[:batch, :rows]), np.maximum(X[:batch, :rows], 0))
    assert len(finished) == 2
    compiled(X[:2, :3])
    assert len(finished) == 3  # a batch that is not listed, with rows in their bounds
    compiled(X[:2, :5])
    assert len(finished) == 3


def test_any_traffic_ends_with_a_handful_of_programs(finished) -> None:
    compiled = afterglow.compile(wave())
    check(compiled, 3, 16, 1, 17, 64, 20, 5)
    assert [str(shape) for shape in finished] == ["(rows, 6)"] * 2
    assert [int(shape[0]) for shape in finished] == [16, 64]
    assert len(compiled.versions()) == 1
    assert compiled.dims == {"rows": (1, 64, 1)}


def test_a_grown_model_is_saved_with_its_bounds(tmp_path: Path) -> None:
    compiled = afterglow.compile(wave())
    check(compiled, 3)
    compiled.save(tmp_path / "wave.agc")
    loaded = afterglow.load(tmp_path / "wave.agc")
    check(loaded, 16, 1)
    with pytest.raises(UsageError) as caught:
        loaded(X[:17])
    path = tmp_path / "wave.agc"
    assert str(caught.value) == (
        f"error: {path}: the model was not saved for x: f32[17, 6]\n"
        "  help: it takes x: f32[rows, 6] with rows 1..16; run the source model with others and "
        "save it again"
    )


def test_axes_without_names_share_what_they_have_in_common(finished) -> None:
    proto = model(
        [node("Add", ["a", "b"], ["y"])],
        inputs=[info("a", (None, 6)), info("b", (None, 6))],
        outputs=[info("y", (None, 6))],
    )
    compiled = afterglow.compile(proto)
    for count in (3, 9):
        np.testing.assert_array_equal(compiled(X[:count], X[:count]), 2 * X[:count])
    assert len(finished) == 1
    np.testing.assert_array_equal(compiled(X[:4], X[:1]), X[:4] + X[:1])  # broadcast: exact


def test_what_follows_the_host_is_ranged_once_it_varies(finished, tmp_path: Path) -> None:
    proto = model(
        [
            node("Relu", ["x"], ["r"]),
            node("NonZero", ["r"], ["i"]),
            node("Transpose", ["i"], ["j"]),
            node("GatherND", ["r", "j"], ["v"]),
            node("Tanh", ["v"], ["y"]),
        ],
        inputs=[info("x", (6,))],
        outputs=[info("y", None)],
    )
    compiled = afterglow.compile(proto)

    def check_all(model: afterglow.CompiledModel) -> None:
        for count in (2, 5, 3, 6, 1):
            x = np.where(np.arange(6) < count, 1, -1).astype(np.float32)
            np.testing.assert_allclose(model(x), np.full(count, np.tanh(1)), rtol=1e-5)

    check_all(compiled)
    assert len(finished) == 3  # the first part; what follows, exact; and ranged
    compiled.save(tmp_path / "model.agc")
    check_all(afterglow.load(tmp_path / "model.agc"))
    assert len(finished) == 3


def refuse_below(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing compiled for fewer rows than these."""
    original = Stages.optimise

    def optimise(self: Stages, module: Module) -> Module:
        (x,) = module.main.inputs
        if smallest(x.type.shape[0]) < least:
            raise UndecidedExtentError("whether rows >= 3 depends on rows", where="in node 'it'")
        return original(self, module)

    monkeypatch.setattr(Stages, "optimise", optimise)


def test_other_bounds_are_tried_where_some_are_refused(monkeypatch, finished) -> None:
    refuse_below(3, monkeypatch)
    compiled = afterglow.compile(wave())
    check(compiled, 10)
    assert compiled.dims == {"rows": (5, 16, 1)}
    assert compiled.refused_ranges == {}


@pytest.mark.parametrize("dims", [{"rows": (1, 64)}, None])
def test_what_cannot_be_ranged_is_exact_and_says_why(dims, monkeypatch, finished) -> None:
    original = Stages.optimise

    def optimise(self: Stages, module: Module) -> Module:
        if module.main.inputs[0].type.is_ranged:
            raise UndecidedExtentError("whether rows > 1 depends on rows", where="in node 'it'")
        return original(self, module)

    monkeypatch.setattr(Stages, "optimise", optimise)
    compiled = afterglow.compile(wave(), dims=dims)
    check(compiled, 3, 9, 3)
    assert finished[-2:] == [(3, 6), (9, 6)]
    assert compiled.dims == {}
    assert compiled.refused_ranges == {"rows": "whether rows > 1 depends on rows, in node 'it'"}
    if dims is not None:
        with pytest.raises(UsageError, match="out of its bounds"):
            compiled(np.zeros((65, 6), np.float32))


@pytest.mark.parametrize("dims", [{"rows": (1, 64)}, None])
def test_a_backend_without_ranges_gets_each_extent_and_is_asked_once(
    dims, monkeypatch, finished
) -> None:
    asked = []
    original = Stages.optimise

    def optimise(self: Stages, module: Module) -> Module:
        asked.append(str(module.main.inputs[0].type.shape[0]))
        return original(self, module)

    monkeypatch.setattr(Interpreter, "exact_extents", True, raising=False)
    monkeypatch.setattr(Stages, "optimise", optimise)
    compiled = afterglow.compile(wave(), dims=dims, backend="interpreter")
    check(compiled, 3, 9, 3)
    assert asked == ["rows", "3", "9"]
    assert compiled.refused_ranges == {
        "rows": "backend 'interpreter' has no programs for ranges of extents"
    }


def test_bounds_that_contradict_the_model_are_refused() -> None:
    table = np.zeros((16, 6), np.float32)
    proto = model(
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "zero"], ["rows"]),
            node("Slice", ["table", "start", "rows"], ["part"], name="take"),
            node("Add", ["x", "part"], ["y"], name="plus"),
        ],
        inputs=[info("x", ("rows", 6))],
        outputs=[info("y", ("rows", 6))],
        constants={
            "table": table,
            "zero": np.zeros(1, np.int64),
            "start": np.zeros(1, np.int64),
        },
    )
    with pytest.raises(AfterglowError) as caught:
        afterglow.compile(proto, dims={"rows": (1, 64)})
    text = str(caught.value)
    assert "'plus'" in text
    assert "with rows = 64" in text
    assert "help: give bounds within which the model works, instead of rows 1..64" in text


def test_bounds_grow_by_one_rule() -> None:
    grown = Ranges({})
    declared = {"x": ("s", None, 3)}
    bounds = []
    for extents in ((5, 20), (16, 32), (17, 1), (300, 1), (3, 40)):
        arrays = {"x": np.zeros((*extents, 3), bool)}
        grown.find(declared, arrays, lambda shapes: bounds.append(list(map(int, shapes["x"]))))
    assert bounds == [[16, 32, 3], [16, 32, 3], [64, 32, 3], [512, 32, 3], [512, 128, 3]]


def test_a_dimension_that_was_always_one_is_compiled_for_one(finished) -> None:
    compiled = afterglow.compile(wave())
    check(compiled, 1, 1)
    assert [str(shape) for shape in finished] == ["(1, 6)"]
    assert compiled.dims == {}
    check(compiled, 3, 1, 16)
    assert [str(shape) for shape in finished] == ["(1, 6)", "(rows, 6)"]
    assert compiled.dims == {"rows": (1, 16, 1)}


def test_only_what_an_error_names_is_given_up() -> None:
    given = {"b": Dim("b", 1, 4), "s": Dim("s", 1, 9)}
    tried = Ranges(given)
    arrays = {"x": np.zeros((2, 3))}

    def make(shapes: dict[str, tuple[int, ...]]) -> str:
        if is_ranged(shapes["x"][1]):
            raise UndecidedExtentError("whether s > 1 depends on s (1..9)")
        return str(shapes["x"])

    assert tried.find({"x": ("b", "s")}, arrays, make) == "(b, 3)"
    assert tried.refused == {"s": "whether s > 1 depends on s (1..9)"}
