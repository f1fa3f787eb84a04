"""The text of one kernel while it is being written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from afterglow.backends.opencl.clc.pointer import Pointer
from afterglow.backends.opencl.clc.types import literal, spell, spell_in_memory
from afterglow.backends.opencl.clc.value import Value, index_of
from afterglow.types import Array
from afterglow.types.dtype import DType, boolean, i32

INDENT = "  "


class Code:
    """Lines of OpenCL C, names that are unique, and what the kernel needs besides.

    `double` says whether the device has f64; `index_type` is the integer that counts elements;
    `inlines` says whether the driver makes instructions of functions such as `vloadn`.
    """

    def __init__(
        self, *, double: bool = True, index_type: DType = i32, inlines: bool = True
    ) -> None:
        self.double = double
        self.inlines = inlines
        self.index_type = index_type
        self.lines: list[str] = []
        self.helpers: dict[str, str] = {}
        """Functions and tables that stand before the kernel, by name."""
        self.widest = 0
        """Bits of the widest vector."""
        self._names = 0
        self._depth = 1

    def fresh(self, hint: str) -> str:
        """A name that nothing else in the kernel has."""
        self._names += 1
        return f"{hint}{self._names}"

    def define(self, text: str, dtype: DType, lanes: int = 1, hint: str = "v") -> Value:
        """Write an expression as a value of its own."""
        name = self.fresh(hint)
        self.widest = max(self.widest, dtype.bits * lanes if lanes > 1 else 0)
        self.perform(f"const {spell(dtype, lanes)} {name} = {text};")
        return Value(self, dtype, lanes, name)

    def perform(self, text: str) -> None:
        """Write a statement."""
        self.lines.append(INDENT * self._depth + text)

    def constant(self, dtype: DType, number: float, lanes: int = 1) -> Value:
        """A number known now, the same in all lanes."""
        return Value(self, dtype, lanes, literal(dtype, number, lanes), number)

    def index(self, number: int) -> Value:
        """A number of elements that is known now."""
        return index_of(self, self.index_type, literal(self.index_type, number), number)

    def named(self, index: Value) -> Value:
        """An index under a name of its own, so that it is computed once."""
        made = self.define(index.text, self.index_type)
        return index_of(self, self.index_type, made.text)

    def work_item(self, axis: int = 0) -> Value:
        """Which work-item this is along an axis."""
        return self._place("get_global_id", axis)

    def local_item(self, axis: int = 0) -> Value:
        """Which item of its work-group this is along an axis."""
        return self._place("get_local_id", axis)

    def group(self, axis: int = 0) -> Value:
        """Which work-group this is along an axis."""
        return self._place("get_group_id", axis)

    def _place(self, function: str, axis: int) -> Value:
        made = self.define(f"({spell(self.index_type)}){function}({axis})", self.index_type)
        return index_of(self, self.index_type, made.text)

    def variable(self, start: Value, hint: str = "a") -> Value:
        """A name whose value can be changed by `assign`."""
        name = self.fresh(hint)
        self.perform(f"{start.type} {name} = {start.text};")
        return Value(self, start.dtype, start.lanes, name)

    def assign(self, variable: Value, value: Value) -> None:
        """Change what a variable holds."""
        self.perform(f"{variable.text} = {value.text};")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Statements that belong together, behind a head such as `if (…)`."""
        self.perform(f"{head} {{")
        self._depth += 1
        yield
        self._depth -= 1
        self.perform("}")

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Statements that run where a condition holds."""
        with self.block(f"if ({condition.text})"):
            yield

    @contextmanager
    def loop(self, end: Value | int, start: Value | int = 0, step: int = 1) -> Iterator[Value]:
        """Statements that run for start, start + step, … below the end."""
        name, kind = self.fresh("i"), spell(self.index_type)
        first, last = (x.text if isinstance(x, Value) else str(x) for x in (start, end))
        with self.block(f"for ({kind} {name} = {first}; {name} < {last}; {name} += {step})"):
            yield index_of(self, self.index_type, name)

    @contextmanager
    def fused_loop(self, end: Value | int, step: int = 1) -> Iterator[Value]:
        """A loop in which products may be added without being rounded first, as devices do best."""
        with self.loop(end, step=step) as index:
            self.perform("#pragma OPENCL FP_CONTRACT ON")
            yield index

    def add_product(self, total: Value, x: Value, factor: Value) -> None:
        """Add a product to a variable, rounded once or twice as the loop around it says."""
        self.perform(f"{total.text} += {x.text} * {factor.text};")

    def barrier(self) -> None:
        """Wait until all items of the work-group are here, and see what they stored."""
        self.perform("barrier(CLK_LOCAL_MEM_FENCE);")

    def shared(self, dtype: DType, count: int) -> Pointer:
        """Memory that the items of a work-group share; C has no arrays of no elements."""
        name = self.fresh("shared")
        self.perform(f"__local {spell_in_memory(dtype)} {name}[{max(count, 1)}];")
        return Pointer(self, dtype, name, "__local")

    def private(self, dtype: DType, count: int) -> Pointer:
        """Memory that a work-item has for itself."""
        name = self.fresh("held")
        aligned = "__attribute__((aligned(64)))"
        self.perform(f"{spell_in_memory(dtype)} {name}[{count}] {aligned};")
        return Pointer(self, dtype, name, "__private")

    def smaller(self, index: Value, other: Value | int) -> Value:
        """The smaller one of two indices."""
        text = other.text if isinstance(other, Value) else literal(self.index_type, other)
        return index_of(self, self.index_type, f"min({index.text}, {text})")

    def nearest(self, index: Value, extent: int) -> Value:
        """The index from 0 to below an extent that is the nearest."""
        return index_of(self, self.index_type, f"clamp({index.text}, 0, {extent - 1})")

    def number(self, index: Value) -> Value:
        """An index as an integer like others."""
        return self.define(index.text, index.dtype)

    def is_below(self, index: Value, end: int) -> Value:
        """Whether an index is below an end."""
        return self._condition(f"{index.text} < {end}")

    def is_between(self, index: Value, first: Value | int, end: Value | int) -> Value:
        """Whether an index is at the first of a range or behind it, and below its end."""
        low, high = (x.text if isinstance(x, Value) else str(x) for x in (first, end))
        return self._condition(f"{index.text} >= {low} && {index.text} < {high}")

    def is_multiple(self, index: Value, number: int) -> Value:
        """Whether a number divides an index."""
        return self._condition(f"{index.text} % {number} == 0")

    def all_of(self, conditions: Sequence[Value]) -> Value:
        """Whether all of some conditions on indices hold."""
        return self._condition(" && ".join(condition.text for condition in conditions))

    def kept(self, condition: Value) -> Value:
        """A condition on indices under a name of its own, so that it is computed once."""
        return self.define(condition.text, self.index_type)

    def _condition(self, text: str) -> Value:
        return Value(self, boolean, 1, text)

    def halves(self, vector: Value) -> tuple[Value, Value]:
        """The first and the last half of the lanes of a vector."""
        low, high = (
            Value(self, vector.dtype, vector.lanes // 2, f"{vector.text}.{which}")
            for which in ("lo", "hi")
        )
        return low, high

    def helper(self, name: str, text: str) -> str:
        """A function that stands before the kernel; its name."""
        self.helpers.setdefault(name, text)
        return name

    def table(self, data: Array) -> Pointer:
        """Numbers that the kernel has beside it."""
        dtype = DType.of(data.dtype)
        numbers = ", ".join(literal(dtype, number) for number in data.reshape(-1).tolist())
        held = f"[{data.size}] = {{{numbers}}};"
        name = next((n for n, text in self.helpers.items() if text.endswith(held)), None)
        if name is None:
            name = f"table{len(self.helpers)}"
            self.helpers[name] = f"__constant {spell_in_memory(dtype)} {name}{held}"
        return Pointer(self, dtype, name, "__constant")
