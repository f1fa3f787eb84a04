"""Afterglow: an ahead-of-time compiler for neural networks.

Names are imported when they are first used: a program that only loads and runs compiled models
never imports the compiler.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from afterglow import nn, onnx_backend, onnxruntime, optim, ray, text
    from afterglow.autodiff.differentiate import differentiate
    from afterglow.driver.api import compile
    from afterglow.driver.aware import quantization_aware
    from afterglow.driver.compile import import_model
    from afterglow.driver.device_rates import devices
    from afterglow.driver.export import export_onnx
    from afterglow.driver.images import ImageSamples
    from afterglow.driver.load import load
    from afterglow.driver.profiling import profile
    from afterglow.frontends.torch.front_end import from_torch
    from afterglow.graph import Builder, Function, Module, Op, print_module
    from afterglow.host.host import Host
    from afterglow.onnxruntime import (
        ExecutionMode,
        GraphOptimizationLevel,
        InferenceSession,
        IOBinding,
        OrtValue,
        RunOptions,
        SessionOptions,
        get_available_providers,
        get_device,
        set_default_logger_severity,
    )
    from afterglow.ops.comprehension import comprehension
    from afterglow.ops.own import op
    from afterglow.ops.text import parse_module
    from afterglow.partition.config import PartitionConfig
    from afterglow.quantization.config import QuantizationConfig
    from afterglow.quantization.profile import Profile
    from afterglow.report.compare.api import compare
    from afterglow.report.compare.result import CompareReport
    from afterglow.report.quality import quantization_quality
    from afterglow.runtime import CompiledModel
    from afterglow.runtime.device import DeviceInfo
    from afterglow.runtime.logical_device import LogicalDevice
    from afterglow.runtime.trace import Trace
    from afterglow.support.errors import (
        AfterglowError,
        AfterglowWarning,
        CompileError,
        DeadlineError,
        DeviceError,
        EvaluationError,
        IndexRangeError,
        ModelError,
        ParseError,
        QueueFullError,
        ShutdownError,
        TrainingError,
        UnsupportedError,
        UsageError,
        VerifyError,
    )
    from afterglow.training.checkpoint import Checkpoints
    from afterglow.training.early_stopping import EarlyStopping
    from afterglow.training.history import History
    from afterglow.training.lora import LoRA
    from afterglow.training.trainer import Trainer
    from afterglow.types import DType, TensorType

    __version__: str

__all__ = [
    "AfterglowError",
    "AfterglowWarning",
    "Builder",
    "Checkpoints",
    "CompareReport",
    "CompileError",
    "CompiledModel",
    "DType",
    "DeadlineError",
    "DeviceError",
    "DeviceInfo",
    "EarlyStopping",
    "EvaluationError",
    "ExecutionMode",
    "Function",
    "GraphOptimizationLevel",
    "History",
    "Host",
    "IOBinding",
    "ImageSamples",
    "IndexRangeError",
    "InferenceSession",
    "LoRA",
    "LogicalDevice",
    "ModelError",
    "Module",
    "Op",
    "OrtValue",
    "ParseError",
    "PartitionConfig",
    "Profile",
    "QuantizationConfig",
    "QueueFullError",
    "RunOptions",
    "SessionOptions",
    "ShutdownError",
    "TensorType",
    "Trace",
    "Trainer",
    "TrainingError",
    "UnsupportedError",
    "UsageError",
    "VerifyError",
    "compare",
    "compile",
    "comprehension",
    "devices",
    "differentiate",
    "export_onnx",
    "from_torch",
    "get_available_providers",
    "get_device",
    "import_model",
    "load",
    "nn",
    "onnx_backend",
    "onnxruntime",
    "op",
    "optim",
    "parse_module",
    "print_module",
    "profile",
    "quantization_aware",
    "quantization_quality",
    "ray",
    "set_default_logger_severity",
    "text",
]

_HOMES = {
    "afterglow.autodiff.differentiate": ("differentiate",),
    "afterglow.driver.api": ("compile",),
    "afterglow.driver.aware": ("quantization_aware",),
    "afterglow.driver.compile": ("import_model",),
    "afterglow.driver.device_rates": ("devices",),
    "afterglow.driver.export": ("export_onnx",),
    "afterglow.driver.images": ("ImageSamples",),
    "afterglow.driver.load": ("load",),
    "afterglow.driver.profiling": ("profile",),
    "afterglow.frontends.torch.front_end": ("from_torch",),
    "afterglow.graph": ("Builder", "Function", "Module", "Op", "print_module"),
    "afterglow.host.host": ("Host",),
    "afterglow.onnxruntime": (
        *("ExecutionMode", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "OrtValue"),
        *("RunOptions", "SessionOptions"),
        *("get_available_providers", "get_device", "set_default_logger_severity"),
    ),
    "afterglow.ops.comprehension": ("comprehension",),
    "afterglow.ops.own": ("op",),
    "afterglow.ops.text": ("parse_module",),
    "afterglow.partition.config": ("PartitionConfig",),
    "afterglow.quantization.config": ("QuantizationConfig",),
    "afterglow.quantization.profile": ("Profile",),
    "afterglow.report.compare.api": ("compare",),
    "afterglow.report.compare.result": ("CompareReport",),
    "afterglow.report.quality": ("quantization_quality",),
    "afterglow.runtime": ("CompiledModel",),
    "afterglow.runtime.device": ("DeviceInfo",),
    "afterglow.runtime.logical_device": ("LogicalDevice",),
    "afterglow.runtime.trace": ("Trace",),
    "afterglow.support.errors": (
        *("AfterglowError", "AfterglowWarning", "CompileError", "DeviceError", "IndexRangeError"),
        *("ModelError", "ParseError", "UnsupportedError", "UsageError", "VerifyError"),
        "EvaluationError",
        *("DeadlineError", "QueueFullError", "ShutdownError", "TrainingError"),
    ),
    "afterglow.training.checkpoint": ("Checkpoints",),
    "afterglow.training.early_stopping": ("EarlyStopping",),
    "afterglow.training.history": ("History",),
    "afterglow.training.lora": ("LoRA",),
    "afterglow.training.trainer": ("Trainer",),
    "afterglow.types": ("DType", "TensorType"),
}
"""Where names are imported from, as above; those that are modules are their own homes."""


def __getattr__(name: str) -> _typing.Any:
    """Import what is asked for."""
    if name == "__version__":
        return _importlib.import_module("importlib.metadata").version("afterglow")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        return _imported(name, f"{__name__}.{name}")
    found = globals()[name] = getattr(_imported(name, home), name)
    return found


def _imported(name: str, module: str) -> _typing.Any:
    """A module; what it lacks is an error that says what to install."""
    collection = _importlib.import_module("afterglow.support.collection")
    try:
        with collection.without_collecting(permanent=True):
            return _importlib.import_module(module)
    except ModuleNotFoundError as error:
        packages = _importlib.import_module("afterglow.support.packages")
        raise (packages.missing_package(f"afterglow.{name}", error) or error) from None


def __dir__() -> list[str]:
    """All names, imported or not."""
    return sorted([*__all__, "__version__"])
