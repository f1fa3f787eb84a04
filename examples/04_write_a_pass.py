"""Lesson 4: write a rewrite rule, and apply it to a program."""

from __future__ import annotations

import numpy as np

import afterglow as ag
from afterglow.graph import Builder, Node, Value, run_function, verify_module
from afterglow.ops.elementwise import Add, Mul
from afterglow.passes import Pipeline, RewritePass, Timing, rewrite
from afterglow.transforms.matching.values import has_one_use

BEFORE = """
func @main(%x: f32[4], %y: f32[4], %z: f32[4]) {
  %a = mul(%x, %z) : f32[4]
  %b = mul(%y, %z) : f32[4]
  %sum = add(%a, %b) : f32[4]
  return %sum
}
"""


# A rule is a function. Its docstring states the rewrite; patterns are written with `match`. It
# returns the replacement, or None if it does not apply, and matches completely before it builds.
@rewrite(Add)
def factor_out(node: Node, b: Builder) -> Value | None:
    """x*z + y*z  ->  (x + y)*z, if nothing else uses the products."""
    match node:
        case Node(Add(), [Value(Node(Mul(), [x, z])) as xz, Value(Node(Mul(), [y, same])) as yz]):
            if z is same and has_one_use(xz) and has_one_use(yz):
                return b.emit(Mul(), b.emit(Add(), x, y), z)
    return None


# A pass applies a set of rules until none matches; a pipeline is a list of passes.
FACTOR_OUT = RewritePass("factor-out", (factor_out,))
PIPELINE = Pipeline("lesson", (FACTOR_OUT,))


def main() -> None:
    module = ag.parse_module(BEFORE)
    print("before:\n" + ag.print_module(module))
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(4).astype(np.float32) for _ in range(3)]
    (expected,) = run_function(module.main, inputs)

    # Instruments observe a pipeline: this one measures time. Others dump, verify, or stop it.
    timing = Timing()
    PIPELINE.run(module, [timing])
    verify_module(module)
    print("after:\n" + ag.print_module(module))
    print(f"law: {factor_out.law}")
    print(f"runs: {timing.runs}")

    # The program has changed, but its results have not.
    (found,) = run_function(module.main, inputs)
    print("largest difference:", np.abs(found - expected).max())


if __name__ == "__main__":
    main()
