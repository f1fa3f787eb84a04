"""What the backend can do besides compiling: show, time and verify its kernels."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow.backends.backend import Settings
from afterglow.backends.capabilities import Listing, Profiling, Verifying
from afterglow.backends.launched.constants import Constants
from afterglow.backends.opencl.backend import OpenCl
from afterglow.backends.opencl.build import compile_kernels, restore
from afterglow.backends.opencl.session import session
from afterglow.cli.main import execute
from afterglow.support.errors import VerifyError
from afterglow.testing.samples import COUNTER, LAYER
from tests.cli import models

pytestmark = pytest.mark.usefixtures("opencl_device")

KERNEL = "__kernel void one(__global float* y) { y[get_global_id(0)] = 1.0f; }"
X = np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)


def test_it_shows_times_and_verifies():
    backend = OpenCl(Settings())
    assert isinstance(backend, Listing)
    assert isinstance(backend, Profiling)
    assert isinstance(backend, Verifying)


def test_verified_kernels_give_what_they_should():
    module = ag.parse_module(LAYER)
    verified = ag.compile(module, backend="opencl", verify=True)
    wanted = ag.compile(module, backend="interpreter")(X)
    for got, right in zip(verified(X), wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-6)
    counter = ag.compile(ag.parse_module(COUNTER), backend="opencl", verify=True)
    for total in (1, 2):
        assert counter(np.ones(4, np.float32)).tolist() == [total] * 4


def test_a_kernel_that_is_wrong_is_found(monkeypatch):
    monkeypatch.setattr(Constants, "block", lambda self: np.zeros(self.size, np.uint8))
    model = ag.compile(ag.parse_module(LAYER), backend="opencl", verify=True, cache=False)
    with pytest.raises(VerifyError) as caught:
        model(X)
    assert str(caught.value).startswith(
        "error: instruction 0 writes something else to %product than its ops mean\n"
    )


class Cache(dict):
    def put(self, key, data):
        self[key] = data


def test_what_a_driver_compiled_is_remembered_and_a_corrupt_binary_is_compiled_anew(opencl_device):
    here, cache = session(opencl_device.name), Cache()
    binary = compile_kernels(KERNEL, here, cache)
    assert [*cache.values()] == [binary]
    assert compile_kernels(KERNEL, here, cache) is binary
    for data in (binary, b"", b"nothing", binary[: len(binary) // 2]):
        assert restore(data, KERNEL, here).all_kernels()[0].function_name == "one"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("dump", "--stage", "opencl"), "__kernel"),
        (("profile", "--repeat", "2"), "matmul_"),
    ],
)
def test_the_command_shows_kernels_and_their_times(capsys, tmp_path, words, shown):
    assert execute([*words, str(models.linear(tmp_path)), "--backend", "opencl"]) == 0
    assert shown in capsys.readouterr().out
