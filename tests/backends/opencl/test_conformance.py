"""The conformance kit on the first OpenCL device; its driver takes too long to compile for more."""

from __future__ import annotations

import pytest

from afterglow.testing import BackendConformance

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("opencl_device")]


class TestOpenCl(BackendConformance):
    backend = "opencl"
