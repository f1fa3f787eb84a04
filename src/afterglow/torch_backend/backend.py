"""What `torch.compile` calls with each graph that it captured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext

from afterglow.frontends.torch.decompositions import decompositions
from afterglow.support.errors import UsageError
from afterglow.torch_backend.parts import graph_call

OPTIONS = ("threads", "precision", "exact", "cache", "dims")
"""Those of `afterglow.compile` that a graph of PyTorch can have."""


def afterglow(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a graph: for inference, or forward and backward if a gradient may be asked for."""
    options = dict(options or {})
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise UsageError(
            f"the backend 'afterglow' has no option {unknown[0]!r}",
            help=f"it has {', '.join(OPTIONS)}",
        )
    compiled: Callable[..., Any] = aot_autograd(
        fw_compiler=partial(_compile, options=options, is_inference=False),
        bw_compiler=partial(_compile, options=options, is_inference=False),
        inference_compiler=partial(_compile, options=options, is_inference=True),
        decompositions=decompositions(),
    )(graph, inputs)
    return compiled


def _compile(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any],
    is_inference: bool,
) -> Callable[[list[Any]], Any]:
    """What runs a functional graph; in inference, parameters are constants."""
    fixed = _parameters() if is_inference else ()
    call = graph_call(graph, fixed, options)

    def boxed(args: list[Any]) -> Any:
        return call(args)

    boxed.__dict__["_boxed_call"] = True  # how PyTorch knows that it takes one list
    return boxed


def _parameters() -> tuple[int, ...]:
    """The numbers of the graph's inputs that are parameters and buffers of modules."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return () if metadata is None else tuple(metadata.static_input_indices)
