"""Types of values whose shapes are not known until the model runs."""

from __future__ import annotations

import pytest

from afterglow.support.errors import TypeRuleError
from afterglow.types import DynamicExtent, DynamicType, HostKind, HostType, TensorType
from afterglow.types.dtype import f32, i64
from afterglow.types.dynamic import UNKNOWN, is_exact, tensor_type

ROWS = DynamicType(f32, (UNKNOWN, 4))


def test_a_type_says_which_extents_are_not_known() -> None:
    assert str(ROWS) == "f32[?, 4]"
    assert str(DynamicType(f32, (DynamicExtent("batch"), 3))) == "f32[batch, 3]"
    assert str(DynamicType(f32, (DynamicExtent("odd name"), 3))) == 'f32["odd name", 3]'
    assert str(DynamicType(i64, None)) == "i64[*]"
    assert [str(HostType(kind)) for kind in HostKind] == ["?", "sequence", "optional", "map"]


def test_types_are_equal_if_they_say_the_same() -> None:
    assert DynamicType(f32, [UNKNOWN, 4]) == ROWS
    assert hash(DynamicType(f32, [UNKNOWN, 4])) == hash(ROWS)
    assert DynamicType(i64, (UNKNOWN, 4)) != ROWS
    assert DynamicType(f32, None) != ROWS
    assert TensorType(f32, (2, 4)) != ROWS
    assert HostType(HostKind.MAP) == HostType(HostKind.MAP) != HostType(HostKind.ANY)


def test_a_type_is_exact_if_all_extents_are_numbers() -> None:
    assert tensor_type(f32, (2, 4)) == TensorType(f32, (2, 4))
    assert tensor_type(f32, ()) == TensorType(f32, ())
    assert tensor_type(f32, (UNKNOWN, 4)) == ROWS
    assert tensor_type(f32, None) == DynamicType(f32, None)
    assert is_exact(tensor_type(f32, (2, 4)))
    assert not is_exact(ROWS)
    assert not is_exact(HostType(HostKind.ANY))


def test_the_rank_may_be_known_without_the_shape() -> None:
    assert ROWS.rank == 2
    with pytest.raises(TypeRuleError) as caught:
        _ = DynamicType(f32, None).rank
    assert caught.value.what == "the shape of f32[*] is known only when the model runs"


@pytest.mark.parametrize("fact", ["shape", "size", "nbytes"])
def test_whoever_asks_for_an_unknown_shape_is_told(fact: str) -> None:
    with pytest.raises(TypeRuleError) as caught:
        getattr(ROWS, fact)
    assert caught.value.what == "the shape of f32[?, 4] is known only when the model runs"


@pytest.mark.parametrize("fact", ["dtype", "shape", "rank"])
def test_a_value_that_is_no_tensor_has_neither_elements_nor_shape(fact: str) -> None:
    with pytest.raises(TypeRuleError) as caught:
        getattr(HostType(HostKind.SEQUENCE), fact)
    assert caught.value.what == "a value of type sequence is known only to the host"
