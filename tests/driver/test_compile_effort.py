"""How much work compiling is, counted rather than timed."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import afterglow as ag
from afterglow.backends.cpu.codegen import kernel_cache
from afterglow.backends.cpu.llvm.emitter import Module
from afterglow.backends.cpu.target import Target

CLASSES = """
import sys
import afterglow.driver.compile
import afterglow.frontends.onnx.source
from dataclasses import Field
found = {each for name, module in list(sys.modules.items()) if name.startswith("afterglow")
         for each in vars(module).values() if isinstance(each, type)}
declared = [each for each in found if "__dataclass_fields__" in vars(each)]
made = [each for each in declared if isinstance(vars(each)["__dataclass_fields__"], dict)]
print(len(declared), len(made))
"""

PEAK = """
import resource, sys
import afterglow
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
afterglow.compile(sys.argv[1], cache=False, threads=1)
before = peak()
afterglow.compile(sys.argv[2], cache=False, threads=1)
print(peak() - before)
"""


def _layers(path: Path, count: int, width: int) -> Path:
    """A model of equal layers, each with a weight of its own."""
    rng = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for number in range(count):
        data = rng.standard_normal((width, width), np.float32) / width
        weights.append(onnx.numpy_helper.from_array(data, f"w{number}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{number}"], [f"p{number}"]))
        nodes.append(helper.make_node("Tanh", [f"p{number}"], [f"t{number}"]))
        value = f"t{number}"
    shape = [4, width]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "layers", [x], [y], weights)
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return path


def _calls(path: Path) -> int:
    """Calls of Python functions while a model is compiled."""
    count = 0

    def note(_frame: object, event: str, _: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        ag.compile(path, cache=False)
    finally:
        sys.setprofile(None)
    return count


def _printed(code: str, *arguments: str) -> list[int]:
    command = [sys.executable, "-c", code, *arguments]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(word) for word in shown.stdout.split()]


def test_equal_layers_are_emitted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Module] = []
    genuine = kernel_cache.compile_module

    def noted(module: Module, target: Target) -> bytes:
        compiled.append(module)
        return genuine(module, target)

    monkeypatch.setattr(kernel_cache, "compile_module", noted)
    counts = []
    for layers in (1, 1, 8):  # once more than counts: the pool of threads is compiled once
        compiled.clear()
        ag.compile(_layers(tmp_path / "m.onnx", layers, 32), cache=False)
        counts.append(len(compiled))
    counts = counts[1:]
    assert counts[0] >= 2
    assert counts[1] <= counts[0] + 2  # the first and the last layer may differ from others


def test_work_is_proportional_to_the_number_of_nodes(tmp_path: Path) -> None:
    few, many = (_layers(tmp_path / f"{n}.onnx", n, 8) for n in (40, 160))
    _calls(few)  # imports, and classes that are completed
    assert _calls(many) < 4 * 1.15 * _calls(few)


def test_importing_the_compiler_completes_few_data_classes() -> None:
    declared, made = _printed(CLASSES)
    assert declared > 400
    assert made < declared / 3


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as Linux tells it")
def test_a_model_is_in_memory_about_once_when_it_is_compiled(tmp_path: Path) -> None:
    small = _layers(tmp_path / "small.onnx", 4, 64)
    large = _layers(tmp_path / "large.onnx", 8, 1536)
    (growth,) = _printed(PEAK, str(small), str(large))
    assert growth < 1.5 * large.stat().st_size


def test_garbage_is_searched_for_once_after_a_model_is_compiled(tmp_path: Path) -> None:
    path = _layers(tmp_path / "layers.onnx", 12, 8)
    ag.compile(path, cache=False)
    searches = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            searches.append(info["generation"])

    gc.callbacks.append(note)
    try:
        ag.compile(path, cache=False)
    finally:
        gc.callbacks.remove(note)
    assert len(searches) < 10
