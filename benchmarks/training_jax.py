"""Training steps of JAX, each one compiled function: the nets of `benchmarks.training_nets`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Weights = dict[str, Any]
PLACES = ("NHWC", "HWIO", "NHWC")


def _linear(rng: np.random.Generator, inner: int, outer: int) -> Weights:
    weight = rng.uniform(-1, 1, (inner, outer)).astype(np.float32) / np.sqrt(inner)
    return {"w": jnp.asarray(weight), "b": jnp.zeros(outer)}


def _apply(p: Weights, x: Any) -> Any:
    return x @ p["w"] + p["b"]


def _mlp_weights(rng: np.random.Generator) -> Weights:
    sizes = (784, 512, 512, 10)
    pairs = itertools.pairwise(sizes)
    return {str(i): _linear(rng, *pair) for i, pair in enumerate(pairs)}


def _mlp(p: Weights, x: Any) -> Any:
    for i in range(2):
        x = jax.nn.relu(_apply(p[str(i)], x))
    return _apply(p["2"], x)


def _conv_weights(rng: np.random.Generator, size: int, inner: int, outer: int) -> Weights:
    scale = np.sqrt(2 / (size * size * inner))
    weight = rng.standard_normal((size, size, inner, outer)).astype(np.float32) * scale
    return {"w": jnp.asarray(weight), "g": jnp.ones(outer), "b": jnp.zeros(outer)}


def _conv(p: Weights, x: Any, stride: int) -> Any:
    """A convolution and the batch norm behind it."""
    pad = p["w"].shape[0] // 2
    pads = [(pad, pad), (pad, pad)]
    y = jax.lax.conv_general_dilated(x, p["w"], (stride, stride), pads, dimension_numbers=PLACES)
    mean, variance = y.mean((0, 1, 2)), y.var((0, 1, 2))
    return (y - mean) * jax.lax.rsqrt(variance + 1e-5) * p["g"] + p["b"]


STAGES = ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1))


def _resnet_weights(rng: np.random.Generator) -> Weights:
    weights: Weights = {"stem": _conv_weights(rng, 7, 3, 64), "head": _linear(rng, 512, 1000)}
    channels = 64
    for i, (results, stride) in enumerate(STAGES):
        weights[f"{i}.1"] = _conv_weights(rng, 3, channels, results)
        weights[f"{i}.2"] = _conv_weights(rng, 3, results, results)
        if stride != 1:
            weights[f"{i}.past"] = _conv_weights(rng, 1, channels, results)
        channels = results
    return weights


def _resnet(p: Weights, x: Any) -> Any:
    x = jnp.transpose(x, (0, 2, 3, 1))
    x = jax.nn.relu(_conv(p["stem"], x, 2))
    pads = ((0, 0), (1, 1), (1, 1), (0, 0))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), pads)
    for i, (_, stride) in enumerate(STAGES):
        y = _conv(p[f"{i}.2"], jax.nn.relu(_conv(p[f"{i}.1"], x, stride)), 1)
        past = _conv(p[f"{i}.past"], x, stride) if stride != 1 else x
        x = jax.nn.relu(y + past)
    return _apply(p["head"], x.mean((1, 2)))


def _norm_weights(width: int) -> Weights:
    return {"g": jnp.ones(width), "b": jnp.zeros(width)}


def _norm(p: Weights, x: Any) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["g"] + p["b"]


def _transformer_weights(rng: np.random.Generator) -> Weights:
    table = partial(rng.standard_normal, dtype=np.float32)
    weights: Weights = {"tokens": jnp.asarray(table((1000, 256)))}
    weights["places"] = jnp.asarray(table((128, 256)))
    for i in range(4):
        weights[f"{i}.norm1"], weights[f"{i}.norm2"] = _norm_weights(256), _norm_weights(256)
        weights[f"{i}.qkv"], weights[f"{i}.out"] = _linear(rng, 256, 768), _linear(rng, 256, 256)
        weights[f"{i}.up"], weights[f"{i}.down"] = _linear(rng, 256, 1024), _linear(rng, 1024, 256)
    return {**weights, "norm": _norm_weights(256), "head": _linear(rng, 256, 1000)}


def _transformer(p: Weights, x: Any) -> Any:
    y = p["tokens"][x] + p["places"]
    batch, count, width = y.shape
    for i in range(4):
        split = _apply(p[f"{i}.qkv"], _norm(p[f"{i}.norm1"], y)).reshape(batch, count, 3, 8, -1)
        q, k, v = (split[:, :, part] for part in range(3))
        attended = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        y = y + _apply(p[f"{i}.out"], attended.reshape(batch, count, width))
        inner = jax.nn.gelu(_apply(p[f"{i}.up"], _norm(p[f"{i}.norm2"], y)), approximate=False)
        y = y + _apply(p[f"{i}.down"], inner)
    return _apply(p["head"], _norm(p["norm"], y)).reshape(batch * count, -1)


def _lstm_weights(rng: np.random.Generator) -> Weights:
    return {"x": _linear(rng, 64, 512), "h": _linear(rng, 128, 512), "head": _linear(rng, 128, 10)}


def _lstm(p: Weights, x: Any) -> Any:
    gates = _apply(p["x"], jnp.swapaxes(x, 0, 1))

    def cell(state: Any, given: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(given + _apply(p["h"], h), 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    zeros = jnp.zeros((x.shape[0], 128))
    (h, _), _ = jax.lax.scan(cell, (zeros, zeros), gates)
    return _apply(p["head"], h)


NETS: dict[str, tuple[Callable[..., Weights], Callable[..., Any]]] = {
    "mlp": (_mlp_weights, _mlp),
    "resnet18": (_resnet_weights, _resnet),
    "transformer": (_transformer_weights, _transformer),
    "lstm": (_lstm_weights, _lstm),
}


def _sgd(w: Any, g: Any, slots: Any, count: Any) -> Any:
    velocity = 0.9 * slots[0] + g
    return w - 0.01 * velocity, (velocity, slots[1])


def _adamw(w: Any, g: Any, slots: Any, count: Any) -> Any:
    mean, square = 0.9 * slots[0] + 0.1 * g, 0.999 * slots[1] + 0.001 * g * g
    scale = jnp.sqrt(square / (1 - 0.999**count)) + 1e-8
    return w * (1 - 1e-5) - 1e-3 * mean / (1 - 0.9**count) / scale, (mean, square)


RULES = {"sgd": _sgd, "adamw": _adamw}


def make_step(net: str, arrays: tuple, rule: str) -> Callable[[], float]:
    """A function that does one step and gives the loss."""
    make, forward = NETS[net]
    weights = make(np.random.default_rng(0))
    x, y = jnp.asarray(arrays[0]), jnp.asarray(arrays[1]).ravel()

    def loss_of(p: Weights) -> Any:
        logits = jax.nn.log_softmax(forward(p, x))
        return -jnp.take_along_axis(logits, y[:, None], axis=1).mean()

    def update(p: Weights, slots: Any, count: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(p)
        flat, shape = jax.tree.flatten(p)
        moved = [
            RULES[rule](w, g, s, count)
            for w, g, s in zip(flat, jax.tree.leaves(grads), slots, strict=True)
        ]
        new = jax.tree.unflatten(shape, [w for w, _ in moved])
        return loss, new, [s for _, s in moved]

    compiled = jax.jit(update, donate_argnums=(0, 1))
    state = [weights, [(jnp.zeros_like(w),) * 2 for w in jax.tree.leaves(weights)], 0]
    state[1] = jax.tree.map(jnp.array, state[1])

    def step() -> float:
        state[2] += 1
        loss, state[0], state[1] = compiled(state[0], state[1], jnp.float32(state[2]))
        return float(loss)

    return step
