"""Declaring ops outside of the package: a class, a function, or a text in index notation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, dataclass_transform

from afterglow.graph import OPS, Builder, Op, Value
from afterglow.graph import op as declare_op
from afterglow.ops.comprehension import Comprehension, comprehension
from afterglow.ops.comprehension.syntax import parse_notation
from afterglow.support.digest import digest_of_texts
from afterglow.support.errors import UsageError
from afterglow.support.own_ops import add_own_op
from afterglow.types import Array, TensorType

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*::[A-Za-z_][A-Za-z0-9_]*\Z")
_BOUND_NAME = re.compile(r"([\w.\-]+::)?[\w.\-]+\Z")


@dataclass_transform(frozen_default=True)
def op(
    name: str,
    notation: str = "",
    *,
    attributes: Mapping[str, float] | None = None,
    infer: Callable[..., Any] | None = None,
    onnx: str = "",
    torch: str = "",
    tflite: str = "",
    version: str = "",
) -> Any:
    """Declare an op of one's own: decorates a class or a function, or takes a text.

    Args:
        name: `namespace::name`, by which texts of modules call it.
        notation: what it computes, in index notation; then the class of the op is returned.
        attributes: names of numbers in the notation, with their defaults.
        infer: for a function, the type of the result from those of the operands; without it the
            result has the type of the first operand.
        onnx: the ONNX op that it is, `domain::OpType`.
        torch: the PyTorch op that it is, `namespace::name`.
        tflite: the name of the TFLite custom op that it is.
        version: changes the key of the cache if something outside of the op's file has changed.
    """
    _check_name(name)
    bindings = tuple(_bindings(name, onnx=onnx, torch=torch, tflite=tflite))

    def declare(target: Any) -> Any:
        digest = digest_of_texts([name, version, *_sources(target, infer)])
        if isinstance(target, type):
            cls = _checked(name, target)
        elif callable(target):
            cls = _of_function(name, target, infer)
        else:
            raise UsageError(f"{name}: a class or a function declares an op, got {target!r}")
        return _declared(name, cls, digest, bindings)

    if not notation:
        return declare
    return _of_notation(name, notation, dict(attributes or {}), version, bindings)


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not _NAME.match(name):
        raise UsageError(
            f"the name of an op must be NAMESPACE::NAME, got {name!r}",
            help='write @ag.op("acme::swirl")',
        )


def _bindings(name: str, **given: str) -> Iterator[tuple[str, str]]:
    """What an op is bound to, as dialects call it."""
    for dialect, bound in given.items():
        if not bound:
            continue
        if not _BOUND_NAME.match(bound) or ("::" in bound) == (dialect == "tflite"):
            example = {"onnx": "com.acme::Swirl", "torch": "acme::swirl", "tflite": "Swirl"}
            raise UsageError(
                f"{name}: {bound!r} is not the name of an op in {dialect}",
                help=f"write {dialect}={example[dialect]!r}",
            )
        match dialect:
            case "torch" if "." not in bound.rpartition("::")[2]:
                yield dialect, f"{bound}.default"
            case "tflite":
                yield dialect, f"custom::{bound}"
            case _:
                yield dialect, bound.removeprefix("ai.onnx::")


def _sources(*targets: Any) -> Iterator[str]:
    """What changes when the source of a class or a function does."""
    for target in targets:
        if target is None:
            continue
        try:
            yield Path(inspect.getsourcefile(target) or "").read_text()
        except (OSError, TypeError):
            yield _own_source(target)


def _own_source(target: Any) -> str:
    """The source of what no file has: of a cell of a notebook, or the code that was made of it."""
    try:
        return inspect.getsource(target)
    except (OSError, TypeError):
        functions = [target] if not isinstance(target, type) else vars(target).values()
        codes = [f.__code__ for f in functions if hasattr(f, "__code__")]
        return repr([(code.co_code, code.co_consts, code.co_names) for code in codes])


def _checked(name: str, cls: type) -> type[Op]:
    """A class that can be an op."""
    if not issubclass(cls, Op):
        raise UsageError(
            f"{name}: class {cls.__name__} must derive from ag.Op",
            help=f"write class {cls.__name__}(ag.Op):",
        )
    for facet, what in (("infer", "types to types"), ("evaluate", "arrays to arrays")):
        if getattr(cls, facet) is getattr(Op, facet):
            raise UsageError(
                f"{name}: class {cls.__name__} has no {facet}",
                help=f"define {facet}(self, x, …), from {what}",
            )
    annotated = {key for each in cls.__mro__ for key in vars(each).get("__annotations__", {})}
    for key, value in vars(cls).items():
        if key.startswith("_") or key in annotated or hasattr(Op, key) or callable(value):
            continue
        if not isinstance(value, (property, classmethod, staticmethod)):
            raise UsageError(
                f"{name}: attribute {key!r} of class {cls.__name__} has no type",
                help=f"write {key}: {type(value).__name__} = {value!r}",
            )
    return cls


def _declared(
    name: str, cls: type[Op], digest: str, bindings: tuple[tuple[str, str], ...]
) -> type[Op]:
    """Declare a class; one that was declared under the same name before is replaced."""
    cls.__doc__ = cls.__doc__ or f"{name}."
    operands = cls.operand_names, cls.required, cls.variadic
    before = OPS.pop(name, None)
    try:
        made = declare_op(name)(cls)
    except (TypeError, ValueError) as error:
        if before is not None:
            OPS[name] = before
        raise UsageError(f"{name}: {error}") from None
    if operands[0]:
        made.operand_names, made.required, made.variadic = operands
    made.own = True
    made.host = not made.decomposes()
    if "expands" not in vars(cls):
        made.expands = made.decomposes()
    add_own_op(name, made, digest, bindings)
    return made


def _of_function(name: str, function: Callable[..., Any], rule: Callable[..., Any] | None) -> Any:
    """A class whose operands are the positional parameters, and attributes those by keyword."""
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    if not positional:
        raise UsageError(f"{name}: function {function.__name__} takes no operands")
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    taken = None if rule is None else {*inspect.signature(rule).parameters}

    def infer(self: Any, *operands: TensorType) -> Any:
        if rule is None or taken is None:
            return operands[0]
        return rule(*operands, **{k: v for k, v in _values(self).items() if k in taken})

    def evaluate(self: Any, *operands: Array) -> Any:
        return function(*operands, **_values(self))

    cls = _made(name, function.__name__, {p.name: _default(name, p) for p in named})
    cls.__doc__ = function.__doc__
    cls.__module__ = function.__module__
    cls.infer, cls.evaluate = infer, evaluate
    cls.operand_names = tuple(p.name for p in positional)
    cls.required = sum(p.default is p.empty for p in positional if p.kind is not p.VAR_POSITIONAL)
    cls.variadic = positional[-1].kind is positional[-1].VAR_POSITIONAL
    return cls


def _default(name: str, parameter: inspect.Parameter) -> Any:
    if parameter.default is parameter.empty:
        raise UsageError(f"{name}: attribute {parameter.name!r} has no default")
    return parameter.default


def _values(op: Any) -> dict[str, Any]:
    """The attributes of an op, by name."""
    return {field.name: getattr(op, field.name) for field in fields(op)}


def _made(name: str, class_name: str, defaults: Mapping[str, Any]) -> Any:
    """A class with attributes of the types of their defaults."""
    for key, value in defaults.items():
        if key in vars(Op) or not isinstance(value, (bool, int, float, str, tuple)):
            raise UsageError(f"{name}: {key}={value!r} cannot be an attribute")
    types = {key: type(value) for key, value in defaults.items()}
    return type(class_name, (Op,), {"__annotations__": types, **defaults})


def _of_notation(
    name: str,
    notation: str,
    attributes: dict[str, float],
    version: str,
    bindings: tuple[tuple[str, str], ...],
) -> type[Op]:
    """A class that stands for a comprehension."""
    operands = parse_notation(comprehension(notation, **attributes).text).operands

    def meant(self: Any) -> Comprehension:
        return comprehension(notation, **_values(self))

    def infer(self: Any, *operands: TensorType) -> TensorType:
        return meant(self).infer(*operands)

    def evaluate(self: Any, *operands: Array) -> Array:
        return meant(self).evaluate(*operands)

    def lower(self: Any, b: Builder, *operands: Value) -> Value:
        return b.emit(meant(self), *operands)

    cls = _made(name, name.rpartition("::")[2], attributes)
    cls.__doc__ = f"`{notation}`."
    cls.infer, cls.evaluate, cls.lower = infer, evaluate, lower
    cls.operand_names, cls.required = operands, len(operands)
    return _declared(name, cls, digest_of_texts([name, version, notation]), bindings)
