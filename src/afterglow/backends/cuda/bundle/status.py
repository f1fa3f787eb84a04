"""What the functions of a bundle for GPUs return."""

from __future__ import annotations

from afterglow.runtime.native.status import Status

OF_ALL = (Status.OK, Status.NULL, Status.WEIGHTS_SIZE, Status.WEIGHTS_CONTENT, Status.INDEX)
"""What bundles for processors return as well, by the same numbers."""
OF_GPU = {
    "DRIVER": (32, "there is no driver for CUDA here, or one that is too old"),
    "DEVICE": (33, "there is no such GPU"),
    "ARCHITECTURE": (34, "the model was compiled for other GPUs"),
    "MEMORY": (35, "there is not enough memory on the GPU, or on the host"),
    "CUDA": (36, "the driver reports an error: see the function _error"),
    "ADDRESS": (37, "an address on the GPU is not a multiple of 16"),
}
"""What only a GPU can cause: numbers and meanings by name."""


def all_statuses() -> dict[str, tuple[int, str]]:
    """Numbers and meanings of all of them, by name."""
    known = {
        "OK" if each is Status.OK else f"ERROR_{each.name}": (each.value, each.meaning)
        for each in OF_ALL
    }
    return known | {f"ERROR_{name}": about for name, about in OF_GPU.items()}


def status_lines(upper: str) -> str:
    """All of them as members of an enumeration in C."""
    lines = [
        f"    {upper}_{name} = {value}, /* {meaning} */"
        for name, (value, meaning) in all_statuses().items()
    ]
    return "\n".join([*lines[:-1], lines[-1].replace(", /*", " /*")])
