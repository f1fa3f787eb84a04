"""Scans, whose iterations the device runs."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
import afterglow.driver.compile

MODEL = """
    const @weight : f32[2, 2] = [1, 0.5, -1, 2]
    func @step(%sum: f32[1, 2], %part: f32[1, 2], %weight: f32[2, 2]) {
      %product = matmul(%sum, %weight) : f32[1, 2]
      %next = add(%product, %part) : f32[1, 2]
      %seen = tanh(%next) : f32[1, 2]
      return %next, %seen
    }
    func @main(%first: f32[1, 2], %x: f32[3, 1, 2]) {
      %last, %all = scan(%first, %x, @weight)
        {body = @step, length = 3, carried = 1, scanned = 1} : f32[1, 2], f32[3, 1, 2]
      return %last, %all
    }
"""
FIRST = np.array([[1, -1]], np.float32)
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 1, 2)


@pytest.fixture(scope="module")
def model(opencl_device):
    return ag.compile(ag.parse_module(MODEL), backend="opencl", cache=False)


def test_a_scan_gives_what_it_is_defined_to(model):
    wanted = ag.compile(ag.parse_module(MODEL), backend="interpreter", cache=False)(FIRST, X)
    for got, right in zip(model(FIRST, X), wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-6)


def test_the_body_of_a_scan_has_kernels(model):
    assert "void matmul_" in model.ir("opencl")


def test_a_scan_is_verified_when_all_its_iterations_are_done(opencl_device):
    model = ag.compile(ag.parse_module(MODEL), backend="opencl", verify=True, cache=False)
    wanted = ag.compile(ag.parse_module(MODEL), backend="interpreter", cache=False)(FIRST, X)
    for got, right in zip(model(FIRST, X), wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-6)
