"""Compiled updates: one loop over each weight, in place, and the numbers of the interpreter."""

from __future__ import annotations

import numpy as np

import afterglow as ag
from afterglow.graph import Builder, Function, Module, run_function
from afterglow.ops.elementwise import Add, scalar
from afterglow.types import TensorType
from afterglow.types.dtype import f32, i64

SHAPES = ((6, 5), (7,))


def two_weights(optimizer: ag.optim.Optimizer) -> Module:
    """A step of two weights; all that changes is state."""
    f = Function("main")
    b = Builder(f)
    lr, step = f.input("lr", TensorType(f32, ())), f.module.state("step", TensorType(i64, ()))
    number = b.emit(Add(), step, scalar(b, 1, step))
    for index, shape in enumerate(SHAPES):
        type = TensorType(f32, shape)
        gradient, weight = f.input(f"g{index}", type), f.module.state(f"w{index}", type)
        slots = [f.module.state(f"w{index}.{name}", type) for name in optimizer.slots]
        moved, kept = optimizer.update(b, weight, gradient, lr, number, slots)
        for state, value in zip((weight, *slots), (moved, *kept), strict=True):
            f.update(state, value)
    f.update(step, number)
    return f.module


def test_each_weight_is_updated_by_one_loop_in_place() -> None:
    module = two_weights(ag.optim.AdamW(0.1))
    compiled = ag.compile(module)
    text = compiled.ir("instructions")
    assert text.count("stack plan") == 2
    assert text.count("expm1 out") == 2, "bias corrections are the same for all weights"
    assert "copy" not in text
    assert not [line for line in text.splitlines() if "= alloc" in line and "f32[]" not in line]
    arrays = {name: np.zeros(s.type.shape, s.type.dtype.numpy) for name, s in module.states.items()}
    random = np.random.default_rng(1)
    for _ in range(3):
        gradients = [random.standard_normal(shape).astype(np.float32) for shape in SHAPES]
        compiled(np.float32(0.1), *gradients)
        run_function(module.main, [np.array(0.1, np.float32), *gradients], arrays)
    for name, state in compiled.compiled.states.items():
        np.testing.assert_allclose(state.read().result(), arrays[name], rtol=2e-6, atol=1e-7)
