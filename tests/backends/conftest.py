"""Tests that need an OpenCL device are skipped, with the reason, where there is none."""

from __future__ import annotations

import pytest

from afterglow.backends.opencl.driver import devices
from afterglow.support.errors import UsageError


@pytest.fixture(scope="session")
def opencl_device():
    """The first OpenCL device; `pytestmark = pytest.mark.usefixtures("opencl_device")` asks."""
    try:
        return devices()[0][1]
    except UsageError as error:
        pytest.skip(f"{error.what}: {error.help}")
