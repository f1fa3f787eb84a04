"""Data classes whose methods are generated when they are first used."""

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, InitVar, asdict, field, fields, is_dataclass, replace
from typing import ClassVar

import pytest

from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Point:
    """A place."""

    x: int
    y: int = 2
    names: tuple[str, ...] = field(default=(), compare=False)
    count: ClassVar[int] = 0


@dataclass(frozen=True)
class Named(Point):
    """A place with a name."""

    name: str = field(default="", kw_only=True)


@dataclass
class Basket:
    """Something that changes."""

    items: list[int] = field(default_factory=list)
    total: int = field(init=False, default=0)
    seen: set[int] = field(init=False, default_factory=set, repr=False)

    def __post_init__(self) -> None:
        self.total = sum(self.items)


@dataclass(frozen=True, eq=False)
class Token:
    """Equal only to itself."""

    text: str


@dataclass(frozen=True)
class Loud:
    """One with methods of its own."""

    text: str

    def __repr__(self) -> str:
        return self.text.upper()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loud) and self.text.lower() == other.text.lower()

    def __hash__(self) -> int:
        return hash(self.text.lower())


def test_nothing_is_generated_before_it_is_used() -> None:
    @dataclass(frozen=True)
    class Fresh:
        x: int

    assert not inspect.isfunction(vars(Fresh)["__init__"])
    assert not inspect.isfunction(vars(Fresh)["__eq__"])
    assert Fresh(1).x == 1
    assert inspect.isfunction(vars(Fresh)["__init__"])
    assert not inspect.isfunction(vars(Fresh)["__eq__"])


def test_it_is_a_data_class_for_the_standard_functions() -> None:
    point = Point(1)
    assert is_dataclass(Point)
    assert [each.name for each in fields(Point)] == ["x", "y", "names"]
    assert replace(point, y=5) == Point(1, 5)
    assert asdict(point) == {"x": 1, "y": 2, "names": ()}
    assert repr(Named(1, name="a")) == "Named(x=1, y=2, names=(), name='a')"
    with pytest.raises(FrozenInstanceError):
        point.x = 3  # type: ignore[misc]


def test_equality_and_hash_are_those_of_the_fields() -> None:
    assert Point(1, 2, ("a",)) == Point(1, 2, ("b",))
    assert hash(Point(1, 2, ("a",))) == hash(Point(1, 2, ("b",))) == hash((1, 2))
    assert Point(1) != Point(2)
    assert Point(1) != Named(1)
    token = Token("a")
    assert token == token
    assert token != Token("a")
    assert len({token, Token("a")}) == 2
    assert hash(Loud("a")) == hash(Loud("A"))
    assert Loud("a") == Loud("A")
    assert str(Loud("a")) == "A"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Basket())


def test_factories_make_a_value_for_each_object() -> None:
    one, other = Basket(), Basket([1, 2])
    assert one.items is not other.items
    assert one.seen is not other.seen
    assert (one.total, other.total) == (0, 3)
    assert repr(other) == "Basket(items=[1, 2], total=3)"


def test_class_patterns_match_fields() -> None:
    match Named(3, 4, name="n"):
        case Point(x, y):
            assert (x, y) == (3, 4)
        case _:
            pytest.fail("it is a point")


def test_constructors_have_the_signature_and_the_errors_of_standard_ones() -> None:
    assert str(inspect.signature(Named)) == (
        "(x: int, y: int = 2, names: tuple[str, ...] = (), *, name: str = '') -> None"
    )
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing 1 required positional"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Point.__init__\(\) takes from 2 to 4 positional"):
        Point(1, 2, (), 4)  # type: ignore[call-arg]


def test_standard_data_classes_may_derive_from_it() -> None:
    @dataclasses.dataclass(frozen=True)
    class Further(Point):
        z: int = 0

    assert Further(1, z=3) == Further(1, 2, (), 3)


def test_objects_that_were_pickled_need_no_constructor() -> None:
    assert copy.deepcopy(Point(1)) == Point(1)
    data = pickle.dumps(Point(1, 7))
    code = f"import pickle; p = pickle.loads({data!r}); print(p, hash(p) == hash((1, 7)), p == p)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "Point(x=1, y=7, names=()) True True"


def test_fields_that_only_a_constructor_takes_are_refused() -> None:
    @dataclass
    class Odd:
        x: InitVar[int]

    with pytest.raises(TypeError, match="Odd has an InitVar: declare it with dataclasses"):
        Odd(1)


def test_frozen_classes_refuse_to_change_with_the_words_of_standard_ones() -> None:
    @dataclass(frozen=True)
    class Point:
        x: int = 1

    @dataclass(frozen=True)
    class Named(Point):
        name: str = "a"

    @dataclasses.dataclass(frozen=True)
    class Standard:
        x: int = 1

    def refusals(each: object, field: str) -> list[str]:
        found = []
        for change in (lambda: setattr(each, field, 2), lambda: delattr(each, field)):
            with pytest.raises(dataclasses.FrozenInstanceError) as caught:
                change()
            found.append(str(caught.value))
        return found

    assert refusals(Point(), "x") == refusals(Named(), "x") == refusals(Standard(), "x")
    assert refusals(Point(), "y") == refusals(Standard(), "y")
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclass(type("Open", (Point,), {"__annotations__": {"y": int}}))()  # type: ignore[call-overload]


def test_freezing_a_class_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Point:
        x: int = 1

    def compiled(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(dataclasses, "exec", compiled, raising=False)
    assert dataclasses.fields(Point)[0].name == "x"
