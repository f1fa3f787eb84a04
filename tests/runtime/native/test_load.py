"""Loading: the code runs, finds its imports, is protected, and goes away."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from afterglow.backends.cpu import Module, Target, compile_module
from afterglow.backends.cpu.link import link
from afterglow.backends.cpu.llvm.math import exp
from afterglow.runtime.native.image import Image
from afterglow.runtime.native.load import FilePart, Loaded, load_image
from afterglow.runtime.native.perf import write_perf_map
from afterglow.support.container import read_container, write_container
from afterglow.support.errors import CompileError, UsageError
from afterglow.types.dtype import f32
from tests.backends.cpu.link.samples import (
    CALLER,
    COUNTER,
    IMPORTER,
    NUMBER,
    SWITCH,
    TABLE_OF_FUNCTIONS,
    build,
    constant,
)
from tests.backends.cpu.running import HOST, RUNNABLE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="images are loaded only on Linux")

ROOT = Path(__file__).parents[3]
OUTSIDE = ctypes.CFUNCTYPE(NUMBER)(lambda: 41)
OUTSIDE_AT = ctypes.cast(OUTSIDE, ctypes.c_void_p).value or 0


def load(text: str | list[str], **imports: int) -> Loaded:
    texts = [text] if isinstance(text, str) else text
    return load_image(link([build(t) for t in texts], [], imports), imports)


def kernels(target: Target) -> Image:
    """Two modules with a function of vectors each, their constants and helpers."""
    objects = []
    for name, factor in (("exp_one", 1.0), ("exp_two", 2.0)):
        module = Module(target)
        with module.function(name) as e:
            x = e.pointer("x", f32)
            x.store(exp(x.load(0, e.lanes(f32)) * factor))
        objects.append(compile_module(module, target))
    return link(objects, ["exp_one", "exp_two"])


def stored(image: Image, path: Path, before: int = 0) -> FilePart:
    path.write_bytes(b"?" * before + image.code + b"?" * 100)
    return FilePart(os.open(path, os.O_RDONLY), before)


@pytest.mark.parametrize("name", RUNNABLE)
def test_kernels_compute(name: str) -> None:
    loaded = load_image(kernels(Target.of(name)))
    for kernel, factor in (("exp_one", 1), ("exp_two", 2)):
        x = np.linspace(-2, 2, 64, dtype=np.float32)
        lanes = Target.of(name).vector_bits // 32
        expected = np.exp(factor * x[:lanes])
        loaded.function(kernel, ctypes.c_void_p)(x.ctypes.data)
        np.testing.assert_allclose(x[:lanes], expected, rtol=1e-6)


def test_files_call_each_other_and_locals_stay_apart() -> None:
    loaded = load([constant("first", 5), CALLER, constant("second", 7)])
    assert loaded.function("both", result=NUMBER)() == 5007


def test_each_image_has_data_of_its_own() -> None:
    image = link([build(COUNTER)], ["count"])
    one, two = (load_image(image).function("count", result=NUMBER) for _ in range(2))
    assert [one(), one(), two(), one()] == [3, 6, 3, 9]
    assert [one() for _ in range(40)][-1] == 100


def test_jump_tables() -> None:
    function = load(SWITCH).function("switch", NUMBER, result=NUMBER)
    assert [function(i) for i in range(-1, 6)] == [-1, 7, 11, 13, 17, 19, -1]


def test_pointers_to_functions() -> None:
    function = load(TABLE_OF_FUNCTIONS, outside=OUTSIDE_AT).function(
        "choose", NUMBER, result=NUMBER
    )
    assert [function(0), function(1)] == [1, 41]


def test_imports() -> None:
    loaded = load(IMPORTER, outside=OUTSIDE_AT)
    assert loaded.function("call", result=NUMBER)() == 42
    assert loaded.function("address", result=ctypes.c_void_p)() == OUTSIDE_AT
    source, copy = np.arange(100), np.zeros(100, np.int64)
    arguments = [ctypes.c_void_p, ctypes.c_void_p, NUMBER]
    loaded.function("copy", *arguments)(copy.ctypes.data, source.ctypes.data, source.nbytes)
    assert (copy == source).all()


def test_no_address_is_stored() -> None:
    image = link([build(IMPORTER)], ["call"], {"outside": OUTSIDE_AT})
    assert OUTSIDE_AT.to_bytes(8, "little") not in image.to_bytes()
    with pytest.raises(CompileError) as caught:
        load_image(image)
    assert caught.value.what == "the image calls 'outside': no address was given"


@pytest.mark.parametrize("before", [0, 4096, 100], ids=["start", "page", "unaligned"])
def test_images_are_mapped_from_files(tmp_path: Path, before: int) -> None:
    image = link([build(IMPORTER), build(COUNTER), build(constant("first", 5))], [], ["outside"])
    part = stored(image, tmp_path / "image", before)
    content = (tmp_path / "image").read_bytes()
    loaded = load_image(image, {"outside": OUTSIDE_AT}, part)
    os.close(part.descriptor)
    assert loaded.function("call", result=NUMBER)() == 42
    assert loaded.function("first", result=NUMBER)() == 5
    count = loaded.function("count", result=NUMBER)
    assert [count(), count()] == [3, 6]
    assert (tmp_path / "image").read_bytes() == content
    assert any("image" in line for line in mappings(loaded)) == (before % mmap.PAGESIZE == 0)


def test_images_are_mapped_from_saved_models(tmp_path: Path) -> None:
    image = link([build(COUNTER), build(constant("first", 5))], ["count", "first"])
    write_container(tmp_path / "model", image.describe(), {"other": b"?", "code": image.code})
    container = read_container(tmp_path / "model")
    found = Image.of(container.metadata, container.section("code"))
    assert found == image
    loaded = load_image(found, file=FilePart(*container.locate("code")))
    assert any("model" in line for line in mappings(loaded))
    assert loaded.function("first", result=NUMBER)() == 5
    assert loaded.function("count", result=NUMBER)() == 3


def mappings(loaded: Loaded) -> list[str]:
    """Lines of the system's list of mappings that belong to an image."""
    ends = loaded.address + loaded.image.size
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if start < ends and end > loaded.address:
            found.append(line)
    return found


