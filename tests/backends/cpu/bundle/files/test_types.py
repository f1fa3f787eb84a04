"""States, and inputs and outputs of all kinds of elements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import afterglow
from afterglow.backends.cpu.bundle.files import write_bundle
from tests.backends.cpu import networks
from tests.backends.cpu.bundle.files.building import build, bundle_code, compiler, export, run
from tests.frontends.models import info, model, node

KINDS = {
    "float": TensorProto.FLOAT,
    "double": TensorProto.DOUBLE,
    "half": TensorProto.FLOAT16,
    "bfloat": TensorProto.BFLOAT16,
    "byte": TensorProto.UINT8,
    "short": TensorProto.INT16,
    "int": TensorProto.INT32,
    "long": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}


def mixed() -> onnx.ModelProto:
    """One input and one output of each kind; each output is its input, reversed."""
    nodes, inputs, outputs = [], [], []
    for name, kind in KINDS.items():
        inputs.append(info(f"{name}_in", (3, 5), kind))
        outputs.append(info(f"{name}_out", (5, 3), kind))
        nodes.append(node("Transpose", [f"{name}_in"], [f"{name}_out"], perm=[1, 0]))
    return model(nodes, inputs=inputs, outputs=outputs)


@pytest.mark.parametrize("target", ["x86-64", "host"])
def test_elements_of_all_kinds(target: str, tmp_path: Path) -> None:
    compiler()
    bundle = write_bundle(bundle_code(mixed(), "net", target), tmp_path, shared=True)
    assert bundle.library is not None
    loaded = afterglow.load(bundle.library)
    random = np.random.default_rng(0)
    feed = {
        each.name: random.integers(0, 2, each.shape).astype(each.dtype.numpy)
        for each in loaded.inputs
    }
    for x, y in zip(feed.values(), loaded.run(None, feed), strict=True):
        assert y.dtype == x.dtype
        assert (y == x.T).all()


def test_the_self_check_knows_all_kinds(tmp_path: Path) -> None:
    export(mixed(), tmp_path, "net", "x86-64")
    program = build(tmp_path, [tmp_path / name for name in ("main.c", "pool.c", "net.o")])
    assert "self-check passed" in run(program, "--self-check")
    files = []
    for name in KINDS:
        dtype = {"bfloat": "u2", "half": "f2", "float": "f4", "double": "f8", "bool": "?"}
        dtype |= {"byte": "u1", "short": "i2", "int": "i4", "long": "i8"}
        array = (np.arange(15) % 2).astype(dtype[name]).reshape(3, 5)
        array.tofile(tmp_path / name)
        files.append(f"{name}_in={tmp_path / name}")
    said = run(program, *files)
    assert "long_out[" in said


COUNTER = """
state @total : f32[4]

func @main(%x: f32[4]) {
  %sum = add(%x, @total) : f32[4]
  store %sum to @total
  return %sum
}
"""


def test_states_are_the_callers(tmp_path: Path) -> None:
    export(afterglow.parse_module(COUNTER), tmp_path, "net")
    header = (tmp_path / "net.h").read_text()
    assert "float *total; /* state f32[4] */" in header
    assert "#define NET_STATE_TOTAL_BYTES 16" in header
    program = build(tmp_path, [tmp_path / name for name in ("main.c", "pool.c", "net.o")])
    run(program, "--self-check")
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float32))
    out = tmp_path / "y.npy"
    run(program, f"x={tmp_path / 'x.npy'}", "--repeat", 3, "--output", f"sum={out}")
    assert np.load(out).tolist() == [0, 3, 6, 9]


def test_control_flow_runs(tmp_path: Path) -> None:
    export(networks.loop(), tmp_path, "net")
    program = build(tmp_path, [tmp_path / name for name in ("main.c", "pool.c", "net.o")])
    assert "self-check passed" in run(program, "--self-check")


def test_tensors_may_be_empty(tmp_path: Path) -> None:
    nodes = [node("Concat", ["none", "x"], ["y"], axis=0), node("Neg", ["none"], ["nothing"])]
    source = model(
        nodes,
        inputs=[info("none", (0, 3)), info("x", (2, 3))],
        outputs=[info("y", (2, 3)), info("nothing", (0, 3))],
    )
    export(source, tmp_path, "net")
    program = build(
        tmp_path, [tmp_path / name for name in ("main.c", "pool.c", "net.o")], sanitize=True
    )
    run(program, "--self-check")
    np.save(tmp_path / "none.npy", np.zeros((0, 3), np.float32))
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    files = [f"{name}={tmp_path / name}.npy" for name in ("none", "x")]
    assert "y[5] = 5" in run(program, *files)


def test_nothing_may_be_left_to_do(tmp_path: Path) -> None:
    nodes = [node("Neg", ["x"], ["y"])]
    shapes = {"inputs": [info("x", (0, 3))], "outputs": [info("y", (0, 3))]}
    export(model(nodes, **shapes), tmp_path, "net")
    program = build(tmp_path, [tmp_path / name for name in ("main.c", "pool.c", "net.o")])
    assert "self-check passed" in run(program, "--self-check")
