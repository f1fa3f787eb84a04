"""Models as they are found: large, deep, oddly named, and with statements that are not so."""

from __future__ import annotations

import re
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import afterglow
from afterglow.frontends.onnx import import_onnx
from afterglow.graph import print_module, run_function, verify_module
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.types import Array
from tests.frontends.models import BOOL, FLOAT, INT64, graph, info, model, node, tensor

X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
NEWEST_IR = max(helper.VERSION_TABLE, key=lambda row: row[1])[1]
ODD_NAMES = [
    "with space",
    "a/b/c:0",
    "Größe",
    "层.0",
    "🎉",
    "it's",
    'say "hi"',
    "back\\slash",
    "line\nbreak",
    "%x",
    "@main",
    "{braces}",
    "1",
    "-",
    "a" * 3000,
    "\x00nul",
    "‮right to left",
]


def run(source: onnx.ModelProto | Path, *inputs: Array, backend: str = "interpreter") -> Array:
    """The only output of a model."""
    made = afterglow.compile(source, backend=backend, cache=False)
    names = [given.name for given in made.inputs]
    return made.run(None, dict(zip(names, inputs, strict=True)))[0]


def external(name: str, shape: tuple[int, ...], offset: int) -> TensorProto:
    made = TensorProto(name=name, data_type=FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    length = 4 * int(np.prod(shape))
    for key, value in (("location", "w.bin"), ("offset", offset), ("length", length)):
        made.external_data.add(key=key, value=str(value))
    return made


def test_external_data_of_more_than_two_gigabytes(tmp_path: Path) -> None:
    """Two tensors in one file, the second behind the first 3 GB; holes take no space."""
    rows = 3 * 2**18
    nodes = [node("Gather", ["w", "i"], ["a"]), node("Add", ["a", "b"], ["y"])]
    main = graph(nodes, [info("i", (1,), INT64)], [info("y", (1, 1024))])
    size = rows * 1024 * 4
    main.initializer.extend([external("w", (rows, 1024), 0), external("b", (1024,), size)])
    path = tmp_path / "model.onnx"
    path.write_bytes(model(main).SerializeToString())
    with (tmp_path / "w.bin").open("wb") as file:
        file.seek(size - 4)
        file.write(np.float32(7).tobytes())
        file.truncate(size + 4096)
    y = run(path, np.array([rows - 1]))
    assert y.tolist() == [[0] * 1023 + [7]]


def add_branch(choice: onnx.NodeProto, name: str, output: str) -> onnx.GraphProto:
    """An empty graph, in place: protobuf cannot copy what is nested deeper than 33 graphs."""
    attribute = choice.attribute.add(name=name, type=onnx.AttributeProto.GRAPH)
    attribute.g.output.add(name=output)
    return attribute.g


def branches(levels: int) -> onnx.ModelProto:
    """The negative of x behind so many conditions, all of them c."""
    made = model([], inputs=["x", info("c", (), BOOL)], outputs=["v0"])
    place = made.graph
    for level in range(levels):
        choice = place.node.add(op_type="If", input=["c"], output=[f"v{level}"])
        add_branch(choice, "else_branch", "e").node.add(op_type="Exp", input=["x"], output=["e"])
        place = add_branch(choice, "then_branch", f"v{level + 1}")
    place.node.add(op_type="Neg", input=["x"], output=[f"v{levels}"])
    return made


def loops(levels: int) -> onnx.ModelProto:
    """The negative of x in so many loops, each of which runs once."""
    made = model([], inputs=["x0"], outputs=["y0"], constants={"once": np.array(1)})
    place = made.graph
    for level in range(levels):
        inputs = ["once", "", f"x{level}"]
        loop = place.node.add(op_type="Loop", input=inputs, output=[f"y{level}"])
        place = add_branch(loop, "body", f"k{level}")
        for name, shape, kind in (
            (f"i{level}", (), INT64),
            (f"c{level}", (), BOOL),
            (f"x{level + 1}", (2, 3), FLOAT),
        ):
            place.input.append(info(name, shape, kind))
        place.node.add(op_type="Identity", input=[f"c{level}"], output=[f"k{level}"])
        place.output.add(name=f"y{level + 1}")
    place.node.add(op_type="Neg", input=[f"x{levels}"], output=[f"y{levels}"])
    return made


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_branches_fifty_deep(backend: str) -> None:
    y = run(branches(50), X, np.array(True), backend=backend)
    np.testing.assert_array_equal(y, -X)


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_loops_fifty_deep(backend: str) -> None:
    np.testing.assert_array_equal(run(loops(50), X, backend=backend), -X)


def test_problems_deep_in_branches_are_found_once() -> None:
    made = branches(30)
    for line in (b"Exp", b"Neg"):
        made = onnx.ModelProto.FromString(made.SerializeToString().replace(line, b"Bad"))
    with pytest.raises(ModelError, match="31 problems"):
        import_onnx(made)


def test_branches_thirty_deep_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "deep.onnx"
    path.write_bytes(branches(30).SerializeToString())
    np.testing.assert_array_equal(run(path, X, np.array(True)), -X)


def test_too_deep_is_an_error() -> None:
    with pytest.raises(ModelError, match="nested more than 64 deep"):
        import_onnx(loops(70))
    with pytest.raises(ModelError, match="nested more than 100 deep"):
        import_onnx(branches(50).SerializeToString())


def named(name: str) -> onnx.ModelProto:
    """A model all of whose names begin so."""
    nodes = [node("Add", [name, f"{name} w"], [f"{name} s"], name=name)]
    nodes.append(node("Relu", [f"{name} s"], [f"{name} y"], name=name))
    constants = {f"{name} w": np.float32(1)}
    return model(nodes, inputs=[info(name)], outputs=[info(f"{name} y")], constants=constants)


@pytest.mark.parametrize("name", ODD_NAMES, ids=repr)
def test_names_have_any_characters(name: str) -> None:
    module = import_onnx(named(name))
    verify_module(module)
    print_module(module)
    compiled = afterglow.compile(named(name), backend="interpreter")
    assert [given.name for given in compiled.inputs] == [name]
    (y,) = compiled.run([f"{name} y"], {name: X})
    np.testing.assert_array_equal(y, np.maximum(X + 1, 0))


def test_machine_code_takes_names_with_any_characters() -> None:
    values = ["x", *ODD_NAMES]
    nodes = [node("Add", [a, "one"], [b], name=b) for a, b in pairwise(values)]
    made = model(nodes, outputs=[info(values[-1])], constants={"one": np.float32(1)})
    np.testing.assert_allclose(run(made, X, backend="cpu"), X + len(ODD_NAMES))


def test_nodes_may_share_a_name_or_have_none() -> None:
    nodes = [node("Neg", ["x"], ["a"], name="n"), node("Exp", ["a"], ["b"], name="n")]
    nodes += [node("Abs", ["b"], ["c"]), node("Neg", ["c"], ["y"], name="")]
    np.testing.assert_allclose(run(model(nodes), X, backend="cpu"), -np.exp(-X), rtol=1e-5)


def test_names_that_only_differ_in_odd_characters_stay_apart() -> None:
    nodes = [node("Neg", ["x"], ["a b"]), node("Exp", ["x"], ["a_b"]), node("Abs", ["x"], ["a/b"])]
    nodes.append(node("Sum", ["a b", "a_b", "a/b"], ["y"]))
    wanted = -X + np.exp(X) + np.abs(X)
    np.testing.assert_allclose(run(model(nodes), X, backend="cpu"), wanted, rtol=1e-5)


def test_initializers_of_one_name_that_differ_are_an_error() -> None:
    main = graph([node("Add", ["x", "w"], ["y"])], constants={"w": np.float32(1)})
    main.initializer.append(tensor("w", np.float32(2)))
    with pytest.raises(ModelError, match="the name 'w' is defined twice"):
        import_onnx(model(main))


@pytest.mark.parametrize("ir_version", range(3, NEWEST_IR + 1))
def test_initializers_may_be_inputs_too(ir_version: int) -> None:
    """As every one had to be before version 4; from then on it is a default."""
    constants = {"w": np.float32(1), "unused": np.zeros(9, np.float32)}
    inputs = ["x", info("w", ()), info("unused", (9,))]
    made = model([node("Add", ["x", "w"], ["y"])], inputs=inputs, constants=constants)
    made.ir_version = ir_version
    compiled = afterglow.compile(made, backend="interpreter")
    assert [given.name for given in compiled.inputs] == ["x"]
    np.testing.assert_array_equal(compiled.run(None, {"x": X})[0], X + 1)


def test_a_newer_file_format_is_tried() -> None:
    made = model([node("Neg", ["x"], ["y"])])
    made.ir_version = NEWEST_IR + 10
    np.testing.assert_array_equal(run(made, X), -X)


@pytest.mark.parametrize("shape", [(7, 7), (6,), (2, 4), ()])
def test_declared_output_shapes_that_are_wrong(shape: tuple[int, ...]) -> None:
    made = model([node("Neg", ["x"], ["y"])], outputs=[info("y", shape)])
    message = f"output 'y' is declared to be f32{list(shape)}, it is f32[2, 3]"
    with pytest.warns(afterglow.AfterglowWarning, match=re.escape(message)):
        y = run(made, X)
    np.testing.assert_array_equal(y, -X)


@pytest.mark.parametrize("shape", [(2, 3), ("n", 3), (None, None), None])
def test_declared_output_shapes_that_fit(shape: tuple[int | str | None, ...] | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(model([node("Neg", ["x"], ["y"])], outputs=[info("y", shape)]), X)


def test_shapes_inside_of_a_model_may_be_missing_or_wrong() -> None:
    main = graph([node("Neg", ["x"], ["a"]), node("Exp", ["a"], ["y"])])
    main.value_info.append(info("a", (9, 9, 9)))
    np.testing.assert_allclose(run(model(main), X), np.exp(-X), rtol=1e-6)


def test_optional_inputs_may_have_empty_names() -> None:
    nodes = [node("Clip", ["x", "", "high"], ["y"]), node("Dropout", ["x"], ["z", ""])]
    made = model(nodes, outputs=["y"], constants={"high": np.float32(1)})
    np.testing.assert_array_equal(run(made, X), np.minimum(X, 1))


def test_a_model_without_a_version_is_an_error() -> None:
    made = model([node("Neg", ["x"], ["y"])])
    del made.opset_import[:]
    with pytest.raises(ModelError, match=r"does not say which version of ai.onnx it uses"):
        import_onnx(made)


def test_a_domain_that_nobody_knows_is_an_error() -> None:
    made = model([node("Magic", ["x"], ["y"], domain="example.com", name="m")])
    with pytest.raises(UnsupportedError) as caught:
        import_onnx(made)
    assert "this op is not supported; its domain is 'example.com'" in str(caught.value)
    assert "'m'" in str(caught.value)


def test_a_domain_that_nobody_uses_does_no_harm() -> None:
    made = model([node("Neg", ["x"], ["y"])], domains={"example.com": 3, "": 17})
    np.testing.assert_array_equal(run(made, X), -X)


def function(name: str, *nodes: onnx.NodeProto) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, ["a"], ["b"], nodes, opsets)


def test_functions_in_functions() -> None:
    """Twenty deep, and those that nobody calls may be anything."""
    functions = [function("F20", node("Neg", ["a"], ["b"]))]
    for level in range(20):
        inner = node(f"F{level + 1}", ["a"], ["b"], domain="local")
        functions.append(function(f"F{level}", inner))
    functions.append(function("Unused", node("Magic", ["a"], ["b"], domain="example.com")))
    call = node("F0", ["x"], ["y"], domain="local")
    made = model([call], functions=functions, domains={"local": 1})
    np.testing.assert_array_equal(run(made, X), -X)


def test_a_function_of_an_unknown_op_names_the_call() -> None:
    functions = [function("F", node("Magic", ["a"], ["b"], domain="example.com"))]
    made = model([node("F", ["x"], ["y"], domain="local", name="call")], functions=functions)
    with pytest.raises(UnsupportedError, match=r"function local.F of 'call'"):
        import_onnx(made)


def test_wide_graphs_import_in_linear_time() -> None:
    nodes = [node("Neg", ["x"], [f"v{i}"]) for i in range(2000)]
    nodes.append(node("Sum", [f"v{i}" for i in range(2000)], ["y"]))
    module = import_onnx(model(nodes))
    (y,) = run_function(module.main, [X])
    np.testing.assert_allclose(y, -2000 * X)


def test_thousands_of_constants_import_in_linear_time() -> None:
    names = [f"w{i}" for i in range(2000)]
    values = ["x", *(f"v{i}" for i in range(1999)), "y"]
    nodes = [node("Add", [values[i], names[i]], [values[i + 1]]) for i in range(2000)]
    main = graph(nodes)
    main.initializer.extend(numpy_helper.from_array(np.float32(1), name) for name in names)
    assert len(import_onnx(model(main)).main) == 2000


def growing_loops(levels: int) -> onnx.ModelProto:
    """Loops in loops, the innermost of which adds x to its end until the sum is large."""
    made = model(
        [],
        inputs=[info("x0", (2,)), info("bound", (), FLOAT)],
        outputs=[info("y0", ("n",))],
        constants={"twice": np.array(2)},
    )
    place = made.graph
    for level in range(levels):
        inputs = ["twice", "", f"x{level}"]
        loop = place.node.add(op_type="Loop", input=inputs, output=[f"y{level}"])
        if level:
            add_condition(place, level)
        place = add_branch(loop, "body", f"on{level + 1}")
        for name, shape, kind in (
            (f"i{level}", (), INT64),
            (f"c{level}", (), BOOL),
            (f"x{level + 1}", None, FLOAT),
        ):
            place.input.append(info(name, shape, kind))
        place.output.add(name=f"y{level + 1}")
    place.node.add(op_type="Concat", input=[f"x{levels}", "x0"], output=[f"y{levels}"])
    place.node[-1].attribute.add(name="axis", type=onnx.AttributeProto.INT, i=0)
    add_condition(place, levels)
    return made


def add_condition(place: onnx.GraphProto, level: int) -> None:
    place.node.add(op_type="ReduceSum", input=[f"y{level}"], output=[f"s{level}"])
    place.node[-1].attribute.add(name="keepdims", type=onnx.AttributeProto.INT, i=0)
    place.node.add(op_type="Less", input=[f"s{level}", "bound"], output=[f"on{level}"])


@pytest.mark.parametrize("levels", [2, 30])
def test_loops_that_the_host_drives_nest_deeply(levels: int) -> None:
    x = np.ones(2, np.float32)
    compiled = afterglow.compile(growing_loops(levels), cache=False)
    for _ in range(2):
        assert compiled(x, np.array(3, np.float32)).tolist() == [1] * 4


def test_loops_that_the_host_drives_nested_too_deep_are_an_error() -> None:
    with pytest.raises(ModelError, match="nested more than 64 deep"):
        afterglow.compile(growing_loops(100), cache=False)