def test_nothing_is_writable_and_executable() -> None:
    loaded = load([IMPORTER, COUNTER, constant("first", 5)], outside=OUTSIDE_AT)
    rights = [line.split()[1] for line in mappings(loaded)]
    assert rights[:2] == ["r-xp", "r--p"]
    assert rights[2].startswith("rw-")


def test_an_image_is_unmapped_with_its_last_function() -> None:
    gc.collect()
    image = link([build(constant("first", 5))], ["first"])
    function = load_image(image).function("first", result=NUMBER)
    address = function.library.address
    assert function() == 5
    assert is_mapped(address)
    del function
    gc.collect()
    assert not is_mapped(address)


def is_mapped(address: int) -> bool:
    return any(
        line.startswith(f"{address:x}-")
        for line in Path("/proc/self/maps").read_text().splitlines()
    )


def test_the_process_ends_cleanly_with_code_loaded() -> None:
    text = (
        "from tests.runtime.native.test_load import *; x = load(COUNTER);"
        "print(x.function('count', result=NUMBER)())"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "3\n"


def test_code_for_another_machine_is_refused() -> None:
    image = link([build(constant("first", 5))], ["first"])
    other = "aarch64" if HOST.architecture == "x86" else "x86"
    with pytest.raises(UsageError, match=r"the image is code for \w+ and does not run on"):
        load_image(replace(image, machine=other))


def test_names_for_the_profiler(tmp_path: Path) -> None:
    loaded = load([constant("first", 5), constant("second", 7)])
    path = write_perf_map(loaded, tmp_path)
    write_perf_map(loaded, tmp_path)
    assert path.name == f"perf-{os.getpid()}.map"
    lines = path.read_text().splitlines()
    assert lines[:4] == lines[4:]
    start, size, name = lines[1].split()
    assert (int(start, 16), name) == (loaded.addresses["first"], "first")
    assert int(size, 16) == loaded.image.sizes["first"]
