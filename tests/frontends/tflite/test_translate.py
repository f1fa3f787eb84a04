"""Files as definitions: names, bodies, variables, shapes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

import afterglow as ag
from afterglow.support.errors import ModelError, UnsupportedError
from tests.frontends.tflite.build import (
    Array,
    Graph,
    Operator,
    Signature,
    Tensor,
    constant,
    one_op,
    run_litert,
    write,
)


def _check(data: bytes, *runs: list[Array]) -> None:
    """Both give the same after some runs."""
    model = ag.compile(data, backend="interpreter")
    for feeds in runs:
        found = model(*feeds)
    arrays = [found] if isinstance(found, np.ndarray) else list(found)
    for ours, theirs in zip(arrays, run_litert(data, *runs), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-6, 1e-6)


def _binary(op: str, left: str, right: str, result: str) -> Operator:
    return Operator(op, [left, right], [result], f"{op.title()}Options")


def test_a_signature_names_inputs_and_outputs() -> None:
    graph = Graph(
        [Tensor("serving_x:0", (2,)), Tensor("StatefulPartitionedCall:0", (2,))],
        [Operator("ABS", ["serving_x:0"], ["StatefulPartitionedCall:0"])],
        ["serving_x:0"],
        ["StatefulPartitionedCall:0"],
    )
    names = Signature({"serving_x:0": "x"}, {"StatefulPartitionedCall:0": "size"})
    model = ag.compile(write(graph, signatures=[names]), backend="interpreter")
    assert [*map(str, model.inputs), *map(str, model.outputs)] == ["x: f32[2]", "size: f32[2]"]


def test_values_may_share_a_name_or_have_none() -> None:
    graph = Graph(
        [Tensor("a", (2,)), Tensor("b", (2,)), Tensor("c", (2,))],
        [Operator("ABS", ["a"], ["b"]), Operator("NEG", ["b"], ["c"])],
        ["a"],
        ["c", "c", "a"],
    )
    data = write(graph).replace(b"b\0\0\0", b"a\0\0\0")
    _check(data, [np.array([1, -2], np.float32)])


def test_an_if_runs_one_of_its_subgraphs() -> None:
    main = Graph(
        [Tensor("c", (1,), "bool"), Tensor("x", (2,)), Tensor("y", (2,))],
        [
            Operator(
                "IF",
                ["c", "x"],
                ["y"],
                "IfOptions",
                {"then_subgraph_index": 1, "else_subgraph_index": 2},
            )
        ],
        ["c", "x"],
        ["y"],
    )
    branches = [
        Graph([Tensor("x", (2,)), Tensor("y", (2,))], [Operator(op, ["x"], ["y"])], ["x"], ["y"])
        for op in ("ABS", "NEG")
    ]
    x = np.array([-1, 2], np.float32)
    for truth in (True, False):
        _check(write(main, *branches), [np.array([truth]), x])


def _loop() -> bytes:
    """x doubled as long as it is below 100, and how often that was."""
    pair = [Tensor("x", (1,)), Tensor("n", (1,), "int32")]
    results = [Tensor("x2", (1,)), Tensor("n2", (1,), "int32")]
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    main = Graph(
        [*pair, *results],
        [Operator("WHILE", ["x", "n"], ["x2", "n2"], "WhileOptions", options)],
        ["x", "n"],
        ["x2", "n2"],
    )
    condition = Graph(
        [*pair, constant("limit", np.array([100], np.float32)), Tensor("less", (1,), "bool")],
        [Operator("LESS", ["x", "limit"], ["less"])],
        ["x", "n"],
        ["less"],
    )
    body = Graph(
        [*pair, *results, constant("one", np.array([1], np.int32))],
        [_binary("ADD", "x", "x", "x2"), _binary("ADD", "n", "one", "n2")],
        ["x", "n"],
        ["x2", "n2"],
    )
    return write(main, condition, body)


def test_a_while_runs_its_body_as_long_as_its_condition_holds() -> None:
    for start in (3, 200):
        _check(_loop(), [np.array([start], np.float32), np.zeros(1, np.int32)])


def test_a_subgraph_that_calls_itself_is_refused() -> None:
    options = {"cond_subgraph_index": 0, "body_subgraph_index": 0}
    graph = Graph(
        [Tensor("x", (1,)), Tensor("y", (1,))],
        [Operator("WHILE", ["x"], ["y"], "WhileOptions", options)],
        ["x"],
        ["y"],
    )
    with pytest.raises(ModelError) as caught:
        ag.compile(write(graph))
    assert str(caught.value) == ("error: subgraph 0 calls itself\n  in node 'op 0, y' (WHILE)")


def _counter(initial: Array) -> bytes:
    """Adds x to a variable, and returns what it was before and is then."""
    handle = {"container": "", "shared_name": "total"}
    shape = initial.shape
    dtype = initial.dtype.name
    made = Operator("VAR_HANDLE", [], ["handle"], "VarHandleOptions", handle)
    main = Graph(
        [
            Tensor("handle", (), "resource"),
            *(Tensor(name, shape, dtype) for name in ("x", "before", "after")),
        ],
        [
            Operator("CALL_ONCE", [], [], "CallOnceOptions", {"init_subgraph_index": 1}),
            made,
            Operator("READ_VARIABLE", ["handle"], ["before"], "ReadVariableOptions"),
            _binary("ADD", "before", "x", "after"),
            Operator("ASSIGN_VARIABLE", ["handle", "after"], [], "AssignVariableOptions"),
        ],
        ["x"],
        ["before", "after"],
    )
    once = Graph(
        [Tensor("handle", (), "resource"), constant("first", initial)],
        [made, Operator("ASSIGN_VARIABLE", ["handle", "first"], [], "AssignVariableOptions")],
        [],
        [],
    )
    return write(main, once)


@pytest.mark.parametrize("first", [0.0, 2.5])
def test_variables_keep_their_values_from_run_to_run(first: float) -> None:
    x = np.array([1, 2], np.float32)
    _check(_counter(np.full(2, first, np.float32)), [x], [2 * x], [x])


def test_variables_of_compiled_models_keep_their_values() -> None:
    model = ag.compile(_counter(np.array([7, -128], np.int32)))
    x = np.array([1, 2], np.int32)
    model(x)
    before, after = model(x)
    np.testing.assert_array_equal([before, after], [[8, -126], [9, -124]])


def test_complex_numbers_pass_through_what_moves_elements() -> None:
    kinds = {"x": "float32", "s": "complex64", "t": "complex64", "u": "complex64"}
    data = write(
        Graph(
            [
                *(Tensor(name, (), kind) for name, kind in kinds.items() if name != "x"),
                Tensor("x", (2, 3, 7)),
                constant("lengths", np.array([4, 8], np.int32)),
                constant("perm", np.array([1, 0, 2], np.int32)),
                *(Tensor(name) for name in ("real", "imag", "size")),
            ],
            [
                Operator("RFFT2D", ["x", "lengths"], ["s"], "Rfft2dOptions"),
                Operator("TRANSPOSE", ["s", "perm"], ["t"], "TransposeOptions"),
                Operator("REAL", ["t"], ["real"]),
                Operator("IMAG", ["s"], ["imag"]),
                Operator("COMPLEX_ABS", ["s"], ["size"]),
            ],
            ["x"],
            ["imag", "size"],
        )
    )
    x = np.random.default_rng(0).normal(size=(2, 3, 7)).astype(np.float32)
    imag, size = ag.compile(data, backend="interpreter")(x)
    spectrum = np.fft.rfft2(np.pad(x, [(0, 0), (0, 1), (0, 1)]))
    np.testing.assert_allclose(imag, spectrum.imag, 1e-4, 1e-4)
    np.testing.assert_allclose(size, np.abs(spectrum), 1e-4, 1e-4)


def test_dynamic_extents_are_those_of_the_inputs() -> None:
    data = one_op(
        "SOFTMAX",
        [Tensor("x", (1, 4), signature=(-1, 4))],
        [Tensor("y", (1, 4), signature=(-1, 4))],
        "SoftmaxOptions",
        beta=1.0,
    )
    model = ag.compile(data, backend="interpreter")
    assert [*map(str, model.inputs), *map(str, model.outputs)] == ["x: f32[?, 4]", "y: f32[?, 4]"]
    for rows in (1, 3):
        assert model(np.ones((rows, 4), np.float32)).shape == (rows, 4)


def test_data_may_decide_shapes() -> None:
    data = one_op("WHERE", [Tensor("x", (2, 3), "bool")], [Tensor("y", (), "int64")])
    x = np.array([[True, False, True], [False, False, True]])
    model = ag.compile(data, backend="interpreter")
    np.testing.assert_array_equal(model(x), np.argwhere(x))


def test_different_elements_come_in_their_order() -> None:
    data = one_op(
        "UNIQUE",
        [Tensor("x", (5,))],
        [Tensor("y"), Tensor("i", (), "int32")],
        "UniqueOptions",
        idx_out_type=2,
    )
    found = ag.compile(data, backend="interpreter")(np.array([3, 1, 3, 2, 1], np.float32))
    np.testing.assert_array_equal(found[0], [3, 1, 2])
    np.testing.assert_array_equal(found[1], [0, 1, 0, 2, 1])


def test_sparse_tensors_are_read_with_their_zeros() -> None:
    dense = np.array([[0, 0, 3, 0], [0, 0, 0, 0], [5, 0, 0, 6]], np.float32)
    sparsity = {"order": [0, 1], "axes": [3, ([0, 1, 1, 3], [2, 0, 3])]}
    stored = Tensor("w", (3, 4), data=np.array([3, 5, 6], np.float32), sparsity=sparsity)
    graph = Graph(
        [Tensor("x", (2, 4)), stored, Tensor("d", (3, 4)), Tensor("y", (2, 3))],
        [
            Operator("DENSIFY", ["w"], ["d"], "DensifyOptions"),
            Operator("FULLY_CONNECTED", ["x", "d", ""], ["y"], "FullyConnectedOptions"),
        ],
        ["x"],
        ["y"],
    )
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(ag.compile(write(graph), backend="interpreter")(x), x @ dense.T)


def test_a_custom_op_is_refused_by_its_name() -> None:
    data = one_op("Wobble", [Tensor("x", (2,))], [Tensor("y", (2,))], custom=b"\1\2")
    with pytest.raises(UnsupportedError) as caught:
        ag.compile(data)
    assert str(caught.value) == (
        "error: the custom op 'Wobble' is not known\n"
        "  in node 'op 0, y' (custom.Wobble)\n"
        "  help: define it with @afterglow.op, or replace it by builtin ops"
    )


def test_ops_without_an_importer_are_refused_by_their_names() -> None:
    data = one_op("SKIP_GRAM", [Tensor("x", (2,))], [Tensor("y", (2,))])
    with pytest.raises(UnsupportedError) as caught:
        ag.compile(data)
    assert str(caught.value) == (
        "error: this op is not supported\n"
        "  in node 'op 0, y' (SKIP_GRAM)\n"
        "  help: replace it by supported ops"
    )
