"""What is left of a model behind its boundaries, as graph IR that a file can hold, and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from afterglow.frontends.base import Remainder
from afterglow.frontends.onnx.definition import ModelDef, TensorDef, constant
from afterglow.frontends.onnx.host_graph import graph_of, model_of
from afterglow.frontends.onnx.order import reads
from afterglow.frontends.onnx.parts import needed_indices
from afterglow.frontends.onnx.signature import model_signature
from afterglow.graph import parse_module, print_module
from afterglow.graph.payload import pack_constants, unpack_constants
from afterglow.support.errors import UnsupportedError


def remainder_of(
    model: ModelDef, boundaries: Sequence[Collection[str]], values: Mapping[str, Any]
) -> Remainder:
    """What computes the outputs of a model once the values of one of the boundaries are known.

    It takes the same inputs as the model, but for those whose `values` are always the same.
    """
    left, given = _behind(model, boundaries, values)
    module = graph_of(left, given)
    text = print_module(module, origins=True)
    return Remainder(text.encode(), pack_constants(module.constants.values()))


def open_remainder(remainder: Remainder) -> ModelDef:
    """The definition of what is left; large tensors are views of the data."""
    arrays = unpack_constants(remainder.weights)
    return model_of(parse_module(bytes(remainder.graph).decode(), arrays))


def _behind(
    model: ModelDef, boundaries: Sequence[Collection[str]], values: Mapping[str, Any]
) -> tuple[ModelDef, list[str]]:
    """The definition of what is left, and the names of what is given to it."""
    graph = model.graph
    outputs = [output.name for output in graph.output]
    kept = set().union(*(needed_indices(graph, outputs, each) for each in boundaries))
    nodes = tuple(node for index, node in enumerate(graph.node) if index in kept)
    names = dict.fromkeys([*outputs, *(name for node in nodes for name in reads(node))])
    inputs = {parameter.name for parameter in model_signature(model).inputs}.difference(values)
    constants = [tensor for tensor in graph.constants if tensor.name in names]
    constants += [_constant(name, value) for name, value in values.items() if name in names]
    left = replace(
        graph,
        node=nodes,
        input=tuple(info for info in graph.input if info.name in inputs),
        constants=tuple(constants),
    )
    defined = inputs.union(*(node.output for node in nodes), (t.name for t in constants))
    return replace(model, graph=left), [name for name in names if name not in defined]


def _constant(name: str, value: Any) -> TensorDef:
    if not isinstance(value, np.ndarray):
        raise UnsupportedError(
            f"input {name!r} is bound to a {type(value).__name__}: such a model cannot be saved",
            help="bind tensors only, and give the others with each call",
        )
    return constant(name, value)
