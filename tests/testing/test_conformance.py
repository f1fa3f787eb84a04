"""What the conformance kit reports of a backend that lacks something."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import afterglow
from afterglow.backends.interpreter.backend import Interpreter, InterpreterFactory
from afterglow.driver.cache import is_cacheable
from afterglow.driver.options import Options
from afterglow.instr import KernelPlan, OpInstr, Stack
from afterglow.ops.elementwise import Add
from afterglow.support import plugins
from afterglow.support.errors import UnsupportedError
from afterglow.testing import BackendConformance, install
from afterglow.testing.cases.case import case, f32

ADD = case(Add(), f32(3), f32(3))


class OnlyAdditions(Interpreter):
    """Computes sums, and what a pad is made of besides a fill."""

    def plans(self, step: OpInstr | Stack, *, exact: bool = False) -> Sequence[KernelPlan]:
        mnemonic = step.op.mnemonic if isinstance(step, OpInstr) else ""
        return super().plans(step, exact=exact) if mnemonic in ("add", "pad") else ()


class Factory(InterpreterFactory):
    def __call__(self, settings) -> OnlyAdditions:
        return OnlyAdditions(self.name, False, settings)


class Kit(BackendConformance):
    backend = "only-additions"


class CompleteKit(Kit):
    complete = True


@pytest.fixture(autouse=True)
def backend(monkeypatch) -> None:
    monkeypatch.setattr(plugins, "_ADDED", {})
    install(Factory("only-additions", primitives_only=False))


def of_op(mnemonic: str):
    return next(c for c in Kit.cases if c.op.mnemonic == mnemonic)


def test_an_op_with_a_kernel_is_checked() -> None:
    Kit().test_op(ADD)


def test_an_op_without_a_kernel_is_skipped() -> None:
    with pytest.raises(pytest.skip.Exception, match=r"^no kernel$"):
        Kit().test_op(of_op("exp"))


def test_a_missing_kernel_is_a_failure_of_a_complete_backend() -> None:
    with pytest.raises(UnsupportedError, match="backend 'only-additions' has no kernel for 1 node"):
        CompleteKit().test_op(of_op("exp"))


def test_a_backend_that_differs_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(Add, "evaluate", lambda self, lhs, rhs: lhs - rhs)
        wanted = ADD.wanted()
    monkeypatch.setattr(type(ADD), "wanted", lambda self: wanted)
    with pytest.raises(AssertionError):
        Kit().test_op(ADD)


def test_what_is_compiled_by_a_backend_of_this_process_is_not_cached() -> None:
    assert is_cacheable(Options())
    assert not is_cacheable(Options(backend="only-additions"))


def test_an_op_that_another_one_is_made_of_needs_a_kernel_too() -> None:
    text = (
        "func @main(%x: f32[2]) {\n"
        "  %y = pad(%x) {before = (1,), after = (1,)} : f32[4]\n"
        "  return %y\n"
        "}"
    )
    with pytest.raises(afterglow.UnsupportedError) as caught:
        afterglow.compile(afterglow.parse_module(text), backend="only-additions")
    assert caught.value.what == "backend 'only-additions' has no kernel for 2 nodes"
    assert all(line.startswith("fill (%") for line in caught.value.excerpt)
