"""The conformance kit on kernels that Triton's interpreter runs."""

from __future__ import annotations

import pytest

from afterglow.testing import BackendConformance

pytestmark = pytest.mark.slow


class TestCuda(BackendConformance):
    backend = "cuda"
    target = "emulated"
