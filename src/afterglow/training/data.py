"""What a model learns from: arrays that are shuffled and cut, or batches as they come."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import ceil
from typing import Any, Protocol

import numpy as np

from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType


@dataclass(frozen=True)
class Field:
    """An array of each sample: its name, its elements, and its shape without the batch."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    kind: str = "input"

    @staticmethod
    def of(name: str, type: TensorType, kind: str) -> Field:
        """The field of an input of a step, whose first axis is that of the batch."""
        if not type.rank:
            raise UsageError(
                f"{kind} {name!r} has no axes: the first axis of each input is that of the batch",
                help="train a model whose inputs all belong to the batch",
            )
        return Field(name, np.dtype(type.dtype.numpy), tuple(type.shape[1:]), kind)

    def checked(self, given: Any, where: str = "") -> Array:
        """An array of samples as the model takes it, or an error that says what is wrong."""
        at = f" of {where}" if where else ""
        wanted = f"{self.dtype}[rows{''.join(f', {extent}' for extent in self.shape)}]"
        try:
            array = np.asarray(given)
        except ValueError:
            raise UsageError(
                f"{self.kind} {self.name!r}{at} must be {wanted}, got rows of different shapes",
                help="the first axis counts samples; the others are those of the model",
            ) from None
        if array.shape[1:] != self.shape or not array.ndim:
            raise UsageError(
                f"{self.kind} {self.name!r}{at} must be {wanted}, got shape {array.shape}",
                help="the first axis counts samples; the others are those of the model",
            )
        if array.dtype == self.dtype:
            return array
        if array.dtype.kind + self.dtype.kind not in ("ff", "ii", "uu", "iu", "ui", "bi", "bu"):
            raise UsageError(
                f"{self.kind} {self.name!r}{at} must be {wanted}, got elements of {array.dtype}",
                help=f"convert them: array.astype(np.{self.dtype})",
            )
        return array.astype(self.dtype)


@dataclass(frozen=True)
class Fields:
    """All that a step takes of a batch."""

    inputs: tuple[Field, ...]
    targets: tuple[Field, ...]

    @property
    def all(self) -> tuple[Field, ...]:
        """Inputs and then targets."""
        return (*self.inputs, *self.targets)

    def by_name(self, data: Any, where: str = "") -> dict[str, Any]:
        """The array of each field: of a dictionary by name, or of a pair of inputs and targets."""
        if isinstance(data, Mapping):
            return _chosen(data, self.all, "arrays", where)
        if not isinstance(data, (tuple, list)) or len(data) != 2:
            got = f"{len(data)} of them" if isinstance(data, (tuple, list)) else _kind(data)
            raise UsageError(
                f"{where or 'the data'} must be a pair of inputs and targets, got {got}",
                help=f"give (inputs, targets), or a dictionary with {_names(self.all)}",
            )
        inputs = _group(data[0], self.inputs, "inputs", where)
        return {**inputs, **_group(data[1], self.targets, "targets", where)}

    def arrays(self, data: Any, where: str = "") -> dict[str, Array]:
        """The checked array of each field, all with the same number of rows."""
        found = self.by_name(data, where)
        return same_rows({f.name: f.checked(found[f.name], where) for f in self.all}, where)

    def input_arrays(self, data: Any) -> dict[str, Array]:
        """The checked arrays of the inputs alone."""
        found = _group(data, self.inputs, "inputs", "")
        return same_rows({f.name: f.checked(found[f.name]) for f in self.inputs}, "")


def same_rows(arrays: dict[str, Array], where: str) -> dict[str, Array]:
    """The arrays, if all have as many rows, and any."""
    rows = {name: len(array) for name, array in arrays.items()}
    at = f" of {where}" if where else ""
    if len({*rows.values()}) > 1:
        counts = ", ".join(f"{name!r} has {count}" for name, count in rows.items())
        raise UsageError(f"the arrays{at} have different numbers of samples: {counts}")
    if not all(rows.values()):
        raise UsageError(f"the arrays{at} have no samples")
    return arrays


def _group(given: Any, fields: Sequence[Field], what: str, where: str) -> dict[str, Any]:
    """The inputs, or the targets: one array, several in order, or a dictionary."""
    if isinstance(given, Mapping):
        return _chosen(given, fields, what, where)
    if len(fields) == 1 and not (isinstance(given, tuple) and len(given) == 1):
        return {fields[0].name: given}
    if isinstance(given, (tuple, list)) and len(given) == len(fields):
        return {field.name: array for field, array in zip(fields, given, strict=True)}
    got = str(len(given)) if isinstance(given, (tuple, list)) else "one"
    at = f" of {where}" if where else ""
    raise UsageError(
        f"the {what}{at} must be {len(fields)} arrays, got {got}",
        help=f"give a tuple or a dictionary with {_names(fields)}",
    )


def _chosen(
    given: Mapping[str, Any], fields: Sequence[Field], what: str, where: str
) -> dict[str, Any]:
    names = [field.name for field in fields]
    at = f" of {where}" if where else ""
    for name in (*names, *given):
        if name not in given:
            raise UsageError(f"the {what}{at} lack {name!r}", help=f"they are {_names(fields)}")
        if name not in names:
            raise UsageError(
                f"the model knows no {name!r}, which is among the {what}{at}",
                help=f"they are {_names(fields)}",
            )
    return {name: given[name] for name in names}


