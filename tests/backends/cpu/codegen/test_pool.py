"""The code of the thread pool is made once, in the background where there is time."""

from __future__ import annotations

from threading import current_thread

import pytest

import afterglow
from afterglow.backends.cpu.codegen import pool
from afterglow.backends.cpu.codegen.pool import PoolInBackground, pool_image
from afterglow.backends.cpu.llvm.compile import compile_module
from afterglow.backends.cpu.llvm.emitter import Module
from afterglow.backends.cpu.target import Target
from afterglow.support.errors import CompileError
from tests.backends.cpu import networks

HOST = Target.host()


@pytest.fixture(autouse=True)
def no_images(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A process that has made no pool yet, and the threads that compile the first."""
    threads: list[str] = []

    def compiled(module: Module, target: Target) -> bytes:
        threads.append(current_thread().name)
        return compile_module(module, target)

    made = pool.link_pool
    monkeypatch.setattr(pool, "_IMAGES", {})
    monkeypatch.setattr(pool, "link_pool", lambda module, _: made(module, compiled))
    return threads


def test_passes_over_a_model_leave_time_to_make_the_pool(no_images: list[str]) -> None:
    seen: list[list[str]] = []
    afterglow.compile(
        networks.tiny(), cache=False, progress=lambda stage: seen.append([*no_images])
    )
    assert seen[0] == [], "importing comes first"
    assert no_images == ["afterglow-pool"], "once, by a thread that began before code was emitted"


def test_a_pool_made_in_the_background_is_what_a_backend_makes_at_once() -> None:
    early = PoolInBackground(HOST, compile_module).image()
    pool._IMAGES.clear()
    assert early == pool_image(HOST)


def test_a_pool_that_cannot_be_made_is_an_error_of_who_needs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(module: Module, _: object) -> object:
        raise CompileError("LLVM refuses the code")

    monkeypatch.setattr(pool, "link_pool", refused)
    begun = PoolInBackground(HOST, compile_module)
    with pytest.raises(CompileError, match="LLVM refuses the code"):
        begun.image()
    assert not capsys.readouterr().err
