"""Packed weights that stay within a budget."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.instr import KernelPlan, OpInstr, Program, Stack, parse_program
from afterglow.memory import fit_weights, plan_kernels

PRODUCTS = """
    program @main {
      input %x : f32[8, 8]
      output %y : f32[8, 8]
      const @a : f32[8, 8]
      const @b : f32[8, 8]
      const @c : f32[8, 8]
      const @d : f32[8, 8]
      %p = alloc f32[8, 8]
      matmul out %p, in %x, in @a
      %q = alloc f32[8, 8]
      matmul out %q, in %p, in @b
      dealloc %p
      %r = alloc f32[8, 8]
      matmul out %r, in %q, in @c
      dealloc %q
      matmul out %y, in %r, in @d
      dealloc %r
    }
"""
WEIGHT = 8 * 8 * 4
PLAIN = KernelPlan("plain", cost=1000.0)


def fast(cost: float, growth: float) -> KernelPlan:
    return KernelPlan("fast", cost=cost, weight_growth=int(growth * WEIGHT))


def fitted(most: float, plans: dict[str, list[KernelPlan]]) -> list[str]:
    """The algorithms that the steps have, of plans by the constants that they read."""

    def alternatives(step: OpInstr | Stack, *, exact: bool = False) -> Sequence[KernelPlan]:
        assert isinstance(step, OpInstr)
        return plans.get(step.required[1].name, [PLAIN])

    program: Program = parse_program(PRODUCTS)
    plan_kernels(program, lambda step, exact=False: alternatives(step)[0])
    before = [step.plan for step in program.body if isinstance(step, OpInstr)]
    count = fit_weights(program, alternatives, most, least_room=0)
    after = [step.plan for step in program.body if isinstance(step, OpInstr)]
    assert count == sum(a != b for a, b in zip(before, after, strict=True))
    return [plan.algorithm for plan in after if plan is not None]


def test_weights_within_the_budget_stay() -> None:
    assert fitted(1.5, {"a": [fast(500, 2), PLAIN]}) == ["fast", "plain", "plain", "plain"]


def test_what_loses_least_for_a_byte_is_given_up_first() -> None:
    plans = {"a": [fast(900, 1), PLAIN], "b": [fast(500, 1), PLAIN], "c": [fast(400, 1), PLAIN]}
    assert fitted(1.5, plans) == ["plain", "fast", "fast", "plain"]
    assert fitted(1.25, plans) == ["plain", "plain", "fast", "plain"]


def test_a_step_may_take_a_plan_between() -> None:
    between = KernelPlan("between", cost=510.0)
    plans = {"a": [fast(500, 3), between, PLAIN], "b": [fast(500, 1), PLAIN]}
    assert fitted(1.5, plans) == ["between", "fast", "plain", "plain"]


def test_what_fits_after_all_is_taken_back() -> None:
    plans = {"a": [fast(990, 0.5), PLAIN], "b": [fast(500, 3), PLAIN]}
    assert fitted(1.5, plans) == ["fast", "plain", "plain", "plain"]


@pytest.mark.parametrize("most", [1.0, 1.1])
def test_the_smallest_plans_are_taken_if_nothing_fits(most) -> None:
    assert fitted(most, {"a": [fast(500, 2), fast(600, 1)]})[0] == "fast"


def test_weights_that_steps_share_count_once() -> None:
    text = PRODUCTS.replace("@d\n      dealloc", "@a\n      dealloc")
    program = parse_program(text)
    plan_kernels(program, lambda step, exact=False: fast(500, 0.5))
    changes = [
        fit_weights(program, lambda step, exact=False: [PLAIN], most, least_room=0)
        for most in (1.375, 1.25, 1.0)
    ]
    assert changes == [0, 1, 3]


def test_small_models_have_room() -> None:
    program = parse_program(PRODUCTS)
    plan_kernels(program, lambda step, exact=False: fast(500, 2))
    assert fit_weights(program, lambda step, exact=False: [PLAIN], 1.0) == 0
