"""The machine that emulates a target, with a program in it."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import pytest

from afterglow.backends.cpu import Target
from tests.emulation.linking import HAS_LINKER
from tests.emulation.machine import Machine
from tests.emulation.support import support_object
from tests.emulation.user import HAS_QEMU, UserMachine

HAS_UNICORN = importlib.util.find_spec("unicorn") is not None
HAS_WASMTIME = importlib.util.find_spec("wasmtime") is not None

if HAS_UNICORN:
    from tests.emulation.bare import BareMachine
if HAS_WASMTIME:
    from tests.emulation.wasm import WasmMachine

EMULATED = (
    *("cortex-m4", "cortex-m7", "cortex-m33", "armv7a", "aarch64", "aarch64-dotprod"),
    *("riscv32", "riscv64", "riscv64-v", "wasm32"),
)
"""The targets that there is an emulator for."""
COUNTED = tuple(name for name in EMULATED if name != "riscv64-v")
"""Those whose emulator counts instructions."""


def make_machine(
    objects: Sequence[bytes], exports: Sequence[str], target: Target, *, watched: bool = False
) -> Machine:
    """A fresh machine that runs code for a target; watched, it is slower and sees more."""
    if target.architecture == "wasm":
        return WasmMachine(objects, exports)
    complete = [*objects, support_object(target)]
    if "v" in target.features:
        return UserMachine(complete, exports, target)
    machine = BareMachine(complete, exports, target)
    if watched:
        machine.watch()
    return machine


def skip_without_emulator(target_name: str) -> None:
    """Skip a test if something that runs code for a target is not here."""
    needed = {"ziglang from PyPI": HAS_LINKER}
    if target_name == "wasm32":
        needed["wasmtime from PyPI"] = HAS_WASMTIME
    elif target_name == "riscv64-v":
        needed["qemu-user, a package of Debian's"] = HAS_QEMU
    else:
        needed["unicorn from PyPI"] = HAS_UNICORN
    missing = [name for name, is_here in needed.items() if not is_here]
    if missing:
        pytest.skip(f"code for {target_name} is run by {' and '.join(missing)}")
