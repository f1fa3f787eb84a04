"""Data classes whose methods are generated when they are first used.

The standard decorator compiles up to six functions for each class when its module is imported:
for hundreds of ops, plans and options that was half of the time to import the compiler, and most
of them are never made in one process. This one leaves a descriptor for each method, which generates
it on first access. For all that `dataclasses` offers (`fields`, `replace`, `asdict`, class
patterns, inheritance either way) such a class is an ordinary data class.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, ClassVar, TypeVar, dataclass_transform, overload

T = TypeVar("T")
Key = Callable[[Any], tuple[object, ...]]

_LOCK = threading.RLock()
_FACTS = ("__dataclass_fields__", "__dataclass_params__")
_FACTORY = object()
"""The default of a parameter whose value a factory makes."""


@overload
def dataclass(cls: type[T], /) -> type[T]: ...
@overload
def dataclass(
    *, frozen: bool = False, eq: bool = True, repr: bool = True
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(field_specifiers=(dataclasses.field,))
def dataclass(
    cls: type[T] | None = None, /, *, frozen: bool = False, eq: bool = True, repr: bool = True
) -> type[T] | Callable[[type[T]], type[T]]:
    """Declare a data class, as `dataclasses.dataclass` does, whose methods are generated later."""

    def declare(cls: type[T]) -> type[T]:
        names = [*_FACTS, "__match_args__", "__init__"]
        names += ["__repr__"] if repr else []
        names += ["__eq__"] if eq else []
        defined = vars(cls)
        if eq and defined.get("__hash__") is None:  # with __eq__, Python sets None
            if frozen:
                setattr(cls, "__hash__", _Pending(cls, "__hash__", frozen))  # noqa: B010  mypy
            else:
                setattr(cls, "__hash__", None)  # noqa: B010  mypy
        for name in names:
            if name in _FACTS or name not in defined:
                setattr(cls, name, _Pending(cls, name, frozen))
        return cls

    return declare if cls is None else declare(cls)


class _Pending:
    """An attribute of a data class that is generated when it is first asked for."""

    def __init__(self, cls: type, name: str, frozen: bool) -> None:
        self.cls, self.name, self.frozen = cls, name, frozen

    def __get__(self, instance: object, owner: type) -> Any:
        with _LOCK:
            if isinstance(vars(self.cls)["__dataclass_fields__"], _Pending):
                _read_fields(self.cls, self.frozen)
            made = vars(self.cls)[self.name]
            if isinstance(made, _Pending):
                made = self._makers[self.name](self.cls, self.frozen)
                setattr(self.cls, self.name, made)
        return made.__get__(instance, owner) if callable(made) else made

    _makers: ClassVar[dict[str, Callable[[type, bool], Any]]] = {}


def _read_fields(cls: type, frozen: bool) -> None:
    """Let the standard decorator read the fields and check them, and freeze what is frozen.

    The decorator compiles two methods to freeze a class: it does so only where a base is frozen.
    """
    own = frozen and not any(_is_frozen(base) for base in cls.__mro__[1:])
    by_decorator = frozen and not own
    dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False, frozen=by_decorator)(
        cls
    )
    if own:
        _freeze(cls)
    declared = vars(cls)["__dataclass_fields__"].values()
    if any("InitVar" in str(field.type) for field in declared):
        raise TypeError(f"{cls.__name__} has an InitVar: declare it with dataclasses.dataclass")


def _is_frozen(cls: type) -> bool:
    """Whether a class is a frozen data class; one whose fields are still to be read is asked."""
    return dataclasses.is_dataclass(cls) and bool(cls.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def _freeze(cls: type[Any]) -> None:
    """Have instances refuse to set or delete fields, as the standard decorator does."""
    fields = frozenset(vars(cls)["__dataclass_fields__"])

    def refuse_to_set(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in fields:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def refuse_to_delete(self: object, name: str) -> None:
        if type(self) is cls or name in fields:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    for name, made in (("__setattr__", refuse_to_set), ("__delattr__", refuse_to_delete)):
        if name in vars(cls):
            raise TypeError(f"Cannot overwrite attribute {name} in class {cls.__name__}")
        setattr(cls, name, _named(cls, name, made))
    vars(cls)["__dataclass_params__"].frozen = True


def _maker(make: Callable[[type, bool], Any]) -> Callable[[type, bool], Any]:
    """Register what makes an attribute, by the name of the function."""
    _Pending._makers[f"__{make.__name__.removeprefix('_make_')}__"] = make
    return make


@_maker
def _make_match_args(cls: type, _: bool) -> tuple[str, ...]:
    return tuple(field.name for field in _fields(cls) if field.init and not field.kw_only)


@_maker
def _make_repr(cls: type, _: bool) -> Any:
    names = [field.name for field in _fields(cls) if field.repr]

    def made(self: Any) -> str:
        inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({inner})"

    return _named(cls, "__repr__", recursive_repr()(made))


@_maker
def _make_eq(cls: type, _: bool) -> Any:
    key = _key([field.name for field in _fields(cls) if field.compare])

    def made(self: Any, other: object) -> Any:
        if other.__class__ is self.__class__:
            return key(self) == key(other)
        return NotImplemented

    return _named(cls, "__eq__", made)


@_maker
def _make_hash(cls: type, _: bool) -> Any:
    key = _key([f.name for f in _fields(cls) if (f.compare if f.hash is None else f.hash)])

    def made(self: Any) -> int:
        return hash(key(self))

    return _named(cls, "__hash__", made)


@_maker
def _make_init(cls: type, frozen: bool) -> Any:
    """The constructor: it sets all fields, then calls `__post_init__` if there is one."""
    fields = _fields(cls)
    names: dict[str, object] = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
    for field in fields:
        names[f"_default_{field.name}"] = field.default
        names[f"_make_{field.name}"] = field.default_factory
    taken = [field for field in fields if field.init]
    by_name = [field for field in taken if field.kw_only]
    parameters = ["self", *(_parameter(field) for field in taken if not field.kw_only)]
    parameters += ["*", *map(_parameter, by_name)] if by_name else []
    body = [line for field in fields for line in _setting(field, frozen)]
    body += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    lines = "".join(f"\n    {line}" for line in body or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):{lines}", names)  # as the standard decorator does
    made: Any = names["__init__"]
    made.__annotations__ = {field.name: field.type for field in taken} | {"return": None}
    made.__module__ = cls.__module__
    return _named(cls, "__init__", made)


def _parameter(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"{field.name}=_FACTORY"
    has_default = field.default is not dataclasses.MISSING
    return f"{field.name}=_default_{field.name}" if has_default else field.name


def _setting(field: dataclasses.Field[Any], frozen: bool) -> list[str]:
    """The lines that set a field; none for one that is left to the class."""
    name, value = field.name, field.name
    if field.default_factory is not dataclasses.MISSING:
        made = f"_make_{name}()"
        value = f"{made} if {name} is _FACTORY else {name}" if field.init else made
    elif not field.init:
        return []
    return [f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}"]


def _fields(cls: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


def _key(names: list[str]) -> Key:
    """The attributes of an object in a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda each: tuple([getattr(each, name) for name in names])


def _named(cls: type, name: str, function: Any) -> Any:
    function.__name__, function.__qualname__ = name, f"{cls.__qualname__}.{name}"
    return function
