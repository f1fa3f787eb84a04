"""Seconds of planned steps, by rates that are easy to calculate with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import parse_module
from afterglow.instr import ON_HOST, KernelPlan, OpInstr, Program, Region, Stack
from afterglow.partition.estimate import estimate_seconds, estimate_steps
from afterglow.runtime.rates import MemoryLevel, Rates
from afterglow.types import TensorType
from afterglow.types.dtype import boolean

RATES = Rates(
    flops=1e9,
    levels=(MemoryLevel(1 << 10, 1e9), MemoryLevel(1 << 11, 1e8)),
    products={"matmul": 1e6},
    elements={"exp": 1e6, "other": 1e12},
)


def planned(text: str) -> Program:
    stages = Stages(Options(target="x86-64-v4"))
    return stages.plan(stages.lower(parse_module(text)))[0]


def seconds(text: str, rates: Rates = RATES) -> float:
    return sum(estimate_steps(planned(text), rates))


PRODUCT = """
    const @w : f32[32, 64] = fill 0.5
    func @main(%x: f32[16, 32]) {
      %y = matmul(%x, @w) : f32[16, 64]
      return %y
    }
"""
EXP = "func @main(%x: f32[64]) {\n %y = exp(%x) : f32[64]\n return %y\n}"
GROWN = """
    func @main(%x: f32[4096]) {
      %y = neg(%x) : f32[4096]
      return %y
    }
"""


def test_a_product_takes_its_flops_at_the_rate_of_its_kind() -> None:
    assert seconds(PRODUCT) == pytest.approx(2 * 16 * 32 * 64 / 1e6, rel=1e-6)


def test_an_algorithm_that_needs_fewer_flops_says_so_by_its_cost() -> None:
    program = planned(PRODUCT)
    (step,) = (s for s in program.body if isinstance(s, (OpInstr, Stack)))
    step.plan = KernelPlan("fast", cost=1e4)
    assert sum(estimate_steps(program, RATES)) == pytest.approx(1e4 / 1e6, rel=1e-6)


def test_an_op_takes_its_elements_and_its_memory() -> None:
    assert seconds(EXP) == pytest.approx(64 / 1e6 + 512 / 1e9)


def test_what_exceeds_a_cache_takes_longer() -> None:
    assert seconds(GROWN) == pytest.approx(32768 / 1e8 + 4096 / 1e12)


def test_constants_come_from_where_the_whole_working_set_fits() -> None:
    text = """
        const @a : f32[128] = fill 0.5
        func @main(%x: f32[128]) {
          %y = add(%x, @a) : f32[128]
          return %y
        }
    """
    program = planned(text)
    near, far = (sum(estimate_steps(program, RATES, size)) for size in (512, 1 << 20))
    assert far - near == pytest.approx(512 / 1e8 - 512 / 1e9)


def test_a_lookup_reads_only_what_it_returns() -> None:
    text = """
        func @main(%x: f32[4096, 8], %i: i64[2]) {
          %y = gather(%x, %i) {axis = 0} : f32[2, 8]
          return %y
        }
    """
    assert seconds(text) == pytest.approx((64 + 64 + 16) / 1e9, rel=1e-3)


def test_a_recurrence_reads_its_weights_in_each_step() -> None:
    text = """
        const @w : f32[64, 8] = fill 0.1
        const @r : f32[64, 16] = fill 0.1
        func @main(%x: f32[STEPS, 1, 8]) {
          %y, %h, %c = lstm(%x, @w, @r) {reverse = false, clip = 0.0,
            activations = (sigmoid, tanh, tanh), alphas = (0.0, 0.0, 0.0),
            betas = (0.0, 0.0, 0.0), input_forget = false}
            : f32[STEPS, 1, 16], f32[1, 16], f32[1, 16]
          return %y
        }
    """
    quick = replace(RATES, products={"lstm": 1e15}, levels=(MemoryLevel(1 << 20, 1e9),))
    short, long = (seconds(text.replace("STEPS", steps), quick) for steps in ("2", "12"))
    assert long - short == pytest.approx(10 * 64 * 16 * 4 / 1e9, rel=0.15)


def test_a_step_with_a_predicate_is_needed_half_of_the_time() -> None:
    program = planned(EXP)
    (step,) = (s for s in program.body if isinstance(s, OpInstr))
    always = sum(estimate_steps(program, RATES))
    step.predicate = program.declare(Region.INPUT, "p", TensorType(boolean, ()))
    assert sum(estimate_steps(program, RATES)) == pytest.approx(always / 2, rel=0.01)


def test_an_op_that_was_not_measured_counts_as_its_family() -> None:
    text = EXP.replace("exp", "sin")
    assert seconds(text) == pytest.approx(512 / 1e9, rel=1e-3)
    family = {**RATES.elements, "functions/*": 1e3}
    assert seconds(text, replace(RATES, elements=family)) == pytest.approx(0.064, rel=1e-3)


def test_an_empty_step_and_marks_of_lifetimes_take_no_time() -> None:
    slow = replace(RATES, step_seconds=1.0)
    assert seconds("func @main(%x: f32[0]) {\n %y = exp(%x) : f32[0]\n return %y\n}", slow) == 0
    program = planned(EXP)
    assert sum(second >= 1.0 for second in estimate_steps(program, slow)) == 1
    assert len(estimate_steps(program, slow)) == len(program.body)


def test_a_step_of_the_host_has_its_own_overhead() -> None:
    program = planned(EXP)
    (step,) = (s for s in program.body if isinstance(s, OpInstr))
    step.plan = KernelPlan(ON_HOST)
    slow = replace(RATES, host_step_seconds=2.0)
    assert sum(estimate_steps(program, slow)) == pytest.approx(2.0, rel=1e-5)


def test_the_body_of_a_loop_counts_as_often_as_it_runs() -> None:
    text = """
        func @step(%total: f32[64], %part: f32[64]) {
          %next = exp(%total) : f32[64]
          %sum = add(%next, %part) : f32[64]
          return %sum
        }
        func @main(%x: f32[64], %parts: f32[LENGTH, 64]) {
          %y = scan(%x, %parts) {body = @step, length = LENGTH, carried = 1, scanned = 1} : f32[64]
          return %y
        }
    """
    few, many = (seconds(text.replace("LENGTH", length)) for length in ("2", "20"))
    assert many == pytest.approx(10 * few, rel=1e-6)


def test_extents_that_are_ranges_count_as_their_largest() -> None:
    text = EXP.replace("64", "n")
    ranged = f"dim n : 1..64\n{text}"
    assert seconds(ranged) == pytest.approx(seconds(EXP))


def test_a_run_takes_transfers_besides_its_steps() -> None:
    program = planned(EXP)
    steps = sum(estimate_steps(program, RATES))
    apart = replace(RATES, run_seconds=3.0, transfer_seconds=1.0, transfer_bandwidth=256.0)
    assert estimate_seconds(program, RATES) == pytest.approx(steps)
    assert estimate_seconds(program, apart) == pytest.approx(steps + 3.0 + 2 * (1.0 + 1.0))


def test_kernels_of_a_device_that_states_its_rates_take_what_their_plans_cost() -> None:
    program = planned(EXP)
    (step,) = (s for s in program.body if isinstance(s, OpInstr))
    step.plan = KernelPlan("vector", cost=5e9)
    stated = Rates(flops=1e9, levels=(MemoryLevel(1 << 30, 1e12),), is_stated=True)
    assert sum(estimate_steps(program, stated)) == pytest.approx(5.0)