def _names(fields: Sequence[Field]) -> str:
    return ", ".join(f"{field.name} ({field.kind})" for field in fields)


def _kind(data: Any) -> str:
    return f"an array {data.shape}" if isinstance(data, np.ndarray) else f"a {type(data).__name__}"


class Batches(Protocol):
    """Batches of samples, the same ones each time that an epoch is asked for."""

    @property
    def steps(self) -> int | None:
        """How many batches an epoch has, if that is known before it was read."""

    @property
    def about(self) -> dict[str, Any]:
        """What must be the same for a run to be resumed in the middle of an epoch."""

    def epoch(self, number: int, skip: int = 0) -> Iterator[dict[str, Array]]:
        """The batches of an epoch, from 1 on, without the first few: checked arrays by name."""


@dataclass(frozen=True)
class ArrayBatches:
    """Arrays, a row for each sample, cut into batches and shuffled anew for each epoch."""

    arrays: Mapping[str, Array]
    batch: int
    shuffle: bool = True
    seed: int = 0
    drop_last: bool = False
    """Whether samples that do not fill a batch are left out."""

    @property
    def rows(self) -> int:
        """How many samples there are."""
        return len(next(iter(self.arrays.values())))

    @property
    def steps(self) -> int:
        """How many batches an epoch has."""
        return self.rows // self.batch if self.drop_last else ceil(self.rows / self.batch)

    @property
    def about(self) -> dict[str, Any]:
        """What decides which samples are in which batch."""
        names = ("batch", "shuffle", "seed", "drop_last")
        return {"samples": self.rows, **{name: getattr(self, name) for name in names}}

    def epoch(self, number: int, skip: int = 0) -> Iterator[dict[str, Array]]:
        """The batches of an epoch, in an order that only the seed and its number decide."""
        order = np.arange(self.rows)
        if self.shuffle:
            order = np.random.default_rng((self.seed, number)).permutation(self.rows)
        for step in range(skip, self.steps):
            chosen = order[step * self.batch : (step + 1) * self.batch]
            yield _rows_of(self.arrays, chosen)


class StreamBatches:
    """Batches from a list, from what can be iterated again, or from a function that gives them."""

    def __init__(self, source: Any, fields: Fields) -> None:
        self._source, self._fields = source, fields
        self._read = 0

    @property
    def steps(self) -> int | None:
        """How many batches there are, if the source knows."""
        return len(self._source) if hasattr(self._source, "__len__") else None

    @property
    def about(self) -> dict[str, Any]:
        """Nothing is known of what comes."""
        return {}

    def epoch(self, number: int, skip: int = 0) -> Iterator[dict[str, Array]]:
        """What the source gives; a function that takes an argument gets the number."""
        given = self._opened(number)
        for place, batch in enumerate(islice(given, skip, None), skip):
            yield self._fields.arrays(batch, f"batch {place + 1} of epoch {number}")

    def _opened(self, number: int) -> Iterable[Any]:
        source = self._source
        if callable(source) and not hasattr(source, "__iter__"):
            found = source(number) if _takes_one(source) else source()
            if not isinstance(found, Iterable):
                raise UsageError(
                    f"the function of the data must return batches, got {_kind(found)}",
                    help="return a list of pairs (inputs, targets), or make it a generator",
                )
            return found
        if isinstance(source, Iterator):
            if self._read:
                raise UsageError(
                    "the data is an iterator, which has been read: it serves one epoch",
                    help="give a list of batches, or a function that returns an iterator",
                )
            self._read += 1
        return source  # type: ignore[no-any-return]


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(1)
    except (TypeError, ValueError):
        return False
    return True


def batches_of(
    data: Any, fields: Fields, batch: int, *, shuffle: bool, seed: int, drop_last: bool
) -> Batches:
    """What `fit` and `evaluate` are given, as batches."""
    if isinstance(data, (ArrayBatches, StreamBatches)):
        return data
    if isinstance(data, (tuple, Mapping)):
        arrays = ArrayBatches(fields.arrays(data), batch, shuffle, seed, drop_last)
        if not arrays.steps:
            raise UsageError(
                f"{arrays.rows} samples do not fill a batch of {batch}",
                help="make the batch smaller, or let drop_last be False",
            )
        return arrays
    if isinstance(data, np.ndarray) or not (callable(data) or isinstance(data, Iterable)):
        raise UsageError(
            f"cannot learn from {_kind(data)}",
            help="give a pair of arrays (inputs, targets), or batches of such pairs: "
            "a list, an iterable, or a function that returns one",
        )
    return StreamBatches(data, fields)


def split_off(data: Any, fields: Fields, share: float, seed: int) -> tuple[Any, Any]:
    """Arrays without a share of their samples, and these, which only the seed chooses."""
    if not isinstance(data, (tuple, Mapping)):
        raise UsageError(
            f"only of arrays can a share of {share:g} be left for validation",
            help="give the data for validation by itself",
        )
    arrays = fields.arrays(data)
    rows = len(next(iter(arrays.values())))
    count = round(share * rows)
    if not 0 < count < rows:
        raise UsageError(f"a share of {share:g} of {rows} samples leaves nothing on one side")
    order = np.random.default_rng((seed, 0)).permutation(rows)
    rest = np.sort(order[count:])
    return _rows_of(arrays, rest), _rows_of(arrays, order[:count])


def _rows_of(arrays: Mapping[str, Array], rows: Array) -> dict[str, Array]:
    return {name: array[rows] for name, array in arrays.items()}
