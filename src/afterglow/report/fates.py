"""How each node of a model is executed: native code, simpler ops, on the host, or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from enum import Enum, auto
from typing import TypeAlias

from afterglow.graph import Module
from afterglow.instr import Instr, OpInstr, Program, Stack
from afterglow.support.lazy_dataclass import dataclass

Origins: TypeAlias = Mapping[str, Collection[str]]
"""The ops that each node of the model was imported as, by the name of the node."""


class Fate(Enum):
    """How a node of the model is executed."""

    COMPILED = auto()
    LOWERED = auto()
    HOST = auto()
    NO_CODE = auto()
    """It was folded, merged into another node, or only moves memory."""


@dataclass
class Fates:
    """The number of nodes per op and fate, and the simpler ops that lowered nodes became."""

    counts: dict[Fate, Counter[str]] = field(
        default_factory=lambda: {fate: Counter() for fate in Fate}
    )
    lowered_to: dict[str, set[str]] = field(default_factory=dict)


def origins(module: Module) -> Origins:
    """The ops of a graph, by the node of the model that they come from."""
    found: dict[str, set[str]] = {}
    for function in module.functions.values():
        for node in function.nodes:
            for origin in node.origins:
                found.setdefault(origin, set()).add(node.op.mnemonic)
    return found


def find_fates(
    nodes: Iterable[tuple[str, str]], wanted: Origins, program: Program, host: Iterable[Instr]
) -> Fates:
    """The fates of `nodes`, pairs of name and op, in a program whose `host` steps are not native.

    `wanted` maps each node to its ops before lowering.
    """
    on_host = {origin for step in host for op in _ops_of(step) for origin in op.origins}
    computed: dict[str, set[str]] = {}
    for op in _ops_in(program):
        for origin in op.origins:
            computed.setdefault(origin, set()).add(op.op.mnemonic)
    fates = Fates()
    for name, op_type in nodes:
        ops = computed.get(name, set())
        fate = _fate(name, ops, wanted.get(name, ()), on_host)
        fates.counts[fate][op_type] += 1
        if fate is Fate.LOWERED:
            fates.lowered_to.setdefault(op_type, set()).update(ops)
    return fates


def _fate(
    name: str, ops: Collection[str], wanted: Collection[str], on_host: Collection[str]
) -> Fate:
    if name in on_host:
        return Fate.HOST
    if not ops:
        return Fate.NO_CODE
    return Fate.COMPILED if set(ops) <= set(wanted) else Fate.LOWERED


def _ops_in(program: Program) -> Iterator[OpInstr]:
    for step in program.body:
        yield from _ops_of(step)


def _ops_of(step: Instr) -> Iterator[OpInstr]:
    """The op instructions in an instruction, with those in bodies of loops and branches."""
    for op in step.body if isinstance(step, Stack) else (step,):
        if isinstance(op, OpInstr):
            yield op
            for body in op.bodies:
                yield from _ops_in(body)
