"""Every op of ONNX in every version: how it is imported, what runs it, how closely it agrees.

    python -m benchmarks.onnx_support [--jobs 2] [--only TEXT] [--write]

Runs ONNX's own suite on the CPU and on the interpreter, which takes minutes. With --write the page
docs/onnx-support.md is made of what came out.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import onnx
from onnx import defs

from afterglow import onnx_backend
from afterglow.frontends.onnx.registry import normal_domain
from afterglow.testing import onnx_suite
from benchmarks import onnx_page
from benchmarks.onnx_placement import Placement, placement

Version: TypeAlias = tuple[str, str, int]
"""A domain, an op of it, and the version of the domain since which it is as it is."""

SMALLEST = 2.0**-8
"""Elements smaller than this part of the largest expected one have an ulp as if they were it."""


@dataclass(frozen=True)
class Outcome:
    """What came out of one case.

    `alone` is the op if the case is a single node; only then `ulp`, its largest error on the CPU,
    and `placement`, what it became there, say something about the op.
    """

    name: str
    versions: frozenset[Version]
    alone: Version | None
    passed: dict[str, bool]
    ulp: float | None
    placement: Placement | None


def main() -> None:
    """Measure, and print or write the page; see the top of the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--write", action="store_true")
    words = parser.parse_args()
    names = [name for name in onnx_suite.names() if words.only in name]
    outcomes = list(measured(names, words.jobs))
    text = onnx_page.page(outcomes, all_versions(), older_placements(outcomes))
    if words.write:
        onnx_page.PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)


def measured(names: list[str], jobs: int) -> Iterator[Outcome]:
    """Run cases, some at the same time."""
    with get_context("spawn").Pool(jobs, maxtasksperchild=200) as pool:
        for count, outcome in enumerate(pool.imap_unordered(measure, names, chunksize=4), 1):
            failed = [device for device, good in outcome.passed.items() if not good]
            if failed:
                print(f"{outcome.name}: not on {', '.join(failed)}", flush=True)
            if count % 100 == 0:
                print(f"{count} of {len(names)} cases", flush=True)
            yield outcome


def measure(name: str) -> Outcome:
    """Run one case on both backends."""
    warnings.simplefilter("ignore")
    case = onnx_suite.load(name)
    errors = {device: _largest_error(case, device) for device in ("CPU", "INTERPRETER")}
    alone = _only_op(case.model)
    return Outcome(
        name,
        frozenset(_versions(case.model)),
        alone,
        {device: error is not None for device, error in errors.items()},
        None if alone is None else errors["CPU"],
        None if alone is None else placement(case.model, case.data_sets[0][0]),
    )


def all_versions() -> list[Version]:
    """What the installed package knows, sorted."""
    schemas = defs.get_all_schemas_with_history()
    return sorted((s.domain, s.name, s.since_version) for s in schemas)


def older_placements(outcomes: Iterable[Outcome]) -> dict[Version, Placement]:
    """What versions without a case of their own become, by the cases of the next one with some.

    Those are taken whose nodes the older version has too, as far as ONNX's checker can tell.
    """
    cases: dict[Version, list[str]] = {}
    for outcome in outcomes:
        if outcome.alone is not None:
            cases.setdefault(outcome.alone, []).append(outcome.name)
    found = {}
    for version in set(all_versions()) - cases.keys():
        domain, op, since = version
        newer = [v for v in sorted(cases) if v[:2] == (domain, op) and v[2] > since]
        aged = (_aged(name, version) for v in newer for name in sorted(cases[v]))
        first = next((placed for placed in aged if placed is not None), None)
        if first is not None:
            found[version] = first
    return found


def _aged(name: str, version: Version) -> Placement | None:
    """What a case becomes with an older version of its op, if that could be."""
    domain, _, since = version
    case = onnx_suite.load(name)
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for entry in model.opset_import:
        if normal_domain(entry.domain) == domain:
            entry.version = since
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, RuntimeError):
        return None
    return placement(model, case.data_sets[0][0])


def _versions(model: onnx.ModelProto) -> Iterator[Version]:
    """Every op that a model has a node of, in its bodies and functions too."""
    opsets = {normal_domain(entry.domain): entry.version for entry in model.opset_import}
    yield from _versions_in(model.graph.node, opsets)
    for function in model.functions:
        own = {normal_domain(entry.domain): entry.version for entry in function.opset_import}
        yield from _versions_in(function.node, {**opsets, **own})


def _versions_in(nodes: Iterable[onnx.NodeProto], opsets: dict[str, int]) -> Iterator[Version]:
    for node in nodes:
        version = _version(node, opsets)
        if version is not None:
            yield version
        for attribute in node.attribute:
            for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _versions_in(graph.node, opsets)


def _version(node: onnx.NodeProto, opsets: dict[str, int]) -> Version | None:
    domain = normal_domain(node.domain)
    try:
        schema = defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
    except defs.SchemaError:
        return None
    return domain, node.op_type, schema.since_version


def _only_op(model: onnx.ModelProto) -> Version | None:
    """The op of a model that is a single node, besides constants."""
    opsets = {normal_domain(entry.domain): entry.version for entry in model.opset_import}
    nodes = list(model.graph.node)
    if len(nodes) > 1:
        nodes = [node for node in nodes if node.op_type != "Constant"]
    return _version(nodes[0], opsets) if len(nodes) == 1 else None


def _largest_error(case: onnx_suite.SuiteCase, device: str) -> float | None:
    """In units in the last place; None if the case fails."""
    try:
        model = onnx_backend.prepare(case.model, device)
        error = 0.0
        for inputs, outputs in case.data_sets:
            for want, got in zip(outputs, model.run(inputs), strict=True):
                onnx_suite.agree(want, got, case.rtol, case.atol)
                error = max(error, ulps(want, got))
        return error
    except Exception:  # whatever it is, the case fails
        return None


def ulps(want: Any, got: Any) -> float:
    """The largest difference, in units in the last place of what is expected."""
    if isinstance(want, (list, tuple)):
        return max(map(ulps, want, got), default=0.0)
    want, got = np.asarray(want), np.asarray(got)
    if want.dtype.kind == "c":
        pairs = ((want.real, got.real), (want.imag, got.imag))
        return max(ulps(one, other) for one, other in pairs)
    if want.dtype.kind in "OUSb" or not want.size:
        return 0.0
    one, other = want.astype(np.float64), got.astype(np.float64)
    good = np.isfinite(one) & np.isfinite(other)  # the others are equal, or the case would fail
    if not good.any():
        return 0.0
    one, other = one[good], other[good]
    return float((np.abs(one - other) / _units(one, want.dtype)).max())


def _units(values: Any, dtype: np.dtype[Any]) -> Any:
    """The distance to the next number of the type, from each of these."""
    try:
        info = ml_dtypes.finfo(dtype)
    except ValueError:  # integers
        return np.ones_like(values)
    sizes = np.abs(values)
    sizes = np.maximum(sizes, max(sizes.max() * SMALLEST, float(info.smallest_normal)))
    return np.exp2(np.floor(np.log2(sizes)) - info.nmant)


if __name__ == "__main__":
    main()
