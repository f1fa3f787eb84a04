"""`pack` here what the other machine lacks, `run` there: see benchmarks/many_cores.md.

    python -m benchmarks.many_cores pack [--models FOLDER] [--names NAME,…]
    python -m benchmarks.many_cores run [OPTIONS]

Only the standard library is imported before the packed libraries are in place.
"""

from __future__ import annotations

import os
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKED = ROOT / "build" / "many_cores"
LIBRARIES, MODELS = ("compiler.tar.xz", "openvino.tar.xz"), "models.tar.xz"
MODULES = {"pack": "benchmarks.many_cores.pack", "run": "benchmarks.many_cores.measure"}


def main() -> None:
    """Continue as the module of a verb, with every library on the path."""
    verb, words = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    if verb not in MODULES:
        sys.exit(f"say one of {', '.join(MODULES)}; benchmarks/many_cores.md says how")
    paths = [ROOT / "src", ROOT, *(_unpacked() if verb == "run" else [])]
    known = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, paths), *known])}
    os.execve(sys.executable, [sys.executable, "-m", MODULES[verb], *words], variables)


def _unpacked() -> list[Path]:
    """The folders of packed libraries; none if none were packed for this Python."""
    if sys.version_info[:2] != (3, 12):
        return []
    folders = []
    for packed in (PACKED / name for name in LIBRARIES):
        folder = Path(tempfile.gettempdir()) / "afterglow-many-cores" / packed.name.split(".")[0]
        if packed.exists() and not folder.exists():
            part = folder.with_name(f"{folder.name}-{os.getpid()}")
            with tarfile.open(packed) as archive:
                archive.extractall(part, filter="data")
            part.rename(folder)
        folders += [folder] if folder.exists() else []
    return folders


if __name__ == "__main__":
    main()
