from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx.helper import make_graph, make_model, make_node, make_tensor_value_info

import afterglow as ag
from afterglow import nn
from afterglow.training.model_source import model_source
from afterglow.types.dtype import f32

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits" / "digits.onnx"


def first(module: ag.Module) -> str:
    return str(module.main.inputs[0].type)


def product(*shape: int | str) -> onnx.ModelProto:
    x, y = (make_tensor_value_info(name, 1, shape) for name in "xy")
    graph = make_graph([make_node("Mul", ["x", "x"], ["y"])], "square", [x], [y])
    return make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])


def test_sources_have_modules_for_sizes_of_batches():
    linear = nn.Linear(3, 2)
    free = model_source(linear.module({"x": (None, 3)}))
    exact = model_source(linear.module({"x": (8, 3)}))
    built = model_source(lambda batch: linear.module({"x": (batch, 3)}))
    imported = model_source(product("N", 3))
    for source, batch in ((free, 32), (exact, 8), (built, 32), (imported, 32)):
        assert source.batch == batch
        assert first(source.module(batch)) == f"f32[{batch}, 3]"
        assert first(source.module(5)) == "f32[5, 3]"
    assert [first(source.whole()) for source in (free, exact, built, imported)] == [
        "f32[batch, 3]",
        "f32[8, 3]",
        "f32[32, 3]",
        "f32[N, 3]",
    ]


def test_other_dynamic_dimensions_are_bound():
    source = model_source(product("N", "length"), {"length": 7})
    assert first(source.module(4)) == "f32[4, 7]"
    with pytest.raises(ag.UsageError) as caught:
        model_source(product("N", "length")).module(4)
    assert str(caught.value) == (
        "error: input 'x: f32[N, length]' has dynamic dimensions besides the batch\n"
        "  help: give their extents: Trainer(…, dims={NAME: EXTENT}); if they have no names, "
        "train a module of exact shapes: import_model(…, shapes={'x': …})"
    )


def test_a_file_of_a_fixed_batch_has_that():
    assert model_source(DIGITS).batch == 1


@pytest.mark.parametrize(
    ("shapes", "what"),
    [
        (((4, 3), (5, 3)), "their first extents differ"),
        (((), (5, 3)), "their first extents differ"),
    ],
)
def test_inputs_share_a_batch(shapes, what):
    function = ag.Function("main")
    for number, shape in enumerate(shapes):
        function.input(f"x{number}", ag.TensorType(f32, shape))
    function.output("y", function.inputs[1])
    with pytest.raises(ag.UsageError, match=what):
        model_source(function.module)


def test_a_function_returns_a_module():
    with pytest.raises(ag.UsageError) as caught:
        model_source(lambda batch: batch).module(3)
    assert caught.value.what == "cannot train a int"


SEQUENCES = nn.Linear(4, 3).module({"x": ("batch", "seq", 4)})


@pytest.mark.parametrize(
    ("model", "dims", "what", "help"),
    [
        (
            *(SEQUENCES, 5, "dims must be a dictionary with names as keys, got 5"),
            "write dims={'NAME': 8}",
        ),
        (
            *(SEQUENCES, {"seq": "a"}),
            *("Trainer: dims['seq'] must be a whole number from 1, got 'a'", ""),
        ),
        (SEQUENCES, {"zz": 3}, "no input has a dimension 'zz'", "there are seq"),
        (
            *(SEQUENCES, {"batch": 3}, "dims cannot bind 'batch', the dimension of the batch"),
            "give the size of batches to fit: trainer.fit(data, batch=32)",
        ),
        (
            *(lambda batch: SEQUENCES, {"seq": 3}),
            "a function builds the model, with all extents: dims have nothing to bind",
            "leave dims out",
        ),
    ],
)
def test_dims_that_make_no_sense_are_refused(model, dims, what, help):
    with pytest.raises(ag.UsageError) as caught:
        model_source(model, dims)
    assert (caught.value.what, caught.value.help) == (what, help)
