"""ONNX Runtime's Python interface, on models that Afterglow compiles: see docs/onnxruntime.md.

A program changes `import onnxruntime as ort` to `import afterglow.onnxruntime as ort`.
"""

from afterglow.onnxruntime import capi
from afterglow.onnxruntime.binding import IOBinding
from afterglow.onnxruntime.binding import IOBinding as SessionIOBinding
from afterglow.onnxruntime.environment import (
    disable_telemetry_events,
    enable_telemetry_events,
    get_all_providers,
    get_available_providers,
    get_build_info,
    get_device,
    get_version_string,
    preload_dlls,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_seed,
)
from afterglow.onnxruntime.onnx_file import ModelMetadata
from afterglow.onnxruntime.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from afterglow.onnxruntime.session import InferenceSession, NodeArg
from afterglow.onnxruntime.values import OrtDevice, OrtValue

__version__ = get_version_string()

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtDevice",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "__version__",
    "capi",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "preload_dlls",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]
