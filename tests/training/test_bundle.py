"""Bundles that train: the same numbers as here, on machines of other kinds and in C."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import afterglow as ag
from afterglow import nn
from afterglow.backends.cpu.bundle.bundler import CpuBundle
from afterglow.backends.cpu.bundle.code import BundleCode, EntryCode
from afterglow.driver.bundles import compile_functions
from afterglow.driver.options import Options
from afterglow.runtime.bundle import BundleRequest
from afterglow.training.bundle import export_training, training_entries
from afterglow.training.programs import Memory
from afterglow.training.step import Recipe, training_step
from afterglow.types import Array
from tests.emulation.make import make_machine, skip_without_emulator
from tests.training.test_step import SquaredError, feed, line

Feed = Mapping[str, Array]
STEPS = 4
RATE = np.array(0.02, np.float32)
WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3) / 8


def entries() -> dict[str, ag.Module]:
    recipe = Recipe(SquaredError(), ag.optim.SGD(momentum=0.9))
    step = training_step(line(WEIGHT), recipe)
    return training_entries(line(WEIGHT), step, step.initial({"weight": WEIGHT}))


def trained_here(modules: Mapping[str, ag.Module], given: Feed) -> tuple[list[float], Array]:
    """The losses, and the output after them."""
    model, judge, first = (ag.compile(modules[name]) for name in ("train_step", "infer", "init"))
    memory = Memory({})
    for each in (model, judge, first):
        memory.join(each.compiled)
    first()
    losses = [float(model(**given, lr=RATE)) for _ in range(STEPS)]
    return losses, judge(x=given["x"])


def convolution() -> dict[str, ag.Module]:
    """The entries of a network with a batch norm and a dropout."""
    norm = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm(2), nn.ReLU())
    network = nn.Sequential(norm, nn.Dropout(0.3), nn.Flatten(), nn.Linear(2, 3))
    module = network.module({"x": (4, 1, 3, 3)})
    step = training_step(module, Recipe(ag.optim.CrossEntropy(), ag.optim.SGD(momentum=0.9)))
    weights = {p.name: module.constants[p.name].data for p in step.parameters}
    return training_entries(module, step, step.initial(weights))


def images() -> Feed:
    x = np.random.default_rng(0).standard_normal((4, 1, 3, 3)).astype(np.float32)
    return {"x": x, "labels": np.array([0, 1, 2, 1])}


class Board:
    """The memory of an emulated machine with a bundle and its state."""

    def __init__(self, code: BundleCode) -> None:
        self.code = code
        exports = [f"{entry.prefix}_run" for entry in code.entries]
        self.machine = make_machine([code.object], exports, code.target)
        self.weights = self.machine.allocate(code.weights.nbytes, code.alignment)
        self.machine.write(self.weights, code.weights.tobytes())
        self.states: dict[str, int] = {}

    def run(self, name: str, inputs: Mapping[str, Array]) -> list[Array]:
        entry = next(e for e in self.code.entries if e.prefix.endswith(name))
        interface = entry.interface
        places = [self._write(inputs[given]) for given in entry.input_names]
        outputs = [self.machine.allocate(port.type.nbytes) for port in interface.outputs]
        word = self.code.target.pointer_bits // 8
        pointers = [*places, *outputs, *self._states(entry)]
        io = self.machine.allocate(len(pointers) * word)
        self.machine.write(io, b"".join(p.to_bytes(word, "little") for p in pointers))
        arena = self.machine.allocate(entry.layout.size, self.code.alignment)
        assert self.machine.call(f"{entry.prefix}_run", io, arena, self.weights) == 0
        return [
            np.frombuffer(
                self.machine.read(place, port.type.nbytes), port.type.dtype.numpy
            ).reshape(port.type.shape)
            for place, port in zip(outputs, interface.outputs, strict=True)
        ]

    def _write(self, array: Array) -> int:
        place = self.machine.allocate(array.nbytes)
        self.machine.write(place, np.ascontiguousarray(array).tobytes())
        return place

    def _states(self, entry: EntryCode) -> list[int]:
        for port in entry.interface.states:
            if port.name not in self.states:
                self.states[port.name] = self.machine.allocate(port.type.nbytes)
        return [self.states[port.name] for port in entry.interface.states]


@pytest.mark.parametrize(
    ("target", "modules", "given"),
    [
        ("cortex-m4", entries, feed),
        ("aarch64", entries, feed),
        pytest.param("cortex-m4", convolution, images, marks=pytest.mark.slow),
    ],
)
def test_a_bundle_learns_on_an_emulated_machine(
    target: str, modules: Callable[[], dict[str, ag.Module]], given: Callable[[], Feed]
) -> None:
    skip_without_emulator(target)
    request = BundleRequest(target, "net", freestanding=True)
    bundle = compile_functions(modules(), Options(), request)
    assert isinstance(bundle, CpuBundle)
    board = Board(bundle.code)
    board.run("init", {})
    losses = [board.run("train_step", {**given(), "lr": RATE})[0] for _ in range(STEPS)]
    (output,) = board.run("infer", {"x": given()["x"]})
    wanted, expected = trained_here(modules(), given())
    assert np.allclose(np.ravel(losses), wanted, rtol=1e-5)
    assert np.allclose(output, expected, rtol=1e-5, atol=1e-6)


PROGRAM = """
#include "net.h"
#include <stdio.h>
static _Alignas(NET_ARENA_ALIGN) char arena[NET_ARENA_BYTES];
static _Alignas(NET_ARENA_ALIGN) char state[NET_STATE_BYTES];
static const float x[] = {%s}, target[] = {%s};
int main(void) {
    float loss, y[NET_INFER_OUTPUT_Y_COUNT], lr = 0.02f;
    net_init_io init;
    net_init_bind(&init, state);
    if (net_init_run(&init, arena)) return 1;
    net_train_step_io step = {.x = x, .target = target, .lr = &lr, .loss = &loss};
    net_train_step_bind(&step, state);
    for (int i = 0; i < %d; i++) {
        if (net_train_step_run(&step, arena)) return 2;
        printf("%%.9g\\n", loss);
    }
    net_infer_io infer = {.x = x, .y = y};
    net_infer_bind(&infer, state);
    if (net_infer_run(&infer, arena)) return 3;
    for (int i = 0; i < NET_INFER_OUTPUT_Y_COUNT; i++) printf("%%.9g\\n", y[i]);
    return 0;
}
"""


def test_a_c_program_trains_and_infers_with_one_block_of_state(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    request = BundleRequest("host", "net", embed_weights=True)
    export_training(entries(), tmp_path, request, Options())
    x, target = (", ".join(f"{v!r}f" for v in feed()[n].ravel().tolist()) for n in ("x", "target"))
    (tmp_path / "learn.c").write_text(PROGRAM % (x, target, STEPS))
    build = [sys.executable, "-m", "ziglang", "cc", "learn.c", "net.o", "-o", "learn"]
    subprocess.run(build, cwd=tmp_path, check=True)
    printed = subprocess.run(["./learn"], cwd=tmp_path, check=True, capture_output=True, text=True)
    numbers = [float(line) for line in printed.stdout.split()]
    losses, output = trained_here(entries(), feed())
    assert np.allclose(numbers, [*losses, *output.ravel()], rtol=1e-6)


def test_a_library_that_trains_is_no_model_to_load(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    network = nn.Sequential(nn.Linear(3, 2)).module({"x": (4, 3)})
    trainer = ag.Trainer(network, "mse", ag.optim.SGD(lr=0.1), threads=1)
    library = trainer.export_bundle(tmp_path, name="net", shared=True).library
    assert library is not None
    with pytest.raises(ag.UsageError) as caught:
        ag.load(library)
    assert caught.value.what == (
        f"{library}: the library is no single model: it has the functions "
        "net_train_step, net_infer, net_init"
    )


def test_a_bundle_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    network = nn.Linear(3, 2).module({"x": (4, 3)})
    trainer = ag.Trainer(network, "mse", ag.optim.SGD(lr=0.1), backend="interpreter")
    with pytest.raises(ag.UsageError) as caught:
        trainer.export_bundle(tmp_path, name=5)
    assert caught.value.what == "the name of a bundle must be a text, got 5"
    assert caught.value.help == 'write name="model": its C functions begin with that'


def test_a_trainer_writes_a_bundle_that_goes_on_from_its_weights(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Linear(3, 2)).module({"x": (4, 3)})
    trainer = ag.Trainer(network, "mse", ag.optim.SGD(lr=0.1), threads=1)
    bundle = trainer.export_bundle(tmp_path, name="net", infer_batch=1)
    entries = bundle.description["entries"]
    assert [entry["prefix"] for entry in entries] == ["net_train_step", "net_infer", "net_init"]
    assert entries[0]["inputs"][0]["shape"] == [4, 3]
    assert entries[1]["inputs"][0]["shape"] == [1, 3]
    assert bundle.description["state"]["offsets"].keys() >= {"0.weight", "0.bias", "step"}
    weights = (tmp_path / "net.weights").read_bytes()
    assert trainer.parameters["0.weight"].tobytes() in weights
    header = (tmp_path / "net.h").read_text()
    assert "net_init_run fills it, before all others." in header


def test_the_step_of_a_bundle_gives_the_loss_alone_whatever_is_measured_here(
    tmp_path: Path,
) -> None:
    network = nn.Linear(3, 2).module({"x": (4, 3)})
    trainer = ag.Trainer(network, "mse", ag.optim.SGD(lr=0.1), threads=1, metrics="mae")
    entry = trainer.export_bundle(tmp_path, name="net").description["entries"][0]
    assert [output["name"] for output in entry["outputs"]] == ["loss"]
