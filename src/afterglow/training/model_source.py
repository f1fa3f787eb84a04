"""The model that is trained, for each number of samples that a batch may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from afterglow.driver.compile import import_model
from afterglow.driver.options import Options, check_bindings
from afterglow.driver.sources import Source, open_source
from afterglow.graph import Module, verify_module
from afterglow.nn import Layer
from afterglow.partition.split import items_of
from afterglow.runtime import TensorInfo
from afterglow.support.checks import check_count
from afterglow.support.errors import AfterglowError, UsageError
from afterglow.training.lora import LoRA
from afterglow.training.parameters import with_values
from afterglow.types import Array
from afterglow.types.extent import dims_of, is_ranged

ANY_BATCH = 32
"""The batch of a model that takes any, if a user does not say."""


LARGEST_BATCH = 1024
"""The largest batch of an imported model that is trained and may have any."""


class ModelSource(Protocol):
    """A model whose batch can have several sizes."""

    @property
    def batch(self) -> int:
        """The size of a batch if none is asked for."""

    def module(self, batch: int) -> Module:
        """The module for so many samples; its constants have the same names for all sizes."""

    def whole(self) -> Module:
        """The module for batches of any size if there is one, else for the size of `batch`."""

    def trained(self, batch: int | None, values: Mapping[str, Array]) -> Module:
        """The model with what its constants became by training; for any batch if it is None."""


def model_source(given: Any, dims: Mapping[str, int] | None = None) -> ModelSource:
    """What a user wants to train: a module, what builds modules, or the path of a model."""
    check_bindings(dims=dims)
    for name, extent in (dims or {}).items():
        check_count("Trainer", f"dims[{name!r}]", extent)
    if isinstance(given, Module):
        return _of_module(given, dims or {})
    if isinstance(given, Layer):
        raise UsageError(
            f"the network is not built yet: {given!r} may take inputs of many shapes",
            help="build it: network.module({'x': (None, 3, 32, 32)}), with None for the batch",
        )
    if callable(given):
        _check_unbound(dims, "a function builds the model, with all extents")
        return BuiltSource(given)
    return ImportedSource(given, dims or {})


def _check_unbound(dims: Mapping[str, int] | None, why: str) -> None:
    if dims:
        raise UsageError(f"{why}: dims have nothing to bind", help="leave dims out")


def _of_module(module: Module, dims: Mapping[str, int]) -> ModelSource:
    verify_module(module)
    extents = [value.type.shape[0] if value.type.rank else 0 for value in module.main.inputs]
    ranged = next((extent for extent in extents if is_ranged(extent)), None)
    if ranged is not None:
        batch = next(iter(dims_of(ranged))).name
        _check_known(module, batch, dims)
        return RangedSource(module, batch, dims)
    _check_unbound(dims, "the batch of the module is fixed")
    if len({*extents}) != 1 or not extents[0]:
        listed = ", ".join(f"{v.name}: {v.type}" for v in module.main.inputs)
        raise UsageError(
            "the inputs of the model do not share a batch: their first extents differ",
            help=f"the first axis of each input is that of the batch; they are {listed}",
        )
    return ExactSource(module, extents[0])


def _check_known(module: Module, batch: str, dims: Mapping[str, int]) -> None:
    """Refuse extents of dimensions that no input has, and that of the batch."""
    extents = (extent for value in module.main.inputs for extent in value.type.shape)
    known = [dim.name for dim in dims_of(*extents) if dim.name != batch]
    for name in dims:
        if name == batch:
            raise UsageError(
                f"dims cannot bind {name!r}, the dimension of the batch",
                help="give the size of batches to fit: trainer.fit(data, batch=32)",
            )
        if name not in known:
            raise UsageError(
                f"no input has a dimension {name!r}",
                help=f"there are {', '.join(known)}" if known else "leave dims out",
            )


class PlainSource:
    """Base: a model that is trained as it is."""

    batch = ANY_BATCH

    def module(self, batch: int) -> Module:
        """The module for so many samples."""
        raise NotImplementedError

    def whole(self) -> Module:
        """The module for the batch that it has."""
        return self.module(self.batch)

    def trained(self, batch: int | None, values: Mapping[str, Array]) -> Module:
        """The same with other constants."""
        return with_values(self.whole() if batch is None else self.module(batch), values)


class ExactSource(PlainSource):
    """A module for one size of a batch, and for smaller ones if its samples are independent."""

    def __init__(self, module: Module, batch: int) -> None:
        self._module, self.batch = module, batch

    def module(self, batch: int) -> Module:
        """The module, or what it computes for the first samples alone."""
        if batch == self.batch:
            return self._module
        if batch > self.batch:
            raise UsageError(
                f"the model is built for batches of {self.batch}, got {batch} samples",
                help="build it for the largest batch that it gets",
            )
        try:
            return items_of(self._module, 0, batch)
        except AfterglowError as error:
            _, _, why = error.what.partition(": ")
            raise UsageError(
                f"the model is built for batches of {self.batch}, and cannot take {batch} samples: "
                f"{why}",
                help="use drop_last=True, or a model with a dynamic batch",
            ) from None


class RangedSource(PlainSource):
    """A module whose batch has bounds."""

    def __init__(self, module: Module, name: str, dims: Mapping[str, int]) -> None:
        self._module, self._name, self._dims = module, name, dims

    def module(self, batch: int) -> Module:
        """A copy for a batch."""
        return self._module.bind({**self._dims, self._name: batch})

    def whole(self) -> Module:
        """A copy for any batch within the bounds."""
        return self._module.bind(self._dims)


class BuiltSource(PlainSource):
    """A function that builds a module for a batch."""

    def __init__(self, build: Callable[[int], Module]) -> None:
        self._build = build

    def module(self, batch: int) -> Module:
        """What the function builds."""
        module = self._build(batch)
        if not isinstance(module, Module):
            raise UsageError(
                f"cannot train a {type(module).__name__}",
                help="a function that builds the model returns an afterglow.Module",
            )
        return module


class ImportedSource(PlainSource):
    """A model that a front end opens, such as an ONNX file; its batch is dynamic, or fixed."""

    def __init__(self, given: Any, dims: Mapping[str, int]) -> None:
        self._given, self._dims = given, dims
        self._source: Source = open_source(given)
        inputs = self._source.signature(Options(dims=dims)).inputs
        self._free = any(info.shape and not isinstance(info.shape[0], int) for info in inputs)
        self._exact = None if self._free else _of_module(import_model(given, dims=dims), {})
        self.batch = self._exact.batch if self._exact else ANY_BATCH
        self._inputs = inputs

    def module(self, batch: int) -> Module:
        """The model with its first dynamic dimension bound to the batch."""
        if self._exact is not None:
            return self._exact.module(batch)
        shapes = {info.name: self._shape(info, batch) for info in self._inputs}
        return import_model(self._given, shapes=shapes)

    def whole(self) -> Module:
        """The model for any batch, unless its graph depends on the size."""
        first = (self._inputs[0].shape or (None,))[0]
        if not isinstance(first, str):
            return self.module(self.batch)
        try:
            return import_model(self._given, dims={**self._dims, first: (1, LARGEST_BATCH)})
        except AfterglowError:
            return self.module(self.batch)

    def _shape(self, info: TensorInfo, batch: int) -> tuple[int, ...]:
        if info.shape is not None and not len(info.shape):
            raise UsageError(
                f"input '{info}' has no axes: the first axis of each input is that of the batch",
                help="train a model whose inputs all belong to the batch",
            )
        free = [extent for extent in (info.shape or ())[1:] if not isinstance(extent, int)]
        if not info.shape or free:
            raise UsageError(
                f"input '{info}' has dynamic dimensions besides the batch",
                help="give their extents: Trainer(…, dims={NAME: EXTENT}); if they have no names, "
                f"train a module of exact shapes: import_model(…, shapes={{{info.name!r}: …}})",
            )
        return (batch, *(extent for extent in info.shape[1:] if isinstance(extent, int)))


class AdaptedSource:
    """A model with low-rank factors, which train, beside some of its weights, which do not."""

    def __init__(self, source: ModelSource, lora: LoRA) -> None:
        self._source, self._lora = source, lora

    @property
    def batch(self) -> int:
        """That of the model."""
        return self._source.batch

    def module(self, batch: int) -> Module:
        """The model with factors."""
        return self._lora.adapt(self._source.module(batch))[0]

    def whole(self) -> Module:
        """The model with factors, for any batch if it can have any."""
        return self._lora.adapt(self._source.whole())[0]

    def trained(self, batch: int | None, values: Mapping[str, Array]) -> Module:
        """The model without factors: what they add is in its weights."""
        module = self._source.whole() if batch is None else self._source.module(batch)
        _, adapted = self._lora.adapt(module)
        kept = {name: module.constants[name].data for name in adapted}
        return with_values(module, self._lora.merge(adapted, {**kept, **values}))
