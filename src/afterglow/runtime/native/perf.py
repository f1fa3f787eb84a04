"""Names of functions for the profiler `perf`."""

from __future__ import annotations

import os
from pathlib import Path

from afterglow.runtime.native.load import Loaded

_FOLDER = Path("/tmp")


def write_perf_map(loaded: Loaded, folder: Path = _FOLDER) -> Path:
    """Tell `perf` where the functions of an image are; returns the file that it reads.

    A line of the file is the start and the size of a function, in hexadecimal, and its name.
    """
    path = folder / f"perf-{os.getpid()}.map"
    lines = [
        f"{address:x} {loaded.image.sizes[name]:x} {name}\n"
        for name, address in loaded.addresses.items()
    ]
    # the folder is everyone's: a link that someone put there is not followed
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w") as file:
        file.write("".join(lines))
    return path
