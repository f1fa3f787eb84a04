"""Where the rows of tokens lie in a cache."""

from __future__ import annotations

from afterglow.backends.cpu.llvm.emitter import Index, Value, equal
from afterglow.backends.cpu.micro.index_check import IndexCheck
from afterglow.backends.cpu.micro.kernel import Phase


class Places:
    """The positions and sequences of tokens, which are operands of the anchor."""

    def __init__(self, p: Phase) -> None:
        names = p.step.op.operand_names
        self.checks = [IndexCheck(p, name) for name in ("positions", "sequences")]
        buffers = [p.step.operand(names.index(check.operand)) for check in self.checks]
        self.pointers = [p.pointer(buffer) for buffer in buffers]
        self.strides = [buffer.strides[0] for buffer in buffers]

    def of(self, token: Index) -> tuple[Value, Value]:
        """The position and the sequence of a token, in range; others raise alarms."""
        position, sequence = (
            check.place(number)
            for check, number in zip(self.checks, self._numbers(token), strict=True)
        )
        return position, sequence

    def exist(self, token: Index) -> Value:
        """Whether both are in range."""
        strays = [
            check.find(number)[1]
            for check, number in zip(self.checks, self._numbers(token), strict=True)
        ]
        return equal(strays[0] | strays[1], 0)

    def _numbers(self, token: Index) -> list[Value]:
        pairs = zip(self.pointers, self.strides, strict=True)
        return [(pointer + token * stride).load() for pointer, stride in pairs]
