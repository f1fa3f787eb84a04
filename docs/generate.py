"""Writes what is made from the code: docs/ops.md, docs/primitives.md, and the picture of an arena.

Run it after changing an op or the planner: `python docs/generate.py`. A test fails if something is
out of date.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.driver.compile import import_model
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import OPS, Op
from afterglow.graph.attributes import value_text
from afterglow.memory.picture import memory_svg

FOLDER = Path(__file__).parent
DIGITS = FOLDER.parent / "examples" / "digits" / "digits.onnx"


def pages() -> dict[str, str]:
    """Everything generated, by its file name."""
    return {
        "ops.md": ops_page(),
        "primitives.md": primitives_page(),
        "images/memory-digits.svg": memory_picture(),
    }


def memory_picture() -> str:
    """The arena of the model that the examples have."""
    compiled = Stages(Options()).finish(import_model(DIGITS))
    return memory_svg(compiled.program, compiled.plan.lower_bound_bytes, DIGITS.name)


def ops_page() -> str:
    """The reference of all ops, a section a family."""
    families: dict[str, list[type[Op]]] = {}
    for cls in OPS.values():
        families.setdefault(cls.__module__.rpartition(".")[2], []).append(cls)
    lines = [
        "# Ops",
        "",
        f"Generated from the code: {len(OPS)} ops in {len(families)} families. *Primitive* ops",
        "are what a backend must implement; *lowered* ones decompose into others unless a backend",
        "keeps them whole; *copies* become moves of memory, most of which vanish.",
        "",
    ]
    for family, classes in sorted(families.items()):
        lines += [f"## {family}", "", "| op | attributes | kind | meaning |", "|---|---|---|---|"]
        lines += [_row(cls) for cls in classes]
        lines.append("")
    return "\n".join(lines)


def primitives_page() -> str:
    """The short list that new hardware implements."""
    primitives = [cls for cls in OPS.values() if cls.is_primitive()]
    count = f"{len(primitives)} ops, of {len(OPS)}"
    lines = [
        "# Primitives",
        "",
        f"Generated from the code: the {count}, that do not decompose.",
        "A backend that has a kernel for each of them, and can copy memory, runs every model. The",
        "backend `primitives` is that contract as a program: it refuses everything else, and the",
        "tests run random graphs and real models on it.",
        "",
        "| op | attributes | meaning |",
        "|---|---|---|",
    ]
    lines += [f"| `{_call(cls)}` | {_attributes(cls)} | {_summary(cls)} |" for cls in primitives]
    return "\n".join(lines) + "\n"


def _row(cls: type[Op]) -> str:
    kind = "primitive" if cls.is_primitive() else "copies" if cls.has_own_selection() else "lowered"
    return f"| `{_call(cls)}` | {_attributes(cls)} | {kind} | {_summary(cls)} |"


def _call(cls: type[Op]) -> str:
    names = [
        f"*{name}" if cls.variadic and name == cls.operand_names[-1] else name
        for name in cls.operand_names
    ]
    shown = [
        name if index < cls.required or name.startswith("*") else f"{name}?"
        for index, name in enumerate(names)
    ]
    return f"{cls.mnemonic}({', '.join(shown)})"


def _attributes(cls: type[Op]) -> str:
    parts = []
    for field in fields(cls):  # type: ignore[arg-type]  # ops are dataclasses
        default = "" if field.default is MISSING else f" = {value_text(field.default)}"
        parts.append(f"`{field.name}{default}`")
    return ", ".join(parts)


def _summary(cls: type[Op]) -> str:
    first = (cls.__doc__ or "").strip().split("\n\n")[0]
    return " ".join(first.split()).replace("|", "\\|")


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"wrote docs/{name}")
