"""Shared libraries of bundles, loaded back into Python."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

import afterglow
from afterglow.backends.cpu.bundle.files import write_bundle
from afterglow.backends.cpu.bundle.files.shared import library_name, link_library
from afterglow.backends.cpu.bundle.files.systems import zig_target
from afterglow.backends.cpu.target import Target
from afterglow.runtime.bundle import Bundle
from afterglow.support.errors import UsageError
from tests.backends.cpu.bundle.files.building import (
    bundle_code,
    compiler,
    interpreted,
    random_inputs,
)
from tests.emulation.models import MODELS


@pytest.fixture(scope="module", params=[False, True], ids=["weights-file", "embedded"])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    compiler()
    code = bundle_code(MODELS["cnn"](), "net", "host", embed_weights=request.param)
    return write_bundle(code, tmp_path_factory.mktemp("bundle"), shared=True)


def test_a_library_computes_what_the_model_does(bundle: Bundle) -> None:
    assert bundle.library is not None
    loaded = afterglow.load(bundle.library)
    x = random_inputs(bundle)[0]
    wanted = interpreted(MODELS["cnn"](), [x])[0]
    np.testing.assert_allclose(loaded(x), wanted, atol=1e-5)
    np.testing.assert_allclose(loaded(x=x[..., ::-1][..., ::-1]), wanted, atol=1e-5)
    entry = bundle.description["entries"][0]
    assert loaded.memory.arena_bytes == entry["planned_bytes"]
    assert loaded.memory.weight_bytes == bundle.description["weights"]["bytes"]
    assert loaded.memory.code_bytes == bundle.description["code_bytes"]


def test_several_threads_run_one_library(bundle: Bundle) -> None:
    assert bundle.library is not None
    loaded = afterglow.load(bundle.library)
    inputs = [random_inputs(bundle, seed)[0] for seed in range(4)]
    wanted = [loaded(x) for x in inputs]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(50):
            if not np.array_equal(loaded(inputs[number]), wanted[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_library_needs_its_name_and_its_weights(tmp_path: Path) -> None:
    compiler()
    bundle = write_bundle(bundle_code(MODELS["mlp"](), "net", "host"), tmp_path, shared=True)
    assert bundle.library is not None
    weights = tmp_path / "net.weights"
    content = weights.read_bytes()
    weights.write_bytes(content[:-64])
    with pytest.raises(UsageError, match="the weights have the wrong size"):
        afterglow.load(bundle.library)
    weights.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(UsageError, match="the weights have the wrong checksum"):
        afterglow.load(bundle.library)
    weights.unlink()
    with pytest.raises(UsageError, match=r"the weights of .* cannot be read"):
        afterglow.load(bundle.library)
    renamed = shutil.copy(bundle.library, tmp_path / "libother.so")
    with pytest.raises(UsageError, match="has no description of a model called 'other'"):
        afterglow.load(renamed)
    with pytest.raises(UsageError, match="cannot be loaded"):
        afterglow.load(tmp_path / "none.so")


@pytest.mark.parametrize(
    ("triple", "wanted"),
    [
        ("x86_64-unknown-linux-gnu", "x86_64-linux-gnu"),
        ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu"),
        ("armv7a-unknown-linux-gnueabihf", "arm-linux-gnueabihf"),
        ("thumbv7em-none-eabihf", "thumb-freestanding-eabihf"),
        ("riscv32-unknown-elf", "riscv32-freestanding"),
        ("wasm32-unknown-unknown", "wasm32-freestanding"),
        ("x86_64-pc-windows-gnu", "x86_64-windows-gnu"),
        ("arm64-apple-macosx11.0.0", "aarch64-macos"),
    ],
)
def test_zig_has_its_own_names_of_machines(triple: str, wanted: str) -> None:
    assert zig_target(triple) == wanted


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("x86-64-v3", "libnet.so"),
        ("wasm32", "net.wasm"),
        ("x86_64-pc-windows-gnu+x86-64-v3", "net.dll"),
        ("arm64-apple-macosx11.0.0+aarch64", "libnet.dylib"),
    ],
)
def test_libraries_are_called_as_their_systems_like(target: str, wanted: str) -> None:
    assert library_name("net", Target.of(target)) == wanted


def damaged(library: Path, folder: Path, content: bytes) -> str:
    """What loading a library says that has other content."""
    for file in library.parent.iterdir():
        shutil.copy(file, folder)
    path = folder / library.name
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        afterglow.load(path)
    return caught.value.what.removeprefix(f"{path} cannot be loaded: ")


def test_a_changed_bit_in_a_library_is_found(bundle: Bundle, tmp_path: Path) -> None:
    assert bundle.library is not None
    whole = bundle.library.read_bytes()
    for place in (5, len(whole) // 2, len(whole) - 6):
        content = whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :]
        said = damaged(bundle.library, tmp_path, content)
        assert said == "it has changed since it was exported: its checksum does not match"


def test_a_truncated_library_is_not_loaded(bundle: Bundle, tmp_path: Path) -> None:
    assert bundle.library is not None
    whole = bundle.library.read_bytes()
    for size in (6, 63, 64, 200, len(whole) // 3):
        assert damaged(bundle.library, tmp_path, whole[:size]) == "it is truncated"
    assert damaged(bundle.library, tmp_path, b"") == "cannot mmap an empty file"


def test_a_library_without_a_seal_is_loaded(bundle: Bundle, tmp_path: Path) -> None:
    """As it is if another tool has written it."""
    assert bundle.library is not None
    for file in bundle.library.parent.iterdir():
        shutil.copy(file, tmp_path)
    path = tmp_path / bundle.library.name
    path.write_bytes(bundle.library.read_bytes()[:-24])
    x = random_inputs(bundle)[0]
    np.testing.assert_array_equal(afterglow.load(path)(x), afterglow.load(bundle.library)(x))


def test_a_damaged_description_beside_a_library(tmp_path: Path) -> None:
    code = bundle_code(MODELS["mlp"](), "net", "host")
    bundle = write_bundle(code, tmp_path)
    library = tmp_path / "libnet.so"
    link_library([tmp_path / "net.o"], library, code.target)
    assert afterglow.load(library).inputs
    for content in (b"\xff", b"{"):
        (tmp_path / f"{bundle.name}.json").write_bytes(content)
        with pytest.raises(UsageError) as caught:
            afterglow.load(library)
        assert caught.value.what == f"{library}: the description of the model is damaged"
