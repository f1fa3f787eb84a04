"""Inference over HTTP: JSON bodies, and tensors as bytes behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from afterglow.serve.datatypes import from_list, from_raw, to_list, to_raw
from afterglow.serve.errors import invalid
from afterglow.serve.shared_memory import SharedMemory
from afterglow.serve.tensors import (
    InferOutput,
    InferRequest,
    InferResponse,
    SharedRegion,
    WantedOutput,
)
from afterglow.types import Array

HEADER_LENGTH = "inference-header-content-length"
"""The header that says how many bytes of a body are JSON; the rest are tensors."""
MOST_TENSORS = 4096
MOST_AXES = 64


def parse_json(data: bytes | memoryview) -> Any:
    """The value that a text in JSON has."""
    try:
        return json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise invalid(f"the body is not JSON: {str(error)[:120]}") from None


def parse_object(data: bytes | memoryview) -> dict[str, Any]:
    """The object that a text in JSON has; an empty text is an empty one."""
    found = parse_json(data) if data else {}
    if not isinstance(found, dict):
        raise invalid("the body must be an object of JSON")
    return found


def read_request(
    model: str, version: str, body: bytes, header_length: str | None, memory: SharedMemory
) -> InferRequest:
    """The request that a body has."""
    whole = memoryview(body)
    length = _header_length(header_length, len(body))
    content = parse_object(whole[:length])
    request = InferRequest(model, version, _text(content, "id"))
    parameters = _object(content, "parameters", "the request")
    request.apply(parameters)
    place = length
    for tensor in _tensors(content, "inputs"):
        name = _text(tensor, "name")
        if name in request.inputs:
            raise invalid(f"input {name[:80]!r} is given twice")
        request.inputs[name], place = _input(tensor, name, whole, place, memory)
    if place != len(body):
        raise invalid(f"the body has {len(body) - place:,} bytes that belong to no input")
    binary = bool(parameters.get("binary_data_output", False))
    request.outputs = [
        WantedOutput.of(each.get("name"), each.get("parameters") or {}, binary=binary)
        for each in _tensors(content, "outputs", are_needed=False)
    ]
    return request


def _header_length(header: str | None, most: int) -> int:
    if header is None:
        return most
    if not header.isascii() or not header.isdigit() or len(header) > 15 or int(header) > most:
        raise invalid(f"the header {HEADER_LENGTH} must be at most the length of the body")
    return int(header)


def _tensors(content: Mapping[str, Any], key: str, *, are_needed: bool = True) -> list[Any]:
    found = content.get(key)
    if found is None and not are_needed:
        return []
    if not isinstance(found, list) or len(found) > MOST_TENSORS:
        raise invalid(f"the request needs a list of {key}")
    if not all(isinstance(each, dict) for each in found):
        raise invalid(f"each of the {key} must be an object")
    return found


def _text(content: Mapping[str, Any], key: str) -> str:
    found = content.get(key, "")
    if not isinstance(found, str):
        raise invalid(f"the {key} must be a text")
    return found


def _object(content: Mapping[str, Any], key: str, what: str) -> dict[str, Any]:
    found = content.get(key) or {}
    if not isinstance(found, dict):
        raise invalid(f"the {key} of {what} must be an object")
    return found


def _input(
    tensor: dict[str, Any], name: str, body: memoryview, place: int, memory: SharedMemory
) -> tuple[Array, int]:
    """An input, and where the bytes of the next one begin."""
    what = f"input {name[:80]!r}"
    shape, datatype = tensor.get("shape"), tensor.get("datatype")
    if not isinstance(shape, list) or len(shape) > MOST_AXES:
        raise invalid(f"{what} needs a shape, as a list")
    if not isinstance(datatype, str):
        raise invalid(f"{what} needs a datatype")
    parameters = _object(tensor, "parameters", what)
    region = SharedRegion.of(parameters, what)
    if region is not None:
        return from_raw(datatype, tuple(shape), memory.read(region), what), place
    size = parameters.get("binary_data_size")
    if size is None:
        return from_list(datatype, tuple(shape), tensor.get("data"), what), place
    if "data" in tensor:
        raise invalid(f"{what} has data in two places")
    if type(size) is not int or not 0 <= size <= len(body) - place:
        raise invalid(f"{what} needs {size!r} bytes, the body has {len(body) - place:,} left")
    return from_raw(datatype, tuple(shape), body[place : place + size], what), place + size


def write_response(response: InferResponse, request: InferRequest) -> tuple[bytes, int | None]:
    """The body of an answer, and how much of it is JSON if tensors are behind it."""
    every = not request.outputs and bool(request.parameters.get("binary_data_output", False))
    parts: list[bytes] = []
    outputs = [_output(output, parts, binary=every) for output in response.outputs]
    content: dict[str, Any] = {
        "model_name": response.model,
        "model_version": response.version,
        "outputs": outputs,
    }
    if response.id:
        content["id"] = response.id
    if response.parameters:
        content["parameters"] = response.parameters
    head = json.dumps(content, separators=(",", ":")).encode()
    if not parts:
        return head, None
    return b"".join([head, *parts]), len(head)


def _output(output: InferOutput, parts: list[bytes], *, binary: bool) -> dict[str, Any]:
    array = output.array
    data: dict[str, Any] = {
        "name": output.name,
        "datatype": output.datatype,
        "shape": list(array.shape),
    }
    if output.region is not None:
        size = len(to_raw(array)) if array.dtype.hasobject else array.nbytes
        data["parameters"] = {
            "shared_memory_region": output.region.name,
            "shared_memory_offset": output.region.offset,
            "shared_memory_byte_size": size,
        }
    elif binary or output.is_binary:
        raw = to_raw(array)
        parts.append(raw)
        data["parameters"] = {"binary_data_size": len(raw)}
    else:
        data["data"] = to_list(array)
    return data
