"""Every instruction names the model's nodes that it computes, and every node is accounted for."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from afterglow.driver.compile import import_model
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.instr import Program, origins_of, parse_program, print_program
from afterglow.memory.timeline import Timeline
from afterglow.report.provenance import provenance
from tests.frontends.models import info, model, node
from tests.ops.test_flops import DIGITS


def weight(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def recurrent() -> onnx.ModelProto:
    return model(
        [
            node("LSTM", ["x", "w", "r"], ["s", "", ""], name="lstm", hidden_size=4),
            node("Squeeze", ["s", "axes"], ["q"], name="squeeze"),
            node("MatMul", ["q", "m"], ["p"], name="product"),
            node("Add", ["p", "b"], ["y"], name="bias"),
        ],
        inputs=[info("x", (5, 2, 3))],
        outputs=[info("y", (5, 2, 2))],
        constants={
            "w": weight(1, 16, 3),
            "r": weight(1, 16, 4),
            "m": weight(4, 2),
            "b": weight(2),
            "axes": np.array([1]),
        },
    )


def quantized() -> onnx.ModelProto:
    return model(
        [
            node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quantize"),
            node("QLinearMatMul", ["q", "s", "z", "w", "s", "zw", "s", "z"], ["p"], name="product"),
            node("DequantizeLinear", ["p", "s", "z"], ["y"], name="dequantize"),
        ],
        inputs=[info("x", (2, 8))],
        outputs=[info("y", (2, 4))],
        constants={
            "s": np.float32(0.1),
            "z": np.uint8(128),
            "zw": np.int8(0),
            "w": np.ones((8, 4), np.int8),
        },
    )


def attention() -> onnx.ModelProto:
    return model(
        [
            node("MatMul", ["x", "a"], ["q"], name="queries"),
            node("MatMul", ["x", "b"], ["k"], name="keys"),
            node("Transpose", ["k"], ["t"], name="transpose", perm=[1, 0]),
            node("MatMul", ["q", "t"], ["s"], name="scores"),
            node("Softmax", ["s"], ["p"], name="softmax"),
            node("MatMul", ["p", "x"], ["o"], name="mix"),
            node("Constant", [], ["one"], name="one", value_float=1.0),
            node("Add", ["one", "one"], ["two"], name="folded"),
            node("Mul", ["o", "two"], ["y"], name="scale"),
        ],
        inputs=[info("x", (6, 8))],
        outputs=[info("y", (6, 8))],
        constants={"a": weight(8, 8), "b": weight(8, 8)},
    )


MODELS = {
    "convolution": lambda: onnx.load(DIGITS),
    "recurrent": recurrent,
    "quantized": quantized,
    "attention": attention,
}
each_model = pytest.mark.parametrize("name", MODELS)


def planned(proto: onnx.ModelProto, **options: object) -> Program:
    stages = Stages(Options(**options))
    return stages.plan(stages.lower(stages.optimise(import_model(proto))))[0]


@each_model
@pytest.mark.parametrize("optimize", [True, False])
def test_every_instruction_computes_nodes_of_the_model(name: str, optimize: bool) -> None:
    proto = MODELS[name]()
    names = {each.name for each in proto.graph.node}
    for step in Timeline(planned(proto, optimize=optimize)).steps:
        assert {*origins_of(step)} & names, step


@each_model
def test_every_node_has_instructions_or_is_listed_without_code(name: str) -> None:
    proto = MODELS[name]()
    names = [each.name for each in proto.graph.node]
    found = provenance(names, planned(proto))
    assert {*found.steps} | {*found.without_code} == {*names}
    moved = {each.name for each in proto.graph.node if each.op_type in MOVES}
    assert {*found.without_code} <= moved | {"one", "folded"}


MOVES = ("Flatten", "Reshape", "Squeeze", "Transpose", "Identity", "Dropout")
"""What may become views of memory."""


@pytest.mark.parametrize("name", ["convolution", "quantized", "attention"])
def test_the_text_of_a_program_keeps_its_origins(name: str) -> None:
    program = planned(MODELS[name]())
    again = parse_program(print_program(program, origins=True))
    assert [*map(origins_of, again.body)] == [*map(origins_of, program.body)]


def test_a_fused_kernel_names_all_that_it_computes() -> None:
    steps = Timeline(planned(onnx.load(DIGITS))).steps
    assert ("conv1", "norm1", "relu1") in [origins_of(step) for step in steps]
