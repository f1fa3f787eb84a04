"""The text of programs: an assembler and a disassembler."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ember_chip.isa import Instr, View, dense

_TILE = re.compile(r"(\w+)\[([\d,]*)\]@(?:(\w+)\+)?(\d+)(?:\(([-\d,]*)\))?")


def disassemble(program: Iterable[Instr], comments: Mapping[int, str] | None = None) -> str:
    """A line for each instruction; comments are by the steps that `mark` names."""
    lines = []
    for instr in program:
        operands = ", ".join(map(_operand_text, instr.operands))
        fields = (f"{name}={value}" for name, value in instr.fields)
        line = " ".join(filter(None, (instr.name, operands, *fields)))
        comment = (comments or {}).get(instr.field("step", -1))
        lines.append(f"{line} ; {comment}" if comment else line)
    return "".join(f"{line}\n" for line in lines)


def assemble(text: str) -> list[Instr]:
    """The instructions of a text, without its comments."""
    program = []
    for line in text.splitlines():
        name, *words = line.partition(";")[0].split() or [""]
        if name:
            fields = [word.split("=") for word in words if "=" in word]
            operands = (_operand(word.rstrip(",")) for word in words if "=" not in word)
            program.append(Instr(name, tuple(operands), tuple((n, int(v)) for n, v in fields)))
    return program


def _operand_text(operand: View | float) -> str:
    if not isinstance(operand, View):
        return repr(operand)
    place = f"{operand.base}+{operand.offset}" if operand.base else str(operand.offset)
    text = f"{operand.dtype}[{','.join(map(str, operand.shape))}]@{place}"
    if operand.strides == dense(operand.shape):
        return text
    return f"{text}({','.join(map(str, operand.strides))})"


def _operand(text: str) -> View | float:
    match = _TILE.fullmatch(text)
    if match is None:
        return float(text)
    dtype, extents, base, offset, steps = match.groups()
    shape = tuple(map(int, filter(None, extents.split(","))))
    strides = dense(shape) if steps is None else tuple(map(int, filter(None, steps.split(","))))
    return View(dtype, shape, int(offset), strides, base or "")
