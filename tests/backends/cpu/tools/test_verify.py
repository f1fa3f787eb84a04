"""Each instruction compared with what its ops mean, while it runs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import afterglow
from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.table import ENTRIES
from afterglow.backends.cpu.llvm.emitter import Value
from afterglow.backends.cpu.micro.fusion import SinkRow
from afterglow.backends.cpu.micro.kernel import Kernel, KernelRequest
from afterglow.backends.interpreter.compare import _difference
from afterglow.ops.linear import MatMul
from afterglow.support.errors import VerifyError
from tests.backends.cpu import networks
from tests.frontends.models import model, node

DIGITS = Path("examples/digits")
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def test_all_of_digits_is_right() -> None:
    data = np.load(DIGITS / "test_images.npz")
    verified = afterglow.compile(DIGITS / "digits.onnx", verify=True)
    for image, wanted in zip(data["images"][:10], data["probabilities"], strict=False):
        got = verified(image.astype(np.float32).reshape(1, 1, 8, 8))
        np.testing.assert_allclose(got[0], wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("network", [networks.cnn, networks.mlp, networks.transformer])
def test_networks_are_right(network) -> None:
    source = network()
    verified = afterglow.compile(source, verify=True, threads=2)
    x = np.random.default_rng(0).standard_normal(verified.inputs[0].shape).astype(np.float32)
    assert verified(x).tobytes() == afterglow.compile(source, verify=False)(x).tobytes()


def test_what_the_host_runs_is_followed() -> None:
    y, joined = afterglow.compile(networks.texts(), verify=True)(X, ["a", "b"], ["c", "d"])
    assert joined.tolist() == ["ac!", "bd!"]
    np.testing.assert_array_equal(y, 2 * X * X)


def test_a_program_for_ranges_is_followed_at_each_extent() -> None:
    source = """
        dim s : 1..40
        func @main(%x: f32[s, 3], %names: str[s]) {
          %e = exp(%x) : f32[s, 3]
          %y = add(%e, %x) : f32[s, 3]
          %twice = string_concat(%names, %names) : str[s]
          return %y, %twice
        }
    """
    verified = afterglow.compile(afterglow.parse_module(source), verify=True)
    for s in (1, 40, 7):
        x = np.random.default_rng(s).standard_normal((s, 3)).astype(np.float32)
        y, twice = verified(x, ["ab"] * s)
        np.testing.assert_allclose(y, np.exp(x) + x, rtol=1e-5)
        assert twice.tolist() == ["abab"] * s


def test_states_are_followed() -> None:
    verified = afterglow.compile(afterglow.parse_module(networks.COUNTER), verify=True)
    one = np.ones(3, np.float32)
    assert [verified(one)[0] for _ in range(3)] == [0, 1, 2]


def test_lent_inputs_are_followed() -> None:
    nodes = [node("Exp", ["x"], ["a"]), node("Softmax", ["a"], ["b"]), node("Neg", ["b"], ["y"])]
    verified = afterglow.compile(model(nodes), verify=True, donate_inputs=True)
    want = afterglow.compile(model(nodes), verify=False)(X)
    np.testing.assert_array_equal(verified(X.copy()), want)


def test_a_wrong_kernel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """All products that a matmul puts are too large by one."""
    entry = ENTRIES[MatMul]
    put = SinkRow.put

    def wrong_put(self: SinkRow, column, value: Value, mask: Value | None = None) -> None:
        put(self, column, value + 1, mask)

    def wrong(r: KernelRequest) -> list[Algorithm]:
        return [replace(right, write=partial(write_wrong, right)) for right in entry.algorithms(r)]

    def write_wrong(right: Algorithm, kernel: Kernel) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(SinkRow, "put", wrong_put)
            right.write(kernel)

    monkeypatch.setitem(ENTRIES, MatMul, replace(entry, algorithms=wrong))
    source = model(
        [node("Neg", ["x"], ["n"]), node("MatMul", ["n", "w"], ["m"]), node("Exp", ["m"], ["y"])],
        constants={"w": np.eye(3, dtype=np.float32)[::-1].copy()},
    )
    compiled = afterglow.compile(source, verify=True, optimize=False, cache=False)
    with pytest.raises(VerifyError) as caught:
        compiled(X)
    error = caught.value
    assert "writes something else to %m than its ops mean" in error.what
    assert error.excerpt[0].startswith("matmul ")
    assert error.excerpt[-1] == "6 of 6 elements differ, by up to 1"
    assert error.help == "this is a fault of the compiler; backend='interpreter' is not affected"


def array(*values: object, dtype: str = "float32") -> np.ndarray:
    return np.array(values, dtype)


def test_differences() -> None:
    inf, nan = np.inf, np.nan
    assert _difference(array(1, inf, nan), array(1.00001, inf, nan)) == ""
    assert _difference(array(1, inf), array(1, -inf)).startswith("1 of 2 elements differ")
    assert _difference(array(1, nan), array(1, 2)).startswith("1 of 2 elements differ")
    assert _difference(array(1, 2), array(1, nan)).startswith("1 of 2 elements differ")
    assert _difference(array(1, 2, dtype="int8"), array(1, 3, dtype="int8")) == (
        "1 of 2 elements differ"
    )
    assert _difference(array("a", dtype="object"), array("b", dtype="object")) == (
        "1 of 1 elements differ"
    )
    assert _difference(array(), array()) == ""
    assert _difference(array(1), array(1.001), rounded=True) == ""
    assert _difference(array(1), array(1.001)).startswith("1 of 1 elements differ")
    assert _difference(array(1j, dtype="complex64"), array(1j, dtype="complex64")) == ""
