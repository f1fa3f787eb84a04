"""Converts ONNX models to PyTorch modules with onnx2torch; importing this imports PyTorch."""

from __future__ import annotations

import importlib.util
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

torch: Any = import_module("torch")


def _stand_in_for_torchvision() -> None:
    """Replace torchvision if missing: onnx2torch imports it, but needs it only for two ops."""
    if importlib.util.find_spec("torchvision") is None:
        vision: Any = ModuleType("torchvision")
        vision.ops = ModuleType("torchvision.ops")
        vision.ops.nms = vision.ops.roi_align = None
        sys.modules.update({"torchvision": vision, "torchvision.ops": vision.ops})


_stand_in_for_torchvision()
onnx: Any = import_module("onnx")
onnx2torch: Any = import_module("onnx2torch")
registry: Any = import_module("onnx2torch.node_converters.registry")
common: Any = import_module("onnx2torch.utils.common")

LSTM_OPSETS = (7, 14, 22)
RESHAPES = ("Reshape", "Squeeze", "Unsqueeze")


class LongShortTermMemory(torch.nn.Module):  # type: ignore[misc]  # PyTorch may be missing
    """ONNX's LSTM on PyTorch's."""

    def __init__(self, weight: Any, recurrence: Any, bias: Any) -> None:
        super().__init__()
        size = recurrence.shape[-1]
        self.layer = torch.nn.LSTM(weight.shape[-1], size, bias=bias is not None)
        parts = {"weight_ih_l0": weight[0], "weight_hh_l0": recurrence[0]}
        if bias is not None:
            parts |= {"bias_ih_l0": bias[0, : 4 * size], "bias_hh_l0": bias[0, 4 * size :]}
        for name, values in parts.items():
            enter, leave, keep, new = values.chunk(4)
            ordered = torch.cat([enter, keep, new, leave])
            setattr(self.layer, name, torch.nn.Parameter(ordered, requires_grad=False))

    def forward(self, x: Any, *state: Any) -> Any:
        """Outputs of all steps, then the last output and cell."""
        outputs, (output, cell) = self.layer(x, state or None)
        return outputs.unsqueeze(1), output, cell


def _convert_lstm(node: Any, graph: Any) -> Any:
    names = [*node.input_values, *[""] * (8 - len(node.input_values))]
    plain = node.attributes.get("direction", "forward") == "forward"
    if not plain or names[4] or names[7] or bool(names[5]) != bool(names[6]):
        raise NotImplementedError("LSTM other than forward over whole sequences")
    weight, recurrence = (graph.initializers[name].to_torch() for name in names[1:3])
    bias = graph.initializers[names[3]].to_torch() if names[3] else None
    mapping = common.OnnxMapping(
        inputs=(names[0], *(name for name in names[5:7] if name)), outputs=node.output_values
    )
    return common.OperationConverterResult(LongShortTermMemory(weight, recurrence, bias), mapping)


for _opset in LSTM_OPSETS:
    registry.add_converter(operation_type="LSTM", version=_opset)(_convert_lstm)


def convert(model: Any) -> Any:
    """The PyTorch module for a model."""
    inferred = onnx.shape_inference.infer_shapes(model)
    module = onnx2torch.convert(model)
    _fix_shapes(module, inferred)
    return module.eval()


def _fix_shapes(module: Any, model: Any) -> None:
    """Replace reshaping ops by reshapes to the inferred shape, as `torch.compile` requires."""
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.value_info, *model.graph.output)
    }
    known = {
        node.name: shapes.get(node.output[0])
        for node in model.graph.node
        if node.op_type in RESHAPES
    }
    for node in list(module.graph.nodes):
        shape = known.get(str(node.target)) if node.op == "call_module" else None
        if shape and all(shape):
            with module.graph.inserting_after(node):
                fixed = module.graph.call_function(torch.reshape, (node.args[0], tuple(shape)))
            node.replace_all_uses_with(fixed)
            module.graph.erase_node(node)
    module.recompile()
