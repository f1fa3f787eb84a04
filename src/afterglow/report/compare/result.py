"""What a comparison found, as values, as text, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from rich.table import Table

from afterglow.report.agreement import Difference
from afterglow.report.compare.judge import Verdict
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.tables import plain_text, table

SHOWN = 24
"""Rows of the table, unless all are asked for."""
BEFORE = 3
"""Tensors before the first that differs, of which rows are shown."""


@dataclass(frozen=True)
class ComparedTensor:
    """A tensor of the model, and how it differs from the reference."""

    name: str
    node: str
    """The node that computes it, by its name or that of its result; nothing if that is unknown."""
    op: str
    type: str
    is_output: bool
    verdict: Verdict
    difference: Difference
    note: str = ""
    """What else there is to say: NaN and infinities, or a tolerance that is absolute."""

    def data(self) -> dict[str, Any]:
        """The JSON representation."""
        found = self.difference
        return {
            "name": self.name,
            "node": self.node,
            "op": self.op,
            "type": self.type,
            "is_output": self.is_output,
            "verdict": self.verdict.value,
            "max_absolute": plain_number(found.absolute),
            "max_relative": plain_number(found.relative),
            "max_ulps": plain_number(found.ulps),
            "relative_l2": plain_number(found.l2),
            "nan": [found.actual.nan, found.expected.nan],
            "infinite": [found.actual.infinite, found.expected.infinite],
            "note": self.note,
        }


@dataclass(frozen=True)
class FirstDifference:
    """The first tensor in topological order that differs, and what is known about its node."""

    tensor: ComparedTensor
    found_by: str = ""
    """How it was found, if not among the intermediate tensors of one compilation."""
    values: str = ""
    """The elements with the largest error."""
    alone: bool | None = None
    """Whether the node, compiled by itself, differs on the reference's operands, too."""
    body_nodes: int = 0
    """How many nodes there are in its bodies, which are not compared one by one."""

    def lines(self) -> list[str]:
        """The text, for people."""
        tensor = self.tensor
        lines = [f"first difference: tensor {tensor.name!r}{_made_by(tensor)}"]
        lines.append(f"  {tensor.difference.mismatch or self.values or tensor.note}")
        if tensor.note and (tensor.difference.mismatch or self.values):
            lines.append(f"  {tensor.note}")
        if self.found_by:
            lines.append(f"  {self.found_by}")
        if self.alone is not None:
            lines.append("  " + _ALONE[self.alone])
        if self.body_nodes:
            some = "1 node" if self.body_nodes == 1 else f"{self.body_nodes} nodes"
            lines.append(f"  its bodies have {some}, which are not compared one by one")
        return lines

    def data(self) -> dict[str, Any]:
        """The JSON representation."""
        return {
            **self.tensor.data(),
            "values": self.values,
            "found_by": self.found_by,
            "differs_alone": self.alone,
            "body_nodes": self.body_nodes,
        }


_ALONE = {
    True: "the node differs by itself, too, on the operands that the reference has",
    False: "by itself, on the operands that the reference has, the node agrees: the error comes "
    "from nodes before it, or from how they are compiled together",
}


