"""Versions are found by exact shapes, or by the bounds that shapes lie in."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from afterglow.runtime.extents import Shapes
from afterglow.runtime.versions import Key, Versions
from afterglow.types.extent import Dim, ranged


@dataclass(frozen=True)
class Made:
    """A version that takes the shapes that it was made for, or all up to a bound."""

    ranged_shapes: Shapes | None = None
    value_inputs: frozenset[str] = frozenset()
    unbound: frozenset[str] = frozenset()


def up_to(high: int) -> Shapes:
    return ((ranged(Dim("s", 1, high)), 3),)


def rows(count: int) -> dict[str, Any]:
    return {"x": np.zeros((count, 3))}


def never(arrays: Mapping[str, Any]) -> Made:
    raise AssertionError("nothing was to be made")


def test_a_ranged_version_serves_all_shapes_in_its_bounds() -> None:
    versions = Versions[Made]()
    made = versions.find(rows(5), ["x"], lambda _: Made(up_to(8)))
    assert versions.find(rows(8), ["x"], never) is made
    other = versions.find(rows(9), ["x"], lambda _: Made())
    assert versions.find(rows(9), ["x"], never) is other
    assert versions.all() == [made, other]


def test_a_wider_version_takes_the_place_of_a_narrower_one() -> None:
    versions = Versions[Made]()
    versions.find(rows(5), ["x"], lambda _: Made(up_to(8)))
    wider = versions.find(rows(9), ["x"], lambda _: Made(up_to(16)))
    assert versions.all() == [wider]
    assert versions.find(rows(5), ["x"], never) is wider


def test_an_exact_version_comes_before_a_ranged_one() -> None:
    versions = Versions[Made]()
    versions.keep(Key(up_to(8)), Made(up_to(8)))
    exact = Made()
    versions.keep(Key(((5, 3),)), exact)
    assert versions.find(rows(5), ["x"], never) is exact


def test_the_least_recently_used_goes_with_its_range() -> None:
    versions = Versions[Made](most=1)
    versions.find(rows(5), ["x"], lambda _: Made(up_to(8)))
    exact = versions.find(rows(9), ["x"], lambda _: Made())
    assert versions.all() == [exact]
    assert versions.covering(Key(((5, 3),))) is None


def test_a_copy_has_the_same_ranges() -> None:
    versions = Versions[Made]()
    versions.find(rows(5), ["x"], lambda _: Made(up_to(8)))
    copied = deepcopy(versions)
    assert copied.find(rows(6), ["x"], never).ranged_shapes == up_to(8)
