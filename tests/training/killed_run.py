"""Kill a training run at random moments until one comes to its end; compare it with a whole one.

Prints how often it was killed, and digests of the weights of both.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

import afterglow as ag
from afterglow.graph import Builder, Value
from afterglow.ops.elementwise import Mul, Sub
from afterglow.ops.reduction import ReduceMean


def squares(b: Builder, outputs: tuple[Value, ...], targets: tuple[Value, ...]) -> Value:
    error = b.emit(Sub(), outputs[0], targets[0])
    return b.emit(ReduceMean((0, 1), keepdims=False), b.emit(Mul(), error, error))


def train(folder: Path | None) -> str:
    """A run, and the digest of its weights."""
    x = np.random.default_rng(0).standard_normal((24, 3)).astype(np.float32)
    module = ag.nn.Linear(3, 2).module({"x": (None, 3)})
    trainer = ag.Trainer(module, squares, ag.optim.Adam(), backend="interpreter", metrics="mae")
    checkpoint = folder and ag.Checkpoints(folder, every=1, durable=False)
    data, judged = (x, x[:, :2] * 2), (x[:8], x[:8, :2])
    trainer.fit(data, 3, batch=6, checkpoint=checkpoint, validation=judged, progress=False)
    weights = b"".join(array.tobytes() for array in trainer.parameters.values())
    return hashlib.sha256(weights).hexdigest()


def killed_after(step: int, pause: float, folder: Path) -> bool:
    """Whether a run in a process of its own was killed, a moment after it had saved a step."""
    child = os.fork()
    if not child:
        train(folder)
        os._exit(0)
    while not any(int(path.stem[5:]) >= step for path in folder.glob("step-*.agt")):
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.0005)
    time.sleep(pause)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def main() -> None:
    folder = Path(sys.argv[1])
    whole = train(None)
    moments = random.Random(0)
    kills = sum(killed_after(step, moments.uniform(0, 0.004), folder) for step in (1, 3, 6))
    print(kills, train(folder), whole)


if __name__ == "__main__":
    main()
