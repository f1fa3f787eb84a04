"""The conformance kit on the first OpenCL device; its driver takes too long to compile for more."""

from __future__ import annotations

import pytest

from afterglow.testing import BackendConformance

pytest.importorskip("pyopencl", reason="pyopencl is not installed: pip install afterglow[opencl]")

pytestmark = pytest.mark.slow


class TestOpenCl(BackendConformance):
    backend = "opencl"
