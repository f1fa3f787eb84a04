"""Afterglow behind ONNX's own backend interface: prepare, run_model, run_node, supports_device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import helper

from afterglow.backends.registry import backend_names
from afterglow.driver.api import compile
from afterglow.runtime import CompiledModel
from afterglow.support.errors import UsageError


class BackendRep:
    """A prepared model: `run` takes inputs in the model's order and returns a list of outputs."""

    def __init__(self, model: CompiledModel) -> None:
        self.model = model

    def run(self, inputs: Any, **_: Any) -> list[Any]:
        """Run once on a list of arrays, or a dictionary by name."""
        if not isinstance(inputs, dict):
            names = [info.name for info in self.model.inputs]
            inputs = dict(zip(names, inputs, strict=False))
        return self.model.run(None, inputs)


def supports_device(device: str) -> bool:
    """Whether a device such as "CPU" can be had."""
    return _kind(device) in _backends()


def prepare(model: onnx.ModelProto, device: str = "CPU", **options: Any) -> BackendRep:
    """Compile a model for a device; keyword arguments are those of `afterglow.compile`."""
    if not supports_device(device):
        raise UsageError(f"no device {device!r}", help=f"there are {', '.join(_backends())}")
    return BackendRep(compile(model, backend=_backends()[_kind(device)], **options))


def _backends() -> dict[str, str]:
    """The backends, by what ONNX calls their devices: the same in capital letters."""
    return {name.upper(): name for name in backend_names()}


def _kind(device: str) -> str:
    return device.split(":")[0].upper()


def run_model(
    model: onnx.ModelProto, inputs: Sequence[Any], device: str = "CPU", **options: Any
) -> list[Any]:
    """Prepare a model and run it once."""
    return prepare(model, device, **options).run(inputs)


def run_node(
    node: onnx.NodeProto, inputs: Sequence[Any], device: str = "CPU", **options: Any
) -> list[Any]:
    """Run a single node on arrays."""
    types = [helper.np_dtype_to_tensor_dtype(array.dtype) for array in inputs]
    given = [name for name in node.input if name]
    infos = [
        helper.make_tensor_value_info(name, kind, array.shape)
        for name, kind, array in zip(given, types, inputs, strict=True)
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "node", infos, outputs)
    return run_model(helper.make_model(graph), inputs, device, **options)
