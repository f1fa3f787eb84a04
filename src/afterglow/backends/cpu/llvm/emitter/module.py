"""A module: functions, tables and declarations, as one text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from afterglow.backends.cpu.llvm.emitter.code import Code
from afterglow.backends.cpu.llvm.emitter.function import Emitter, FunctionSymbol
from afterglow.backends.cpu.llvm.emitter.pointer import Pointer
from afterglow.backends.cpu.target import Target
from afterglow.support.names import NameScope
from afterglow.types import Array
from afterglow.types.dtype import DType


class Module:
    """A unit of compilation. Functions are written one after the other."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.exports: list[str] = []
        """Functions that can be found by name once the code is loaded."""
        self.is_plain = False
        """Whether it is compiled as it is written: to call kernels, fast code gains nothing."""
        self._names = NameScope()
        self._globals: list[str] = []
        self._declarations: dict[str, str] = {}
        self._functions: list[str] = []
        self._helpers: dict[str, FunctionSymbol] = {}
        self._tables: dict[tuple[str, bytes], str] = {}
        self._storage: dict[str, str] = {}

    @contextmanager
    def function(self, name: str, *, internal: bool = False) -> Iterator[Emitter]:
        """Write a function; an internal one is called only from this module."""
        emitter = Emitter(self, self._names.claim(name), internal=internal)
        yield emitter
        self._functions.append(emitter.close())
        if not internal:
            self.exports.append(emitter.name)

    def helper(self, name: str, write: Callable[[Emitter], None]) -> FunctionSymbol:
        """An internal function that is written when it is first asked for."""
        if name not in self._helpers:
            with self.function(name, internal=True) as emitter:
                write(emitter)
            self._helpers[name] = emitter.function
        return self._helpers[name]

    def declare(
        self, name: str, result: str, parameters: Sequence[str], *, variadic: bool = False
    ) -> FunctionSymbol:
        """A function from outside, by LLVM's types: found when the code is loaded or linked."""
        shown = ", ".join([*parameters, *(["..."] if variadic else [])])
        self._declarations[name] = f"declare {result} @{name}({shown})"
        return FunctionSymbol(name, result, tuple(parameters), variadic)

    def table(self, code: Code, name: str, numbers: Array) -> Pointer:
        """Constants that the code reads: a pointer to them, for one function."""
        data = numbers.tobytes()
        key = (numbers.dtype.str, data)
        if key not in self._tables:
            symbol = self._tables[key] = self._names.claim(name)
            escaped = "".join(f"\\{byte:02X}" for byte in data)
            self._globals.append(
                f'@{symbol} = internal constant [{len(data)} x i8] c"{escaped}", align 64'
            )
        return Pointer(code, DType.of(numbers.dtype), f"@{self._tables[key]}", 0, 64)

    def storage(self, code: Code, name: str, dtype: DType, count: int) -> Pointer:
        """Memory that lives as long as the code, zero at first: a pointer for one function.

        Functions that ask for the same name share it.
        """
        if name not in self._storage:
            symbol = self._storage[name] = self._names.claim(name)
            kind = f"[{count * dtype.itemsize} x i8]"
            self._globals.append(f"@{symbol} = internal global {kind} zeroinitializer, align 64")
        return Pointer(code, dtype, f"@{self._storage[name]}", 0, 64)

    def constant(self, name: str, kind: str, value: str | None) -> str:
        """A constant of LLVM's types, such as a table of addresses; its symbol, seen from outside.

        Without a value it is one that another module has.
        """
        linkage = "constant" if value is not None else "external constant"
        self._globals.append(f"@{name} = {linkage} {kind} {value or ''}".rstrip() + ", align 64")
        return f"@{name}"

    @property
    def text(self) -> str:
        """The whole module in LLVM's language."""
        parts = [
            f'target triple = "{self.target.triple}"\n',
            *(f"{line}\n" for line in self._globals),
            *(f"{line}\n" for line in self._declarations.values()),
            *self._functions,
            f"attributes #0 = {{ {self._attributes()} }}\n",
            "!0 = !{i32 1}\n",
            '!1 = !{!"branch_weights", i32 2000, i32 1}\n',
            '!2 = !{!"branch_weights", i32 1, i32 2000}\n',
        ]
        return "".join(parts)

    def _attributes(self) -> str:
        """Facts about all functions: no exceptions, whom to tune for, vectors as wide as told."""
        attributes = ["nounwind"]
        if self.target.tuning:
            attributes.append(f'"tune-cpu"="{self.target.tuning}"')
        if self.target.avx512:
            width = self.target.vector_bits
            attributes.append(f'"min-legal-vector-width"="{width}"')
            attributes.append(f'"prefer-vector-width"="{width}"')
        return " ".join(attributes)
