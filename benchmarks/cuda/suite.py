"""Runs ONNX's own backend tests on the GPU of this machine, in several processes.

    python -m benchmarks.cuda.suite [--seconds 200] [--jobs 12] [--target host] [--only REGEX]

A case is right if every output has the expected type and shape, and values within the tolerance of
the case. What is not begun in time is counted as such.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import re
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.loader import load_model_tests

import afterglow as ag

KINDS = ("simple", "pytorch-converted", "pytorch-operator")
RIGHT, LATE = "right", "not begun"


@cache
def cases() -> dict[str, Any]:
    """All cases by name, as the suite describes them."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        found = [*collect_testcases(None)]
        for kind in KINDS:
            found += load_model_tests(kind=kind)
    return {case.name: case for case in found}


def outcome(name: str, *, target: str, until: float) -> tuple[str, str]:
    """What comes of a case: that it is right, or why it is not."""
    if time.time() > until:
        return name, LATE
    case = cases()[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model, sets = _loaded(case)
            compiled = ag.compile(model, backend="cuda", target=target, cache=False)
            for inputs, outputs in sets:
                got = compiled.run(None, compiled.feed(inputs, {}))
                for mine, wanted in zip(got, outputs, strict=True):
                    _check(mine, wanted, case.rtol, case.atol)
    except Exception as error:  # whatever a case raises is told
        return name, f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"
    return name, RIGHT


def _loaded(case: Any) -> tuple[onnx.ModelProto, list[tuple[list[Any], list[Any]]]]:
    """The model of a case, and its inputs with the outputs that are expected."""
    if case.model is not None:
        return case.model, case.data_sets
    folder = Path(case.model_dir)
    sets = [
        ([*_tensors(each, "input")], [*_tensors(each, "output")])
        for each in sorted(folder.glob("test_data_set_*"))
    ]
    return onnx.load(folder / "model.onnx"), sets


def _tensors(folder: Path, role: str) -> Iterator[Any]:
    for number in range(len([*folder.glob(f"{role}_*.pb")])):
        tensor = onnx.TensorProto()
        tensor.ParseFromString((folder / f"{role}_{number}.pb").read_bytes())
        yield numpy_helper.to_array(tensor)


def _check(mine: Any, wanted: Any, rtol: float, atol: float) -> None:
    if isinstance(wanted, list):
        for one, other in zip(mine, wanted, strict=True):
            _check(one, other, rtol, atol)
        return
    if wanted is None:
        assert mine is None
        return
    mine, wanted = np.asarray(mine), np.asarray(wanted)
    assert mine.dtype == wanted.dtype, f"{mine.dtype}, not {wanted.dtype}"
    assert mine.shape == wanted.shape, f"{mine.shape}, not {wanted.shape}"
    if wanted.dtype.kind in "biuOSU":
        np.testing.assert_array_equal(mine, wanted)
    else:
        wide = "c16" if wanted.dtype.kind == "c" else "f8"
        np.testing.assert_allclose(mine.astype(wide), wanted.astype(wide), rtol, atol)


def main() -> None:
    """Run all cases; print how many are right, and what the others say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda.suite")
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--target", default="host")
    parser.add_argument("--only", default="", help="a regular expression for names")
    options = parser.parse_args()
    until = time.time() + options.seconds
    names = [name for name in sorted(cases()) if re.search(options.only, name)]
    work = partial(outcome, target=options.target, until=until)
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        found = [*pool.imap_unordered(work, names, chunksize=4)]
    for name, why in sorted(found):
        if why not in (RIGHT, LATE):
            print(f"{name}: {why}")
    counts = Counter(why if why in (RIGHT, LATE) else "wrong or refused" for _, why in found)
    print(f"{len(names):,} cases: " + ", ".join(f"{n:,} {kind}" for kind, n in counts.items()))


if __name__ == "__main__":
    main()
