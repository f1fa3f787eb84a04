"""The pool's code for every target."""

from __future__ import annotations

import pytest

from afterglow.backends.cpu import Target, assembly, compile_module, verify_module
from afterglow.backends.cpu.target import NAMED
from afterglow.backends.cpu.threads import pool_module
from afterglow.backends.cpu.threads.system import ThreadSystem

WITHOUT_THREADS = {"cortex-m4", "cortex-m7", "cortex-m33", "riscv32", "wasm32"}


@pytest.mark.parametrize("name", NAMED)
def test_it_compiles(name: str) -> None:
    target = Target.of(name)
    module = pool_module(target)
    verify_module(module, target)
    assert compile_module(module, target)
    assert module.exports == ["afterglow_run_alone", "afterglow_run"]


@pytest.mark.parametrize("name", NAMED)
def test_threads_are_used_where_they_are_known(name: str) -> None:
    text = pool_module(Target.of(name)).text
    assert ("pthread_create" in text) == (name not in WITHOUT_THREADS)


@pytest.mark.parametrize(
    "triple", ["arm64-apple-darwin24.0.0", "x86_64-apple-macosx", "x86_64-unknown-freebsd"]
)
def test_other_systems_sleep_on_a_condition_variable(triple: str) -> None:
    target = Target.of(f"{triple}+generic")
    module = pool_module(target)
    verify_module(module, target)
    text = assembly(module, target)
    assert "pthread_cond_wait" in text
    assert "syscall" not in text


def test_an_unknown_system_runs_alone() -> None:
    target = Target.of("x86_64-pc-windows-msvc+x86-64-v3")
    assert ThreadSystem.of(target) is None
    assert compile_module(pool_module(target), target)


def test_the_text_is_always_the_same() -> None:
    assert pool_module(Target.host()).text == pool_module(Target.host()).text
