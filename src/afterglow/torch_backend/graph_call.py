"""Running a graph of PyTorch on its tensors, compiled on the first call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from afterglow.driver.api import compile
from afterglow.driver.options import Options
from afterglow.frontends.torch.tensors import array_of, tensor_of
from afterglow.frontends.torch.traced import Returned, TracedGraph, trace_source
from afterglow.runtime import CompiledModel
from afterglow.runtime.version import Version
from afterglow.support.errors import AfterglowError, UnsupportedError, warn
from afterglow.torch_backend.bounds import Bounds
from afterglow.torch_backend.weights import Weights

_RUNS = 1 << 62
"""Numbers that a run may have: random numbers follow from them."""


class GraphCall:
    """A functional graph, called with a list of tensors and sizes, which returns a list.

    The tensors of the numbers in `fixed` are constants while they stay as they are: if one of them
    changes, the graph is compiled anew. What cannot be compiled runs in PyTorch, said once.
    """

    def __init__(
        self, graph: fx.GraphModule, fixed: Collection[int], options: Mapping[str, Any]
    ) -> None:
        self.graph = graph
        self.fixed = fixed
        self.options = options
        self.weights: Weights | None = None
        self.run: Callable[[Sequence[Any]], list[Any]] | None = None

    def __call__(self, args: list[Any]) -> list[Any]:
        """The results for these arguments; the list is emptied, as PyTorch wants it."""
        if self.run is None or self.weights is None or not self.weights.are_same(args):
            results = self._build(args)
        else:
            results = self.run(args)
        args.clear()
        return results

    def _build(self, args: Sequence[Any]) -> list[Any]:
        options = {"threads": torch.get_num_threads(), **self.options}
        try:
            _check_devices(args)
            self.weights = Weights({number: args[number] for number in self.fixed})
            traced = trace_source(self.graph.graph, self.weights.tensors)
            self.run = CompiledCall(traced, options, is_random=_is_random(self.graph.graph))
            return self.run(args)
        except AfterglowError as error:
            warn_once(f"a graph runs in PyTorch, as it cannot be compiled: {error}")
            self.weights, self.run = Weights({}), self._eager
            return self._eager(args)

    def _eager(self, args: Sequence[Any]) -> list[Any]:
        """What PyTorch makes of the graph."""
        with torch.no_grad():
            results = fx.Interpreter(self.graph).run(*args)
        return [results] if isinstance(results, torch.Tensor) else list(results)


def _check_devices(args: Sequence[Any]) -> None:
    """Refuse tensors elsewhere: so would be the results."""
    for each in args:
        if isinstance(each, torch.Tensor) and not each.is_cpu:
            raise UnsupportedError(f"a tensor is on the device '{each.device}', not on the CPU")


class CompiledCall:
    """A graph, called with tensors; compiled again when extents exceed what it was compiled for."""

    def __init__(self, traced: TracedGraph, options: Mapping[str, Any], *, is_random: bool) -> None:
        self.traced = traced
        self.options = options
        self.is_random = is_random
        self.model: CompiledModel | None = None
        self.bounds: Bounds | None = None

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """The tensors that it returns; outputs are new ones, in the memory of ours."""
        feed = {name: _array(args[number]) for number, name in self.traced.taken}
        if self.model is None or self.bounds is None or not self.bounds.hold(feed):
            self.model = self._compiled(feed)
        if self.is_random:
            _number_run(self.model)
        outputs = self.model.run(None, feed)
        return [_result(each, outputs, args) for each in self.traced.returned]

    def _compiled(self, feed: Mapping[str, Any]) -> CompiledModel:
        source = self.traced.source
        self.bounds = Bounds(source.signature(Options()), feed)
        return compile(source, **{"dims": self.bounds.dims, **self.options})


def _number_run(model: CompiledModel) -> None:
    """Let a run's random numbers follow PyTorch's seed, and differ from those of other graphs."""
    number = {"run_number": torch.randint(_RUNS, ()).numpy()}
    for version in model.versions():
        if isinstance(version, Version) and number.keys() <= version.compiled.states.keys():
            version.compiled.reset(number)


def _is_random(graph: fx.Graph) -> bool:
    """Whether a graph draws random numbers."""
    tags = (tag for node in graph.nodes for tag in getattr(node.target, "tags", ()))
    return torch.Tag.nondeterministic_seeded in tags


def _array(arg: Any) -> Any:
    return array_of(arg) if isinstance(arg, torch.Tensor) else arg


def _result(returned: Returned, outputs: Sequence[Any], args: Sequence[Any]) -> Any:
    if returned.output is not None:
        output = outputs[returned.output]
        if returned.is_size:
            return int(output)
        tensor = tensor_of(output)
        return tensor if returned.axes is None else tensor.permute(returned.axes)
    return returned.constant if returned.placeholder is None else args[returned.placeholder]


_said: set[str] = set()


def warn_once(text: str) -> None:
    """Warn, unless that was said before."""
    if text not in _said:
        _said.add(text)
        warn(text)
