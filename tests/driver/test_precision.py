"""Weights of whole models held in 16 bits: numbers, memory, files, targets, options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.support.errors import ModelError, UsageError
from afterglow.types import Array
from tests.backends.cpu import networks
from tests.frontends.models import BOOL, INT64, info, model, node

HALVES = ["weights_bf16", "weights_f16"]
TOLERANCE = {"weights_bf16": 2e-2, "weights_f16": 2e-3}
"""How far outputs of the network below are from those in f32, relative to the largest."""
IDS = np.array([[3, 77, 199, 0]], np.int64)
WIDTH = 128


def network() -> onnx.ModelProto:
    """A table of embeddings, an LSTM, and a product of few rows: all that is held in 16 bits."""
    nodes = [
        node("Gather", ["table", "ids"], ["rows"]),
        node("Transpose", ["rows"], ["steps"], perm=[1, 0, 2]),
        node("LSTM", ["steps", "w", "r"], ["", "h"], hidden_size=WIDTH),
        node("Squeeze", ["h", "axis"], ["state"]),
        node("MatMul", ["state", "out"], ["y"]),
    ]
    constants = {
        "table": networks.weights(200, WIDTH),
        "w": networks.weights(1, 4 * WIDTH, WIDTH) * 8,
        "r": networks.weights(1, 4 * WIDTH, WIDTH) * 8,
        "axis": np.array([0]),
        "out": networks.weights(WIDTH, 201),
    }
    return model(
        nodes,
        inputs=[info("ids", (1, 4), INT64)],
        outputs=[info("y", (1, 201))],
        constants=constants,
    )


NETWORK = network()


def compiled(**options: Any) -> Any:
    return afterglow.compile(NETWORK, cache=False, **options)


def error(found: Array, wanted: Array) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("precision", HALVES)
def test_machine_code_and_interpreter_agree(precision: str) -> None:
    plain = compiled()(IDS)
    wanted = compiled(precision=precision, backend="interpreter")(IDS)
    assert 0 < error(wanted, plain) < TOLERANCE[precision]
    for options in (
        {},
        {"exact": True},
        {"optimize_for": "memory"},
        {"threads": 2},
        {"tune": 0.01},
        {"verify": True},
        {"max_arena": "64KiB"},
        {"target": "x86-64-v3"},
    ):
        found = compiled(precision=precision, **options)(IDS)
        assert error(found, wanted) < 1e-5


def test_without_optimisations_too() -> None:
    plain, wanted, found = (
        compiled(optimize=False, **options)(IDS)
        for options in (
            {},
            {"precision": "weights_bf16", "backend": "interpreter"},
            {"precision": "weights_bf16"},
        )
    )
    assert error(plain, wanted) > 1e-4
    assert error(found, wanted) < 1e-5


@pytest.mark.parametrize("precision", HALVES)
def test_memory_and_files_are_smaller(precision: str, tmp_path: Path) -> None:
    sizes = {}
    for wish in ("float32", precision):
        made = compiled(precision=wish)
        made.save(tmp_path / "model.agc")
        made.export_bundle(tmp_path / wish)
        weights = next((tmp_path / wish).glob("*.weights"))
        file = (tmp_path / "model.agc").stat().st_size
        sizes[wish] = np.array([made.memory.weight_bytes, file, weights.stat().st_size])
        np.testing.assert_array_equal(afterglow.load(tmp_path / "model.agc")(IDS), made(IDS))
    assert (sizes[precision] < 0.6 * sizes["float32"]).all()


def test_threads_change_no_bit() -> None:
    one, two = (compiled(precision="weights_bf16", threads=n)(IDS) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_all_products_where_memory_counts() -> None:
    rows = networks.mlp()  # so many that most of the time is arithmetic
    plain, fast, small = (
        afterglow.compile(rows, cache=False, precision=precision, optimize_for=wish).memory
        for precision, wish in (
            ("float32", "memory"),
            ("weights_bf16", "speed"),
            ("weights_bf16", "memory"),
        )
    )
    assert small.weight_bytes < 0.55 * plain.weight_bytes
    assert fast.weight_bytes >= plain.weight_bytes


@pytest.mark.parametrize("target", ["aarch64", "cortex-m4", "riscv64", "wasm32"])
def test_bundles_for_other_targets(target: str, tmp_path: Path) -> None:
    made = compiled(precision="weights_bf16")
    plain = compiled().export_bundle(tmp_path / "plain", target=target)
    small = made.export_bundle(tmp_path / "small", target=target)
    sizes = [next(bundle.folder.glob("*.weights")).stat().st_size for bundle in (plain, small)]
    assert sizes[1] < 0.6 * sizes[0]


def test_the_body_of_a_branch_too(tmp_path: Path) -> None:
    def branch(name: str, weight: str) -> onnx.GraphProto:
        inner = [node("MatMul", ["x", weight], [f"{name}.y"])]
        return onnx.helper.make_graph(inner, name, [], [info(f"{name}.y", (1, WIDTH))])

    made = model(
        [
            node(
                "If", ["c"], ["y"], then_branch=branch("then", "a"), else_branch=branch("else", "b")
            )
        ],
        inputs=[info("x", (1, WIDTH)), info("c", (), BOOL)],
        outputs=[info("y", (1, WIDTH))],
        constants={name: networks.weights(WIDTH, WIDTH) for name in "ab"},
    )
    both = [afterglow.compile(made, cache=False, precision=p) for p in ("float32", "weights_bf16")]
    assert both[1].memory.weight_bytes < 0.6 * both[0].memory.weight_bytes
    x = np.ones((1, WIDTH), np.float32)
    wanted, found = (each(x, np.array(True)) for each in both)
    assert 0 < error(found, wanted) < 1e-2


def test_weights_that_a_model_has_in_16_bits_lose_nothing() -> None:
    half = networks.weights(WIDTH, WIDTH).astype(np.float16)
    x = networks.weights(2, WIDTH).astype(np.float16)
    made = model(
        [node("MatMul", ["x", "w"], ["y"])],
        inputs=[info("x", (2, WIDTH), onnx.TensorProto.FLOAT16)],
        outputs=[info("y", (2, WIDTH), onnx.TensorProto.FLOAT16)],
        constants={"w": half},
    )
    plain, small = (
        afterglow.compile(made, cache=False, precision=p) for p in ("float32", "weights_f16")
    )
    np.testing.assert_array_equal(plain(x), small(x))
    assert small.memory.weight_bytes == plain.memory.weight_bytes / 2


def test_what_cannot_be_had() -> None:
    with pytest.raises(UsageError, match="no precision 'int4'") as caught:
        compiled(precision="int4")
    assert caught.value.help.startswith("there are float32, weights_bf16, weights_f16")
    with pytest.raises(UsageError, match="'wasm32' has no instructions that convert f16"):
        compiled(precision="weights_f16", target="wasm32")
    compiled(precision="weights_f16", backend="interpreter")
    with pytest.raises(UsageError, match="keep must be a list of names, got 'a'"):
        compiled(precision="float16", keep="a")
    with pytest.raises(UsageError, match="precision 'dynamic_int8' keeps no nodes apart"):
        compiled(precision="dynamic_int8", keep=["a"])


@pytest.mark.parametrize("kind", ["MatMul", "Gemm"])
def test_models_may_not_mix_types_themselves(kind: str) -> None:
    made = model(
        [node(kind, ["x", "w"], ["y"])],
        inputs=[info("x", (2, 3))],
        outputs=[info("y", (2, 4))],
        constants={"w": np.ones((3, 4), np.float16)},
    )
    with pytest.raises(ModelError, match="inputs 0 and 1 must hold the same elements"):
        afterglow.compile(made, cache=False)
