"""Workspace that is given up for a smaller arena."""

from __future__ import annotations

from collections.abc import Sequence

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.instr import KernelPlan, OpInstr, Program, Stack, parse_program, verify_program
from afterglow.memory import place_lifetimes, plan_kernels, plan_memory, reduce_workspace
from afterglow.memory.passes import ReduceWorkspace
from afterglow.passes import Property

CHAIN = """
    program @main {
      input %x : f32[64]
      output %y : f32[64]
      %a = alloc f32[64]
      exp out %a, in %x
      %b = alloc f32[64]
      neg out %b, in %a
      dealloc %a
      relu out %y, in %b
      dealloc %b
    }
"""


def plan(cost: float, workspace: int, thread_bytes: int = 0) -> KernelPlan:
    sizes = {"room": workspace} if workspace else {}
    return KernelPlan(f"k{workspace}", cost=cost, workspace=sizes, thread_bytes=thread_bytes)


def reduced(plans: dict[str, list[KernelPlan]]) -> tuple[int, Program]:
    """The chain with the first plan for each op, and how many were changed."""

    def alternatives(step: OpInstr | Stack, *, exact: bool = False) -> Sequence[KernelPlan]:
        assert isinstance(step, OpInstr)
        return plans[step.op.mnemonic]

    program = parse_program(CHAIN)
    plan_kernels(program, lambda step, exact=False: alternatives(step)[0])
    place_lifetimes(program)
    count = reduce_workspace(program, alternatives)
    place_lifetimes(program)
    plan_memory(program)
    verify_program(program)
    return count, program


def test_the_kernel_at_the_peak_takes_less_workspace() -> None:
    count, program = reduced(
        {
            "exp": [plan(1e6, 0)],
            "neg": [plan(1000, 4096), plan(1100, 1024), plan(1200, 0)],
            "relu": [plan(1000, 1024), plan(1001, 0)],
        }
    )
    chosen = [step.plan for step in program.body if isinstance(step, OpInstr)]
    assert count == 2
    assert [plan and plan.algorithm for plan in chosen] == ["k0", "k0", "k0"]
    assert program.arena_bytes == 512


def test_every_kernel_above_the_new_peak_must_give_way() -> None:
    plans = {
        "exp": [plan(1e6, 2048)],
        "neg": [plan(1000, 4096), plan(1001, 0)],
        "relu": [plan(1000, 4096), plan(1001, 0)],
    }
    count, program = reduced(plans)
    assert (count, program.arena_bytes) == (2, 256 + 2048)
    plans["relu"] = [plan(1000, 4096)]  # it holds the peak, so neg need not go below
    count, program = reduced(plans)
    assert (count, program.arena_bytes) == (1, 256 + 4096)


def test_workspace_that_costs_too_much_to_give_up_stays() -> None:
    plans = {
        "exp": [plan(1e6, 0)],
        "neg": [plan(1000, 4096), plan(5000, 0)],
        "relu": [plan(1000, 0)],
    }
    assert reduced(plans)[0] == 0


def test_little_memory_is_not_worth_much_time() -> None:
    plans = {
        "exp": [plan(1e6, 0)],
        "neg": [plan(1000, 8192), plan(3500, 8128)],
        "relu": [plan(1000, 0)],
    }
    assert reduced(plans)[0] == 0


def test_memory_of_threads_does_not_grow_instead() -> None:
    plans = {
        "exp": [plan(1e6, 0)],
        "neg": [plan(1000, 4096), plan(1001, 0, thread_bytes=64)],
        "relu": [plan(1000, 0)],
    }
    assert reduced(plans)[0] == 0


def test_it_runs_after_buffers_are_shared() -> None:
    assert ReduceWorkspace.requires == {Property.SHARED}
