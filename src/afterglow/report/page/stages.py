"""The stages of a compilation as a page shows them: a text, and the graph that it says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

from afterglow.graph import Function, HostOp, Module, Node, print_module
from afterglow.graph.attributes import value_text
from afterglow.graph.printer import functions_in_order
from afterglow.graph.printer import value_text as operand_text
from afterglow.graph.value import Value
from afterglow.instr import (
    Access,
    Alloc,
    Buffer,
    Dealloc,
    DeclareView,
    Instr,
    Program,
    origins_of,
    print_program,
)
from afterglow.instr.printer import instruction_text
from afterglow.memory.timeline import work_of
from afterglow.report.page.layout import Edge, layered_layout
from afterglow.support.lazy_dataclass import dataclass

LONGEST_LINE = 2000
"""Characters of a line that are shown; types with a scale for each channel have more."""
LONGEST_TYPE = 120
LETTER, BOLD_LETTER, MARGIN, TIME = 6.8, 8.0, 28.0, 56.0
"""Widths of a letter in a node, about, of one of its op, of the space around, and of a time."""
NARROWEST, WIDEST = 90.0, 240.0
MOST_NODES = 20_000
"""Nodes of a graph that is drawn; of larger ones there is the text."""


@dataclass(frozen=True)
class GraphNode:
    """A node, an instruction, an input or an output as a page shows it."""

    name: str
    op: str
    type: str
    origins: tuple[str, ...] = ()
    """The nodes of the model that it comes from."""
    line: int | None = None
    """The first line of the text that says it."""
    lines: int = 1
    facts: dict[str, Any] = field(default_factory=dict)
    """What else is known: of an instruction its plan, its addresses, its time."""


@dataclass(frozen=True)
class StageGraph:
    """A stage: its text, and its graph, whose edges lead to nodes behind those that they are from.

    Functions that ops carry, such as bodies of loops, are in the text only.
    """

    name: str
    title: str
    lines: Sequence[str]
    nodes: Sequence[GraphNode]
    edges: Sequence[Edge]

    def data(self, origins: dict[str, int]) -> dict[str, Any]:
        """As JSON can hold it, laid out; origins are numbered in `origins`."""
        drawn = len(self.nodes) <= MOST_NODES
        return {
            "name": self.name,
            "title": self.title,
            "text": "\n".join(map(_shortened, self.lines)),
            "drawn": drawn,
            "nodes": [_node_data(node, origins) for node in self.nodes],
            **(self._layout_data() if drawn else {"x": [], "rank": [], "width": [], "edges": []}),
        }

    def _layout_data(self) -> dict[str, Any]:
        widths = [_width(node) for node in self.nodes]
        layout = layered_layout(widths, self.edges)
        return {
            "x": [round(x) for x in layout.xs],
            "rank": layout.ranks,
            "width": [round(width) for width in widths],
            "edges": [
                [*edge, *map(round, bends)]
                for edge, bends in zip(self.edges, layout.bends, strict=True)
            ],
        }


def _node_data(node: GraphNode, origins: dict[str, int]) -> dict[str, Any]:
    numbers = [origins.setdefault(name, len(origins)) for name in node.origins]
    data: dict[str, Any] = {"name": node.name, "op": node.op, "type": node.type, "origins": numbers}
    if node.line is not None:
        data["line"] = node.line
    if node.lines != 1:
        data["lines"] = node.lines
    return {**data, **node.facts}


def _shortened(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} …"


def _width(node: GraphNode) -> float:
    timed = TIME if "seconds" in node.facts else 0.0
    letters = max(len(node.op) * BOLD_LETTER + timed, max(len(node.name), len(node.type)) * LETTER)
    return min(max(letters + MARGIN, NARROWEST), WIDEST)


def type_text(types: Iterable[object]) -> str:
    """Types as a node shows them: the many scales of quantized channels are left out."""
    text = ", ".join(map(str, types))
    return text if len(text) <= LONGEST_TYPE else f"{text[:LONGEST_TYPE]} …"


def stage_of_module(name: str, title: str, module: Module) -> StageGraph:
    """A stage of graph IR."""
    function = module.main
    lines = print_module(module).splitlines()
    start = _first_line(module, lines, function)
    nodes, numbers = _inputs((x, x.name, x.type) for x in function.inputs)
    edges: dict[Edge, None] = {}
    for place, node in enumerate(function.nodes):
        edges.update(_edges_to(len(nodes), node.inputs(), numbers))
        numbers.update(dict.fromkeys(node.results, len(nodes)))
        nodes.append(_graph_node(node, start + place))
        if isinstance(node.op, HostOp):
            lines[start + place] = f"  {_host_text(node, node.op)}"
    for output in function.outputs:
        edges.update(_edges_to(len(nodes), (output.value,), numbers))
        nodes.append(GraphNode(output.name, "output", type_text((output.value.type,))))
    return StageGraph(name, title, lines, nodes, [*edges])


def _first_line(module: Module, lines: Sequence[str], wanted: Function) -> int:
    """The line of the first node of a function; each function ends with its returns and a brace."""
    line = len(lines)
    for function in reversed(functions_in_order(module.functions.values())):
        line -= len(function) + len(function.updates) + 3
        if function is wanted:
            return line + 1
    raise AssertionError("a module prints all of its functions")


def _inputs(values: Iterable[tuple[Any, str, object]]) -> tuple[list[GraphNode], dict[Any, int]]:
    """A node for each input, and their numbers."""
    given = [*values]
    nodes = [GraphNode(name, "input", type_text((type,))) for _, name, type in given]
    return nodes, {value: number for number, (value, _, _) in enumerate(given)}


def _edges_to(node: int, values: Iterable[Value], numbers: dict[Any, int]) -> Iterator[Any]:
    yield from (((numbers[value], node), None) for value in values if value in numbers)


def _graph_node(node: Node, line: int) -> GraphNode:
    op = node.op.name if isinstance(node.op, HostOp) else node.op.mnemonic
    types = type_text(result.type for result in node.results)
    return GraphNode(node.name, op, types, node.origins, line)


def _host_text(node: Node, op: HostOp) -> str:
    """A node of the model in few words: its op, operands and attributes."""
    results = ", ".join(map(operand_text, node.results))
    operands = ", ".join(map(operand_text, node.operands))
    pairs = ", ".join(f"{each[0]} = {value_text(each[-1])}" for each in op.attributes)
    types = ", ".join(str(result.type) for result in node.results)
    return f"{results} = {op.name}({operands})" + (f" {{{pairs}}}" if pairs else "") + f" : {types}"


def stage_of_program(title: str, program: Program, facts: Sequence[dict[str, Any]]) -> StageGraph:
    """The instructions, with facts for each that does something; edges are what passes in memory.

    An instruction reads what was last written to a buffer, and all parts that were written to it.
    """
    lines = print_program(program).splitlines()
    nodes, numbers = _inputs((b, b.name, b.type) for b in program.inputs)
    writers: dict[Buffer, list[int]] = {buffer: [number] for buffer, number in numbers.items()}
    edges: dict[Edge, None] = {}
    line = len(lines) - 1 - sum(_line_count(step) for step in program.body)
    remaining = iter(facts)
    for step in program.body:
        count = _line_count(step)
        if not isinstance(step, (Alloc, Dealloc, DeclareView)):
            edges.update(dict.fromkeys(_reads(step, len(nodes), writers)))
            _note_writes(step, len(nodes), writers)
            nodes.append(_instruction(step, line, count, next(remaining)))
        line += count
    for output in program.outputs:
        edges.update(dict.fromkeys((w, len(nodes)) for w in writers.get(output, ())))
        nodes.append(GraphNode(output.name, "output", type_text((output.type,))))
    return StageGraph("instructions", title, lines, nodes, [*edges])


def _line_count(step: Instr) -> int:
    return len(instruction_text(step).splitlines())


def _reads(step: Instr, number: int, writers: dict[Buffer, list[int]]) -> Iterator[Edge]:
    for access, buffer in step.accesses():
        if access.reads:
            yield from ((writer, number) for writer in writers.get(buffer.root, ()))


def _note_writes(step: Instr, number: int, writers: dict[Buffer, list[int]]) -> None:
    """Whoever writes all of a buffer is its only writer; who writes a part is one more."""
    for access, buffer in step.accesses():
        if access not in (Access.OUT, Access.INOUT):
            continue
        known = writers.setdefault(buffer.root, [])
        if buffer.covers_root:
            known.clear()
        if number not in known:
            known.append(number)


def _instruction(step: Instr, line: int, lines: int, facts: dict[str, Any]) -> GraphNode:
    written = [b for access, b in step.accesses() if access in (Access.OUT, Access.INOUT)]
    name = written[-1].name if written else work_of(step)
    types = type_text(buffer.type for buffer in written[-1:])
    return GraphNode(name, work_of(step), types, origins_of(step), line, lines, facts)
