"""Programs as data: their text, the functions that ops carry, and the elements of constants."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from afterglow import ops  # noqa: F401  a program's text names ops of any family
from afterglow.graph import Function, Subgraph, parse_module
from afterglow.graph.function import subgraphs_of
from afterglow.graph.payload import pack_constants, unpack_constants
from afterglow.graph.printer import constants_of, functions_in_order, is_inline, print_functions
from afterglow.instr import Buffer, Instr, Program, ops_of, parse_program, print_program
from afterglow.runtime.artifact import Section
from afterglow.types import Array, TensorType
from afterglow.types.dtype import string

PROGRAM, FUNCTIONS, CAPTURED = "program", "functions", "captured"
"""Sections: the text of the program, that of functions, and the constants of these."""
CONSTANT = "constant."
"""How the names of sections begin that hold constants of the program."""


def store_program(
    program: Program, run: Iterable[Instr], constants: Iterable[Buffer]
) -> tuple[dict[str, Any], dict[str, Section]]:
    """A manifest and sections for the instructions of a program that are run, and some constants.

    Of functions that only other instructions carry, the names are enough.
    """
    carried = _functions(run)
    captured = [c for c in constants_of(functions_in_order(carried)) if not is_inline(c)]
    sections: dict[str, Section] = {PROGRAM: print_program(program, origins=True).encode()}
    sections.update((CONSTANT + buffer.name, _encoded(buffer)) for buffer in constants)
    if carried:
        sections[FUNCTIONS] = print_functions(carried).encode()
        sections[CAPTURED] = pack_constants(captured)
    known = {function.name for function in carried}
    named = {function.name for function in _functions(program.body)} - known
    return {"functions": sorted(known), "named": sorted(named)}, sections


def restore_program(manifest: Mapping[str, Any], sections: Mapping[str, Section]) -> Program:
    """The program that was stored so, with those of its constants that were."""
    functions = {name: Subgraph(Function(name)) for name in manifest["named"]}
    functions.update(_restore_functions(manifest, sections))
    program = parse_program(_text(sections[PROGRAM]), functions=functions)
    for buffer in program.constants:
        if CONSTANT + buffer.name in sections:
            buffer.data = _decoded(sections[CONSTANT + buffer.name], buffer.type)
    return program


def _functions(steps: Iterable[Instr]) -> list[Function]:
    """The functions that the ops of instructions carry, each once."""
    carried = (subgraphs_of(op.op) for step in steps for op in ops_of(step))
    return list(dict.fromkeys(each.function for subgraphs in carried for each in subgraphs))


def _restore_functions(
    manifest: Mapping[str, Any], sections: Mapping[str, Section]
) -> dict[str, Subgraph]:
    if FUNCTIONS not in sections:
        return {}
    module = parse_module(_text(sections[FUNCTIONS]), unpack_constants(sections[CAPTURED]))
    return {name: Subgraph(module.functions[name]) for name in manifest["functions"]}


def _encoded(constant: Buffer) -> Section:
    data = np.asarray(constant.data)
    if constant.type.dtype is string:
        return json.dumps([str(element) for element in data.reshape(-1)]).encode()
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8).data


def _decoded(data: Section, type: TensorType) -> Array:
    if type.dtype is string:
        return np.array(json.loads(bytes(data)), object).reshape(type.shape)
    return np.frombuffer(data, np.uint8).view(type.dtype.numpy).reshape(type.shape)


def _text(data: Section) -> str:
    return bytes(data).decode()
