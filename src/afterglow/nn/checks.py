"""Checks of what users choose for layers; errors name the layer and the argument."""

from __future__ import annotations

from typing import Any

from afterglow.support.checks import check_count, check_number, check_share
from afterglow.support.errors import UsageError


def check_counts(layer: object, *names: str) -> None:
    """These fields are whole numbers from 1."""
    for name in names:
        check_count(_kind(layer), name, getattr(layer, name))


def check_shares(layer: object, *names: str) -> None:
    """These fields are at least 0 and less than 1."""
    for name in names:
        check_share(_kind(layer), name, getattr(layer, name))


def check_numbers(layer: object, *names: str, most: float | None = None) -> None:
    """These fields are finite numbers from 0, up to `most` if it is given."""
    for name in names:
        check_number(_kind(layer), name, getattr(layer, name), most=most)


def check_axes(layer: object, *names: str) -> None:
    """These fields are whole numbers, which count from the end if they are negative."""
    for name in names:
        check_count(_kind(layer), name, getattr(layer, name), least=None)


def check_sizes(layer: object, count: int | None, *names: str, least: int = 1) -> None:
    """These fields are whole numbers, or have `count` of them, one for each axis."""
    for name in names:
        given = getattr(layer, name)
        several = isinstance(given, (tuple, list))
        if several and count is not None and len(given) != count:
            raise UsageError(
                f"{_kind(layer)}: {name} must have {count} entries, one for each spatial axis, "
                f"got {given!r}"
            )
        for extent in given if several else (given,):
            check_count(_kind(layer), name, extent, least)


def check_initialisers(layer: object, *names: str) -> None:
    """These fields are functions that make the first value of a parameter, or None."""
    for name in names:
        given: Any = getattr(layer, name)
        if given is not None and not callable(given):
            raise UsageError(
                f"{_kind(layer)}: {name} must be a function (generator, shape), got {given!r}",
                help="use one of nn.init, such as nn.init.normal(std=0.02) or nn.init.zeros",
            )


def _kind(layer: object) -> str:
    return type(layer).__name__
