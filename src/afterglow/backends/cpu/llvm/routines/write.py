"""Writing the routines that an object needs into a module."""

from __future__ import annotations

from collections.abc import Iterable

from afterglow.backends.cpu.llvm.emitter import Emitter, Module, Value, reinterpret
from afterglow.backends.cpu.llvm.routines.names import ROUTINES
from afterglow.types.dtype import DType, f32, f64, u32, u64

_ENCODING: dict[DType, DType] = {f32: u32, f64: u64}


def write_routines(module: Module, symbols: Iterable[str]) -> list[str]:
    """Define those of the symbols that are routines; which they are."""
    known = [symbol for symbol in symbols if symbol in ROUTINES]
    for symbol in known:
        with module.function(symbol) as e:
            _write(e, symbol)
    return known


def _write(e: Emitter, symbol: str) -> None:
    routine = ROUTINES[symbol]
    given = [e.argument(f"x{i}", dtype) for i, dtype in enumerate(routine.parameters)]
    made = list(routine.compute(e, [_encoded(value) for value in given]))
    if len(made) == 2:
        e.return_pair(*made)
        return
    e.return_(reinterpret(made[0], routine.result))


def _encoded(x: Value) -> Value:
    return reinterpret(x, _ENCODING[x.dtype]) if x.dtype in _ENCODING else x
