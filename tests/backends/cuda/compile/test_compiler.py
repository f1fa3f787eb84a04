"""Kernels compiled for GPUs that are not here."""

from __future__ import annotations

import pytest

from afterglow.backends.cuda.compile import (
    Compiled,
    KernelRefusedError,
    compile_kernels,
    compiler,
    try_kernels,
)
from afterglow.backends.cuda.compile.cubin import facts_of
from afterglow.backends.cuda.kernels.kernel import HEAD, KernelSource
from afterglow.backends.cuda.target import KINDS
from afterglow.support.errors import InternalError, UsageError

COPY = """
    i = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    tl.store(p1 + i, tl.load(p0 + i))
"""
PRODUCT = """
    i = tl.arange(0, 64)[:, None]
    j = tl.arange(0, 64)[None, :]
    total = tl.zeros((64, 64), tl.float32)
    for k in range(0, 1024, 64):
        total = tl.dot(tl.load(p0 + i * 1024 + j + k), tl.load(p1 + (i + k) * 64 + j), total)
    tl.store(p2 + i * 64 + j, total.to(tl.float16))
"""
F32 = ("*fp32", "*fp32")
F16 = ("*fp16", "*fp16", "*fp16")


class Cache(dict[str, bytes]):
    """A cache in memory."""

    def put(self, key: str, data: bytes) -> None:
        self[key] = data


def source(name: str, body: str, types=F32, **options) -> KernelSource:
    arguments = ", ".join(f"p{index}" for index in range(len(types)))
    text = f"{HEAD}def {name}({arguments}):\n{body}"
    aligned = (True,) * len(types)
    return KernelSource(name, text, (), types, aligned, (1, 1, 1), **options)


@pytest.fixture
def one_process(monkeypatch):
    monkeypatch.setattr(compiler, "_processes", lambda: 1)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_kernels_compile_without_a_gpu(target):
    sources = [source("copy", COPY), source("product", PRODUCT, F16, warps=8, stages=3)]
    compiled = compile_kernels(sources, KINDS[target])
    assert list(compiled) == ["copy", "product"]
    copy, product = compiled.values()
    assert (copy.symbol, copy.shared, copy.warps) == ("copy", 0, 4)
    assert (product.symbol, product.warps) == ("product", 8)
    # two or three tiles of both operands wait in shared memory
    assert product.shared >= 2 * 2 * 64 * 64 * 2
    assert 0 < copy.registers < product.registers <= 255
    assert copy.cubin.startswith(b"\x7fELF")
    assert facts_of(copy.cubin, "copy").parameter_bytes == 8 * 4


def test_the_cache_is_asked_before_the_compiler(monkeypatch):
    cache = Cache()
    first = compile_kernels([source("copy", COPY)], KINDS["sm_90"], cache)
    monkeypatch.setattr(compiler, "run_jobs", lambda jobs, *_, **__: [None for job in jobs])
    assert compile_kernels([source("copy", COPY)], KINDS["sm_90"], cache) == first
    assert len(cache) == 1


def test_every_option_has_its_own_entry_in_the_cache():
    kinds = [KINDS["sm_90"]] * 5 + [KINDS["sm_80"]]
    sources = [
        source("copy", COPY),
        source("copy", COPY + "    tl.store(p1, 0.0)\n"),
        source("copy", COPY, warps=8),
        source("copy", COPY, stages=3),
        source("copy", COPY, fuses=True),
        source("copy", COPY),
    ]
    keys = {compiler._key(*pair, "") for pair in zip(sources, kinds, strict=True)}
    assert len(keys) == len(sources)


def test_nothing_is_compiled_if_there_is_nothing():
    assert compile_kernels([], KINDS["sm_90"]) == {}


def test_kernels_that_are_refused_do_not_stop_the_others():
    told = []
    outcomes = try_kernels(
        [
            source("wrong", "    tl.store(p1, missing)\n"),
            source("copy", COPY),
            source("large", PRODUCT.replace("64", "128"), F16, stages=4),
        ],
        KINDS["sm_86"],
        progress=lambda done, total: told.append((done, total)),
    )
    assert isinstance(outcomes["copy"], Compiled)
    wrong, large = outcomes["wrong"], outcomes["large"]
    assert isinstance(wrong, KernelRefusedError)
    assert isinstance(large, KernelRefusedError)
    assert "NameError('missing is not defined')" in wrong.why
    assert large.why == "a block needs 196608 bytes of shared memory, sm_86 has 101376"
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_refused_kernel_is_an_error_with_its_text():
    with pytest.raises(InternalError) as caught:
        compile_kernels([source("wrong", "    tl.store(p1, missing)\n")], KINDS["sm_90"])
    assert caught.value.what.startswith("kernel wrong does not compile: CompilationError: at ")
    assert "def wrong(p0, p1):" in caught.value.excerpt


def test_a_process_that_is_killed_is_replaced(tmp_path, one_process):
    once = tmp_path / "once"
    killing = f"""import os, pathlib
once = pathlib.Path({str(once)!r})
if not once.exists():
    once.touch()
    os.kill(os.getpid(), 9)
"""
    copy = source("copy", COPY)
    killer = KernelSource("copy", killing + copy.text, (), F32, (True, True), (1, 1, 1))
    assert compile_kernels([killer], KINDS["sm_90"])["copy"].symbol == "copy"
    assert once.exists()


def test_a_compiler_that_always_crashes_refuses_its_kernel_alone(one_process):
    text = "import os\nos.write(2, b'LLVM ERROR: no such thing')\nos.abort()\n" + 900 * "#"
    crash = KernelSource("crash", text, (), F32, (True, True), (1, 1, 1))
    outcomes = try_kernels([crash, source("copy", COPY)], KINDS["sm_90"])
    refused = outcomes["crash"]
    assert isinstance(refused, KernelRefusedError)
    assert refused.why == "the compiler crashes\nLLVM ERROR: no such thing"
    assert isinstance(outcomes["copy"], Compiled)


def test_a_kernel_that_takes_too_long_is_refused():
    text = "import time\ntime.sleep(100)\n"
    slow = KernelSource("slow", text, (), F32, (True, True), (1, 1, 1))
    refused = try_kernels([slow], KINDS["sm_90"], seconds=0.3)["slow"]
    assert isinstance(refused, KernelRefusedError)
    assert refused.why == "it takes more than 0.3 s to compile"


def test_an_interrupt_stops_all_processes():
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    text = "import time\ntime.sleep(100)\n"
    slow = KernelSource("slow", text, (), F32, (True, True), (1, 1, 1))
    with pytest.raises(KeyboardInterrupt):
        try_kernels([source("copy", COPY), slow], KINDS["sm_90"], progress=interrupt)


def test_compiling_names_the_package_that_is_missing(monkeypatch):
    monkeypatch.setattr(compiler, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        compile_kernels([source("copy", COPY)], KINDS["sm_90"])
    assert caught.value.what == "CUDA needs triton to compile, which is not installed"
    assert caught.value.help == "pip install 'afterglow[cuda]'"


def test_bytes_that_are_no_cubin_have_no_facts():
    for data in (b"", b"text", b"\x7fELF\x02\x01" + bytes(100)):
        with pytest.raises(ValueError, match="no cubin with a kernel 'copy'"):
            facts_of(data, "copy")


def test_a_file_beside_the_caller_shadows_no_module_of_the_compiler(tmp_path, monkeypatch):
    (tmp_path / "triton.py").write_text("raise RuntimeError('not this one')")
    monkeypatch.chdir(tmp_path)
    assert compile_kernels([source("copy", COPY)], KINDS["sm_90"])["copy"].symbol == "copy"
