"""Rewriting, pipelines and instruments."""

from __future__ import annotations

import pytest

from afterglow.graph import Builder, Function, Node, Value, parse_module
from afterglow.instr import parse_program, print_program
from afterglow.memory import by_definition
from afterglow.memory.passes import PlanKernels, PlanMemory, ShareBuffers
from afterglow.ops.elementwise import Abs, Neg
from afterglow.ops.functions import Exp
from afterglow.passes import (
    Dump,
    Pass,
    Pipeline,
    ProgramPipeline,
    Property,
    RewritePass,
    StopAfter,
    Timing,
    VerifyEach,
    rewrite,
)
from afterglow.support.errors import CompileError, VerifyError
from tests.transforms.rewriting import check_rewrites


@rewrite(Neg)
def cancel_negations(node: Node, b: Builder) -> Value | None:
    """neg(neg(x))  ->  x."""
    match node:
        case Node(Neg(), [Value(Node(Neg(), [x]))]):
            return x
    return None


@rewrite(Abs)
def grow(node: Node, b: Builder) -> Value | None:
    """abs(x)  ->  abs(abs(x)): never settles."""
    return b.emit(Abs(), b.emit(Abs(), node.operands[0]))


CANCEL = RewritePass("cancel-negations", (cancel_negations,))

CHAIN = """
    func @main(%x: f32[2]) {
      %a = neg(%x) : f32[2]
      %b = neg(%a) : f32[2]
      %c = neg(%b) : f32[2]
      %y = neg(%c) : f32[2]
      return %y
    }
"""

PROGRAM = """
program @main {
  input %x : f32[4]
  output %y : f32[4]
  %t = alloc f32[4]
  exp out %t, in %x
  %u = alloc f32[4]
  neg out %u, in %t
  exp out %y, in %u
}
"""


def test_rules_apply_until_none_matches() -> None:
    check_rewrites(CANCEL, before=CHAIN, after='func @main(%x: f32[2]) {\n  return %x as "y"\n}')


def test_rules_that_do_not_settle_are_stopped() -> None:
    f = parse_module("func @main(%x: f32[]) {\n  %y = abs(%x) : f32[]\n  return %y\n}").main
    with pytest.raises(CompileError, match="pass 'grow' do not settle; the last was 'grow'"):
        RewritePass("grow", (grow,)).run(f)


def test_a_rule_states_its_law() -> None:
    assert cancel_negations.name == "cancel_negations"
    assert cancel_negations.law == "neg(neg(x))  ->  x."


def test_a_replacement_keeps_the_name_and_the_predicate() -> None:
    @rewrite(Exp)
    def to_abs(node: Node, b: Builder) -> Value | None:
        """exp(x)  ->  abs(x)."""
        return b.emit(Abs(), node.operands[0])

    f = parse_module(
        "func @main(%p: bool[], %x: f32[]) {\n  %y = exp(%x) if %p : f32[]\n  return %y\n}"
    ).main
    RewritePass("to-abs", (to_abs,)).run(f)
    (node,) = f.nodes
    assert (node.name, node.op, node.predicate) == ("y", Abs(), f.inputs[0])


class NeedsLowered(Pass):
    """Does nothing, after lowering."""

    name = "needs-lowered"
    requires = frozenset({Property.LOWERED})

    def run(self, function: Function) -> bool:
        return False


class Lowers(Pass):
    """Claims to lower."""

    name = "lowers"
    provides = frozenset({Property.LOWERED})

    def run(self, function: Function) -> bool:
        return False


def test_the_order_of_a_pipeline_is_checked() -> None:
    Pipeline("good", (Lowers(), NeedsLowered()))
    with pytest.raises(
        ValueError, match="pipeline 'bad': pass 'needs-lowered' needs lowered first"
    ):
        Pipeline("bad", (NeedsLowered(), Lowers()))


def test_passes_of_programs_are_ordered_and_watched_as_well() -> None:
    with pytest.raises(ValueError, match="pass 'share-buffers' needs kernel plans first"):
        ProgramPipeline("bad", (ShareBuffers(),))
    dumps: list[tuple[str, str]] = []
    timing = Timing()
    watch = Dump(lambda title, text: dumps.append((title, text)))
    program = parse_program(PROGRAM)
    passes = (PlanKernels(by_definition), ShareBuffers(), PlanMemory())
    ProgramPipeline("p", passes).run(program, [VerifyEach(), watch, timing])
    assert [title for title, _ in dumps] == [f"after {step.name}" for step in passes]
    assert "neg inout %t" not in dumps[0][1]
    assert dumps[-1][1] == print_program(program)
    assert [*timing.runs] == [step.name for step in passes]


class Breaks(Pass):
    """Leaves the function broken."""

    name = "breaks"

    def run(self, function: Function) -> bool:
        function.reorder(list(function.nodes)[::-1])
        return True


def test_verification_names_the_pass_at_fault() -> None:
    with pytest.raises(VerifyError, match="after pass 'breaks': operand c of %y is not defined"):
        Pipeline("p", (Breaks(),)).run(parse_module(CHAIN), [VerifyEach()])


def test_instruments_dump_time_and_stop() -> None:
    dumps: list[tuple[str, str]] = []
    timing, stop = Timing(), StopAfter(2)
    pipeline = Pipeline("p", (CANCEL, CANCEL, Lowers()))
    watch = Dump(lambda title, text: dumps.append((title, text)), changed_only=True)
    pipeline.run(parse_module(CHAIN), [watch, timing, stop])
    assert [title for title, _ in dumps] == ["after cancel-negations"]
    assert timing.runs == {"cancel-negations": 2}
    assert stop.done == ["cancel-negations", "cancel-negations"]


def test_dumps_can_be_asked_for_by_name_and_before() -> None:
    dumps: list[str] = []
    watch = Dump(lambda title, _: dumps.append(title), names=frozenset({"lowers"}), before=True)
    Pipeline("p", (CANCEL, Lowers())).run(parse_module(CHAIN), [watch])
    assert dumps == ["before lowers", "after lowers"]
