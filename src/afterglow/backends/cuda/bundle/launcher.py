"""The C code of a bundle for GPUs: tables of what is launched, and what launches it."""

from __future__ import annotations

from afterglow.backends.bundling.checksum import FIRST, FOLD, STEP
from afterglow.backends.bundling.fields import fields_of
from afterglow.backends.bundling.template import Text
from afterglow.backends.cuda.bundle.code import GpuCode
from afterglow.backends.cuda.bundle.launcher_text import LAUNCHER, RESET
from afterglow.backends.cuda.driver.context import DEFAULT_SHARED
from afterglow.backends.cuda.driver.library import LEAST_VERSION
from afterglow.backends.launched.memories import CONSTANTS


def write_launcher(code: GpuCode) -> str:
    """The text of NAME.c."""
    sizes = code.memory_sizes
    launches, places = code.launch_rows()
    kernels = code.kernel_rows()
    fields = [field for field in fields_of(code) if field.role != "state"]
    reset = Text(RESET).substitute(name=code.name, upper=code.name.upper())
    return Text(LAUNCHER).substitute(
        name=code.name,
        upper=code.name.upper(),
        kernel_count=len(kernels),
        launch_count=len(launches),
        memory_count=len(sizes),
        inputs=len(code.interface.inputs),
        outputs=len(code.interface.outputs),
        most=max(code.most_parameters, 1),
        default_shared=DEFAULT_SHARED,
        least_version=LEAST_VERSION,
        gives_alarms=int(code.gives_alarms),
        constants=code.blobs[CONSTANTS].offset,
        checksum=f"{code.checksum:#018x}",
        first=f"{FIRST:#018x}",
        step=f"{STEP:#018x}",
        fold=FOLD,
        major=code.arch // 10,
        minor=code.arch % 10,
        kernels=_rows(kernels, "{0, 0, 0, 0, 0}"),
        launches=_rows(launches, "{0, {0, 0, 0}, 0, 0, 0}"),
        places=_rows(places, "{0, 0}"),
        sizes=_rows([str(size) for size in sizes.values()], "0"),
        ports="\n".join(
            f"    found[{i}] = (void *)io->{field.member};" for i, field in enumerate(fields)
        ),
        reset=reset if code.interface.states else "",
    )


def _rows(rows: list[str], nothing: str) -> str:
    """The rows of a table; C has none without rows."""
    return "\n".join(f"    {row}," for row in rows or [nothing])
