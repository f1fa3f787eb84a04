"""Tests of this folder run kernels by the emulator of CUDA, and are skipped where Triton is not."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="triton is not installed: pip install afterglow[cuda]")
