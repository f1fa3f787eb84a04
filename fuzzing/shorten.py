"""Shorter programs that may show what a program shows: those that end at an earlier node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from fuzzing.program import ProgramExample

_NAME = re.compile(r"[%@][A-Za-z0-9_.]+")


def shorter_programs(program: ProgramExample) -> Iterator[ProgramExample]:
    """The program cut behind each of its nodes, and without the nodes that that does not need."""
    lines = program.text.splitlines()
    if sum(line.startswith("func ") for line in lines) != 1:
        return  # what bodies need is not followed
    nodes = [line for line in lines if line.startswith("  %")]
    head = [line for line in lines if not line.startswith(("  ", "}", "const "))]
    constants = [line for line in lines if line.startswith("const ")]
    for count in range(1, len(nodes)):
        wanted = set(_NAME.findall(nodes[count - 1].partition(" = ")[0]))
        result = " ".join(sorted(wanted))
        kept: list[str] = []
        for line in reversed(nodes[:count]):
            if wanted & set(_NAME.findall(line.partition(" = ")[0])):
                kept.insert(0, line)
                wanted |= set(_NAME.findall(line))
        used = [line for line in constants if set(_NAME.findall(line)) & wanted]
        text = "\n".join([*used, *head, *kept, f'  return {result} as "y0"', "}", ""])
        names = {name[1:] for name in wanted}
        data = {name: array for name, array in program.constants.items() if name in names}
        yield replace(program, text=text, constants=data)
