"""Layers refuse what makes no sense, with errors that name the layer and the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from afterglow import nn
from afterglow.support.errors import CompileError, UsageError

SHARE = "must be a number from 0 to less than 1, got"
WHOLE = "must be a whole number from 1, got"
FREE = "give a number, a name, or None for a dimension that is free"
SMALLER = "make the window smaller or the padding larger, or shrink the image less before it"
INITIALISERS = "use one of nn.init, such as nn.init.normal(std=0.02) or nn.init.zeros"
REFUSED: list[tuple[Any, tuple[Any, ...], dict[str, Any], str, str]] = [
    (nn.Linear, (4, -3), {}, f"Linear: out_features {WHOLE} -3", ""),
    (nn.Linear, ("a", 3), {}, f"Linear: in_features {WHOLE} 'a'", ""),
    (
        *(nn.Linear, (4, 3), {"weight_init": 5}),
        *("Linear: weight_init must be a function (generator, shape), got 5", INITIALISERS),
    ),
    (nn.Embedding, (-3, 3), {}, f"Embedding: num_embeddings {WHOLE} -3", ""),
    (nn.Dropout, ("a",), {}, f"Dropout: p {SHARE} 'a'", ""),
    (nn.Softmax, ("a",), {}, "Softmax: dim must be a whole number, got 'a'", ""),
    (nn.GELU, ("b",), {}, "GELU: approximate must be 'none' or 'tanh', got 'b'", ""),
    (nn.GRU, (4, 3), {"num_layers": "a"}, f"GRU: num_layers {WHOLE} 'a'", ""),
    (nn.LSTM, (4, 3), {"num_layers": 0}, f"LSTM: num_layers {WHOLE} 0", ""),
    (nn.LSTM, (4, 3), {"dropout": 1}, f"LSTM: dropout {SHARE} 1", ""),
    (nn.BatchNorm, (3,), {"eps": -1}, "BatchNorm: eps must be a number of at least 0, got -1", ""),
    (
        *(nn.BatchNorm, (3,), {"momentum": 5}),
        *("BatchNorm: momentum must be a number from 0 to 1, got 5", ""),
    ),
    (nn.LayerNorm, ((3, 0),), {}, f"LayerNorm: normalized_shape {WHOLE} 0", ""),
    (nn.MultiHeadAttention, (4, 1.5), {}, f"MultiHeadAttention: num_heads {WHOLE} 1.5", ""),
    (nn.TransformerBlock, (4, 2, -3), {}, f"TransformerBlock: dim_feedforward {WHOLE} -3", ""),
    (nn.Conv2d, (2, 3, 1.5), {}, f"Conv2d: kernel_size {WHOLE} 1.5", ""),
    (
        *(nn.Conv2d, (2, 3, 3), {"padding": (1, 1, 1)}),
        "Conv2d: padding must have 2 entries, one for each spatial axis, got (1, 1, 1)",
        "",
    ),
    (
        *(nn.MaxPool2d, (3,), {"padding": 2}),
        *("MaxPool2d: padding must be at most half of kernel_size 3, got 2", ""),
    ),
    (
        *(nn.ConvTranspose2d, (2, 3, 3), {"output_padding": 5}),
        "ConvTranspose2d: output_padding must be less than the stride or the dilation, got 5 "
        "with stride 1 and dilation 1",
        "",
    ),
]


@pytest.mark.parametrize(
    ("layer", "args", "named", "what", "help"), REFUSED, ids=[case[3] for case in REFUSED]
)
def test_arguments_of_layers_are_checked(
    layer: Any, args: tuple[Any, ...], named: dict[str, Any], what: str, help: str
) -> None:
    with pytest.raises(UsageError) as caught:
        layer(*args, **named)
    assert (caught.value.what, caught.value.help) == (what, help)


LINEAR, X = nn.Linear(4, 3), {"x": (1, 4)}
IMAGE = {"x": (1, 2, 4, 4)}
UNBUILT: list[tuple[Any, Any, Any, str, str]] = [
    (
        *(nn.Flatten(9), X, None),
        *("Flatten(start_dim=9): there is no axis 9 in its input f32[1, 4]",),
        "axes run from -2 to 1",
    ),
    (
        *(nn.Flatten(1, 0), X, None),
        "Flatten(end_dim=0): starts at axis 1 of its input f32[1, 4], after its end, axis 0",
        "give the first axis, then the last one",
    ),
    (
        *(nn.Sequential(nn.Conv2d(2, 3, (4, 5))), IMAGE, None),
        "layer 0, Conv2d(2, 3, (4, 5)): its window has 5 elements along axis 3, but its input "
        "f32[1, 2, 4, 4] has only 4 with its padding",
        SMALLER,
    ),
    (
        *(nn.AvgPool2d(7, padding=1), IMAGE, None),
        "AvgPool2d(7, padding=1): its window has 7 elements along axis 2, but its input "
        "f32[1, 2, 4, 4] has only 6 with its padding",
        SMALLER,
    ),
    (LINEAR, {"x": (1.5, 4)}, None, "input 'x' has extent 1.5 along axis 0", FREE),
    (
        *(LINEAR, {"x": 5}, None, "the shape of input 'x' must be a tuple of extents, got 5"),
        "write (None, 3), with None for the batch",
    ),
    (
        *(LINEAR, 5, None, "inputs must be a dictionary with names as keys, got 5"),
        "write {'x': (None, 3)}, with None for the batch",
    ),
    (
        *(LINEAR, X, 5, "weights must be a dictionary with names as keys, got 5"),
        "write weights={'0.weight': ARRAY}",
    ),
    (
        *(5, X, None, "the network is no layer: 5"),
        "give a layer such as nn.Linear(3, 4), or a function (scope, x)",
    ),
]


@pytest.mark.parametrize(
    ("network", "inputs", "weights", "what", "help"), UNBUILT, ids=[case[3] for case in UNBUILT]
)
def test_what_a_network_is_built_of_is_checked(
    network: Any, inputs: Any, weights: Any, what: str, help: str
) -> None:
    with pytest.raises((UsageError, CompileError)) as caught:
        nn.module(network, inputs, weights=weights)
    assert (caught.value.what, caught.value.help) == (what, help)


def test_an_unknown_element_type_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        LINEAR.module({"x": nn.Input((1, 4), "zz")})
    assert caught.value.what == "input 'x' has no element type 'zz'"
    assert "f32, " in caught.value.help


def test_numbers_of_numpy_are_numbers() -> None:
    module = nn.Linear(4, np.int64(3)).module({"x": (np.int64(2), 4)})
    assert module.main.outputs[0].value.type.shape == (2, 3)


def test_a_window_may_hang_over_the_end_in_ceil_mode() -> None:
    module = nn.MaxPool2d(5, ceil_mode=True).module(IMAGE)
    assert module.main.outputs[0].value.type.shape == (1, 2, 1, 1)
