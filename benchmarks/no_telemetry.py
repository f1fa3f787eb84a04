"""Replaces the package by which OpenVINO's tools report their use by one that does nothing.

Import this before any of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class Telemetry:
    """Takes every call and does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


_stub = ModuleType("openvino_telemetry")
_stub.Telemetry = Telemetry  # type: ignore[attr-defined]
sys.modules["openvino_telemetry"] = _stub
