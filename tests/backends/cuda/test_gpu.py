"""The conformance kit on the first GPU of this machine: `make test-cuda` runs it."""

from __future__ import annotations

import pytest

from afterglow.backends.cuda.session import devices
from afterglow.support.errors import AfterglowError
from afterglow.testing import BackendConformance


def _missing() -> str:
    try:
        devices()
    except AfterglowError as error:
        return error.what
    return ""


pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(_missing()), reason=_missing())]


class TestGpu(BackendConformance):
    backend = "cuda"