@dataclass(frozen=True)
class CompareReport:
    """What `compare` found.

    Tensors are in topological order. `first` is the first of them that differs, `passes` what
    introduced the difference and `reduced` a smaller model that shows it, if they were asked for.
    """

    reference: str
    judged_by: str
    tensors: Sequence[ComparedTensor]
    first: FirstDifference | None = None
    not_compared: Mapping[str, str] = field(default_factory=dict)
    """Tensors that could not be compared, each with the reason."""
    remarks: Sequence[str] = ()
    passes: Any = None
    reduced: Any = None

    @property
    def agrees(self) -> bool:
        """Whether all tensors that were compared agree, or drift and the outputs agree."""
        return not self.differing

    @property
    def differing(self) -> list[ComparedTensor]:
        """The tensors that do not agree, in topological order."""
        return [x for x in self.tensors if x.verdict in (Verdict.DIFFERS, Verdict.UNDECIDED)]

    @property
    def worst(self) -> list[ComparedTensor]:
        """All tensors, those with the largest relative L2 error first."""
        return sorted(self.tensors, key=lambda tensor: -tensor.difference.l2)

    def __str__(self) -> str:
        lines = [plain_text(self.table()), "", *self.lines()]
        return "\n".join(lines)

    def table(self, *, all: bool = False, worst: bool = False) -> Table:
        """A row for each tensor, or for those that matter most if there are many.

        With `worst`, those with the largest relative L2 error come first.
        """
        numbers = ("max abs", "relative", "ulp", "rel. L2")
        rows = table("tensor", "node", "op", "type", *numbers, "verdict", right=numbers)
        ordered = self.worst if worst else self.tensors
        few = ordered[:SHOWN] if worst else self._chosen()
        for tensor in ordered if all else few:
            rows.add_row(*_row(tensor), style=_STYLES[tensor.verdict])
        return rows

    def hidden(self, *, worst: bool = False) -> int:
        """How many tensors the table does not have, unless all are asked for."""
        count = len(self.tensors)
        return max(0, count - SHOWN) if worst else count - len(self._chosen())

    def _chosen(self) -> Sequence[ComparedTensor]:
        """The first that differ, those before them, the outputs, and those with large errors."""
        if len(self.tensors) <= SHOWN:
            return self.tensors
        places = range(len(self.tensors))
        wrong = [p for p in places if self.tensors[p].verdict is not Verdict.AGREES]
        chosen = {p for p in places if self.tensors[p].is_output}
        chosen = {*sorted(chosen)[: SHOWN // 2]}
        if wrong:
            chosen.update(range(max(0, wrong[0] - BEFORE), wrong[0]))
            chosen.update(wrong[: max(0, SHOWN - len(chosen))])
        largest = sorted(places, key=lambda p: -self.tensors[p].difference.relative)
        chosen.update(largest[: max(0, SHOWN // 2 - len(chosen))])
        return [self.tensors[p] for p in sorted(chosen)]

    def lines(self) -> list[str]:
        """What there is to say besides the table, the verdict last."""
        lines = [] if self.first is None else self.first.lines()
        lines.extend(self.remarks)
        for found in (self.passes, self.reduced):
            lines.extend([] if found is None else found.lines())
        return [*lines, self.verdict]

    @property
    def verdict(self) -> str:
        """One sentence."""
        count, agree = len(self.tensors), [x.verdict for x in self.tensors].count(Verdict.AGREES)
        some = "1 tensor" if count == 1 else f"{count} tensors"
        if self.agrees:
            which = "all agree" if agree == count else f"{agree} and all outputs agree"
            return f"{some}: {which} with {self.reference}, {self.judged_by}"
        return f"{len(self.differing)} of {some} differ from {self.reference}, {self.judged_by}"

    def data(self) -> dict[str, Any]:
        """The JSON representation."""
        return {
            "reference": self.reference,
            "judged_by": self.judged_by,
            "agrees": self.agrees,
            "first_difference": None if self.first is None else self.first.data(),
            "tensors": [tensor.data() for tensor in self.tensors],
            "not_compared": dict(self.not_compared),
            "remarks": list(self.remarks),
            "passes": None if self.passes is None else self.passes.data(),
            "reduced": None if self.reduced is None else self.reduced.data(),
        }


_STYLES = {
    Verdict.AGREES: "",
    Verdict.DRIFTS: "yellow",
    Verdict.DIFFERS: "bold red",
    Verdict.UNDECIDED: "bold yellow",
}


def _made_by(tensor: ComparedTensor) -> str:
    return f" of node {tensor.node!r} ({tensor.op})" if tensor.node else ""


def _row(tensor: ComparedTensor) -> list[str]:
    found = tensor.difference
    if found.mismatch or tensor.type.startswith(("str", "bool")):
        numbers = ["", "", "", ""]
    else:
        ulps = f"{found.ulps:,.0f}" if found.ulps < 1e6 else f"{found.ulps:.0e}"
        numbers = [f"{found.absolute:.2g}", f"{found.relative:.2g}", ulps, f"{found.l2:.2g}"]
    verdict = tensor.verdict.value + (f"; {tensor.note}" if tensor.note else "")
    return [tensor.name, tensor.node, tensor.op, tensor.type, *numbers, verdict]


def worst_element(difference: Difference, actual: Any, expected: Any) -> str:
    """The element with the largest error, and what it should be."""
    if difference.place is None or difference.mismatch:
        return ""
    place = np.unravel_index(difference.place, actual.shape)
    index = ", ".join(str(int(i)) for i in place)
    return f"at [{index}] it is {_brief(actual[place])} instead of {_brief(expected[place])}"


def _brief(element: Any) -> str:
    return f"{float(element):.6g}" if np.issubdtype(type(element), np.floating) else str(element)


def plain_number(number: float) -> float | str:
    """A number as a JSON value; infinities and NaN, which JSON lacks, become texts."""
    return number if math.isfinite(number) else str(number)
