"""Joining modules: names stay apart, and the stack is known."""

from __future__ import annotations

import ctypes
import os
import sys

from afterglow.backends.cpu import Emitter, Module, Target, load_host
from afterglow.backends.cpu.bundle.frames import StackBound, measure_frames
from afterglow.backends.cpu.bundle.join import BundlePart, asking, join
from afterglow.backends.cpu.bundle.survey import survey
from afterglow.types.dtype import i32, i64

TARGET = Target.of("x86-64")


def part(public: str, number: int) -> BundlePart:
    """A public function that returns a number, which a function of the same name as others has."""
    inner, outer = Module(TARGET), Module(TARGET)
    with inner.function("helper") as e:
        e.return_(e.constant(i32, number))
    with outer.function(public) as e:
        helper = outer.declare("helper", "i32", [])
        e.return_(e.call(helper, result=i32))
    texts = [asking(module.text, small=False) for module in (inner, outer)]
    return BundlePart(texts, {public})


def test_equal_names_of_parts_are_different_functions() -> None:
    public = {"first", "second"}
    joined = join([part("first", 1), part("second", 2)], public, TARGET)
    found = survey(joined.object)
    assert found is not None
    assert found.undefined == ()
    library = load_host(joined.object, sorted(public), TARGET)
    assert library.function("first", result=ctypes.c_int32)() == 1
    assert library.function("second", result=ctypes.c_int32)() == 2


def test_the_stack_of_a_call_is_that_of_all_it_calls() -> None:
    def leaf(e: Emitter) -> None:
        memory, at = e.scratch(i64, 100), e.count("at")
        memory.store(at, at)

    module = Module(TARGET)
    with module.function("outer") as e:
        at, memory = e.count("at"), e.scratch(i64, 50)
        memory.store(at, at)
        e.run(module.helper("leaf", leaf), at)
    joined = join([BundlePart([asking(module.text, small=False)], {"outer"})], {"outer"}, TARGET)
    frames = joined.stack.frames
    assert 400 <= frames["outer"] < 600
    assert 800 <= frames["leaf"] < 1000
    assert joined.stack.of("outer") >= frames["outer"] + frames["leaf"]


def test_functions_that_are_only_named_count() -> None:
    text = "define void @a() {\n  store ptr @b, ptr null\n}\ndefine void @b() {\n}\n"
    with_b = StackBound(text, {"a": 16, "b": 1000}).of("a")
    assert with_b >= StackBound(text, {"a": 16}).of("a") + 1000


def test_others_may_speak_while_frames_are_measured(capfd) -> None:
    def emit() -> bytes:
        os.write(2, b"hello\n")
        line = "warning: <unknown>:0:0: stack frame size (440) exceeds limit (0) in function 'f'\n"
        os.write(2, line.encode())
        print("world", file=sys.stderr)
        return b"code"

    code, frames = measure_frames(emit)
    assert (code, frames) == (b"code", {"f": 440})
    assert "hello" in capfd.readouterr().err
