"""From text to code that runs: errors, reading, threads, and loading."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from afterglow.backends.cpu import (
    Module,
    Target,
    assembly,
    compile_module,
    load_host,
    verify_module,
)
from afterglow.backends.cpu.llvm.emitter import VOID, quotient
from afterglow.backends.cpu.llvm.math import erf, log
from afterglow.backends.cpu.target import NAMED
from afterglow.support.errors import CompileError, UsageError
from afterglow.types.dtype import f16, f32, i64
from tests.backends.cpu.running import HOST


def doubling(target: Target, name: str = "double_f32") -> Module:
    module = Module(target)
    with module.function(name) as e:
        x = e.pointer("x", f32)
        e.comment("two of each")
        x.store(x.load(0, 8) * 2.0)
    return module


def test_the_text_reads_well() -> None:
    target = Target.of("x86-64-v3")
    assert doubling(target).text == (
        'target triple = "x86_64-unknown-linux-gnu"\n'
        "define void @double_f32(ptr %x) #0 {\n"
        "entry:\n"
        "  ; two of each\n"
        "  %v1 = load <8 x float>, ptr %x, align 4\n"
        "  %v2 = fmul <8 x float> %v1, splat (float 0x4000000000000000)\n"
        "  store <8 x float> %v2, ptr %x, align 4\n"
        "  ret void\n"
        "}\n"
        "attributes #0 = { nounwind }\n"
        "!0 = !{i32 1}\n"
        '!1 = !{!"branch_weights", i32 2000, i32 1}\n'
        '!2 = !{!"branch_weights", i32 1, i32 2000}\n'
    )


def test_the_assembly_reads_well() -> None:
    text = assembly(doubling(Target.of("x86-64-v3")), Target.of("x86-64-v3"))
    assert "double_f32:\n\tvmovups\t(%rdi), %ymm0\n\tvaddps\t%ymm0, %ymm0, %ymm0\n" in text


def test_the_same_text_gives_the_same_bytes() -> None:
    module = doubling(HOST)
    assert compile_module(module, HOST) == compile_module(module.text, HOST)


def test_a_plain_module_is_compiled_as_it_is_written() -> None:
    module = Module(HOST)
    with module.function("third") as e:
        x = e.pointer("x", i64)
        x.store(quotient(x.load(), 3))
    optimised = compile_module(module, HOST)
    module.is_plain = True
    plain = compile_module(module, HOST)
    assert plain != optimised
    for code in (plain, optimised):
        x = np.array([22])
        load_host(code, ["third"], HOST).function("third", ctypes.c_void_p)(x.ctypes.data)
        assert x == 7


@pytest.mark.parametrize("name", NAMED)
def test_code_for_other_machines(name: str) -> None:
    module = doubling(Target.of(name))
    verify_module(module, module.target)
    assert b"double_f32" in compile_module(module, module.target)


def test_modules_compile_in_threads() -> None:
    modules = [doubling(HOST, f"double_{i}") for i in range(24)]
    with ThreadPoolExecutor(4) as pool:
        objects = list(pool.map(lambda module: compile_module(module, HOST), modules))
    for i, code in enumerate(objects):
        x = np.ones(8, np.float32)
        library = load_host(code, [f"double_{i}"], HOST)
        library.function(f"double_{i}", ctypes.c_void_p)(x.ctypes.data)
        assert (x == 2).all()


def test_code_is_freed_with_its_library() -> None:
    code = compile_module(doubling(HOST), HOST)
    for _ in range(50):
        load_host(code, ["double_f32"], HOST)


def test_a_function_keeps_its_library() -> None:
    code = compile_module(doubling(HOST), HOST)
    function = load_host(code, ["double_f32"], HOST).function("double_f32", ctypes.c_void_p)
    x = np.ones(8, np.float32)
    function(x.ctypes.data)
    assert (x == 2).all()


def test_text_that_is_no_module_is_refused() -> None:
    with pytest.raises(CompileError, match=r"LLVM refuses the code: .*expected top-level entity"):
        compile_module("what?", HOST)


def test_a_module_that_breaks_a_rule_is_refused() -> None:
    text = "define i32 @f() { entry: br label %entry }"
    with pytest.raises(CompileError, match="LLVM refuses the code: Entry block"):
        verify_module(text, HOST)


def test_code_for_another_machine_is_not_loaded() -> None:
    code = compile_module(doubling(Target.of("riscv64")), Target.of("riscv64"))
    with pytest.raises(UsageError) as caught:
        load_host(code, ["double_f32"], Target.of("riscv64"))
    assert caught.value.what == (
        "the code for riscv64 does not run here: it needs the architecture riscv64"
    )


def test_code_that_calls_what_is_not_there_is_not_loaded() -> None:
    module = Module(HOST)
    nothing = module.declare("no_such_function", VOID, [])
    with module.function("f") as e:
        e.run(nothing)
    with pytest.raises(CompileError, match="the code cannot be loaded: Failed to materialize"):
        load_host(compile_module(module, HOST), ["f"], HOST)


def test_a_file_that_is_no_object_is_not_loaded() -> None:
    with pytest.raises(CompileError, match="not recognized as a valid object file"):
        load_host(b"what?", ["f"], HOST)


def test_functions_of_other_types_are_refused() -> None:
    module = Module(Target.of("x86-64-v3"))
    with module.function("f") as e:
        x = e.argument("x", f16)
        with pytest.raises(TypeError, match="f16 has no fabs: convert it first"):
            erf(x)
        with pytest.raises(TypeError, match="functions are of f32 and f64, not of f16"):
            log(x)


def test_loops_keep_their_addresses_and_nothing_of_what_keeps_them() -> None:
    module = Module(Target.of("x86-64-v3"))
    with module.function("every_fifth") as e:
        x = e.pointer("x", f32)
        with e.loop(100) as row, e.loop(100) as i:
            (x + row * 700 + i * 5).store(e.constant(f32, 1.0))
    text = assembly(module, module.target)
    branches = [line for line in text.splitlines() if line.strip().startswith("j")]
    assert module.text.count("br i1 false") == 1, "one of two loops is the innermost"
    assert len(branches) == 2, "each loop has one branch"
    assert "$20," not in text, "no pointer is advanced by a row of the innermost loop"
