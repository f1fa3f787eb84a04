"""Malformed bodies get errors, never a crash, and leave nothing behind."""

from __future__ import annotations

import asyncio
import gc

import pytest

from afterglow.serve.http_app import HttpApp
from afterglow.serve.metrics import resident_bytes
from tests.serve.fuzzing import fuzz
from tests.serve.models import DOUBLE, save


def run(server, count, seed):
    work = fuzz(HttpApp(server.core), count, seed)
    return asyncio.run_coroutine_threadsafe(work, server._loop).result()


@pytest.fixture
def fuzzed(tmp_path, serving):
    save(tmp_path, "double.onnx", DOUBLE)
    return serving()


def test_malformed_bodies_get_errors(fuzzed):
    statuses = run(fuzzed, 3_000, seed=0)
    assert statuses.keys() <= {200, 400, 413, 415, 501}
    assert statuses[200] > 20
    assert statuses[400] > 1000


@pytest.mark.slow
def test_a_hundred_thousand_malformed_bodies_leave_no_memory_behind(fuzzed):
    run(fuzzed, 10_000, seed=1)
    gc.collect()
    before = resident_bytes()
    statuses = run(fuzzed, 100_000, seed=2)
    gc.collect()
    assert statuses.keys() <= {200, 400, 413, 415, 501}
    assert resident_bytes() - before < 16 << 20
