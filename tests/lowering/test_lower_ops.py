"""Lowering to primitives: which there are, and that they are enough."""

from __future__ import annotations

from afterglow.graph import OPS, Builder, Function, Module, Node, parse_module, run_function
from afterglow.lowering import LowerOps
from afterglow.lowering.lower_ops import unsupported_nodes
from afterglow.ops.recurrent import RNN, Activation
from afterglow.passes import Pipeline
from afterglow.testing.arrays import assert_close
from afterglow.testing.cases import Case
from afterglow.testing.cases.case import f32
from tests.ops.test_laws import each_case_that, has_no_functions

MOST_PRIMITIVES = 48
HOST_OPS = {
    "change_case",
    "look_up",
    "ngram_count",
    "pairwise_coupling",
    "regex_full_match",
    "string_concat",
    "tree_ensemble",
}


def is_in_contract(node: Node) -> bool:
    """Whether hardware has it, or its host."""
    return node.op.is_primitive() or node.op.host


def lowered(module: Module) -> Module:
    Pipeline("lower", (LowerOps(is_in_contract),)).run(module)
    return module


def test_there_are_few_primitives() -> None:
    primitives = [op for op in OPS.values() if op.is_primitive()]
    assert len(primitives) <= MOST_PRIMITIVES


def test_the_host_ops_are_those_on_strings_trees_and_tables() -> None:
    assert {op.mnemonic for op in OPS.values() if op.host} == HOST_OPS


@each_case_that(has_no_functions)
def test_primitives_are_enough_for_every_op(case: Case) -> None:
    f = Function("main")
    operands = [None if t is None else f.input(f"x{i}", t) for i, t in enumerate(case.types)]
    for index, value in enumerate(Builder(f).emit_all(case.op, *operands)):
        f.output(f"y{index}", value)
    lowered(f.module)
    assert not unsupported_nodes(f, is_in_contract)
    got = run_function(f, [x for x in case.inputs() if x is not None])
    assert_close(got, case.wanted(), max(case.tolerance, 1e-4))


BODIES = """
    func @then(%x: f32[3]) {
      %y = sigmoid(%x) : f32[3]
      return %y
    }

    func @other(%x: f32[3]) {
      %y = einsum(%x) {equation = "i->i"} : f32[3]
      return %y
    }

    func @main(%p: bool[], %x: f32[3]) {
      %y = if(%p, %x) {then_branch = @then, else_branch = @other} : f32[3]
      return %y
    }
"""


def test_nodes_of_bodies_that_no_kernel_computes_are_found() -> None:
    found = unsupported_nodes(parse_module(BODIES).main, is_in_contract)
    assert [node.op.mnemonic for node in found] == ["sigmoid", "einsum"]


def test_bodies_that_a_lowering_adds_are_lowered_as_well() -> None:
    f = Function("main")
    operands = [
        f.input(f"x{i}", type) for i, type in enumerate((f32(3, 2, 5), f32(4, 5), f32(4, 4)))
    ]
    f.output("y", Builder(f).emit_all(RNN((Activation.SIGMOID,)), *operands)[0])
    (body,) = (g for g in lowered(f.module).functions.values() if g is not f)
    ops = [node.op for node in body.nodes]
    assert "exp" in {op.mnemonic for op in ops}
    assert all(op.is_primitive() for op in ops)
