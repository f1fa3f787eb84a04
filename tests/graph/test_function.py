"""Functions and modules: editing a graph."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.graph import (
    Builder,
    Function,
    Module,
    Subgraph,
    parse_function,
    parse_module,
    print_module,
    structural_hash,
    verify_module,
)
from afterglow.graph.dot import print_dot
from afterglow.graph.order import sort_function, topological_order
from afterglow.ops.control import If
from afterglow.ops.elementwise import Add, Neg
from afterglow.ops.functions import Exp
from afterglow.support.errors import CompileError
from afterglow.types import TensorType
from afterglow.types.dtype import boolean, f32
from afterglow.types.extent import Dim, UndecidedExtentError, ranged


def test_main_may_be_empty_and_stand_before_its_bodies() -> None:
    module = Module()
    main, other = Function("main", module), Function("other", module)
    x = other.input("x", TensorType(f32, (2,)))
    other.output("y", Builder(other).emit(Neg(), x))
    assert module.main is main
    flag = main.input("flag", TensorType(boolean, ()))
    given = main.input("x", TensorType(f32, (2,)))
    main.output("y", Builder(main).emit(If(Subgraph(other), Subgraph(other)), flag, given))
    copy = module.clone()
    verify_module(copy)
    assert copy.main.subgraphs() == [copy.functions["other"]]


def chain(length: int) -> Function:
    f = Function("main")
    b = Builder(f)
    x = f.input("x", TensorType(f32, (2,)))
    value = x
    for _ in range(length):
        value = b.emit(Exp(), value)
    f.output("y", value)
    return f


def test_nodes_come_in_order_and_may_be_erased_while_walking() -> None:
    f = chain(3)
    assert [node.name for node in f.nodes] == ["exp", "exp_1", "exp_2"]
    f.outputs.clear()
    for node in reversed(list(f.nodes)):
        f.erase(node)
    assert len(f) == 0


def test_replacing_a_value_moves_every_use() -> None:
    f = chain(2)
    first, second = f.nodes
    f.replace(first.result, f.inputs[0])
    assert second.operands == [f.inputs[0]]
    assert first.result.use_count == 0


def test_replacing_checks_the_type() -> None:
    f = chain(1)
    other = f.input("z", TensorType(f32, (3,)))
    with pytest.raises(CompileError, match=r"cannot replace exp of type f32\[2\]"):
        f.replace(f.outputs[0].value, other)


def test_a_used_node_cannot_be_erased() -> None:
    f = chain(2)
    with pytest.raises(CompileError, match="cannot erase exp: it is used"):
        f.erase(next(f.nodes))


def test_a_builder_inserts_where_it_is_told() -> None:
    f = chain(2)
    last = list(f.nodes)[1]
    b = Builder(f, before=last)
    last.set_operand(0, b.emit(Neg(), last.operands[0]))
    assert [node.op.mnemonic for node in f.nodes] == ["exp", "neg", "exp"]
    verify_module(f.module)


def test_a_type_error_shows_the_program_around_it() -> None:
    f = Function("main")
    b = Builder(f)
    left = b.emit(Exp(), f.input("x", TensorType(f32, (2,))), name="left")
    right = f.input("y", TensorType(f32, (3,)))
    with pytest.raises(CompileError) as caught:
        b.emit(Add(), left, right, name="sum", origins=("net.onnx, 'Add_1'",))
    assert str(caught.value).splitlines() == [
        "error: add: shapes do not broadcast: lhs f32[2], rhs f32[3]",
        "  in function @main, node %sum (net.onnx, 'Add_1')",
        "      %left = exp(%x) : f32[2]",
        "    > %sum = add(%left, %y)",
        "  help: extents must be equal or 1, counted from the last axis",
    ]


def test_a_clone_is_equal_and_independent() -> None:
    module = chain(3).module
    copy = module.clone()
    assert print_module(copy) == print_module(module)
    copy.main.outputs.clear()
    assert module.main.outputs


def test_a_module_with_bodies_clones_whole() -> None:
    module = parse_module(
        "const @c : f32[] = [2]\n"
        "func @a(%x: f32[]) {\n  %y = mul(%x, @c) : f32[]\n  return %y\n}\n"
        "func @b(%x: f32[]) {\n  return %x\n}\n"
        "func @main(%p: bool[], %x: f32[]) {\n"
        "  %y = if(%p, %x) {then_branch = @a, else_branch = @b} : f32[]\n  return %y\n}\n"
    )
    copy = module.clone()
    verify_module(copy)
    assert print_module(copy) == print_module(module)
    (node,) = copy.main.nodes
    assert node.op.then_branch.function is copy.functions["a"]


def test_the_hash_ignores_names_and_sees_everything_else() -> None:
    def digest(text: str) -> str:
        return structural_hash(parse_function(text))

    base = (
        "const @c : f32[] = [2]\n"
        "func @main(%x: f32[]) {\n  %y = mul(%x, @c) : f32[]\n  return %y\n}"
    )
    assert digest(base) == digest(base.replace("%y", "%other").replace("@c", "@d"))
    assert digest(base) != digest(base.replace("[2]", "[3]"))
    assert digest(base) != digest(base.replace("mul", "add"))
    assert digest(base) != digest(base.replace("return %y", "return %x"))


def test_sorting_restores_an_order() -> None:
    f = chain(3)
    first, second, third = f.nodes
    f.reorder([third, second, first])
    sort_function(f)
    assert list(f.nodes) == [first, second, third]


def test_a_cycle_is_reported() -> None:
    f = chain(2)
    first, second = f.nodes
    first.set_operand(0, second.result)
    with pytest.raises(CompileError, match="the graph has a cycle through exp"):
        topological_order(f.nodes)


def test_the_dot_form_names_nodes_types_and_weights() -> None:
    module = Module()
    f = Function("main", module)
    weight = module.constant("w", np.ones(2, np.float32))
    f.output("y", Builder(f).emit(Add(), f.input("x", TensorType(f32, (2,))), weight, name="sum"))
    text = print_dot(f)
    assert text.startswith('digraph "main" {')
    assert '"sum\\nadd"' in text
    assert '"w f32[2]"' in text
    assert 'in0 -> n0 [label="f32[2]"' in text


def test_nodes_built_inside_when_have_its_predicate() -> None:
    function = Function("main")
    b = Builder(function)
    x = function.input("x", TensorType(f32, (2,)))
    p = function.input("p", TensorType(boolean, ()))
    with b.when(p):
        inside = b.emit(Neg(), x)
    outside = b.emit(Neg(), inside)
    assert inside.producer is not None
    assert outside.producer is not None
    assert inside.producer.predicate is p
    assert outside.producer.predicate is None
    with pytest.raises(CompileError) as caught, b.when(x):
        pass
    assert str(caught.value) == (
        "error: a predicate must be bool[], got f32[2]\n"
        "  in function @main, value %x\n"
        "  help: reshape it to a scalar, or compute one from it: reduce_max, less, not"
    )


def test_what_replaces_a_ranged_value_must_have_the_same_expressions() -> None:
    f = Function("main")
    b = Builder(f)
    s = ranged(Dim("s", 1, 4))
    x, y = (f.input(name, TensorType(f32, (n,))) for name, n in (("x", s), ("y", s // 2 + 1)))
    old = b.emit(Exp(), x)
    with pytest.raises(UndecidedExtentError) as caught:
        f.replace(old, y)
    assert caught.value.what == "whether f32[s] is f32[s // 2 + 1] depends on s (1..4)"
