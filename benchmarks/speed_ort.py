"""Run a model by ONNX Runtime: see `speed_worker`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnxruntime

from benchmarks.speed_worker import Feed, main


def load(model: Path, feed: Feed, threads: int) -> Callable[[], object]:
    """Runs of a model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feed)


if __name__ == "__main__":
    main(load)
