"""`--batch`: time a model at several batch sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, TypeAlias

import click

from afterglow.cli.request import Request
from afterglow.cli.session import Session
from afterglow.runtime.signature import TensorInfo
from afterglow.support.errors import UsageError

Verb: TypeAlias = Callable[..., int]


class BatchSizes(click.ParamType[tuple[int, ...]]):
    """Batch sizes: `1,2,4,8`."""

    name = "1,2,4,8"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        """The parsed numbers."""
        sizes = [part.strip() for part in str(value).split(",")]
        if not all(size.isdecimal() and int(size) for size in sizes):
            raise UsageError(f"{value!r} are no batch sizes", help="write --batch 1,2,4,8")
        return tuple(dict.fromkeys(map(int, sizes)))


def takes_batches(verb: Verb) -> Verb:
    """Decorator that adds `--batch`, which lists extents of the inputs' first dimension."""

    @wraps(verb)
    def called(
        session: Session, request: Request, batch: tuple[int, ...] | None, **others: Any
    ) -> int:
        if batch is not None:
            request = _with_batches(request, batch)
        return verb(session, request, **others)

    return click.option("--batch", type=BatchSizes(), help="Time it at each of these batch sizes.")(
        called
    )


def _with_batches(request: Request, sizes: tuple[int, ...]) -> Request:
    name = _batch_dimension(request.inputs(request.source()))
    if name in {*request.options.dims, *request.dim_options.ahead}:
        raise UsageError(f"both --batch and --dim bind dimension {name!r}", help="give one of them")
    dims = replace(request.dim_options, ahead={**request.dim_options.ahead, name: sizes})
    return replace(request, dim_options=dims)


def _batch_dimension(inputs: tuple[TensorInfo, ...]) -> str:
    """The name of the first dimension of the first input that leaves it open."""
    for info in inputs:
        first = info.shape[0] if info.shape else None
        if isinstance(first, str):
            return first
    raise UsageError(
        "--batch needs an input whose first dimension is dynamic and has a name",
        help="export the model with a dynamic batch dimension, or list extents with --dim",
    )
