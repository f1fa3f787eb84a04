"""The text of programs: an assembler and a disassembler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ember_chip.isa import Instr, View


def disassemble(program: Iterable[Instr], comments: Mapping[int, str] | None = None) -> str:
    """A line for each instruction; comments are by the steps that `mark` names."""
    lines = []
    for instr in program:
        words = [instr.name, ", ".join(map(str, instr.operands))]
        words += [f"{name}={value}" for name, value in instr.fields]
        comment = " ".join((comments or {}).get(instr.field("step", -1), "").split())
        lines.append(" ".join(filter(None, words)) + (f" ; {comment}" if comment else "") + "\n")
    return "".join(lines)


def assemble(text: str) -> list[Instr]:
    """The instructions of a text, without its comments."""
    program = []
    for line in text.splitlines():
        name, *words = line.partition(";")[0].split() or [""]
        fields = [word.split("=") for word in words if "=" in word]
        operands = [word.rstrip(",") for word in words if "=" not in word]
        values = (View.parse(word) if "@" in word else float(word) for word in operands)
        if name:
            program.append(Instr(name, tuple(values), tuple((n, int(v)) for n, v in fields)))
    return program
