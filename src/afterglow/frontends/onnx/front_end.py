"""The ONNX front end, as the registry knows it: it imports the library when a model is opened."""

from __future__ import annotations

from typing import Any

from afterglow.frontends.base import Source
from afterglow.frontends.content import Content
from afterglow.frontends.onnx.registry import ONNX
from afterglow.frontends.protobuf import LENGTH, VARINT, ProtobufReader, TruncatedError
from afterglow.support.errors import ModelError

_GRAPH = 7
_FIELDS = {1: VARINT, 5: VARINT, **dict.fromkeys((2, 3, 4, 6, 7, 8, 14, 20, 25, 26), LENGTH)}
"""The fields of a model, and how each is written."""
_IR_VERSION = b"\x08"


class OnnxFrontEnd:
    """Opens ONNX models: a file, its bytes, or an `onnx.ModelProto`."""

    name = "onnx"
    dialect = ONNX
    reads = "ONNX"

    def opens(self, source: Any) -> Source | None:
        """A source that reads the model once."""
        is_message = type(source).__name__ == "ModelProto"
        if not is_message and not (isinstance(source, Content) and is_onnx(source)):
            return None
        # here, because a process that only loads saved models does not need the library
        from afterglow.frontends.onnx.source import OnnxSource  # noqa: PLC0415

        return OnnxSource(source)


def is_onnx(content: Content) -> bool:
    """Whether it has the fields of a model, up to the graph or to where the file is cut off."""
    reader = ProtobufReader(content.data, "an ONNX model")
    try:
        for field in reader.fields(0, len(content.data), "model"):
            if _FIELDS.get(field.number) != field.wire_type:
                return False
            if field.number == _GRAPH:
                return True
    except TruncatedError:
        return content.head.startswith(_IR_VERSION)
    except ModelError:
        return False
    return False
