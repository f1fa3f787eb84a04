"""Lesson 3: inspect the program at each stage, as text, as data, and as a drawing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import afterglow as ag
from afterglow.graph import print_dot
from afterglow.ops.convolution import Conv

MODEL = Path(__file__).parent / "digits" / "digits.onnx"


def head(text: str, start: str, count: int = 6) -> None:
    """Print the first lines that are not declarations."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.strip().startswith(start))
    print("\n".join(line[:110] for line in lines[first : first + count]), "\n  …\n")


def main() -> None:
    # The backend "primitives" lowers everything that decomposes, so that lowering has work to do.
    model = ag.compile(MODEL, backend="primitives")

    # Every stage can be printed. On the command line: `afterglow dump --stage graph`.
    for stage, start in (("import", "func"), ("graph", "func"), ("lowered", "func")):
        print(f"--- {stage}")
        head(model.ir(stage), start)
    print("--- instructions, with the address of each buffer")
    head(model.ir("instructions"), "%")

    # The graph is data: a function is a list of nodes, each an op applied to values.
    module = ag.import_model(MODEL)
    main_function = module.main
    print(Counter(node.op.mnemonic for node in main_function.nodes))
    for node in main_function.nodes:
        match node.op:
            case Conv(strides, pads):
                weight = node.operand("weight")
                print(f"{node.origin}: strides {strides}, pads {pads}, weight {weight.type}")

    # A printed module can be parsed; the elements of large constants are passed separately.
    payload = {name: constant.data for name, constant in module.constants.items()}
    again = ag.parse_module(ag.print_module(module), payload)
    print("text round trip:", ag.print_module(again) == ag.print_module(module))

    # And it can be drawn, with `dot -Tsvg`.
    head(print_dot(main_function), "digraph", 4)

    # Memory: one arena for all intermediate results.
    print(model.memory)


if __name__ == "__main__":
    main()
