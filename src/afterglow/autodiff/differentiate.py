"""Functions that return gradients besides their outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from afterglow.autodiff.reverse import gradients
from afterglow.autodiff.rule import emit_if_missing
from afterglow.graph import Builder, Function, Value
from afterglow.support.errors import UsageError
from afterglow.support.names import NameScope
from afterglow.support.patterns import fits, near_names


def differentiate(
    function: Function,
    loss: str | Value | None = None,
    wrt: str | Value | Sequence[str | Value] | None = None,
) -> Function:
    """A function that returns the outputs of a function, then the gradients of one of them.

    `loss` is that output, by its name or as a value: a float, and the only output if it is not
    given. `wrt` are inputs, constants or states, by their names, by patterns with stars, or as
    values; all inputs that hold floats if it is not given. The gradient of what is called w is the
    output `gradient.w`: zeros if the loss does not depend on it.

    The function belongs to a copy of the module, so the caller's own stays what it is. It can be
    compiled, and differentiated again.
    """
    if not isinstance(function, Function):
        raise UsageError(
            f"a function of a module is differentiated, got a {type(function).__name__}",
            help="give module.main",
        )
    chosen = _variables(function, wrt)
    place = _loss_index(function, loss)
    copy = _copied(function)
    known = _named(copy)
    xs = [known[index] for index, value in enumerate(_named(function)) if value in chosen]
    b = Builder(copy)
    found = gradients(b, [copy.outputs[place].value], xs)
    names = NameScope()
    for output in copy.outputs:
        names.claim(output.name)
    for x, grad in zip(xs, found, strict=True):
        copy.output(names.claim(f"gradient.{x.name}"), emit_if_missing(b, grad, x.type))
    return copy


def _copied(function: Function) -> Function:
    """The function in a copy of its module, whose main function it is if it was that before."""
    module = function.module.clone()
    copy = module.functions[function.name]
    if function.module.main is function:
        module.functions[copy.name] = module.functions.pop(copy.name)
    return copy


def _named(function: Function) -> list[Value]:
    """What a function can be differentiated by: inputs, states and constants."""
    module = function.module
    return [*function.inputs, *module.states.values(), *module.constants.values()]


def _loss_index(function: Function, loss: str | Value | None) -> int:
    """The number of the output to differentiate."""
    names = [output.name for output in function.outputs]
    if loss is None and len(names) != 1:
        raise UsageError(
            f"@{function.name} has {len(names)} outputs, and one of them must be the loss",
            help=f"name one of {', '.join(names)}" if names else "add an output, a float",
        )
    if loss is None:
        place = 0
    elif isinstance(loss, Value):
        place = _place(loss, [output.value for output in function.outputs], function)
    elif not isinstance(loss, str):
        raise UsageError(
            f"loss must be the name of an output or its value, got {loss!r}",
            help=f"there are {', '.join(names)}",
        )
    elif loss in names:
        place = names.index(loss)
    else:
        raise UsageError(
            f"no output of @{function.name} is called {loss!r}",
            help=f"there are {near_names(loss, names)}",
        )
    type = function.outputs[place].value.type
    if not type.dtype.is_float or type.size != 1:
        raise UsageError(
            f"the loss must be a single float, and output {names[place]!r} is {type}",
            help="reduce it to one first, with reduce_mean or reduce_sum",
        )
    return place


def _place(loss: Value, values: Sequence[Value], function: Function) -> int:
    if loss not in values:
        raise UsageError(
            f"%{loss.name} is no output of @{function.name}",
            help="add it to the outputs, or name one of them",
        )
    return values.index(loss)


def _variables(function: Function, wrt: str | Value | Sequence[str | Value] | None) -> list[Value]:
    """The values to differentiate by."""
    if wrt is None:
        return [x for x in function.inputs if x.type.dtype.is_float]
    several = not isinstance(wrt, (str, Value)) and isinstance(wrt, Iterable)
    asked: list[Any] = [*cast("Iterable[Any]", wrt)] if several else [wrt]
    if not all(isinstance(each, (str, Value)) for each in asked):
        raise UsageError(
            f"wrt must be names or values to differentiate by, got {wrt!r}",
            help=f"there are {', '.join(value.name for value in _named(function))}",
        )
    return [value for each in asked for value in _matching(function, each)]


def _matching(function: Function, asked: str | Value) -> list[Value]:
    """What a name, a pattern or a value stands for."""
    known = _named(function)
    if isinstance(asked, Value):
        found = [asked] if asked in known else []
        asked = asked.name
    else:
        found = [value for value in known if fits(value.name, asked)]
    floats = [value for value in found if value.type.dtype.is_float]
    if floats:
        return floats
    if found:
        raise UsageError(
            f"{asked!r} has no gradient: it is {found[0].type}",
            help="differentiate by what holds floats",
        )
    names = [value.name for value in known if value.type.dtype.is_float]
    raise UsageError(
        f"no input, constant or state of @{function.name} is called {asked!r}",
        help=f"there are {near_names(asked, names)}",
    )
