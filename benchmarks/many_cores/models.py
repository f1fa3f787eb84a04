"""The models to time and inputs for them, made in parallel."""

from __future__ import annotations

import os
import shlex
import subprocess
import tarfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.batches import write_rebatched
from benchmarks.many_cores.skeletons import write_model

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
FEED = "{}.feed.npz"


@dataclass(frozen=True)
class Model:
    """A model to time: its file, inputs, and the names of its outputs."""

    name: str
    path: Path
    feed: Path
    shapes: dict[str, tuple[int, ...]]
    kinds: dict[str, str]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Origin:
    """Where a model comes from: a skeleton, an ONNX file, or a command; and its batch, if not 1."""

    name: str
    path: Path
    command: str = ""
    batch: int = 1

    @property
    def title(self) -> str:
        """Its name in tables."""
        return self.name if self.batch == 1 else f"{self.name}-{self.batch}"


def origins(given: dict[str, Any], work: Path) -> list[Origin]:
    """All models, in the order in which they are named."""
    names = [name for name in given["names"].split(",") if name]
    if given["make"]:
        found = [Origin(name, work / f"{name}.onnx", given["make"]) for name in names]
    else:
        paths = {path.stem: path for path in _paths(given, work)}
        found = [Origin(name, paths[name]) for name in names or paths]
    pairs = [pair.split("=") for pair in given["batches"].split(",") if pair]
    batches = {name: int(batch) for name, batch in pairs}
    more = [each for each in found if each.name in batches]
    return [*found, *(Origin(m.name, m.path, m.command, batches[m.name]) for m in more)]


def _paths(given: dict[str, Any], work: Path) -> list[Path]:
    if given["models"] is not None:
        return sorted(given["models"].glob("*.onnx"))
    archive = given["packed"]
    if archive is None or not archive.exists():
        return [EXAMPLE]
    with tarfile.open(archive) as packed:
        packed.extractall(work / "skeletons", filter="data")
    return sorted((work / "skeletons").glob("*.onnx"))


def make_models(wanted: list[Origin], work: Path, processes: int) -> dict[str, Model | str]:
    """The models by name, or why there is none."""
    work.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes) as pool:
        plain = [pool.submit(_attempt, each, work) for each in wanted if each.batch == 1]
        made = dict(future.result() for future in plain)
        more = [pool.submit(_attempt, each, work) for each in wanted if each.batch > 1]
        return made | dict(future.result() for future in more)


def _attempt(origin: Origin, work: Path) -> tuple[str, Model | str]:
    try:
        return origin.title, _made(origin, work)
    except Exception as error:
        return origin.title, f"{type(error).__name__}: {error}"[:300]


def _made(origin: Origin, work: Path) -> Model:
    single = work / f"{origin.name}.onnx"
    if origin.batch > 1:
        return _described(write_rebatched(single, origin.batch, work))
    if origin.command:
        command = origin.command.format(name=origin.name, folder=shlex.quote(str(work)))
        variables = {**os.environ, "OMP_NUM_THREADS": "2"}
        done = subprocess.run(command, shell=True, env=variables, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1:] or command)
    elif origin.path.with_suffix(".npz").exists():
        write_model(origin.path, single)
    elif not single.exists():
        single.symlink_to(origin.path.absolute())
    return _described(single)


def _described(path: Path) -> Model:
    graph = onnx.load(path).graph
    given = {tensor.name for tensor in graph.initializer}
    feed = _feed(graph, [value for value in graph.input if value.name not in given])
    stored = path.with_name(FEED.format(path.stem))
    np.savez(stored, **feed)
    return Model(
        path.stem,
        path,
        stored,
        {name: array.shape for name, array in feed.items()},
        {name: array.dtype.name for name, array in feed.items()},
        tuple(value.name for value in graph.output),
    )


def _feed(graph: onnx.GraphProto, inputs: list[onnx.ValueInfoProto]) -> dict[str, Any]:
    """Random inputs; integers are rows of the tables that they choose from."""
    random = np.random.default_rng(1)
    tables = {tensor.name: tensor.dims[0] for tensor in graph.initializer if len(tensor.dims) > 1}
    rows = {n.input[1]: tables.get(n.input[0], 2) for n in graph.node if n.op_type == "Gather"}
    feed: dict[str, Any] = {}
    for value in inputs:
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = tuple(max(1, dim.dim_value) for dim in value.type.tensor_type.shape.dim)
        if kind.kind == "f":
            feed[value.name] = random.standard_normal(shape).astype(kind)
        else:
            feed[value.name] = random.integers(0, rows.get(value.name, 2), shape).astype(kind)
    return feed
