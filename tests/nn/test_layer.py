"""Networks as modules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from afterglow import nn
from afterglow.graph import Value
from afterglow.graph.evaluate import run_function
from afterglow.nn.scope import AnyLayer
from afterglow.ops.elementwise import Abs, Add, Mul
from afterglow.support.errors import CompileError, UsageError
from afterglow.types import Array

CNN = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.BatchNorm(8),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(128, 10),
)


def test_weights_have_the_names_and_shapes_that_pytorch_gives_them() -> None:
    module = CNN.module({"x": (2, 1, 8, 8)})
    found = {name: constant.type.shape for name, constant in module.constants.items()}
    assert found == {
        "0.weight": (8, 1, 3, 3),
        "0.bias": (8,),
        "1.weight": (8,),
        "1.bias": (8,),
        "1.running_mean": (8,),
        "1.running_var": (8,),
        "5.weight": (10, 128),
        "5.bias": (10,),
    }


def test_the_same_seed_gives_the_same_weights_and_another_one_others() -> None:
    first, again, other = (CNN.module({"x": (2, 1, 8, 8)}, seed=s) for s in (0, 0, 1))
    name = "5.weight"
    np.testing.assert_array_equal(first.constants[name].data, again.constants[name].data)
    assert (first.constants[name].data != other.constants[name].data).all()


def test_weights_do_not_depend_on_the_layers_before_them() -> None:
    linear = nn.Linear(4, 4)
    short, long = (
        nn.Sequential(*layers).module({"x": (1, 4)})
        for layers in ((nn.ReLU(), linear), (linear, linear))
    )
    np.testing.assert_array_equal(short.constants["1.weight"].data, long.constants["1.weight"].data)


def test_a_free_dimension_is_named_batch_on_axis_0() -> None:
    module = CNN.module({"x": (None, 1, 8, 8)})
    assert str(module.main.outputs[0].value.type) == "f32[batch, 10]"
    assert module.bind({"batch": 3}).main.outputs[0].value.type.shape == (3, 10)


def test_inputs_may_hold_integers() -> None:
    module = nn.Embedding(5, 3).module({"tokens": nn.Input(("batch", "seq"), "i64")})
    assert str(module.main.inputs[0].type) == "i64[batch, seq]"
    assert str(module.main.outputs[0].value.type) == "f32[batch, seq, 3]"


@dataclass(frozen=True)
class Gate:
    """A layer of one's own."""

    width: int

    def build(self, scope: nn.Scope, x: Value) -> Value:
        gate = scope.layer("gate", nn.Sequential(nn.Linear(self.width, self.width), nn.Tanh()), x)
        scale = scope.parameter("scale", (self.width,), nn.init.constant(3.0))
        return scope.emit(Mul(), scope.emit(Mul(), x, gate), scale)


def test_an_object_with_a_build_method_is_a_layer() -> None:
    module = nn.Sequential(Gate(2)).module({"x": (1, 2)})
    assert [*module.constants] == ["0.gate.0.weight", "0.gate.0.bias", "0.scale"]
    x = np.array([[0.5, -2.0]], np.float32)
    weight, bias = (module.constants[f"0.gate.0.{name}"].data for name in ("weight", "bias"))
    (y,) = run_function(module.main, [x])
    np.testing.assert_allclose(y, 3 * x * np.tanh(x @ weight.T + bias), rtol=1e-6)


def test_a_function_of_several_inputs_is_a_network() -> None:
    def both(scope: nn.Scope, x: Value, z: Value) -> Value:
        first = scope.layer("first", nn.Linear(3, 2, bias=False), x)
        return scope.emit(Add(), first, scope.layer("second", nn.Linear(4, 2), z))

    module = nn.module(both, {"x": (2, 3), "z": (2, 4)})
    assert [*module.constants] == ["first.weight", "second.weight", "second.bias"]
    assert [value.name for value in module.main.inputs] == ["x", "z"]


def test_layers_show_what_is_not_a_default() -> None:
    layers = (
        nn.Conv2d(3, 8, (3, 5), stride=2, bias=False),
        nn.Sequential(nn.ReLU(), nn.LeakyReLU(0.2)),
        nn.Residual(nn.Linear(4, 4, weight_init=nn.init.zeros)),
    )
    assert [repr(layer) for layer in layers] == [
        "Conv2d(3, 8, (3, 5), stride=2, bias=False)",
        "Sequential(ReLU(), LeakyReLU(negative_slope=0.2))",
        "Residual(Linear(4, 4))",
    ]


