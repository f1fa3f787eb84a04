"""Targets of the interpreter: the host, and a machine that computes in a small memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import afterglow as ag
from afterglow.backends.interpreter.target import InterpreterTarget
from afterglow.memory import MAIN_MEMORY, Memories, MemorySpace
from afterglow.support.errors import UnsupportedError

DIGITS = "examples/digits/digits.onnx"


def test_a_target_with_a_local_memory_has_two() -> None:
    target = InterpreterTarget.of("local=64KiB")
    assert target.memories == (MemorySpace("main"), MemorySpace("local", 65536))
    assert InterpreterTarget.of(str(target)) == target
    assert InterpreterTarget.of("host").memories == (MAIN_MEMORY,)
    assert Memories.of(target.memories) == Memories(*reversed(target.memories))
    assert Memories.of((MAIN_MEMORY,)) is None


def test_three_memories_are_too_many() -> None:
    with pytest.raises(UnsupportedError) as caught:
        Memories.of([MemorySpace("a"), MemorySpace("b"), MemorySpace("c")])
    assert caught.value.what == (
        "the target has 3 memories ('a', 'b', 'c'), and only two can be planned"
    )


def test_other_targets_are_refused() -> None:
    with pytest.raises(ag.AfterglowError) as caught:
        ag.compile(DIGITS, backend="interpreter", target="sm_90", cache=False)
    assert str(caught.value) == (
        "error: the interpreter has no target 'sm_90'\n"
        "  help: there is host, and local=SIZE with a second memory, such as local=64KiB"
    )


def test_a_model_is_computed_in_the_small_memory(tmp_path: Path) -> None:
    model = ag.compile(
        DIGITS, backend="interpreter", target="local=32KiB", cache=False, verify=True
    )
    text = model.ir("instructions")
    assert "arena local " in text
    assert "prefetch out " in text
    assert "wait " in text
    x = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    wanted = ag.compile(DIGITS, backend="interpreter", cache=False)(x)
    np.testing.assert_allclose(model(x), wanted, rtol=1e-5, atol=1e-6)
    model.save(tmp_path / "digits.agc")
    np.testing.assert_array_equal(ag.load(tmp_path / "digits.agc")(x), model(x))


def test_a_layer_that_does_not_fit_is_named() -> None:
    with pytest.raises(UnsupportedError) as caught:
        ag.compile(DIGITS, backend="interpreter", target="local=8KiB", cache=False)
    message = str(caught.value)
    assert "an instruction needs 21632 bytes of memory 'local', which has 8192" in message
    assert "in node conv2, norm2, relu2" in message


def test_the_size_of_the_arena_is_not_bounded_twice() -> None:
    with pytest.raises(ag.AfterglowError) as caught:
        ag.compile(
            DIGITS, backend="interpreter", target="local=64KiB", max_arena="64KiB", cache=False
        )
    assert str(caught.value) == (
        "error: max_arena cannot bound the memories of target 'local=64KiB'\n"
        "  help: leave max_arena out: the target says how large its memories are"
    )
