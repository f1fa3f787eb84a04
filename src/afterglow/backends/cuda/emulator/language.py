"""Triton's language while kernels are interpreted: its functions compute at once.

Nothing of the environment or of other users of Triton is changed for longer than a launch takes.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import triton.language as tl
from triton.language import core, math, random, standard
from triton.language.extra.cuda import libdevice
from triton.runtime.interpreter import _patch_lang_core, _patch_lang_tensor
from triton.runtime.jit import JITFunction

from afterglow.backends.cuda.emulator import reductions
from afterglow.backends.cuda.emulator.builder import Builder
from afterglow.backends.cuda.emulator.shortcuts import shortcuts

_MODULES = (tl, core, math, standard, random)
_MISSING = object()
_CONVERT = "afterglow_value"
"""The name in rewritten functions of what makes numbers values of the language."""


class _Recorder:
    """Takes the place of what applies changes: remembers them."""

    def __init__(self) -> None:
        self.changes: list[tuple[Any, str, Any]] = []

    def set_attr(self, owner: Any, name: str, value: Any) -> None:
        self.changes.append((owner, name, value))


class Language:
    """The language as one builder computes it."""

    def __init__(self, builder: Builder) -> None:
        self._semantic = builder.semantic
        self._rewritten: dict[Any, Callable[..., Any]] = {}
        self._libdevice = SimpleNamespace(**self._computing(libdevice))
        self._changes = self._all_changes()

    def _all_changes(self) -> list[tuple[Any, str, Any]]:
        recorder = _Recorder()
        for owner in (*_MODULES, tl.tensor, core.tensor_descriptor_base):
            for name, value in self._computing(owner).items():
                recorder.set_attr(owner, name, value)
        for module in (tl, core):
            _patch_lang_core(module, recorder)
        _patch_lang_tensor(tl.tensor, recorder)
        recorder.set_attr(tl.tensor, "__index__", _bound)
        for module in (tl, core):
            recorder.set_attr(module, "reduce", reductions.reduce)
            recorder.set_attr(module, "associative_scan", reductions.associative_scan)
        return [*recorder.changes, *shortcuts()]

    def _computing(self, owner: Any) -> dict[str, Any]:
        """The functions of a module or class that are for kernels, so that they compute."""
        members = inspect.getmembers(owner)
        found = {name: self.computing(member) for name, member in members}
        return {name: found[name] for name, member in members if found[name] is not member}

    def computing(self, member: Any) -> Any:
        """A function of the language, or a module of them, that computes; all else as it is."""
        if isinstance(member, JITFunction):
            # of several names, such as that of a method, all are the same function
            if member.fn not in self._rewritten:
                self._rewritten[member.fn] = self.rewrite(member)
            return self._rewritten[member.fn]
        if core.is_builtin(member):
            return _with_semantic(member, self._semantic)
        if isinstance(member, ModuleType) and member.__name__.endswith(".libdevice"):
            return self._libdevice
        return member

    def rewrite(self, jitted: Any) -> Callable[..., Any]:
        """A function that was written for the compiler, as one that Python runs."""
        tree = _Assignments().visit(jitted.parse())
        source = jitted.fn
        lines = [line.lstrip().startswith("def ") for line in jitted.raw_src]
        ast.increment_lineno(tree, source.__code__.co_firstlineno - 1 + lines.index(True))
        maker = ast.parse(f"def make({_CONVERT}):\n pass\n return {source.__name__}")
        maker.body[0].body[0] = tree.body[0]  # type: ignore[attr-defined]
        ast.fix_missing_locations(maker)
        made: dict[str, Any] = {}
        exec(compile(maker, source.__code__.co_filename, "exec"), source.__globals__, made)
        function: Callable[..., Any] = made["make"](self._converted)
        return function

    def _converted(self, value: Any) -> Any:
        """A number as a value of the language; all else as it is."""
        return self._semantic.to_tensor(value, False)

    @contextmanager
    def active(self) -> Iterator[None]:
        """While functions of the language may be called."""
        before = [(o, name, vars(o).get(name, _MISSING)) for o, name, _ in self._changes]
        try:
            for owner, name, value in self._changes:
                setattr(owner, name, value)
            yield
        finally:
            for owner, name, value in reversed(before):
                if value is not _MISSING:
                    setattr(owner, name, value)
                elif name in vars(owner):
                    delattr(owner, name)


def _bound(scalar: Any) -> int:
    """A scalar as a bound of a loop: the interpreter has it as an array of one element."""
    return int(scalar.handle.data.item())


def _with_semantic(builtin: Callable[..., Any], semantic: Any) -> Callable[..., Any]:
    def compute(*arguments: Any, **named: Any) -> Any:
        named["_semantic"] = semantic
        return builtin(*arguments, **named)

    compute.__name__ = getattr(builtin, "__name__", "compute")
    return compute


class _Assignments(ast.NodeTransformer):
    """x = 3  ->  x = convert(3): variables of kernels are values of the language."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.decorator_list = []
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        convert = ast.Name(_CONVERT, ast.Load())
        node.value = ast.copy_location(ast.Call(convert, [node.value], []), node.value)
        return node