BAD: dict[str, tuple[AnyLayer, tuple[int | None, ...], str, str]] = {
    "features": (
        nn.Sequential(nn.Flatten(), nn.Linear(512, 10)),
        (None, 4, 3),
        "layer 1, Linear(512, 10): takes 512 features, but its input f32[batch, 12] has 12 along "
        "axis -1",
        "make it Linear(12, 10), or change the layer before it",
    ),
    "channels": (
        nn.Sequential(nn.Residual(nn.Sequential(nn.Conv2d(3, 8, 3)))),
        (1, 4, 9, 9),
        "layer 0.block.0, Conv2d(3, 8, 3): takes 3 channels, but its input f32[1, 4, 9, 9] has 4 "
        "along axis 1",
        "make in_channels 4, or change the layer before it",
    ),
    "rank": (
        nn.Sequential(nn.MaxPool2d(2)),
        (1, 4, 9),
        "layer 0, MaxPool2d(2): takes an input [N, C, height, width], got f32[1, 4, 9]",
        "",
    ),
    "alone": (
        nn.BatchNorm(3),
        (1, 4),
        "BatchNorm(3): takes 3 channels, but its input f32[1, 4] has 4 along axis 1",
        "axis 1 has the channels: make the two numbers equal",
    ),
    "groups": (
        nn.Conv2d(4, 6, 3, groups=4),
        (1, 4, 9, 9),
        "Conv2d(4, 6, 3, groups=4): 4 and 6 channels do not divide into 4 groups",
        "",
    ),
    "heads": (
        nn.Sequential(nn.MultiHeadAttention(6, 4)),
        (1, 4, 6),
        "layer 0, MultiHeadAttention(6, 4): 6 features do not divide into 4 heads",
        "",
    ),
    "floats": (
        nn.Embedding(6, 4),
        (1, 4),
        "Embedding(6, 4): takes integers, got f32[1, 4]",
        "give the input an integer type: nn.Input(shape, 'i64')",
    ),
    "ops": (
        nn.Sequential(nn.Residual(nn.Linear(3, 4))),
        (2, 3),
        "layer 0, Residual(Linear(3, 4)): add: shapes do not broadcast: lhs f32[2, 4], rhs "
        "f32[2, 3]",
        "extents must be equal or 1, counted from the last axis",
    ),
}


@pytest.mark.parametrize(("layer", "shape", "what", "help"), BAD.values(), ids=BAD)
def test_errors_name_the_layer_and_what_came_in(
    layer: AnyLayer, shape: tuple[int | None, ...], what: str, help: str
) -> None:
    with pytest.raises(CompileError) as raised:
        nn.module(layer, {"x": shape})
    assert (raised.value.what, raised.value.help) == (what, help)


def test_an_initialiser_with_another_shape_is_refused() -> None:
    wrong = nn.Linear(2, 3, bias_init=lambda rng, shape: np.zeros(2, np.float32))
    with pytest.raises(UsageError, match=r"initialiser of bias has shape \(2,\), not \(3,\)"):
        wrong.module({"x": (1, 2)})


def test_weights_may_be_given_by_name() -> None:
    given = {"0.weight": np.full((2, 3), 2.0), "1.num_batches_tracked": np.array(0)}
    net = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    module = net.module({"x": (1, 3)}, weights=given)
    np.testing.assert_array_equal(module.constants["0.weight"].data, np.full((2, 3), 2, "f"))
    plain = net.module({"x": (1, 3)})
    np.testing.assert_array_equal(module.constants["0.bias"].data, plain.constants["0.bias"].data)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"weight": np.ones((3, 2))},
            "error: the value of weight has shape (3, 2), not (2, 3)",
        ),
        (
            {"kernel": np.ones((2, 3))},
            "error: the network has no weights named kernel\n  help: there are weight, bias",
        ),
    ],
    ids=["shape", "name"],
)
def test_weights_that_do_not_fit_are_refused(given: dict[str, Array], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        nn.Linear(3, 2).module({"x": (1, 3)}, weights=given)
    assert str(raised.value) == message


def test_negative_extents_are_refused() -> None:
    with pytest.raises(UsageError, match="input 'x' has extent -1 along axis 0"):
        CNN.module({"x": (-1, 1, 8, 8)})


@pytest.mark.parametrize(
    ("network", "inputs", "message"),
    [
        (nn.Sequential(5), {"x": (1, 4)}, "0 is no layer: 5"),
        (nn.Sequential(nn.ReLU, nn.ReLU()), {"x": (1, 4)}, f"0 is no layer: {nn.ReLU!r}"),
        (nn.Residual(None), {"x": (1, 4)}, "block is no layer: None"),
        (nn.ReLU(), {}, "ReLU() does not take 0 inputs"),
        (nn.ReLU(), {"x": (1, 4), "y": (1, 4)}, "ReLU() does not take 2 inputs"),
    ],
)
def test_what_is_no_layer_or_takes_other_inputs_is_refused(
    network: nn.Layer, inputs: dict[str, tuple[int, ...]], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        network.module(inputs)
    assert caught.value.what == message


def test_a_layer_that_returns_nothing_is_refused() -> None:
    def forgetful(scope: nn.Scope, x: Value) -> None:
        scope.emit(Abs(), x)

    with pytest.raises(UsageError) as caught:
        nn.Sequential(forgetful).module({"x": (1, 4)})
    assert caught.value.what == "forgetful returns None"
