"""Models to mutate: the small ones of ONNX's own suite, in a corpus that is written once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from afterglow.testing.onnx_suite import SuiteCase, folder_cases, load, node_cases
from fuzzing.corpus import Example, write_corpus

MOST_BYTES = 20_000


def suite_folder(scratch: Path) -> Path:
    """The folder with the models of the suite; they are collected at the first call."""
    folder = scratch / "suite"
    if not folder.exists():
        for _ in write_corpus(folder, _examples()):
            pass
    return folder


def _examples() -> Iterator[Example]:
    for name in [*node_cases(), *folder_cases()]:
        case = load(name)
        if case.model.ByteSize() <= MOST_BYTES:
            yield Example(name, case.model.SerializeToString(), _inputs(case))


def _inputs(case: SuiteCase) -> dict[str, np.ndarray]:
    """The inputs of the first data set that NumPy can store."""
    if not case.data_sets:
        return {}
    names = [info.name for info in case.model.graph.input]
    pairs = zip(names, case.data_sets[0][0], strict=False)
    plain = {name: x for name, x in pairs if isinstance(x, np.ndarray) and x.dtype.kind in "biufc"}
    return {name: array for name, array in plain.items() if array.dtype.isbuiltin == 1}
