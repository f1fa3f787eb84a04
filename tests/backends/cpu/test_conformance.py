"""The conformance kit on the CPU: whatever the interpreter passes, machine code passes."""

from __future__ import annotations

from typing import ClassVar

from afterglow.testing import BackendConformance


class TestCpu(BackendConformance):
    backend = "cpu"
    complete = True
    ranged = True
    options: ClassVar = {"threads": 1}
    onnx_stride = 1
