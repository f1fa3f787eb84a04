"""What ONNX Runtime says of the machine and of itself."""

from __future__ import annotations

from afterglow.onnxruntime.options import CPU_PROVIDER, LOG

VERSION = "1.31.1"
"""The version of ONNX Runtime whose interface this is: programs compare it with what they need."""


def get_available_providers() -> list[str]:
    """What runs models: the CPU."""
    return [CPU_PROVIDER]


def get_all_providers() -> list[str]:
    """The same."""
    return get_available_providers()


def get_device() -> str:
    """The device that models run on."""
    return "CPU"


def get_version_string() -> str:
    """The version of ONNX Runtime whose interface this is."""
    return VERSION


def get_build_info() -> str:
    """Whose implementation this is."""
    return "Afterglow"


def set_default_logger_severity(level: int) -> None:
    """Accepted: nothing is logged but what Python's logger `afterglow.onnxruntime` is asked for."""
    LOG.debug("the logger's severity %s has no effect", level)


def set_default_logger_verbosity(level: int) -> None:
    """Accepted, as `set_default_logger_severity`."""
    LOG.debug("the logger's verbosity %s has no effect", level)


def set_seed(seed: int) -> None:
    """Accepted: random numbers are those of the seeds in the model."""
    LOG.debug("the seed %s has no effect: each node's own seed has", seed)


def disable_telemetry_events() -> None:
    """Accepted: there are none."""


def enable_telemetry_events() -> None:
    """Accepted: there are none."""


def preload_dlls(**places: object) -> None:
    """Accepted: there are none to load."""
