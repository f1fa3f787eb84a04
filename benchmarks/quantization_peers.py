"""Scripts that quantize a model by another tool and run it, each in a Python that has the tool.

    python -m benchmarks.quantization_TOOL METHOD MODEL.onnx SAMPLES.npz RESULTS.npz

The samples have arrays NAME@calibrate and NAME@test of each input, samples first; the results have
each output, by its number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Feed = dict[str, Any]
Run = Callable[[Feed], list[Any]]
Quantize = Callable[[Path, list[Feed]], Run]
"""From a model and samples to a function that runs the quantized model."""


def main(tools: dict[str, Quantize]) -> None:
    """Quantize and run by one of the tools, as the command line says."""
    tool, model, samples, results = sys.argv[1:]
    arrays = np.load(samples)
    run = tools[tool](Path(model), _feeds(arrays, "calibrate"))
    outputs = zip(*(run(feed) for feed in _feeds(arrays, "test")), strict=True)
    np.savez(results, **{str(i): np.stack(each) for i, each in enumerate(outputs)})


def _feeds(arrays: Any, part: str) -> list[Feed]:
    """The samples of a part, as dictionaries."""
    names = [name for name in arrays if name.endswith(f"@{part}")]
    loaded = {name.removesuffix(f"@{part}"): arrays[name] for name in names}
    count = len(next(iter(loaded.values())))
    return [{name: np.asarray(array[i]) for name, array in loaded.items()} for i in range(count)]
