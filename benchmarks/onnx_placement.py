"""What a model of one node becomes on the CPU: which kernels, or work of the host, and why."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from afterglow.backends.cpu.backend import Cpu
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.driver.stages import Stages
from afterglow.frontends.base import MOST_DECIDING, NeedsValuesError, UnboundDimensionsError
from afterglow.graph import Module
from afterglow.instr import OpInstr, Program, Stack
from afterglow.memory.timeline import work_of
from afterglow.support.errors import AfterglowError

MOVES = frozenset({"concat", "expand", "pad", "reshape", "reverse", "slice", "split", "transpose"})
"""Ops that compute nothing: layouts differ, and most of these vanish."""

MOST_BINDINGS = 4
"""Attempts at a model, each with more of its inputs bound."""

BY_SHAPE = "values decide the shape of its result"
BY_VALUE = "it is computed once the values of its inputs are known"


@dataclass(frozen=True)
class Placement:
    """The ops that an import gives, those that kernels compute in the end, and the host's work."""

    imported: frozenset[str] = frozenset()
    compiled: frozenset[str] = frozenset()
    on_host: frozenset[str] = frozenset()

    @property
    def is_native(self) -> bool:
        """Whether kernels compute just the ops that the import gave."""
        return self.compiled <= self.imported


def placement(model: onnx.ModelProto, inputs: Sequence[Any]) -> Placement | None:
    """Where a model would run on such inputs; None if nothing can be said."""
    names = [info.name for info in model.graph.input]
    given = dict(zip(names, inputs, strict=False))
    options = Options(backend="cpu")
    for _ in range(MOST_BINDINGS):
        try:
            return _placed(model, options)
        except NeedsValuesError as error:
            values = {name: given[name] for name in error.inputs if name in given}
            if error.boundary is not None and not all(map(_is_few, values.values())):
                return Placement(on_host=frozenset({BY_SHAPE}))
            options = replace(options, values={**options.values, **values})
        except UnboundDimensionsError:
            arrays = {name: x for name, x in given.items() if isinstance(x, np.ndarray)}
            options = replace(options, shapes={name: x.shape for name, x in arrays.items()})
        except AfterglowError:
            return None
    return None


def _is_few(value: Any) -> bool:
    """Whether the model is compiled for each of the values that it has."""
    return not isinstance(value, np.ndarray) or (
        value.dtype.kind in "iub" and value.size <= MOST_DECIDING
    )


def _placed(model: onnx.ModelProto, options: Options) -> Placement:
    module, _ = open_source(model).load(options)
    imported = frozenset(_mnemonics(module))
    stages = Stages(options)
    program, _ = stages.plan(stages.lower(stages.optimise(module)))
    assert isinstance(stages.backend, Cpu)
    host = stages.backend.host_steps(program)
    on_host = frozenset(f"{work_of(step)}: {reason}" for step, reason in host)
    compiled = frozenset(_compiled(program, {id(step) for step, _ in host}))
    if options.values and not program.inputs:
        return Placement(on_host=frozenset({BY_VALUE}))
    return Placement(imported, compiled, on_host)


def _mnemonics(module: Module) -> Iterator[str]:
    for function in module.functions.values():
        yield from (node.op.mnemonic for node in function.nodes)


def _compiled(program: Program, host: Container[int]) -> Iterator[str]:
    """What kernels compute; moves aside."""
    for step in program.body:
        if id(step) in host:
            continue
        for op in step.body if isinstance(step, Stack) else (step,):
            if isinstance(op, OpInstr):
                if op.op.mnemonic not in MOVES:
                    yield op.op.mnemonic
                for body in op.bodies:
                    yield from _compiled(body, ())
