from __future__ import annotations

import inspect

import pytest

from afterglow.instr import parse_program
from afterglow.report.page.times import MeasuredRun, node_shares, saved_shares, times_data
from afterglow.report.profile import StepTime

PROGRAM = """
    program @main arena 64 {
      input %x : f32[2, 4]
      output %y : f32[2, 4]
      const @w : f32[4, 4]
      stack {
        %a = local f32[2, 4]
        matmul out %a, in %x, in @w {transpose_lhs = false, transpose_rhs = false} from "fc"
        relu out %y, in %a from "act"
      }
      stack {
        %b = local f32[2, 4]
        relu out %b, in %x from "act"
        neg out %y, in %b from "minus"
      }
      copy out %y, in %x
    }
"""


def step(kernel: str, seconds: float, *origins: str) -> StepTime:
    return StepTime(0, kernel, "", origins, (), (), seconds, 10.0, 4, on_host=False)


def test_what_is_fused_into_a_product_is_free_and_other_ops_share_alike():
    product, pair, copy = (
        node_shares(step) for step in parse_program(inspect.cleandoc(PROGRAM)).body
    )
    assert product == {"fc": 1.0, "act": 0.0}
    assert pair == {"act": 0.5, "minus": 0.5}
    assert copy == {"": 1.0}


def test_times_by_kernel_and_by_node_add_up():
    steps = [step("conv", 3.0), step("relu", 1.0), step("conv", 2.0)]
    shares = [{"a": 1.0}, {"a": 0.5, "b": 0.5}, {"c": 1.0}]
    data = times_data(steps, shares, MeasuredRun(5.9, 6.5, 9, 1))
    assert data["seconds"] == 6.0
    assert data["run_seconds"] == 5.9
    assert [(row["kernel"], row["steps"], row["seconds"]) for row in data["kernels"]] == [
        ("conv", 2, 5.0),
        ("relu", 1, 1.0),
    ]
    assert [(row["node"], row["seconds"]) for row in data["nodes"]] == [
        ("a", 3.5),
        ("c", 2.0),
        ("b", 0.5),
    ]
    assert sum(row["seconds"] for row in data["nodes"]) == pytest.approx(data["seconds"])


def test_steps_of_a_compiled_model_share_by_their_names():
    assert saved_shares([step("k", 1.0, "a", "b"), step("k", 1.0)]) == [
        {"a": 0.5, "b": 0.5},
        {"": 1},
    ]
