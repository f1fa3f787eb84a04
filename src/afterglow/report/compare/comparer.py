"""Comparing a compiled model with a reference, tensor by tensor.

The outputs are compared first, of the model exactly as it is compiled for a user. Intermediate
tensors must become outputs to be seen, which changes what is fused: if the error is gone then, it
is searched for by compiling the model up to one tensor after another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

import numpy as np

from afterglow.driver.state import import_with_state
from afterglow.report.agreement import Difference
from afterglow.report.compare.judge import Judge, Tolerance, Verdict
from afterglow.report.compare.model_graph import ModelGraph, PartSource
from afterglow.report.compare.result import (
    ComparedTensor,
    CompareReport,
    FirstDifference,
    worst_element,
)
from afterglow.report.compare.sides import (
    CompiledSide,
    Feed,
    LoadedSide,
    Side,
    StoredSide,
    Tensors,
)
from afterglow.support.errors import AfterglowError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType

GROUP_BYTES = 1 << 28
"""Bytes of intermediate tensors that each side holds at once."""
GROUP_TENSORS = 32
"""How many tensors are looked at at once, if their sizes are not known."""
GROWTH = 4
"""How much larger an error may be than those of what a node reads, if rounding just adds up."""
MOST_REFUSED = 8
"""Tensors that an engine may refuse to return before the comparison fails."""

Progress = Callable[[str], None]


@dataclass
class Comparer:
    """A model, a reference, inputs for both, and what counts as agreement."""

    ours: CompiledSide | LoadedSide
    reference: Side
    judge: Judge
    feed: Feed
    progress: Progress = lambda text: None
    not_compared: dict[str, str] = field(default_factory=dict)
    drifting: list[str] = field(default_factory=list)
    """Tensors in which rounding added up beyond the tolerance."""
    values: dict[str, str] = field(default_factory=dict)
    """The elements with the largest errors, of tensors that differ."""

    @cached_property
    def graph(self) -> ModelGraph | None:
        """The main graph of the model, if it is known."""
        return self.ours.graph if isinstance(self.ours, CompiledSide) else None

    @cached_property
    def known(self) -> list[str]:
        """The tensors that both sides can give, in topological order."""
        theirs = {*self.reference.names}
        return [name for name in self.ours.names if name in theirs]

    @cached_property
    def output_names(self) -> list[str]:
        """The outputs that both sides can give."""
        outputs = self.ours.names if self.graph is None else self.graph.outputs
        return [name for name in outputs if name in {*self.reference.names}]

    def compare(self) -> CompareReport:
        """Compare outputs, then all tensors between, and find the first that differs."""
        if not self.known and not self.output_names:
            raise self._nothing_in_common()
        found, wanted = self._outputs()
        gone = True
        for names in self._groups():
            self.progress(f"tensors: {len(found)} of {len(self.known)}")
            some, still = self._group(names, wanted)
            found.update(some)
            gone = gone and not still
        ordered = self._with_drift(self._in_order(found))
        return CompareReport(
            self.reference.label,
            str(self.judge),
            ordered,
            self._first(ordered, gone=gone),
            self.not_compared,
            [*self._remarks(ordered)],
        )

    def _in_order(self, found: Mapping[str, ComparedTensor]) -> list[ComparedTensor]:
        """Tensors in topological order; outputs that no node computes last."""
        places = {name: place for place, name in enumerate(self.ours.names)}
        bases = ((base_name(name, places), tensor) for name, tensor in found.items())
        ranked = ((places.get(base, len(places)), tensor) for base, tensor in bases)
        return [tensor for _, tensor in sorted(ranked, key=lambda each: each[0])]

    def _with_drift(self, tensors: Sequence[ComparedTensor]) -> list[ComparedTensor]:
        """The tensors, those marked that are hardly further off than what their nodes read."""
        by_name: dict[str, ComparedTensor] = {}
        for tensor in tensors:
            if tensor.verdict is Verdict.DIFFERS and self._drifts(tensor, by_name):
                tensor = replace(tensor, verdict=Verdict.DRIFTS)
            by_name[tensor.name] = tensor
        drifting = [x for x in by_name.values() if x.verdict is Verdict.DRIFTS]
        if drifting and self._differs_alone(drifting[0].name):
            return list(tensors)
        self.drifting = [x.name for x in drifting]
        return [
            replace(x, verdict=Verdict.DIFFERS) if x.is_output and x in drifting else x
            for x in by_name.values()
        ]

    def _drifts(self, tensor: ComparedTensor, before: Mapping[str, ComparedTensor]) -> bool:
        index = None if self.graph is None else self.graph.producer.get(tensor.name)
        if self.graph is None or index is None or not isinstance(self.judge, Tolerance):
            return False
        operands = [before[name] for name in self._floats_read(index) if name in before]
        if any(x.verdict not in (Verdict.AGREES, Verdict.DRIFTS) for x in operands):
            return False
        error = self.judge.error
        most = max((error(x.difference) for x in operands), default=0.0)
        return error(tensor.difference) <= GROWTH * most

    def _floats_read(self, index: int) -> Iterator[str]:
        """What a node reads, and what integers among it were rounded from.

        Integers that stand for floats have an offset, which makes their relative errors small.
        """
        assert self.graph is not None
        for name in self.graph.reads[index]:
            yield name
            maker = self.graph.producer.get(name)
            if maker is not None and self.graph.nodes[maker].op_type.endswith("QuantizeLinear"):
                yield from self.graph.reads[maker]

    def _outputs(self) -> tuple[dict[str, ComparedTensor], Tensors]:
        """The outputs of the model as a user compiles it, and what the reference gives."""
        if not self.output_names:
            return {}, {}
        self.progress(f"{self.reference.label}: outputs")
        wanted = self.reference.run(self.output_names, self.feed)
        self.progress("compile, and run")
        actual = self.ours.outputs(self.feed)
        return self.judged(self.output_names, actual, wanted), wanted

    def _group(
        self, names: Sequence[str], wanted: Tensors
    ) -> tuple[dict[str, ComparedTensor], bool]:
        """Some tensors, and whether outputs differ beside them."""
        actual = dict(self._tolerant(self.ours, names))
        expected = dict(self._tolerant(self.reference, names))
        found = self.judged(names, actual, expected)
        beside = self.judged(self.output_names, actual, wanted, noting=False)
        return found, any(x.verdict is not Verdict.AGREES for x in beside.values())

    def _tolerant(self, side: Side, names: Sequence[str]) -> Iterator[tuple[str, Array]]:
        """Tensors of a side; those that it cannot give alone are noted, and left out."""
        try:
            yield from side.run(names, self.feed).items()
        except AfterglowError as error:
            if len(self.not_compared) >= MOST_REFUSED:
                raise
            if len(names) == 1:
                self.not_compared[names[0]] = f"{side.label}: {error.what}"
                return
            middle = len(names) // 2
            for half in (names[:middle], names[middle:]):
                yield from self._tolerant(side, half)

    def judged(
        self, names: Iterable[str], actual: Tensors, expected: Tensors, *, noting: bool = True
    ) -> dict[str, ComparedTensor]:
        """The verdicts on tensors that both sides gave."""
        asked = {*names}
        both = dict.fromkeys([*actual, *expected])
        found = {}
        for name in both:
            base = base_name(name, asked)
            if base not in asked or base in self.not_compared:
                continue
            if name not in actual or name not in expected:
                missing = self.reference.label if name in actual else "the model"
                self.not_compared[name] = f"{missing} does not give it"
                continue
            found[name] = self._judge(name, base, actual[name], expected[name], noting=noting)
        return found

    def _judge(
        self, name: str, base: str, actual: Array, expected: Array, *, noting: bool
    ) -> ComparedTensor:
        if isinstance(self.reference, StoredSide):
            expected = _as_computed(expected, actual)
        difference = Difference.of(actual, expected)
        verdict = self.judge(name, actual, expected, difference)
        if noting and verdict is not Verdict.AGREES:
            self.values[name] = worst_element(difference, actual, expected)
        node, op = self._maker(base)
        return ComparedTensor(
            name,
            node,
            op,
            str(TensorType.of(actual)),
            base in self.output_names,
            verdict,
            difference,
            _note(difference, actual, self.judge),
        )

    def agrees(self, name: str, actual: Array, expected: Array) -> bool:
        """Whether a tensor agrees with what the reference gave."""
        found = self._judge(name, name, actual, expected, noting=False)
        return found.verdict is Verdict.AGREES

    def _maker(self, name: str) -> tuple[str, str]:
        """The node that computes a tensor, and its op."""
        index = None if self.graph is None else self.graph.producer.get(name)
        if self.graph is None or index is None:
            return "", ""
        node = self.graph.nodes[index]
        return node.label, node.op_type

    def _groups(self) -> list[list[str]]:
        """The intermediate tensors, in groups of which a side may hold one at a time."""
        names = [name for name in self.known if name not in {*self.output_names}]
        sizes = self._sizes(names)
        groups: list[list[str]] = []
        room = 0
        for name in names:
            size = sizes.get(name, GROUP_BYTES // GROUP_TENSORS)
            if room < size:
                groups.append([])
                room = GROUP_BYTES
            groups[-1].append(name)
            room -= size
        return groups

    def _sizes(self, names: Sequence[str]) -> dict[str, int]:
        """Bytes of tensors, as far as they are known before a run."""
        if not isinstance(self.ours, CompiledSide) or self.graph is None or not names:
            return {}
        source = PartSource(self.graph.observed(names), self.ours.source)
        try:
            module, _ = import_with_state(source, self.ours.bound(self.feed))
        except AfterglowError:
            return {}
        return {output.name: output.value.type.nbytes for output in module.main.outputs}

    def _first(self, tensors: Sequence[ComparedTensor], *, gone: bool) -> FirstDifference | None:
        """The first tensor that differs; if no intermediate one does, by compiling prefixes."""
        wrong = [x for x in tensors if x.verdict in (Verdict.DIFFERS, Verdict.UNDECIDED)]
        if not wrong:
            return None
        if all(x.name in self.drifting for x in wrong):
            first = next(x for x in tensors if x.name in self.drifting)
            return self._about(
                first, "the error grows from node to node up to here, without a jump"
            )
        between = any(not x.is_output for x in tensors)
        if gone and between and all(x.is_output for x in wrong):
            return self._by_prefixes(wrong[0])
        return self._about(next(x for x in wrong if x.name not in self.drifting))

    def _about(self, tensor: ComparedTensor, found_by: str = "") -> FirstDifference:
        graph = self.graph
        index = None if graph is None else graph.producer.get(tensor.name)
        if graph is None or index is None:
            return FirstDifference(tensor, found_by, self.values.get(tensor.name, ""))
        return FirstDifference(
            tensor,
            found_by,
            self.values.get(tensor.name, ""),
            self._differs_alone(tensor.name),
            graph.body_nodes(index),
        )

    def _differs_alone(self, name: str) -> bool | None:
        """Whether the node of a tensor by itself differs; None if its operands are not known."""
        assert isinstance(self.ours, CompiledSide)
        assert self.graph is not None
        index = self.graph.producer[name]
        self.progress(f"node {self.graph.nodes[index].label!r} by itself")
        try:
            given = self.recorded(self.graph.taken([index]))
            expected = self.reference.run([name], self.feed)[name]
            actual = self.ours.part([index], name, given)[name]
        except (AfterglowError, KeyError):
            return None
        return not self.agrees(name, actual, expected)

    def recorded(self, names: Sequence[str]) -> Tensors:
        """What the reference has of tensors, and the inputs; KeyError if it has not all."""
        wanted = [name for name in names if name not in self.feed]
        missing = {*wanted} - {*self.reference.names}
        if missing:
            raise KeyError(min(missing))
        found = self.reference.run(wanted, self.feed) if wanted else {}
        return {name: self.feed[name] if name in self.feed else found[name] for name in names}

    def _by_prefixes(self, output: ComparedTensor) -> FirstDifference:
        """The first tensor that differs if the model is compiled up to it, and returns it alone."""
        assert isinstance(self.ours, CompiledSide)
        assert self.graph is not None
        nodes = self.graph.ancestors([output.name])
        names = [x for x in self.known if self.graph.producer.get(x) in nodes]
        if output.name not in names or not self._prefix_differs(output.name):
            return self._about(output, "no part of the model shows it: only the whole model does")
        place = bisect_left(
            range(len(names) - 1), True, key=lambda i: self._prefix_differs(names[i])
        )
        how = (
            "the error is gone if intermediate tensors are returned, which changes what is fused; "
            f"it is there if the model is compiled up to {names[place]!r}, and not up to a tensor "
            "before"
        )
        found = self._prefix(names[place]) if names[place] != output.name else output
        return replace(self._about(found, how), alone=None)

    def _prefix_differs(self, name: str) -> bool:
        return self._prefix(name).verdict is not Verdict.AGREES

    def _prefix(self, name: str) -> ComparedTensor:
        assert isinstance(self.ours, CompiledSide)
        self.progress(f"compile up to {name!r}")
        actual = self.ours.prefix(name, self.feed)[name]
        expected = self.reference.run([name], self.feed)[name]
        return self._judge(name, name, actual, expected, noting=True)

    def _remarks(self, tensors: Sequence[ComparedTensor]) -> Iterator[str]:
        outputs = [x for x in tensors if x.is_output]
        wrong = [x for x in tensors if x.verdict in (Verdict.DIFFERS, Verdict.UNDECIDED)]
        if self.drifting:
            yield (
                f"{len(self.drifting)} drift: rounding adds up beyond the tolerance, first in "
                f"{self.drifting[0]!r}, but no node is more than {GROWTH} times further off than "
                "what it reads"
            )
        if wrong and outputs and all(x.verdict is Verdict.AGREES for x in outputs):
            yield "the outputs agree"
        tiny = [x for x in tensors if "absolute" in x.note]
        if tiny:
            yield f"{len(tiny)} agree only by the absolute tolerance: --atol 0 leaves it out"
        for name, reason in self.not_compared.items():
            yield f"not compared: {name!r}: {reason}"
        if self.graph is not None:
            yield from _about_bodies(self.graph)

    def _nothing_in_common(self) -> UsageError:
        ours, theirs = self.ours.names, self.reference.names
        return UsageError(
            f"{self.reference.label} has no tensor of the model",
            excerpt=[f"it has {_some(theirs)}", f"the model has {_some(ours)}"],
            help="give arrays the names that tensors have in the model",
        )


def base_name(name: str, known: Collection[str]) -> str:
    """The name of the tensor, or of the sequence that it is an element of."""
    return name if name in known or not name.endswith("]") else name.rpartition("[")[0]


def _about_bodies(graph: ModelGraph) -> Iterator[str]:
    for index, node in enumerate(graph.nodes):
        count = graph.body_nodes(index)
        if count:
            some = "1 node" if count == 1 else f"{count} nodes"
            yield f"not compared one by one: {some} in bodies of {node.label!r} ({node.op_type})"


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def _as_computed(stored: Array, actual: Array) -> Array:
    """A stored array with the element type of what is compared with it, if the kind is the same."""
    if stored.dtype.kind == "V" and stored.dtype.itemsize == actual.dtype.itemsize:
        return stored.view(actual.dtype)
    integers = stored.dtype.kind in "iu" and actual.dtype.kind in "iu"
    floats = stored.dtype.kind == "f" and np.issubdtype(actual.dtype, np.floating)
    return stored.astype(actual.dtype) if integers or floats else stored


def _note(difference: Difference, actual: Array, judge: Judge) -> str:
    """What there is to say of NaN and infinities, and of small numbers."""
    parts = []
    mine, theirs = difference.actual, difference.expected
    if mine.nan or mine.infinite or theirs.nan or theirs.infinite:
        where = "" if mine.first is None else f", first at {_index(mine.first, actual)}"
        parts.append(f"{str(mine) or 'none'}{where}; in the reference {str(theirs) or 'none'}")
    if isinstance(judge, Tolerance) and judge.by_atol_alone(difference):
        parts.append("by the absolute tolerance")
    return "; ".join(parts)


def _index(place: int, array: Array) -> str:
    return f"[{', '.join(str(int(i)) for i in np.unravel_index(place, array.shape))}]"
