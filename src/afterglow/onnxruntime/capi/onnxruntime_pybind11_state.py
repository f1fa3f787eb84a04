"""The exceptions, under the name of the module that has them in ONNX Runtime."""

from afterglow.onnxruntime.errors import (
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    NoSuchFile,
    NotImplemented,
    RuntimeException,
)

__all__ = [
    "EPFail",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "NoSuchFile",
    "NotImplemented",
    "RuntimeException",
]
