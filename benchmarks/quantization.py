"""Compare the accuracy of models quantized by Afterglow, ONNX Runtime and NNCF with OpenVINO.

    python -m benchmarks.quantization --real FOLDER | --labelled FOLDER [--only NAME,…]
        [--images FOLDER]… [--peer PYTHON] [--ours NAME,…] [--peers NAME,…] [--json FILE]

FOLDER holds models and their manifest, or classifiers of `benchmarks.quantization_nets`. All tools
calibrate with the same 100 samples, and run on others. `--peer` is the Python that has the peers.
Results are kept in the JSON file: what is there already is not measured again.

Columns: the error is the root mean square of the difference to the float model, as a part of that
of its outputs (the mean of several outputs); the cosine is the least of outputs, each the mean of
samples; top-1 is how often the largest number of the last axis is at the same place.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import click
import numpy as np

import afterglow as ag
from benchmarks.markdown import table
from benchmarks.quantization_data import Array, Drawer, Subject, labelled_models, stored_models

PEERS = ("ort-minmax", "ort-entropy", "nncf")
Q = ag.QuantizationConfig
OURS: dict[str, ag.QuantizationConfig] = {
    "default": Q(),
    **{method: Q(method=method) for method in ("minmax", "average", "entropy", "mse")},
    "percentile": Q(method="percentile"),
    "symmetric": Q(scheme="symmetric", activations="int8"),
    "uncorrected": Q(correct_bias=False),
    "equalised": Q(equalise=True),
    "searched": Q(search_weights=True),
    "mse-searched": Q(method="mse", search_weights=True),
}
"""Our ways to quantize, by name."""
Figures = dict[str, Any]
Outputs = list[Array]


def ours(subject: Subject, names: Sequence[str]) -> Iterator[tuple[str, Outputs]]:
    """The outputs of the model, quantized by each of our ways."""
    profile = ag.profile(subject.path, subject.calibrate, threads=1)
    for name in names:
        model = ag.compile(
            subject.path, precision="int8", profile=profile, quantization=OURS[name], threads=1
        )
        yield name, _stacked([model.run(None, feed) for feed in subject.test])


def peer(python: Path, tool: str, subject: Subject) -> Outputs:
    """The outputs of the model, quantized by another tool."""
    with tempfile.TemporaryDirectory() as folder:
        samples, results = (Path(folder) / name for name in ("samples.npz", "results.npz"))
        parts = {"calibrate": subject.calibrate, "test": subject.test}
        arrays = {
            f"{name}@{part}": np.stack([feed[name] for feed in feeds])
            for part, feeds in parts.items()
            for name in feeds[0]
        }
        np.savez(samples, **arrays)
        script = f"benchmarks.quantization_{'nncf' if tool == 'nncf' else 'ort'}"
        command = [python, "-m", script, tool, subject.path, samples, results]
        here = Path(__file__).parent.parent
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=here)
        if done.returncode:
            raise RuntimeError((done.stderr.strip() or "no message").splitlines()[-1][:200])
        loaded = np.load(results)
        return [loaded[name] for name in sorted(loaded, key=int)]


def compare(found: Outputs, wanted: Outputs, labels: Array | None) -> Figures:
    """How far outputs are from those of the float model."""
    floats = [i for i, want in enumerate(wanted) if want.dtype.kind == "f" and want.size]
    pairs = [(_wide(found[i]), _wide(wanted[i])) for i in floats]
    figures: Figures = {}
    if pairs:
        figures["error"] = float(np.mean([_error(got, want) for got, want in pairs]))
        figures["cosine"] = min(_cosine(got, want) for got, want in pairs)
        figures["top1"] = min(
            float((got.argmax(-1) == want.argmax(-1)).mean()) for got, want in pairs
        )
    if labels is not None:
        best = (outputs[0].reshape(len(labels), -1).argmax(-1) for outputs in (found, wanted))
        figures["accuracy"], figures["float"] = (float((b == labels).mean()) for b in best)
    return figures


def measure(
    subject: Subject,
    known: dict[str, Figures],
    names: tuple[Sequence[str], Sequence[str]],
    python: Path,
) -> None:
    """Add the figures of what is not known yet."""
    mine, peers = ([name for name in part if name not in known] for part in names)
    if not mine and not peers:
        return
    wanted = peer(python, "float", subject)

    def note(name: str, outputs: Callable[[], Outputs]) -> None:
        start = time.perf_counter()
        try:
            known[name] = compare(outputs(), wanted, subject.labels)
        except Exception as error:  # the other tools still have their turn
            known[name] = {"failed": f"{type(error).__name__}: {error}"[:300]}
        known[name]["seconds"] = round(time.perf_counter() - start, 1)
        print(f"  {subject.name:26} {name:14} {_shown(known[name])}", flush=True)

    try:
        for name, outputs in ours(subject, mine):
            note(name, lambda outputs=outputs: outputs)
    except ag.AfterglowError as error:
        for name in mine:
            known.setdefault(name, {"failed": str(error).splitlines()[0]})
        print(f"  {subject.name:26} ours           {error}", flush=True)
    for name in peers:
        note(name, lambda name=name: peer(python, name, subject))


def report(results: dict[str, dict[str, Figures]], names: Sequence[str]) -> str:
    """A table: for each model and tool the error, and what else is known."""
    lines = []
    for model, known in results.items():
        lines.append([model, *(_shown(known.get(name, {})) for name in names)])
    return table(["model", *names], lines)


def _shown(figures: Figures) -> str:
    if "error" not in figures:
        return "failed" if "failed" in figures else "–"  # noqa: RUF001  a dash
    parts = [f"{100 * figures['error']:.2f} %", f"{figures['cosine']:.4f}"]
    parts.append(f"{100 * figures['top1']:.1f}")
    if "accuracy" in figures:
        parts.append(f"{100 * (figures['accuracy'] - figures['float']):+.2f}")
    return " / ".join(parts)


def _stacked(runs: list[list[Any]]) -> Outputs:
    return [np.stack(each) for each in zip(*runs, strict=True)]


def _wide(output: Array) -> Array:
    """As f64[samples, …], finite."""
    wide = output.astype(np.float64)
    return np.nan_to_num(wide if wide.ndim > 1 else wide[:, None])


def _error(got: Array, want: Array) -> float:
    return float(np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-30))


def _cosine(got: Array, want: Array) -> float:
    got, want = (x.reshape(len(x), -1) for x in (got, want))
    norms = np.linalg.norm(got, axis=1) * np.linalg.norm(want, axis=1)
    return float(np.mean(np.where(norms > 0, (got * want).sum(1) / np.maximum(norms, 1e-30), 1)))


@click.command(help=__doc__)
@click.option("--real", type=Path)
@click.option("--labelled", type=Path)
@click.option("--images", type=Path, multiple=True)
@click.option("--only", default="")
@click.option("--ours", "mine", default=",".join(OURS))
@click.option("--peers", default=",".join(PEERS))
@click.option("--peer", "python", type=Path, default=Path("python"))
@click.option("--samples", type=(int, int), default=(100, 100))
@click.option("--json", "path", type=Path, default=Path("quantization.json"))
def main(
    real: Path | None,
    labelled: Path | None,
    images: tuple[Path, ...],
    only: str,
    mine: str,
    peers: str,
    python: Path,
    samples: tuple[int, int],
    path: Path,
) -> None:
    """See the top of the file."""
    results = json.loads(path.read_text()) if path.exists() else {}
    names, chosen = (_split(mine), _split(peers)), _split(only)
    subjects = [
        stored_models(real, Drawer.of(images), samples, chosen) if real else (),
        labelled_models(labelled, samples[0], chosen) if labelled else (),
    ]
    for subject in chain(*subjects):
        measure(subject, results.setdefault(subject.name, {}), names, python)
        path.write_text(json.dumps(results, indent=1) + "\n")
    print(report(results, [*names[0], *names[1]]))


def _split(names: str) -> list[str]:
    return [name for name in names.split(",") if name]


if __name__ == "__main__":
    main()
