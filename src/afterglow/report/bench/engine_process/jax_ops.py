"""ONNX ops that jaxonnxruntime lacks or gets wrong; importing this imports JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")
converter: Any = import_module("jaxonnxruntime.call_onnx")
handlers: Any = import_module("jaxonnxruntime.core.handler")
settings: Any = import_module("jaxonnxruntime.config_class").config

Handler = Callable[..., Any]
OPSETS = range(1, 27)
HANDLERS: list[Any] = []
"""References to the handler classes: the library holds them only weakly."""


def op(name: str) -> Callable[[Handler], Handler]:
    """Register a function of attributes, constant inputs and inputs as the handler of an op."""

    def register(function: Handler) -> Handler:
        def handle(cls: Any, node: Any, inputs: Any) -> Any:
            return partial(function, dict(node.attrs), inputs)

        methods = {f"version_{opset}": classmethod(handle) for opset in OPSETS}
        kind = type(name, (handlers.Handler,), methods)
        HANDLERS.append(handlers.register_op(name)(kind))
        return function

    return register


@op("Clip")
def clip(attributes: Any, known: Any, x: Any, low: Any = None, high: Any = None) -> Any:
    """x clipped to two optional bounds."""
    return jnp.clip(x, attributes.get("min", low), attributes.get("max", high))


@op("LayerNormalization")
def layer_norm(attributes: Any, known: Any, x: Any, scale: Any, bias: Any = None) -> Any:
    """x minus its mean, divided by its standard deviation."""
    axes = tuple(range(attributes.get("axis", -1) % x.ndim, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    variance = (centred * centred).mean(axes, keepdims=True)
    out = centred * jax.lax.rsqrt(variance + attributes.get("epsilon", 1e-5)) * scale
    return out if bias is None else out + bias


@op("Resize")
def resize(attributes: Any, known: Any, x: Any, *ignored: Any) -> Any:
    """Nearest-neighbour upsampling by integer factors."""
    mode = attributes.get("mode", "nearest")
    factors = _resize_factors(known, x.shape)
    if mode not in ("nearest", b"nearest") or any(factor != int(factor) for factor in factors):
        raise NotImplementedError("Resize other than nearest by whole factors")
    for axis, factor in enumerate(factors):
        x = jnp.repeat(x, int(factor), axis) if factor > 1 else x
    return x


def _resize_factors(known: Any, shape: tuple[int, ...]) -> Any:
    if len(known) > 2 and known[2] is not None and np.size(known[2]):
        return np.asarray(known[2])
    return np.asarray(known[3]) / shape


@op("LSTM")
def lstm(
    attributes: Any,
    known: Any,
    x: Any,
    weight: Any,
    recurrence: Any,
    bias: Any = None,
    lengths: Any = None,
    first_output: Any = None,
    first_cell: Any = None,
    peepholes: Any = None,
) -> Any:
    """A forward layer, with gates in ONNX's order: input, output, forget, cell."""
    plain = attributes.get("direction", "forward") in ("forward", b"forward")
    if not plain or lengths is not None or peepholes is not None:
        raise NotImplementedError("LSTM other than forward over whole sequences")
    size = recurrence.shape[-1]
    added = 0.0 if bias is None else bias[0, : 4 * size] + bias[0, 4 * size :]
    zero = jnp.zeros((x.shape[1], size), x.dtype)
    start = tuple(zero if state is None else state[0] for state in (first_output, first_cell))

    def step(state: Any, gates: Any) -> Any:
        output, cell = state
        enter, leave, keep, new = jnp.split(gates + output @ recurrence[0].T, 4, -1)
        cell = jax.nn.sigmoid(keep) * cell + jax.nn.sigmoid(enter) * jnp.tanh(new)
        output = jax.nn.sigmoid(leave) * jnp.tanh(cell)
        return (output, cell), output

    entering = jnp.einsum("sbi,gi->sbg", x, weight[0]) + added
    (output, cell), outputs = jax.lax.scan(step, start, entering)
    return outputs[:, None], output[None], cell[None]


@op("QuantizeLinear")
def quantize(attributes: Any, known: Any, x: Any, scale: Any, zero: Any = None) -> Any:
    """x divided by the scale, rounded to integers."""
    kind = jnp.uint8 if zero is None else zero.dtype
    axis, info = attributes.get("axis", 1), jnp.iinfo(kind)
    steps = jnp.round(x / _along(scale, x, axis))
    shifted = steps if zero is None else steps + _along(zero, x, axis).astype(jnp.float32)
    return jnp.clip(shifted, info.min, info.max).astype(kind)


@op("DequantizeLinear")
def dequantize(attributes: Any, known: Any, x: Any, scale: Any, zero: Any = None) -> Any:
    """Quantized integers as real numbers."""
    axis, wide = attributes.get("axis", 1), x.astype(jnp.float32)
    shifted = wide if zero is None else wide - _along(zero, x, axis).astype(jnp.float32)
    return shifted * _along(scale, x, axis)


def _along(values: Any, x: Any, axis: int) -> Any:
    """Per-axis values, reshaped to broadcast with x."""
    if np.size(values) == 1:
        return values
    return values.reshape([-1 if place == axis % x.ndim else 1 for place in range(x.ndim)])


def convert(model: Any, feed: Any) -> tuple[Any, Any]:
    """A function of weights and inputs, and the weights."""
    for node in model.graph.node:
        for attribute in list(node.attribute):
            if attribute.name == "auto_pad" and attribute.s == b"NOTSET":
                node.attribute.remove(attribute)  # the default, which the library rejects
    settings.update("jaxort_only_allow_initializers_as_static_args", False)
    settings.update("jaxort_experimental_support_abtract_input_shape", True)
    function, weights = converter.call_onnx_model(model, feed)
    return function, weights
