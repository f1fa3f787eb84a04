"""Packs what a machine without a network lacks: libraries, and skeletons of models."""

from __future__ import annotations

import argparse
import io
import lzma
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from benchmarks.many_cores.__main__ import LIBRARIES, MODELS, PACKED
from benchmarks.many_cores.elf import without_other_tables
from benchmarks.many_cores.skeletons import write_skeleton

PEERS = Path(__file__).parents[1] / "peers.txt"
"""Versions of other engines."""
SAME = (("llvmlite", "ml_dtypes", "click", "rich", "onnx"), ("openvino",))
"""Packages of each archive, of which the other machine gets the versions that are here."""
THEIRS = (("protobuf", "markdown-it-py", "mdurl", "pygments", "typing_extensions"), ())
"""Packages that those need, of any version."""
DROPPED = (
    *("openvino/include", "openvino/cmake", "openvino/libs/*gpu*", "openvino/libs/*npu*"),
    *("openvino/libs/cache.json", "openvino/libs/*auto*", "openvino/libs/*hetero*"),
    *(f"openvino/libs/*{kind}_frontend*" for kind in ("gguf", "jax", "paddle", "pytorch")),
    *("openvino/libs/*tensorflow*", "openvino/torch", "openvino/tools", "bin"),
    *(f"openvino/frontend/{kind}" for kind in ("jax", "paddle", "pytorch", "tensorflow")),
    *("onnx/backend/test/data", "onnx/defs/**/*.cc", "onnx/defs/**/*.h", "llvmlite/tests"),
    *("llvmlite/include", "**/*.pyi", "**/tests", "pygments/lexers/_*builtins.py"),
)
"""What is in those packages that no engine on a processor needs."""


def main() -> None:
    """Write both archives and say how large they are."""
    options = argparse.ArgumentParser(prog="benchmarks.many_cores pack")
    options.add_argument("--models", type=Path, help="a folder of ONNX models to take along")
    options.add_argument("--names", default="", help="NAME,…: those of them that are wanted")
    options.add_argument("--python", default="3.12", help="version of the other machine's Python")
    given = options.parse_args()
    PACKED.mkdir(parents=True, exist_ok=True)
    for name, same, theirs in zip(LIBRARIES, SAME, THEIRS, strict=True):
        pack_libraries(PACKED / name, given.python, same, theirs)
    if given.models is not None:
        chosen = [name for name in given.names.split(",") if name]
        paths = [given.models / f"{name}.onnx" for name in chosen]
        pack_models(paths or sorted(given.models.glob("*.onnx")), PACKED / MODELS)
    for path in sorted(PACKED.glob("*.xz")):
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


def pack_models(paths: list[Path], target: Path) -> None:
    """Skeletons of models, in one archive."""
    with tempfile.TemporaryDirectory() as name:
        for path in paths:
            write_skeleton(path, Path(name))
        _archive(Path(name), target)


def pack_libraries(target: Path, python: str, same: Sequence[str], theirs: Sequence[str]) -> None:
    """Packages for a version of Python, without what no engine needs; once for each choice."""
    wanted = [*(f"{name}=={_version(name)}" for name in same), *theirs]
    noted, note = target.with_suffix(".txt"), f"{python} {wanted} {DROPPED}"
    if target.exists() and noted.exists() and noted.read_text() == note:
        return
    with tempfile.TemporaryDirectory() as name:
        wheels, folder = Path(name) / "wheels", Path(name) / "lib"
        words = ["download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", python]
        words += ["-d", str(wheels), *wanted]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)
        for wheel in wheels.glob("*.whl"):
            shutil.unpack_archive(wheel, folder, "zip")
        _slim(folder)
        if target.name == LIBRARIES[0]:
            _describe_afterglow(folder)
        _archive(folder, target)
    noted.write_text(note)


def _version(name: str) -> str:
    """The version that is installed here, or else the one that peers are compared in."""
    pinned = dict(line.split("==") for line in PEERS.read_text().split())
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return pinned[name]


def _slim(folder: Path) -> None:
    for pattern in DROPPED:
        for path in folder.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in folder.glob("llvmlite/**/*.so"):
        path.write_bytes(without_other_tables(path.read_bytes()))
    strip = shutil.which("strip")
    for path in folder.glob("**/*.so*") if strip else ():
        subprocess.run([strip, "--strip-unneeded", path], check=False, capture_output=True)


def _describe_afterglow(folder: Path) -> None:
    """What an installed package says about itself, for the sources on the other machine."""
    ours = metadata.distribution("afterglow")
    target = folder / f"afterglow-{ours.version}.dist-info"
    target.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (target / name).write_text(ours.read_text(name) or "")


def _archive(folder: Path, target: Path) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        archive.add(folder, ".")
    filters = [
        {"id": lzma.FILTER_X86},
        {"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 26},
    ]
    target.write_bytes(lzma.compress(plain.getvalue(), filters=filters))


if __name__ == "__main__":
    main()
