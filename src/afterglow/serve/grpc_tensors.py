"""Inference over gRPC: messages to requests of the core, and its answers to messages."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from afterglow.serve.datatypes import as_text, checked_dtype, elements, from_raw, to_raw
from afterglow.serve.errors import invalid
from afterglow.serve.proto_text import read_proto
from afterglow.serve.shared_memory import SharedMemory
from afterglow.serve.tensors import InferRequest, InferResponse, SharedRegion, WantedOutput
from afterglow.types import Array

_NAME = "open_inference.proto"
PROTOCOL = read_proto(_NAME, files("afterglow.serve").joinpath(_NAME).read_text())
MESSAGES = PROTOCOL.messages
_CONTENTS = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""The field that has the elements of each datatype; others come as bytes."""


def parameters_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of parameters, by name."""
    found = {}
    for name, parameter in given.items():
        choice = parameter.WhichOneof("parameter_choice")
        if choice is not None:
            found[name] = getattr(parameter, choice)
    return found


def read_message(message: Any, memory: SharedMemory) -> InferRequest:
    """The request that a message is."""
    request = InferRequest(message.model_name, message.model_version, message.id)
    if message.parameters:
        request.apply(parameters_of(message.parameters))
    raw = iter(message.raw_input_contents)
    is_raw = len(message.raw_input_contents) > 0
    for tensor in message.inputs:
        if tensor.name in request.inputs:
            raise invalid(f"input {tensor.name[:80]!r} is given twice")
        request.inputs[tensor.name] = _input(tensor, raw, memory, is_raw=is_raw)
    if next(raw, None) is not None:
        raise invalid("there are more raw contents than inputs")
    request.outputs = [
        WantedOutput.of(each.name, parameters_of(each.parameters)) for each in message.outputs
    ]
    return request


def _input(tensor: Any, raw: Any, memory: SharedMemory, *, is_raw: bool) -> Array:
    what, shape = f"input {tensor.name[:80]!r}", tuple(tensor.shape)
    parameters = parameters_of(tensor.parameters) if tensor.parameters else {}
    region = SharedRegion.of(parameters, what)
    if region is not None:
        return from_raw(tensor.datatype, shape, memory.read(region), what)
    if not is_raw:
        return _typed(tensor, shape, what)
    if tensor.HasField("contents"):
        raise invalid(f"{what} has contents, although there are raw contents")
    found = next(raw, None)
    if found is None:
        raise invalid(f"{what} has no raw contents")
    return from_raw(tensor.datatype, shape, memoryview(found), what)


def _typed(tensor: Any, shape: tuple[int, ...], what: str) -> Array:
    """The tensor of an input whose elements are in the field of their type."""
    dtype = checked_dtype(tensor.datatype, what)
    count = elements(shape, what)
    name = _CONTENTS.get(tensor.datatype)
    if name is None:
        raise invalid(f"{what} is {tensor.datatype}, which is sent as raw contents")
    found = getattr(tensor.contents, name)
    if len(found) != count:
        raise invalid(f"{what} has {len(found):,} elements in {name}, its shape has {count:,}")
    if tensor.datatype == "BYTES":
        return np.array([as_text(each, what) for each in found], object).reshape(shape)
    wide = np.array(found)
    if wide.size and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if int(wide.min()) < limits.min or int(wide.max()) > limits.max:
            raise invalid(f"{what} is {tensor.datatype} and has numbers that do not fit")
    return wide.astype(dtype).reshape(shape)


def write_message(response: InferResponse) -> Any:
    """The message of an answer, with its outputs as bytes."""
    message = MESSAGES["ModelInferResponse"](
        model_name=response.model, model_version=response.version, id=response.id
    )
    for output in response.outputs:
        made = message.outputs.add(name=output.name, datatype=output.datatype)
        made.shape.extend(output.array.shape)
        data = to_raw(output.array)
        if output.region is None:
            message.raw_output_contents.append(data)
            continue
        made.parameters["shared_memory_region"].string_param = output.region.name
        made.parameters["shared_memory_offset"].int64_param = output.region.offset
        made.parameters["shared_memory_byte_size"].int64_param = len(data)
        message.raw_output_contents.append(b"")
    return message
