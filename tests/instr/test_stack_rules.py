"""Which instructions may be one kernel: what the pass that forms stacks and the scheduler ask."""

from __future__ import annotations

import inspect

import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.instr import OpInstr, parse_program
from afterglow.instr.stack_rules import MOST_MEMBERS, MOST_OPERANDS, StackGroup, may_join
from afterglow.lowering.scheduling import kernels
from afterglow.memory import stacking

HEAD = """
program @main {
  input %x : f32[4, 4]
  input %p : bool[]
  input %q : bool[]
  output %y : f32[4, 4]
  %a = alloc f32[4, 4]
"""
MATMUL = "{transpose_lhs = false, transpose_rhs = false}"


def pair(first: str, second: str) -> tuple[StackGroup, StackGroup]:
    program = parse_program(f"{HEAD}{first}\n{second}\n}}")
    steps = [step for step in program.body if isinstance(step, OpInstr)]
    return StackGroup((steps[0],)), StackGroup((steps[1],))


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ("exp out %a, in %x", "neg out %y, in %a", True),
        (f"matmul out %a, in %x, in %x {MATMUL}", "neg out %y, in %a", True),
        ("exp out %a, in %x", f"matmul out %y, in %a, in %x {MATMUL}", False),
        (
            f"matmul out %a, in %x, in %x {MATMUL}",
            f"matmul out %y, in %a, in %x {MATMUL}",
            False,
        ),
        ("exp out %a, in %x if %p", "neg out %y, in %a if %p", True),
        ("exp out %a, in %x if %p", "neg out %y, in %a if %q", False),
        ("exp out %a, in %x", "%v = view %a[0:4, 0:4] : f32[4, 4]\nneg out %y, in %v", False),
    ],
)
def test_what_may_join(first: str, second: str, wanted: bool) -> None:
    assert may_join(*pair(first, second)) is wanted


def test_a_group_is_as_large_as_registers_allow() -> None:
    first, second = pair("exp out %a, in %x", "neg out %y, in %a")
    steps = [pair("exp out %a, in %x", "neg out %y, in %a")[0].members[0] for _ in range(100)]
    many = StackGroup((*steps[:MOST_MEMBERS], *first.members))
    assert not may_join(many, second)
    assert may_join(StackGroup((*steps[: MOST_OPERANDS - 1], *first.members)), second)
    assert not may_join(StackGroup((*steps[:MOST_OPERANDS], *first.members)), second)


@pytest.mark.parametrize("module", [kernels, stacking])
def test_the_scheduler_and_the_pass_ask_the_same_rule(module: object) -> None:
    assert vars(module)["may_join"] is may_join
    assert "may_join(" in inspect.getsource(module)  # type: ignore[arg-type]
