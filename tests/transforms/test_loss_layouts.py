"""Losses are computed in the layout in which their operand lies."""

from __future__ import annotations

import inspect

import numpy as np

from afterglow.graph import parse_module, run_function
from afterglow.ops.cross_entropy import CrossEntropy
from afterglow.ops.loss import LossReduction
from afterglow.passes import RewritePass
from afterglow.transforms.loss_layouts import cross_entropy_of_transpose, difference_of_transpose
from tests.transforms.rewriting import check_declines, check_rewrites

LAYOUTS = RewritePass("loss-layouts", (cross_entropy_of_transpose, difference_of_transpose))
OP = "axis = {}, ignore_index = -100, label_smoothing = 0.0, reduction = {}"
LABELLED = f"""
    func @main(%x: f32[2, 5, 4, 3], %labels: i64[2, 4, 5]) {{
      %t = transpose(%x) {{perm = (0, 3, 2, 1)}} : f32[2, 3, 4, 5]
      %loss, %logs = cross_entropy(%t, %labels) {{{OP.format(1, "REDUCTION")}}} : f32[], f32[2, 3, 4, 5]
      return %loss
    }}
"""  # noqa: E501


def test_labels_are_transposed_instead_of_logits() -> None:
    module = parse_module(inspect.cleandoc(LABELLED.replace("REDUCTION", "mean")))
    random = np.random.default_rng(3)
    inputs = [random.standard_normal((2, 5, 4, 3)).astype(np.float32), np.arange(40) % 3]
    inputs[1] = inputs[1].reshape(2, 4, 5)
    wanted = run_function(module.main, inputs)
    LAYOUTS.run(module.main)
    (op,) = (node.op for node in module.main.nodes if isinstance(node.op, CrossEntropy))
    assert (op.axis, op.reduction) == (3, LossReduction.MEAN)
    np.testing.assert_allclose(run_function(module.main, inputs), wanted, rtol=1e-6)


def test_targets_are_transposed_instead_of_outputs() -> None:
    check_rewrites(
        LAYOUTS,
        before="""
            func @main(%x: f32[2, 5, 3], %target: f32[3, 2, 5]) {
              %t = transpose(%x) {perm = (2, 0, 1)} : f32[3, 2, 5]
              %loss = mse(%t, %target) {reduction = mean} : f32[]
              return %loss
            }
        """,
        after="""
            func @main(%x: f32[2, 5, 3], %target: f32[3, 2, 5]) {
              %loss_1 = transpose(%target) {perm = (1, 2, 0)} : f32[2, 5, 3]
              %loss = mse(%x, %loss_1) {reduction = mean} : f32[]
              return %loss
            }
        """,
    )


def test_probabilities_keep_the_axis_of_classes() -> None:
    check_rewrites(
        LAYOUTS,
        before=f"""
            func @main(%x: f32[2, 5, 3], %shares: f32[3, 2, 5]) {{
              %t = transpose(%x) {{perm = (2, 0, 1)}} : f32[3, 2, 5]
              %loss, %logs = cross_entropy(%t, %shares) {{{OP.format(0, "sum")}}} : f32[], f32[3, 2, 5]
              return %loss, %logs
            }}
        """,  # noqa: E501
        after=f"""
            func @main(%x: f32[2, 5, 3], %shares: f32[3, 2, 5]) {{
              %loss_1 = transpose(%shares) {{perm = (1, 2, 0)}} : f32[2, 5, 3]
              %loss, %loss.logs = cross_entropy(%x, %loss_1) {{{OP.format(2, "sum")}}} : f32[], f32[2, 5, 3]
              %logs = transpose(%loss.logs) {{perm = (2, 0, 1)}} : f32[3, 2, 5]
              return %loss, %logs
            }}
        """,  # noqa: E501
    )


def test_losses_of_each_place_keep_their_order() -> None:
    text = LABELLED.replace("REDUCTION", "none").replace(": f32[], f", ": f32[2, 4, 5], f")
    check_declines(LAYOUTS, text)
