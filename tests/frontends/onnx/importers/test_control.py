"""If, Loop and Scan of ONNX: as ops with functions where that can be, else in place."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import parser
from onnxruntime import InferenceSession

from afterglow.frontends.onnx import Binding, NeedsValuesError, import_onnx
from afterglow.graph import Module, print_module, run_function, verify_module
from afterglow.support.errors import ModelError
from afterglow.types import Array
from afterglow.types.extent import Dim, ranged

X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
TRUE, FALSE = np.array(True), np.array(False)


def parsed(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["": 17]>\n{text}')


def check(text: str, feed: Mapping[str, Array], bound: tuple[str, ...] = ()) -> Module:
    """The model gives what ONNX Runtime gives; `bound` inputs are known when importing."""
    made = parsed(text)
    module = import_onnx(made, Binding(values={name: feed[name] for name in bound}))
    verify_module(module)
    rest = [array for name, array in feed.items() if name not in bound]
    expected = InferenceSession(made.SerializeToString()).run(None, dict(feed))
    for got, want in zip(run_function(module.main, rest), expected, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)
    return module


def ops(module: Module) -> list[str]:
    return [node.op.mnemonic for node in module.main.nodes]


CHOICE = """
    main (float[2, 3] x, bool c) => (float[2, 3] y) {
        a = Neg (x)
        y = If (c) <
            then_branch = g () => (t) { t = Add (a, x) },
            else_branch = g () => (e) { b = Exp (x)  e = Mul (b, w) }
        >
    }
"""


def with_weight(text: str) -> str:
    return text.replace("=> (float[2, 3] y)", "=> (float[2, 3] y)\n<float[3] w = {1, 2, 3}>", 1)


@pytest.mark.parametrize("condition", [TRUE, FALSE], ids=str)
def test_branches_are_functions_of_what_they_capture(condition: Array) -> None:
    module = check(with_weight(CHOICE), {"x": X, "c": condition})
    assert ops(module) == ["neg", "if"]
    assert [*module.functions] == ["main", "y.then_branch", "y.else_branch"]
    for name in ("y.then_branch", "y.else_branch"):
        assert [v.name for v in module.functions[name].inputs] == ["a", "x"]


@pytest.mark.parametrize(
    ("condition", "nodes"), [(TRUE, ["neg", "add"]), (FALSE, ["neg", "exp", "mul"])]
)
def test_a_known_condition_leaves_one_branch(condition: Array, nodes: list[str]) -> None:
    module = check(with_weight(CHOICE), {"x": X, "c": condition}, bound=("c",))
    assert ops(module) == nodes
    assert [*module.functions] == ["main"]


def test_branches_of_different_types_need_the_condition() -> None:
    text = """
        main (float[2, 3] x, bool[1] c) => (float y) {
            y = If (c) <
                then_branch = g () => (t) { t = Neg (x) },
                else_branch = g () => (e) { e = ReduceSum <keepdims = 0> (x) }
            >
        }
    """
    with pytest.raises(NeedsValuesError) as caught:
        import_onnx(parsed(text))
    assert caught.value.inputs == ("c",)
    module = check(text, {"x": X, "c": np.array([False])}, bound=("c",))
    assert ops(module) == ["reduce_sum"]
    assert [*module.functions] == ["main"]


def test_a_branch_may_return_what_is_outside_or_constant() -> None:
    text = """
        main (float[2, 3] x, bool c) => (float[2, 3] y, int64 z) {
            y, z = If (c) <
                then_branch = g () => (x, one) <int64 one = {1}> { },
                else_branch = g () => (e, two) <int64 two = {2}> { e = Neg (x) }
            >
        }
    """
    module = import_onnx(parsed(text))
    verify_module(module)
    y, z = run_function(module.main, [X, TRUE])
    assert (y.tolist(), z.tolist()) == (X.tolist(), 1)
    y, z = run_function(module.main, [X, FALSE])
    assert (y.tolist(), z.tolist()) == ((-X).tolist(), 2)


BROKEN = """
    main (float[2, 3] x, bool c) => (float[2, 3] y) {
        y = If (c) <
            then_branch = g () => (t) { t = Neg (x) },
            else_branch = g () => (e) { a = MatMul (x, x)  e = Neg (a) }
        >
    }
