"""Tests of this folder that compile kernels, or emulate them, are skipped where Triton is not."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="triton is not installed: pip install afterglow[cuda]")
