"""Running ONNX models in ONNX Runtime, which is optional."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from afterglow.support.errors import UnsupportedError, UsageError
from afterglow.types import Array

ONNXRUNTIME = "onnxruntime"


def onnxruntime_outputs(
    model: str | bytes, feed: Mapping[str, Array], config: Mapping[str, str] | None = None
) -> list[Any]:
    """The outputs of ONNX Runtime, with its graph optimisations disabled."""
    runtime = _runtime()
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    for key, value in (config or {}).items():
        options.add_session_config_entry(key, value)
    try:
        session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        known = {info.name for info in session.get_inputs()}
        outputs: list[Any] = session.run(None, {n: x for n, x in feed.items() if n in known})
        return outputs
    except Exception as error:  # its errors have no common base but this
        raise cannot_run(ONNXRUNTIME, error) from None


def _runtime() -> Any:
    try:
        return import_module("onnxruntime")  # optional, and slow to load
    except ImportError:
        raise UsageError(
            "onnxruntime is not installed",
            help="pip install onnxruntime, or leave the comparison with it out",
        ) from None


def cannot_run(engine: str, error: Exception) -> UnsupportedError:
    """The error about an engine that failed, whose own errors have no common form."""
    first = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return UnsupportedError(f"{engine} cannot run the model: {first}")
