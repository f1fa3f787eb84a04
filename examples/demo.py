"""Takes a model through every stage, from an ONNX file to classified images.

The model is a small network that recognises handwritten digits; digits/train.py trains it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from time import perf_counter

import numpy as np
from rich import box
from rich.console import Console, Group
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

import afterglow as ag
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages

DIGITS = Path(__file__).parent / "digits"
OPTIONS = Options(backend="primitives")  # lowers all it can, so that every stage has work to do
SHADES = " ░▒▓█"
WIDTH = 100


def heading(title: str) -> Rule:
    return Rule(f"[bold]{title}", align="left", characters="─")


def excerpt(text: str, start: str, count: int) -> Text:
    """A few lines of a dump, starting with the first that begins with `start`, truncated."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.strip().startswith(start))
    shown = [Text(line) for line in lines[first : first + count]]
    for line in shown:
        line.truncate(WIDTH, overflow="ellipsis")
    shown.append(Text(f"  … {len(lines) - first - len(shown)} more lines"))
    return Text("\n", "dim").join(shown)


def op_table(stages: dict[str, ag.Module]) -> Table:
    """The number of nodes of each op, at each stage."""
    counts = [Counter(n.op.mnemonic for n in module.main.nodes) for module in stages.values()]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("op")
    for name in stages:
        table.add_column(name, justify="right")
    for op in dict.fromkeys(op for count in counts for op in count):
        table.add_row(op, *(str(count[op] or "") for count in counts))
    table.add_section()
    table.add_row("nodes", *(str(count.total()) for count in counts), style="bold")
    return table


def bar(label: str, size: int, full: int) -> str:
    return f"  {label:<22} {'█' * max(round(40 * size / full), 1):<40} {size:>7,} bytes"


def picture(image: np.ndarray, verdict: str) -> Group:
    """An image with grey levels 0 to 16 as block characters, two per pixel."""
    rows = ["".join(SHADES[(int(level) + 3) // 4] * 2 for level in row) for row in image]
    return Group(*map(Text, rows), Text.from_markup(verdict))


def verdict(probabilities: np.ndarray, label: int) -> str:
    digit = probabilities.argmax()
    if digit == label:
        return f"[bold green]{digit}[/]  {probabilities[digit]:.1%}"
    return f"[bold red]{digit}[/], should be {label}"


def show_stages(console: Console, path: Path) -> ag.Module:
    """Show the model as imported, optimised and lowered; return the last."""
    console.print(heading("Stages: from the ONNX file to primitive ops"))
    module = ag.import_model(path)
    imported = module.clone()
    optimised = Stages(OPTIONS).optimise(module).clone()
    lowered = Stages(OPTIONS).lower(module)
    console.print(op_table({"imported": imported, "optimised": optimised, "lowered": lowered}))
    console.print(heading("Imported, optimised, and planned as instructions"))
    console.print(excerpt(ag.print_module(imported), "func", 5))
    console.print(excerpt(ag.print_module(optimised), "func", 4))
    return lowered


def show_memory(console: Console, model: ag.CompiledModel, lowered: ag.Module) -> None:
    """Show the planned program, and its arena compared with one buffer per tensor."""
    console.print(excerpt(model.ir("instructions"), "%", 5))
    console.print(heading("Memory"))
    alone = sum(result.type.nbytes for node in lowered.main.nodes for result in node.results)
    memory = model.memory
    console.print(bar("one buffer per tensor", alone, alone))
    console.print(bar("planned arena", memory.arena_bytes, alone))
    console.print(bar("lower bound", memory.lower_bound_bytes, alone))


def show_pictures(console: Console, model: ag.CompiledModel) -> None:
    """Show some images with their predictions, and the accuracy."""
    console.print(heading("Predictions"))
    data = np.load(DIGITS / "test_images.npz")
    images, labels = data["images"], data["labels"]
    started = perf_counter()
    found = np.concatenate([model(image[None, None].astype(np.float32)) for image in images])
    seconds = (perf_counter() - started) / len(images)
    wrong = np.flatnonzero(found.argmax(1) != labels)
    sure = [int(np.flatnonzero((labels == n) & (found.max(1) > 0.99))[0]) for n in (0, 3, 6, 8)]
    shown = [*sure, *wrong[:1]][: console.width // 18]
    grid = Table.grid(padding=(0, 2))
    grid.add_row(*(picture(images[i], verdict(found[i], labels[i])) for i in shown))
    console.print(Padding(grid, (0, 2)))
    right = f"[bold]{len(labels) - len(wrong)} of {len(labels)} correct[/]"
    console.print(f"\n{right}, {seconds * 1e6:.0f} µs per image")
    error = np.abs(found - data["probabilities"]).max()
    console.print(f"largest difference from PyTorch's probabilities: {error:.1e}")


def main() -> None:
    console = Console(highlight=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    path = DIGITS / "digits.onnx"
    lowered = show_stages(console, path)
    started = perf_counter()
    model = ag.compile(path)  # machine code
    seconds = perf_counter() - started
    show_memory(console, model, lowered)
    show_pictures(console, model)
    console.print(f"the model was compiled in {seconds * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