"""


def test_a_branch_that_does_not_fit_needs_the_condition() -> None:
    with pytest.raises(NeedsValuesError, match="'c'"):
        import_onnx(parsed(BROKEN))
    module = import_onnx(parsed(BROKEN), Binding(values={"c": TRUE}))
    assert ops(module) == ["neg"]
    with pytest.raises(ModelError):
        import_onnx(parsed(BROKEN), Binding(values={"c": FALSE}))


def test_branches_that_both_do_not_fit_are_an_error() -> None:
    with pytest.raises(ModelError):
        import_onnx(parsed(BROKEN.replace("Neg (x)", "MatMul (x, x)")))


def test_bodies_nest_and_capture_through_each_other() -> None:
    text = """
        main (float[2, 3] x, bool c, bool d) => (float[2, 3] y) {
            a = Neg (x)
            y = If (c) <
                then_branch = g () => (t) {
                    b = Exp (x)
                    t = If (d) <
                        then_branch = g () => (u) { u = Add (a, b) },
                        else_branch = g () => (v) { v = Sub (a, b) }
                    >
                },
                else_branch = g () => (e) { e = Identity (a) }
            >
        }
    """
    for c in (TRUE, FALSE):
        module = check(text, {"x": X, "c": c, "d": c})
        assert len(module.functions) == 5


def test_inner_names_hide_outer_ones() -> None:
    text = """
        main (float[2, 3] x, bool c) => (float[2, 3] y) {
            t = Neg (x)
            y = If (c) <
                then_branch = g () => (t) { t = Exp (x) },
                else_branch = g () => (e) { e = Neg (t) }
            >
        }
    """
    (y,) = run_function(import_onnx(parsed(text)).main, [X, TRUE])
    np.testing.assert_allclose(y, np.exp(X))


def loop(body: str, outputs: str, inputs: str = "float[2, 3] x, int64 m, bool c") -> str:
    return f"""
        main ({inputs}) => ({outputs})
        <float limit = {{100}}, int64 one = {{1}}, int64 axis = {{0}}>
        {{
            {body}
        }}
    """


COUNTED = loop(
    """
    y, all = Loop (m, c, x) <body = g (int64 i, bool go, float[2, 3] a)
        => (bool go, float[2, 3] b, float[2, 3] d) {
            f = Cast <to = 1> (i)
            b = Add (a, x)
            d = Mul (b, f)
        }>
    """,
    "float[2, 3] y, float[n, 2, 3] all",
)


@pytest.mark.parametrize("times", [0, 1, 4])
def test_a_loop_that_only_counts_is_a_scan(times: int) -> None:
    feed = {"x": X, "m": np.array(times), "c": TRUE}
    made = parsed(COUNTED)
    binding = Binding(values={"m": feed["m"], "c": TRUE})
    module = import_onnx(made, binding)
    verify_module(module)
    assert ops(module) == ["scan"]
    y, stacked = run_function(module.main, [X])
    np.testing.assert_allclose(y, X * (times + 1))
    assert stacked.shape == (times, 2, 3)
    for i in range(times):
        np.testing.assert_allclose(stacked[i], X * (i + 2) * i)


def test_a_counting_loop_asks_for_its_count() -> None:
    with pytest.raises(NeedsValuesError) as caught:
        import_onnx(parsed(COUNTED))
    assert caught.value.inputs == ("m",)


WHILE = loop(
    """
    y = Loop (m, c, x) <body = g (int64 i, bool go, float[2, 3] a)
        => (bool more, float[2, 3] b) {
            b = Add (a, a)
            s = ReduceMax <keepdims = 0> (b)
            more = Less (s, limit)
        }>
    """,
    "float[2, 3] y",
)


@pytest.mark.parametrize("times", [0, 3, 99])
@pytest.mark.parametrize("condition", [TRUE, FALSE], ids=str)
def test_a_loop_without_stacked_results_may_end_when_it_likes(times: int, condition: Array) -> None:
    module = check(WHILE, {"x": X, "m": np.array(times), "c": condition})
    assert ops(module) == ["loop"]


def test_a_loop_that_stacks_until_a_known_condition_fails_is_unrolled() -> None:
    text = loop(
        """
        y, all = Loop (m, c, x) <body = g (int64 i, bool go, float[2, 3] a)
            => (bool more, float[2, 3] b, int64 k) {
                k = Identity (i)
                b = Neg (a)
                more = Less (i, one)
            }>
        """,
        "float[2, 3] y, int64[n] all",
    )
    module = check(text, {"x": X, "m": np.array(9), "c": TRUE}, bound=("m", "c"))
    assert ops(module) == ["neg", "neg"]
    assert [*module.functions] == ["main"]
    assert [node.name for node in module.main.nodes] == ["y.0.b", "y.1.b"]


def test_a_loop_whose_values_grow_is_unrolled() -> None:
    text = loop(
        """
        y = Loop (m, c, x) <body = g (int64 i, bool go, float[k, 3] a) => (bool go, float[l, 3] b) {
                b = Concat <axis = 0> (a, a)
            }>
        """,
        "float[8, 3] y",
    )
    module = check(text, {"x": X, "m": np.array(2), "c": TRUE}, bound=("m", "c"))
    assert ops(module) == ["concat", "concat"]


def test_a_loop_whose_shapes_depend_on_the_iteration_is_unrolled() -> None:
    text = loop(
        """
        y = Loop (m, c, x) <body = g (int64 i, bool go, float[k, 3] a) => (bool go, float[l, 3] b) {
                next = Add (i, one)
                starts = Unsqueeze (i, axis)
                ends = Unsqueeze (next, axis)
                axes = Unsqueeze (axis, axis)
                b = Slice (x, starts, ends, axes)
            }>
        """,
        "float[1, 3] y",
    )
    module = check(text, {"x": X, "m": np.array(2), "c": TRUE}, bound=("m", "c"))
    assert ops(module) == ["slice", "slice"]


def test_scan_goes_any_way_along_any_axis() -> None:
    text = """
        main (float[2] s, float[2, 3] x, float[3, 2] z) => (float[2] r, float[2, 3] y, float[3] w) {
            r, y, w = Scan <
                num_scan_inputs = 2,
                scan_input_axes = [1, 0],
                scan_input_directions = [1, 0],
                scan_output_axes = [1, 0],
                scan_output_directions = [0, 1],
                body = g (float[2] a, float[2] p, float[2] q)
                    => (float[2] n, float[2] n2, float t) {
                    m = Add (a, p)
                    n = Add (m, q)
                    n2 = Mul (n, s)
                    t = ReduceSum <keepdims = 0> (p)
                }
            > (s, x, z)
        }
    """
    made = parsed(text)
    module = import_onnx(made)
    verify_module(module)
    assert ops(module).count("scan") == 1
    s, z = np.array([1, 2], np.float32), np.arange(6, dtype=np.float32).reshape(3, 2)
    r, y, w = run_function(module.main, [s, X, z])
    state, rows, totals = s, [], []
    for i in range(3):
        part = X[:, 2 - i]
        state = state + part + z[i]
        rows.append(state * s)
        totals.append(part.sum())
    np.testing.assert_allclose(r, state)
    np.testing.assert_allclose(y, np.stack(rows, 1))
    np.testing.assert_allclose(w, totals[::-1])


def test_bodies_survive_text() -> None:
    module = import_onnx(parsed(WHILE))
    assert "func @y.body(%i: i64[], %a: f32[2, 3])" in print_module(module)


@pytest.mark.parametrize(
    ("rows", "goes_on", "kind"),
    [(", float[s, 3] all", "same", "scan"), ("", "less", "loop")],
    ids=["counted", "ends"],
)
def test_a_loop_as_long_as_a_ranged_axis(rows: str, goes_on: str, kind: str) -> None:
    text = """
        main (float[s, 3] x, float[3] h) => (float[3] last ROWS)
        <int64 zero = {0}, bool true = {1}, float most = {2}> {
            shape = Shape (x)
            count = Gather (shape, zero)
            last ALL = Loop (count, true, h) <
                body = step (int64 i, bool on, float[3] old) => (bool ON, float[3] next NEGATED) {
                    part = Gather (x, i)
                    next = Add (old, part)
                    row = Neg (next)
                    sum = ReduceSum <keepdims = 0> (next)
                    less = Less (sum, most)
                    same = Identity (on)
                }
            >
        }
    """
    named = {"ROWS": rows, "ALL": rows and ", all", "NEGATED": rows and ", float[3] row"}
    for name, spelled in {**named, "ON": goes_on}.items():
        text = text.replace(name, spelled)
    made = parsed(text)
    module = import_onnx(made, Binding(dims={"s": ranged(Dim("s", 1, 9))}))
    assert kind in ops(module)
    session = InferenceSession(made.SerializeToString())
    for extent in (1, 4, 9):
        feed = {"x": random(extent, 3), "h": random(3)}
        got = run_function(module.bind({"s": extent}).main, [*feed.values()])
        for one, other in zip(got, session.run(None, feed), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def random(*shape: int) -> Array:
    return np.random.default_rng(0).uniform(-1, 2, shape).astype(np.float32)
